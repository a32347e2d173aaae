package joblog

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Text returns what a terminal shows of a line in the end: without escape sequences and, of what is written over itself
// like a progress bar, what was written last. It is "" if that is nothing but blanks.
func Text(line []byte) string {
	parts := strings.Split(ansi.Strip(strings.ToValidUTF8(string(line), "\ufffd")), "\r")
	for len(parts) > 1 && strings.TrimSpace(parts[len(parts)-1]) == "" {
		parts = parts[:len(parts)-1]
	}
	return strings.TrimSpace(parts[len(parts)-1])
}
