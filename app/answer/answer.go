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

// Message returns text as every program prints it on standard error: with "vizier: " before
// each of its lines, and nothing in them that a terminal would act on.
func Message(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		b.WriteString("vizier: " + Visible(line, "\t") + "\n")
	}
	return b.String()
}

// Unseen reports whether a terminal may act on r, or a reader does not see it,
// unless it is Joined.
func Unseen(r rune) bool {
	return r < ' ' || r >= 0x7f && (r <= 0x9f || r == brailleBlank || r == nullNotehead ||
		unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) &&
			!unicode.Is(unicode.Prepended_Concatenation_Mark, r))
}

// Characters that a reader does not see, although Unicode counts them among the symbols and letters.
const (
	brailleBlank    = '\u2800'
	nullNotehead    = '\U0001d159'
	choseongFiller  = '\u115f'
	jungseongFiller = '\u1160'
)

// Joined reports whether r, which nobody sees elsewhere, belongs to the characters beside it and decides what a reader sees
// of them: a joiner, U+200C or U+200D, in Persian, in Indic scripts and in emoji; a selector of a variant of emoji, Han or
// Mongolian; a blank cell between two of braille; a filler in a syllable of old Korean; U+034F between marks.
func Joined(before, r, after rune) bool {
	switch {
	case r == '\u200c' || r == '\u200d':
		return joins(before) && joins(after) && !Unseen(after)
	case r == '\u034f':
		return joins(before) && unicode.Is(unicode.M, after) && !Unseen(after)
	case r == brailleBlank:
		return unicode.Is(unicode.Braille, before) && unicode.Is(unicode.Braille, after) && after != brailleBlank
	case r == choseongFiller:
		return within(after, jungseongFiller+1, '\u11a7') || within(after, '\ud7b0', '\ud7c6')
	case r == jungseongFiller:
		return (within(before, '\u1100', choseongFiller-1) || within(before, '\ua960', '\ua97c')) && (within(after, '\u11a8', '\u11ff') || within(after, '\ud7cb', '\ud7fb'))
	case r <= unicode.MaxASCII || !unicode.Is(unicode.Variation_Selector, r):
		return false
	case before <= unicode.MaxASCII: // a key, such as that of a telephone
		return strings.ContainsRune("0123456789#*", before) && after == '\u20e3'
	}
	return unicode.In(before, unicode.S, unicode.P, unicode.Han, unicode.Mongolian, unicode.Phags_Pa, unicode.Myanmar, unicode.Manichaean) && before != utf8.RuneError && !Unseen(before)
}

func within(r, first, last rune) bool { return first <= r && r <= last }

func joins(r rune) bool {
	return r > unicode.MaxASCII && r != utf8.RuneError && unicode.In(r, unicode.L, unicode.M, unicode.So, unicode.Sk)
}

// Plain returns a JSON document, or lines of several, that means the same as s and
// contains nothing that a terminal would act on.
func Plain(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || r != '\n' && Unseen(r) }) {
		return s
	}
	var b strings.Builder
	var before rune
	for at, r := range s {
		switch {
		case r == '\n' || r == '\t' || !Unseen(r) || Joined(before, r, second(s[at:])): // also RuneError, in place of bytes that are not UTF-8
			b.WriteRune(r)
			before = r
			continue
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		before = 0 // an escape joins nothing
	}
	return b.String()
}

// second returns the second character of s, or utf8.RuneError.
func second(s string) rune {
	_, size := utf8.DecodeRuneInString(s)
	r, _ := utf8.DecodeRuneInString(s[size:])
	return r
}

// Visible returns s with everything that a terminal would act on, or that a reader
// would not see, made visible with the escapes of Go and of JSON, except for the
// bytes in kept.
func Visible(s, kept string) string {
	var before rune
	clean := func(at int, r rune, size int) bool {
		if r == utf8.RuneError {
			return size > 1 || strings.IndexByte(kept, s[at]) >= 0
		}
		return !Unseen(r) || size == 1 && strings.IndexByte(kept, s[at]) >= 0 || Joined(before, r, second(s[at:]))
	}
	at := 0
	for at < len(s) {
		r, size := utf8.DecodeRuneInString(s[at:])
		if !clean(at, r, size) {
			break
		}
		at, before = at+size, r
	}
	if at == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:at])
	for at < len(s) {
		r, size := utf8.DecodeRuneInString(s[at:])
		switch {
		case clean(at, r, size):
			b.WriteString(s[at : at+size])
			at, before = at+size, r
			continue
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[at])
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		at, before = at+size, 0
	}
	return b.String()
}

// Shown returns v as JSON whose texts are Visible, but for line ends and tabs: for
// a page, which shows them and no escapes.
func Shown(v any) (string, error) {
	text, err := JSON(v, "")
	var b strings.Builder
	for at := strings.IndexByte(text, '\\'); at >= 0; at = strings.IndexByte(text, '\\') {
		size := 2
		if text[at+1] == 'u' {
			if size = 6; strings.HasPrefix(text[at:], `\ud`) { // the first half of a character
				size = 12
			}
		}
		b.WriteString(text[:at])
		b.WriteString(shown(text[at : at+size]))
		text = text[at+size:]
	}
	return b.String() + text, err
}

// shown returns an escape of JSON or, for a character that is Unseen, the escape of
// what makes it visible.
func shown(escape string) string {
	var char string
	if json.Unmarshal([]byte(`"`+escape+`"`), &char) == nil {
		if visible := Visible(char, "\n\t"); visible != char {
			return strings.ReplaceAll(visible, `\`, `\\`)
		}
	}
	return escape
}
