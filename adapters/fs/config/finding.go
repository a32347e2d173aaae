package config

import (
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Error is everything that is wrong with a configuration.
type Error struct{ Findings []Finding }

// Finding is one thing wrong, at a line of a file or in a variable.
type Finding struct {
	Place string // "FILE:LINE", "FILE" or "env NAME"
	Text  string

	line int // for the order
}

// At is the file and the line that f is about; line 0: all of it, file "": none.
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

// Unwrap makes an Error a kernel.ErrInvalid.
func (e *Error) Unwrap() error { return kernel.ErrInvalid }
