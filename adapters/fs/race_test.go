//go:build race

package fs

func init() { detector = true }
