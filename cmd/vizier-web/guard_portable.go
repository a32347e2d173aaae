//go:build !linux

package main

import "errors"

// guard always fails: on this system it is not known whether a request comes
// from a job.
func guard() error {
	return errors.New("--actions needs Linux: elsewhere Vizier cannot tell whether a job asks")
}
