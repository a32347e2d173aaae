//go:build !linux || portable

package sys

import "errors"

// OpenBelow fails with errors.ErrUnsupported: this system has no such call.
func OpenBelow(_ int, _ string, _ int) (int, error) { return -1, errors.ErrUnsupported }
