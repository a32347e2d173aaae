//go:build !linux

package bench

import (
	"errors"
	"fmt"
)

func becomeSubreaper() error {
	return fmt.Errorf("what runners cost is measured on Linux: %w", errors.ErrUnsupported)
}
