package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/vizier-scheduler/vizier/app/answer"
)

// What others wrote, such as names, reasons and file names, must not reach a
// terminal as something to act on: it would move the cursor, hide text or turn it
// round. It is shown by the escapes of Go and of JSON.
//
// The program's own colours travel as bytes that no UTF-8 has, and become escape
// sequences where text leaves the program. A name that has such bytes can give
// itself a colour on a terminal, and no more.
const (
	colourOn  = "\xff"
	colourOff = "\xfe"
)

// plain is s with what a terminal would act on made visible, all but tabs and ends of
// lines. Colours stay as they are.
func plain(s string) string { return visible(s, "\n\t"+colourOn+colourOff) }

// plainLine is plain of what is to be one line.
func plainLine(s string) string { return visible(s, "\t"+colourOn+colourOff) }

// visible is s with what a terminal would act on made visible, but for what is kept.
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

// coloured is s with the program's colours as escape sequences.
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
