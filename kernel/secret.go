package kernel

import (
	"fmt"
	"strings"
)

// Secret is a value that the attempts of a job are given. Records hold only its
// source.
type Secret struct {
	Name   string // letters, digits and underscores, no digit first
	Source string // "@FILE", absolute or below "~/", or a shell command that prints the value
}

// ParseSecret parses NAME=@FILE or NAME=COMMAND.
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

// String returns NAME=SOURCE, the inverse of ParseSecret.
func (s Secret) String() string { return s.Name + "=" + s.Source }

// Unavailable returns the beginning of the reason why an attempt is not started for
// lack of s. Records hold it, so it never changes.
func (s Secret) Unavailable() string { return "secret " + s.Name + ": " }

// lacksSecret returns the name of the secret for lack of which j's last launch was
// refused, or "".
func (j *Job) lacksSecret() string {
	if j.State.Status != Queued || j.State.Refused == 0 {
		return ""
	}
	for _, s := range j.Spec.Task.Secrets {
		if strings.HasPrefix(j.State.Reason, s.Unavailable()) {
			return s.Name
		}
	}
	return ""
}

// File returns the file that holds the value, if the source is a file.
func (s Secret) File() (path string, ok bool) { return strings.CutPrefix(s.Source, "@") }

// variableName reports whether name is valid as the name of a shell variable.
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
