package joblog

import (
	"bytes"
	"strings"
)

// Text returns what a terminal shows of a line in the end: without escape sequences and, of what is written over itself
// like a progress bar, what was written last. It is "" if that is nothing but blanks.
func Text(line []byte) string {
	var shown []byte
	for len(line) > 0 {
		n := bytes.IndexByte(line, 0x1b)
		if n < 0 {
			n = len(line)
		}
		shown, line = append(shown, line[:n]...), line[n:]
		if len(line) > 0 {
			if n, _ = Sequence(line); n == 0 { // it has no end
				break
			}
			line = line[n:]
		}
	}
	parts := strings.Split(strings.ToValidUTF8(string(shown), "\ufffd"), "\r")
	for len(parts) > 1 && strings.TrimSpace(parts[len(parts)-1]) == "" {
		parts = parts[:len(parts)-1]
	}
	return strings.TrimSpace(parts[len(parts)-1])
}

// Sequence returns the length of the escape sequence at the beginning of p, 1 if
// there is none and 0 if it is incomplete, and whether it only sets a colour.
func Sequence(p []byte) (n int, colour bool) {
	if len(p) == 1 {
		return 0, false
	}
	if strings.IndexByte("]PX^_", p[1]) >= 0 { // a string, which extends to its terminator
		end := bytes.IndexFunc(p[2:], func(r rune) bool { return r == '\a' || r == 0x1b || r == '\n' })
		switch {
		case end < 0 || p[2+end] == 0x1b && 2+end+1 == len(p):
			return 0, false
		case p[2+end] == '\a':
			return 2 + end + 1, false
		case p[2+end] == 0x1b && p[2+end+1] == '\\':
			return 2 + end + 2, false
		}
		return 1, false
	}
	from := 1
	if p[1] == '[' {
		from = 2
	}
	at := from
	for at < len(p) && p[at] >= 0x20 && p[at] <= 0x3f {
		at++
	}
	switch {
	case at == len(p):
		return 0, false
	case p[at] < 0x40 || p[at] > 0x7e:
		return 1, false
	}
	set := string(p[from:at])
	return at + 1, p[1] == '[' && p[at] == 'm' && strings.Trim(set, "0123456789;:") == "" && !conceals(set)
}

// conceals reports whether the parameters of a colour hide the text after it. An 8 that is part of
// another parameter, such as a colour's number, does not.
func conceals(set string) bool {
	fields := strings.Split(set, ";")
	for at := 0; at < len(fields); at++ {
		switch strings.TrimLeft(fields[at], "0") {
		case "8":
			return true
		case "38", "48", "58":
			if at+1 < len(fields) && strings.TrimLeft(fields[at+1], "0") == "5" {
				at += 2
			} else if at+1 < len(fields) && strings.TrimLeft(fields[at+1], "0") == "2" {
				at += 4
			}
		}
	}
	return false
}
