//go:build (linux && !portable) || darwin

package sys

import (
	"errors"

	"golang.org/x/sys/unix"
)

// unsupported makes one error of the ways in which file systems say that they
// cannot do a thing.
func unsupported(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTSUP) {
		return errors.ErrUnsupported
	}
	return err
}
