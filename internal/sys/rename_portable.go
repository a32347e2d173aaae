//go:build !darwin && (!linux || portable)

package sys

import "errors"

// RenameNew is errors.ErrUnsupported: the system has no rename that replaces
// nothing.
func RenameNew(_ int, _ string, _ int, _ string) error { return errors.ErrUnsupported }
