package sys

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Path is the name of a file. JSON keeps it to the byte: a byte that does not belong to UTF-8 text
// becomes a NUL, which no name has, and two hexadecimal digits.
type Path string

// MarshalText implements encoding.TextMarshaler.
func (p Path) MarshalText() ([]byte, error) {
	var out []byte
	for s := string(p); s != ""; {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			out = hex.AppendEncode(append(out, 0), []byte(s[:1]))
		} else {
			out = append(out, s[:n]...)
		}
		s = s[n:]
	}
	return out, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Path) UnmarshalText(text []byte) error {
	before, rest, more := strings.Cut(string(text), "\x00")
	out := []byte(before)
	for more {
		var after string
		after, rest, more = strings.Cut(rest, "\x00")
		b, err := hex.DecodeString(after[:min(2, len(after))])
		if err != nil || len(b) != 1 {
			return fmt.Errorf("path %q: expected two hexadecimal digits after each NUL", text)
		}
		out = append(append(out, b...), after[2:]...)
	}
	*p = Path(out)
	return nil
}

// Paths are names of files, each of which JSON keeps like a Path.
type Paths []string

// MarshalJSON implements json.Marshaler.
func (p Paths) MarshalJSON() ([]byte, error) {
	out := make([]Path, len(p))
	for i, path := range p {
		out[i] = Path(path)
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Paths) UnmarshalJSON(b []byte) error {
	var in []Path
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*p = nil
	for _, path := range in {
		*p = append(*p, string(path))
	}
	return nil
}
