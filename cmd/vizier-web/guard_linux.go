package main

import "golang.org/x/sys/unix"

// guard keeps other processes of the user from reading the keys out of the memory of this one.
func guard() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
