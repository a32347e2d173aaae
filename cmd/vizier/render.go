package main

import (
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// row is a label and its value.
type row struct{ label, value string }

// block returns rows with their values aligned. Rows without a value are left
// out.
func block(rows []row, indent string) string {
	width := 0
	for i, r := range rows {
		rows[i].value = plainLine(r.value)
		if r.value != "" {
			width = max(width, displaywidth.String(r.label))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		if r.value != "" {
			b.WriteString(indent + r.label + ":" + strings.Repeat(" ", width-displaywidth.String(r.label)+1) + r.value + "\n")
		}
	}
	return b.String()
}

// table returns cells in columns two spaces apart, at full width.
func table(cells [][]string) string { return grid{cells: cells}.text(0) }

// table returns cells in columns two spaces apart that fit the terminal. The
// status in column painted is coloured; -1: none.
func (u *ui) table(cells [][]string, painted int) string {
	return grid{cells: cells, paint: u.paintColumn(cells, painted)}.text(u.columns())
}

// paintColumn colours the cells of one column, below its heading, by the status
// that they contain.
func (u *ui) paintColumn(cells [][]string, column int) func(int, int, string) string {
	return func(r, c int, padded string) string {
		if c != column || c >= len(cells[r]) {
			return padded
		}
		return u.paint(cells[r][c], padded)
	}
}

// joined returns the strings of a list, or "none".
func joined[T ~string](in []T) string {
	if len(in) == 0 {
		return "none"
	}
	return strings.Join(texts(in), ", ")
}

func texts[T ~string](in []T) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = string(s)
	}
	return out
}

// listed returns in, or an empty slice instead of nil, which JSON would call
// null.
func listed[T any](in []T) []T {
	if in == nil {
		return []T{}
	}
	return in
}
