package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Bar is a stretch of time in a Gantt chart.
type Bar struct {
	Row        string // bars with the same one stand in one row
	Start, End time.Time
	Status     string // determines the colour
	Text       string // the tooltip
	Critical   bool
}

// Gantt returns a self-contained SVG picture of bars over time, beginning at
// now. Rows are in the order in which bars first name them.
func Gantt(title string, now time.Time, bars []Bar) string {
	const margin, top, rowHeight, names, width = 20, 54, 22, 210, 900
	var rows []string
	at, end := map[string]int{}, now.Add(time.Second)
	for _, b := range bars {
		if _, known := at[b.Row]; !known {
			at[b.Row], rows = len(rows), append(rows, b.Row)
		}
		if b.End.After(end) {
			end = b.End
		}
	}
	scale := float64(width) / end.Sub(now).Seconds()
	x := func(t time.Time) float64 { return names + max(0, t.Sub(now).Seconds())*scale }
	high := top + len(rows)*rowHeight + margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="12">`+"\n", names+width+2*margin, high)
	b.WriteString(`<title>` + escaped(title) + `</title>` + "\n" + `<rect width="100%" height="100%" fill="#ffffff"/>` + "\n")
	fmt.Fprintf(&b, `<g transform="translate(%d 0)">`+"\n", margin)
	if slices.ContainsFunc(bars, func(b Bar) bool { return b.Critical }) {
		b.WriteString(`<path d="M0,14 h28" stroke="#8250df" stroke-width="4"/><text x="36" y="18">critical path</text>` + "\n")
	}
	for step, t := tick(end.Sub(now)), time.Duration(0); t <= end.Sub(now); t += step {
		left, label, anchor := x(now.Add(t)), "+"+kernel.Brief(t), ""
		if left+3+float64(textWidth(label)) > names+width+margin { // it would be cut off
			anchor = ` text-anchor="end"`
		}
		fmt.Fprintf(&b, `<path d="M%.1f,%d V%d" stroke="#d0d7de"/><text x="%.1f" y="%d" fill="#57606a"%s>%s</text>`+"\n", left, top-8, high-margin, left+3, top-12, anchor, label)
	}
	for i, row := range rows {
		fmt.Fprintf(&b, `<text x="0" y="%d">%s</text>`+"\n", top+i*rowHeight+15, escaped(Fit(row, 27)))
	}
	for _, bar := range bars {
		from, to := x(bar.Start), x(bar.End)
		stroke, width := colour(bar.Status), "1"
		if bar.Critical {
			stroke, width = "#8250df", "3"
		}
		fmt.Fprintf(&b, `<g><title>%s</title><rect x="%.1f" y="%d" width="%.1f" height="%d" rx="2" fill="%s" fill-opacity="0.35" stroke="%s" stroke-width="%s"/></g>`+"\n",
			escaped(bar.Text), from, top+at[bar.Row]*rowHeight+3, max(1, to-from), rowHeight-6, colour(bar.Status), stroke, width)
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

// tick returns the distance between the lines of an axis of the given length,
// such that there are at most ten.
func tick(long time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		for _, n := range []time.Duration{1, 2, 5, 10, 15, 30} {
			if long <= 10*n*unit {
				return n * unit
			}
		}
	}
	return long/10 + time.Second
}
