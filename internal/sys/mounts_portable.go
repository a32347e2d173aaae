//go:build !linux || portable

package sys

func mounts(path string) ([]string, error) { return mountsByDevice(path) }
