package kernel

import (
	"fmt"
	"strings"
)

// Secret is a value that the attempts of a job are handed and that is not on
// record: only where it comes from is.
type Secret struct {
	Name   string // letters, digits and underscores, no digit first
	Source string // "@FILE", absolute or below "~/", or a line for a shell that prints the value
}

// ParseSecret reads NAME=@FILE or NAME=COMMAND.
func ParseSecret(text string) (Secret, error) {
	name, source, _ := strings.Cut(text, "=")
	s := Secret{name, source}
	file, isFile := s.File()
	switch {
	case !variableName(name), strings.TrimSpace(source) == "", strings.ContainsRune(text, 0):
		return s, fmt.Errorf("%q: expected NAME=@FILE or NAME=COMMAND, NAME of letters, digits and underscores: %w", name, ErrInvalid)
	case isFile && !strings.HasPrefix(file, "/") && !strings.HasPrefix(file, "~/"):
		return s, fmt.Errorf("%s: the file %q is read when the job starts: give a path that begins with / or ~/: %w", name, file, ErrInvalid)
	}
	return s, nil
}

// String is s as it is asked for.
func (s Secret) String() string { return s.Name + "=" + s.Source }

// File is the file that the value is in, if it is in one.
func (s Secret) File() (path string, ok bool) { return strings.CutPrefix(s.Source, "@") }

// variableName reports that a shell takes name for that of a variable.
func variableName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case c == '_', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return name != ""
}
