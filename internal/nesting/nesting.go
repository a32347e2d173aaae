// Package nesting bounds how deep a TOML text nests, before a library parses it: the memory that one takes may grow with the
// square of that.
package nesting

import "strings"

// Most is how many levels a text may have.
const Most = 64

// TooDeep returns the first line of a TOML text at which arrays, inline tables and the parts of dotted keys have more than
// Most levels, or 0.
func TooDeep(text string) (line int) {
	line = 1
	open, parts := 0, 0
	for len(text) > 0 {
		if quoted := stringAt(text); quoted != "" {
			line += strings.Count(quoted, "\n")
			text = text[len(quoted):]
			continue
		}
		switch text[0] {
		case '#':
			if end := strings.IndexByte(text, '\n'); end >= 0 {
				text = text[end:]
				continue
			}
			return 0
		case '\n':
			line, parts = line+1, 0
		case '=', ',':
			parts = 0
		case '.':
			parts++
		case '[', '{':
			open++
		case ']', '}':
			open = max(0, open-1)
		}
		if open+parts > Most {
			return line
		}
		text = text[1:]
	}
	return 0
}

// stringAt returns the string that text begins with, quotes included, or "".
func stringAt(text string) string {
	quote := text[:1]
	if quote != `"` && quote != "'" {
		return ""
	}
	if long := strings.Repeat(quote, 3); strings.HasPrefix(text, long) {
		quote = long
	}
	for at := len(quote); at < len(text); at++ {
		switch {
		case text[at] == '\\' && quote[0] == '"':
			at++
		case strings.HasPrefix(text[at:], quote):
			return text[:at+len(quote)]
		case text[at] == '\n' && len(quote) == 1: // a mistake that the library reports
			return text[:at]
		}
	}
	return text
}
