package workflow

import (
	"errors"
	"strconv"
	"strings"
)

const blanks = " \t\r\n"

var errPaths = errors.New("not a JSON array of strings")

// Paths parses a JSON array of strings, the form of files_json. It is the only
// JSON that the kernel's packages parse; importing encoding/json would make
// them larger.
func Paths(s string) ([]string, error) {
	s, ok := strings.CutPrefix(strings.TrimLeft(s, blanks), "[")
	if !ok {
		return nil, errPaths
	}
	var out []string
	for first := true; ; first = false {
		s = strings.TrimLeft(s, blanks)
		if rest, end := strings.CutPrefix(s, "]"); end && first {
			return out, tail(rest)
		}
		text, rest, err := jsonString(s)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
		s = strings.TrimLeft(rest, blanks)
		switch {
		case strings.HasPrefix(s, ","):
			s = s[1:]
		case strings.HasPrefix(s, "]"):
			return out, tail(s[1:])
		default:
			return nil, errPaths
		}
	}
}

func tail(s string) error {
	if strings.TrimLeft(s, blanks) != "" {
		return errPaths
	}
	return nil
}

// What may follow a backslash in a JSON string, but for u, and what it stands for.
const (
	escapes = `"\/bfnrt`
	escaped = "\"\\/\b\f\n\r\t"
)

// jsonString parses the string at the beginning of s.
func jsonString(s string) (text, rest string, err error) {
	s, ok := strings.CutPrefix(s, `"`)
	if !ok {
		return "", "", errPaths
	}
	var b strings.Builder
	for s != "" {
		switch {
		case s[0] == '"':
			return b.String(), s[1:], nil
		case s[0] < ' ':
			return "", "", errPaths
		case s[0] != '\\':
			b.WriteByte(s[0])
			s = s[1:]
		case len(s) > 1 && strings.IndexByte(escapes, s[1]) >= 0:
			b.WriteByte(escaped[strings.IndexByte(escapes, s[1])])
			s = s[2:]
		default:
			r, ok := utf16Unit(s)
			if !ok {
				return "", "", errPaths
			}
			s = s[6:]
			if low, _ := utf16Unit(s); r >= 0xd800 && r < 0xdc00 && low >= 0xdc00 && low < 0xe000 {
				r = (r-0xd800)<<10 + low - 0xdc00 + 0x10000
				s = s[6:]
			}
			b.WriteRune(r) // half a pair becomes U+FFFD
		}
	}
	return "", "", errPaths
}

// utf16Unit parses the escape at the beginning of s, `\u` and four hexadecimal digits.
func utf16Unit(s string) (unit rune, ok bool) {
	digits, ok := strings.CutPrefix(s, `\u`)
	if !ok || len(digits) < 4 {
		return 0, false
	}
	v, err := strconv.ParseUint(digits[:4], 16, 16)
	return rune(v), err == nil
}
