package main

import (
	"strings"

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

// visible is answer.Visible.
func visible(s, kept string) string { return answer.Visible(s, kept) }

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
