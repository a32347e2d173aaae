//go:build !linux

package main

// guard always fails: on this system it is not known whether a request comes
// from a job.
func guard() error {
	return refused("--actions needs Linux: elsewhere Vizier cannot tell whether a job asks")
}
