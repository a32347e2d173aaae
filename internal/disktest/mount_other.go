//go:build !linux

package disktest

import "errors"

func mount(string, int) error { return errors.ErrUnsupported }

func remount(string) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }

func bind(_, _ string) error { return errors.ErrUnsupported }
