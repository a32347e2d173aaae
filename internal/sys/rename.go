//go:build (linux && !portable) || darwin

package sys

import (
	"errors"

	"golang.org/x/sys/unix"
)

// unsupported converts the errors with which file systems say that they do not
// support an operation to errors.ErrUnsupported.
func unsupported(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTSUP) {
		return errors.ErrUnsupported
	}
	return err
}
