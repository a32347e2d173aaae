package proc

import "golang.org/x/sys/unix"

// fileSizes is the soft limit on the size of files that this process was started with, and the one
// that it has now. The zero value: it has not changed it.
var fileSizes struct {
	changed   bool
	was, with unix.Rlimit
}

// RaiseFileSize raises this process's soft limit on the size of files (`ulimit -S -f`) to the hard
// one: a journal that others let grow must not keep it from recording how a job ends. The runners,
// services and commands that it starts get the original limit. It is called before any of them is started.
func RaiseFileSize() {
	var was unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &was) != nil || was.Cur == was.Max {
		return
	}
	with := was
	with.Cur = was.Max
	if unix.Setrlimit(unix.RLIMIT_FSIZE, &with) == nil {
		fileSizes.changed, fileSizes.was, fileSizes.with = true, was, with
	}
}

// withOwnFileSize calls fork, with the original soft limit on the size of files in force. A write of
// another thread that fails because of that meanwhile is one that a full disk could have failed.
func withOwnFileSize(fork func() (int, error)) (int, error) {
	if !fileSizes.changed {
		return fork()
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &fileSizes.was); err != nil {
		return 0, err
	}
	pid, err := fork()
	_ = unix.Setrlimit(unix.RLIMIT_FSIZE, &fileSizes.with) // it could be raised before
	return pid, err
}
