//go:build !linux

package main

import "errors"

// guard always fails: on this system it is not known whether a request comes
// from a job.
func guard() error {
	return errors.New("--actions is for Linux: elsewhere it cannot be told whether a job asks")
}
