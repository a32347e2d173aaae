package config

import (
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Error holds everything that is wrong with a configuration.
type Error struct{ Findings []Finding }

// Finding is one error, at a line of a file or in a variable.
type Finding struct {
	Place string // "FILE:LINE", "FILE" or "env NAME"
	Text  string

	line int // line for sorting
}

// At returns the file and the line of f. Line 0 means the whole file, file ""
// that f is not about a file.
func (f Finding) At() (file string, line int) {
	if strings.HasPrefix(f.Place, "env ") {
		return "", 0
	}
	if at := strings.LastIndexByte(f.Place, ':'); at >= 0 {
		if n, err := strconv.Atoi(f.Place[at+1:]); err == nil {
			return f.Place[:at], n
		}
	}
	return f.Place, 0
}

func (e *Error) Error() string {
	lines := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		lines[i] = f.Place + ": " + f.Text
	}
	return strings.Join(lines, "\n")
}

// Unwrap makes an Error match kernel.ErrInvalid.
func (e *Error) Unwrap() error { return kernel.ErrInvalid }
