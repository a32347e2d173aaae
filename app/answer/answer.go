// Package answer holds the documents that the command line and other front ends print, so
// that their output is the same to the byte. It builds for WebAssembly.
package answer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns v as JSON with its end of line, as every front end writes it.
func JSON(v any, indent string) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return Plain(b.String()), err
}

// Unseen reports whether a terminal may act on r, or a reader does not see it.
func Unseen(r rune) bool {
	return r < ' ' || r >= 0x7f && (r <= 0x9f || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
}

// Plain returns a JSON document, or lines of several, that means the same as s and
// contains nothing that a terminal would act on.
func Plain(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || r != '\n' && Unseen(r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || !Unseen(r): // also RuneError, in place of bytes that are not UTF-8
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Visible returns s with everything that a terminal would act on, or that a reader would not see, in
// the escapes of Go, except for what is in kept.
func Visible(s, kept string) string {
	clean := func(r rune, size int, text string) bool {
		return r != utf8.RuneError && !Unseen(r) || size == 1 && strings.Contains(kept, text) || r == utf8.RuneError && size > 1
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
