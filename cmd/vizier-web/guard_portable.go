//go:build !linux

package main

import "errors"

// guard fails: here it cannot be told whether a job asks.
func guard() error {
	return errors.New("--actions is for Linux: elsewhere it cannot be told whether a job asks")
}
