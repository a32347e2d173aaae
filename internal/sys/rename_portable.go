//go:build !darwin && (!linux || portable)

package sys

import "errors"

// RenameNew fails with errors.ErrUnsupported: this system has no rename that
// fails if the new name is taken.
func RenameNew(_ int, _ string, _ int, _ string) error { return errors.ErrUnsupported }
