package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/vizier-scheduler/vizier/app/answer"
)

// Text from others, such as names, reasons and file names, must not contain
// anything that a terminal acts on: it could move the cursor, hide text or
// reverse its direction. It is shown with the escapes of Go and of JSON.
//
// The program's own colours are represented by bytes that never occur in UTF-8,
// and become escape sequences when text leaves the program. At most, a name
// with such bytes can give itself a colour on a terminal.
const (
	colourOn  = "\xff"
	colourOff = "\xfe"
)

// plain returns s with everything that a terminal would act on made visible,
// except for tabs, line ends and colours.
func plain(s string) string { return visible(s, "\n\t"+colourOn+colourOff) }

// plainLine is plain for text that must be one line.
func plainLine(s string) string { return visible(s, "\t"+colourOn+colourOff) }

// visible returns s with everything that a terminal would act on made visible,
// except for what is in kept.
func visible(s, kept string) string {
	clean := func(r rune, size int, text string) bool {
		return r != utf8.RuneError && !answer.Unseen(r) || size == 1 && strings.Contains(kept, text) || r == utf8.RuneError && size > 1
	}
	at := 0
	for at < len(s) {
		r, size := utf8.DecodeRuneInString(s[at:])
		if !clean(r, size, s[at:at+size]) {
			break
		}
		at += size
	}
	if at == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:at])
	for at < len(s) {
		r, size := utf8.DecodeRuneInString(s[at:])
		text := s[at : at+size]
		at += size
		switch {
		case clean(r, size, text):
			b.WriteString(text)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// coloured returns s with the program's colours as escape sequences.
func coloured(s string) string {
	if !strings.Contains(s, colourOn) && !strings.Contains(s, colourOff) {
		return s
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, colourOn)
		b.WriteString(strings.ReplaceAll(before, colourOff, `\xfe`))
		if !found {
			return b.String()
		}
		code, after, ended := strings.Cut(rest, colourOff)
		if !ended || len(code) > 2 || strings.Trim(code, "0123456789") != "" {
			b.WriteString(`\xff`)
			s = rest
			continue
		}
		b.WriteString("\x1b[" + code + "m")
		s = after
	}
}
