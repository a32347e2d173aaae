//go:build !linux

package joblog

import (
	"errors"
	"os"
)

// Reopen is for Linux: elsewhere nothing can be cut out of a file that another
// process appends to, and logs grow without bound.
func Reopen(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }

func firstData(*os.File) (int64, error) { return 0, nil }

func blockSize(*os.File) (int64, error) { return 0, errors.ErrUnsupported }

func drop(*os.File, int64) error { return errors.ErrUnsupported }
