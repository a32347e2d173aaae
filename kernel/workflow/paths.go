package workflow

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

var errPaths = errors.New("not a JSON array of strings")

// Paths parses a JSON array of strings, the form of files_json. It is the only
// JSON that the kernel's packages parse; importing encoding/json would make
// them larger.
func Paths(s string) ([]string, error) {
	s, ok := strings.CutPrefix(strings.TrimSpace(s), "[")
	if !ok {
		return nil, errPaths
	}
	var out []string
	for first := true; ; first = false {
		s = strings.TrimLeft(s, " \t\r\n")
		if rest, end := strings.CutPrefix(s, "]"); end && first {
			return out, tail(rest)
		}
		text, rest, err := jsonString(s)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
		s = strings.TrimLeft(rest, " \t\r\n")
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
	if strings.TrimSpace(s) != "" {
		return errPaths
	}
	return nil
}

// jsonString parses the string at the beginning of s.
func jsonString(s string) (text, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", errPaths
	}
	var b strings.Builder
	for i := 1; i < len(s); {
		switch ch := s[i]; {
		case ch == '"':
			return b.String(), s[i+1:], nil
		case ch < ' ':
			return "", "", errPaths
		case ch != '\\':
			b.WriteByte(ch)
			i++
		case i+1 < len(s) && s[i+1] == '/':
			b.WriteByte('/')
			i += 2
		case i+1 < len(s) && strings.IndexByte(`"\bfnrt`, s[i+1]) >= 0:
			r, _, _, err := strconv.UnquoteChar(s[i:i+2], '"')
			if err != nil {
				return "", "", errPaths
			}
			b.WriteRune(r)
			i += 2
		case i+6 <= len(s) && s[i+1] == 'u':
			v, err := strconv.ParseUint(s[i+2:i+6], 16, 16)
			if err != nil {
				return "", "", errPaths
			}
			i += 6
			r := rune(v)
			if r >= 0xd800 && r < 0xdc00 && i+6 <= len(s) && s[i] == '\\' && s[i+1] == 'u' {
				if low, err := strconv.ParseUint(s[i+2:i+6], 16, 16); err == nil && low >= 0xdc00 && low < 0xe000 {
					r = (r-0xd800)<<10 + rune(low) - 0xdc00 + 0x10000
					i += 6
				}
			}
			if !utf8.ValidRune(r) {
				r = utf8.RuneError
			}
			b.WriteRune(r)
		default:
			return "", "", errPaths
		}
	}
	return "", "", errPaths
}
