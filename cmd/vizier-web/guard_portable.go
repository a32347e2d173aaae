//go:build !linux

package main

import "errors"

// guard fails: here it cannot be told whether a job asks.
func guard() error {
	return errors.New("--actions needs Linux: elsewhere Vizier cannot tell whether a job asks")
}
