//go:build race

package sim

func init() { detector = true }
