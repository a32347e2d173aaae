//go:build !linux

package disktest

import (
	"os"
	"testing"
)

// Owned skips a test of permissions if it runs as root.
func Owned(t testing.TB, _ string) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("needs a user whom permissions bind")
	}
}
