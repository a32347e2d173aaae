package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"
	"golang.org/x/term"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// columns returns the width that output may have; 0: unlimited, because output
// does not go to a terminal or its width is not known.
func (u *ui) columns() int { return u.width }

// terminalWidth returns the width of a terminal, by COLUMNS or else by the
// terminal itself.
func terminalWidth(f *os.File, env environment) int {
	if n, err := strconv.Atoi(env.Get("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if n, _, err := term.GetSize(int(f.Fd())); err == nil {
		return n
	}
	return 0
}

// cut returns s cut to a width; 0: uncut.
func cut(s string, width int) string {
	if width <= 0 || displaywidth.String(s) <= width {
		return s
	}
	return displaywidth.TruncateString(s, width, "…")
}

// pad returns s padded with blanks to a width.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-displaywidth.String(s)))
}

// grid is cells in columns two spaces apart that fit a terminal.
type grid struct {
	cells  [][]string
	indent string
	shrink []int // the columns to narrow if there is no room, in this order; none: the widest
	paint  func(row, column int, padded string) string
}

// The minimum widths of a narrowed column: of one in shrink, as long as that suffices, and of any.
const (
	narrowest = 8
	sliver    = 3
)

// ample is the width of a column in shrink if the width of the output is
// unlimited. Longer cells are printed in full, without widening the column.
const ample = 60

// text returns the grid within a width; 0: uncut.
func (g grid) text(width int) string {
	var widths []int
	for _, line := range g.cells {
		for i, c := range line {
			c = plainLine(c)
			line[i] = c
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if w := displaywidth.String(c); width > 0 || w <= ample || !slices.Contains(g.shrink, i) {
				widths[i] = max(widths[i], w)
			} else {
				widths[i] = max(widths[i], 1)
			}
		}
	}
	if width > 0 {
		g.fit(widths, width)
	}
	var b strings.Builder
	for r, line := range g.cells {
		last := len(line) - 1
		for last > 0 && line[last] == "" {
			last--
		}
		b.WriteString(g.indent)
		for i, c := range line[:last+1] {
			if widths[i] == 0 {
				continue // an empty column
			}
			if width > 0 {
				c = cut(c, widths[i])
			}
			if i < last {
				c = pad(c, widths[i]) + "  "
			}
			if g.paint != nil {
				c = g.paint(r, i, c)
			}
			b.WriteString(c)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// fit reduces widths so that a line has the given width, as far as that is
// possible.
func (g grid) fit(widths []int, width int) {
	over := len(g.indent) - 2 - width
	for _, w := range widths {
		if w > 0 {
			over += w + 2
		}
	}
	for ; over > 0 && len(g.shrink) == 0; over-- {
		widest := min(1, len(widths)-1) // the first column names the subject of the line
		for i, w := range widths {
			if i > 0 && w > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= sliver {
			return
		}
		widths[widest]--
	}
	for _, least := range []int{narrowest, sliver} {
		for _, i := range g.shrink {
			if i < len(widths) && over > 0 {
				give := min(over, max(0, widths[i]-least))
				widths[i] -= give
				over -= give
			}
		}
	}
}

// slim is the width of a terminal below which tables leave out what matters least.
const slim = 60

// slim reports whether output goes to such a terminal.
func (u *ui) slim() bool { return 0 < u.columns() && u.columns() < slim }

// without empties columns of cells, so that a grid leaves them out.
func without(cells [][]string, columns ...int) {
	for _, line := range cells {
		for _, i := range columns {
			if i < len(line) {
				line[i] = ""
			}
		}
	}
}

// hung returns a block of labels and values with values that are too long for
// the terminal continued on further lines, below their beginning, or below their labels
// if these are wide. Words are not broken, so that they can be copied.
func hung(text string, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.SplitAfterSeq(text, "\n") {
		label, value, ok := strings.Cut(line, ": ")
		from := displaywidth.String(label) + 2 + len(value) - len(strings.TrimLeft(value, " "))
		if !ok || displaywidth.String(strings.TrimSuffix(line, "\n")) <= width {
			b.WriteString(line)
			continue
		}
		if from > width/2 {
			b.WriteString(label + ":\n" + folded("  ", value, 2, width))
			continue
		}
		b.WriteString(folded(label+": "+value[:from-displaywidth.String(label)-2], value, from, width))
	}
	return b.String()
}

// prose returns text with lines that are too long for the terminal continued on
// further lines, indented by two more columns. A command to type stays on one
// line.
func prose(text string, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.SplitAfterSeq(text, "\n") {
		words := strings.TrimLeft(line, " ")
		if indent := line[:len(line)-len(words)]; displaywidth.String(line) <= width || strings.HasPrefix(words, "vizier ") {
			b.WriteString(line)
		} else {
			b.WriteString(folded(indent, words, len(indent)+2, width))
		}
	}
	return b.String()
}

// folded returns a line of head and words, with the words that do not fit on
// further lines that begin at column from.
func folded(head, words string, from, width int) string {
	var b strings.Builder
	b.WriteString(head)
	at := displaywidth.String(head)
	for i, word := range strings.Fields(words) {
		switch w := displaywidth.String(word); {
		case i > 0 && at+1+w > width:
			b.WriteString("\n" + strings.Repeat(" ", from) + word)
			at = from + w
		case i > 0:
			b.WriteString(" " + word)
			at += 1 + w
		default:
			b.WriteString(word)
			at += w
		}
	}
	b.WriteString("\n")
	return b.String()
}

// clock formats a time for people: only the hour if it is today, else with its
// day.
func (u *ui) clock(at, now time.Time) string { return view.Clock(at.In(u.zone), now.In(u.zone)) }

// moment is clock with seconds, for events that may happen within one minute.
func (u *ui) moment(at, now time.Time) string {
	return u.clock(at, now) + at.In(u.zone).Format(":05")
}

// clocks returns s with times in the program's format replaced by times for
// people.
func (u *ui) clocks(s string) string {
	var b strings.Builder
	from := 0
	for i := len(time.DateOnly); i < len(s); i++ {
		if s[i] != 'T' || s[i-3] != '-' {
			continue
		}
		start, end := i-len(time.DateOnly), i+1
		for end < len(s) && strings.IndexByte("0123456789:.+-Z", s[end]) >= 0 {
			end++
		}
		stamp := strings.TrimRight(s[start:end], ".:-")
		if at, err := time.Parse(time.RFC3339, stamp); err == nil && start >= from && (start == 0 || !joinsTime(s[start-1])) {
			b.WriteString(s[from:start] + u.clock(at, u.now()))
			from = start + len(stamp)
			i = from
		}
	}
	if from == 0 {
		return s
	}
	return b.String() + s[from:]
}

// joinsTime reports whether a time next to c is part of a longer word.
func joinsTime(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("_-./:=@", c) >= 0
}

// today returns the beginning of the day of now, for people.
func (u *ui) today(now time.Time) time.Time {
	y, m, d := now.In(u.zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, u.zone)
}

// ago returns how long ago something was.
func ago(at *time.Time, now time.Time) string {
	if at == nil {
		return ""
	}
	return kernel.Brief(max(0, now.Sub(*at)))
}
