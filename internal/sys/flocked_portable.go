//go:build !linux || portable

package sys

// Flocked returns likely if it lives, and else 0: this system does not tell who has taken the
// flock of the file at path.
func Flocked(_ string, likely int) int { return living(likely) }
