package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/vizier-scheduler/vizier/kernel"
)

// SVG returns the schedule as a self-contained picture. It shows the status by
// colour, by a sign and in words; the critical path is drawn thick.
func (s Schedule) SVG() string {
	d := s.diagram()
	l := layoutOf(&d)
	critical := s.criticalPath(&d)
	p := painter{d: &d, critical: critical, on: map[int]bool{}}
	for _, n := range critical {
		p.on[n] = true
	}
	const margin, legend = 20, 34
	meaning, across := p.legend()
	width, height := max(l.width, across, 640)+2*margin, l.height+2*margin+legend
	shown := min(1, float64(mostPixels)/float64(max(width, height)))
	fmt.Fprintf(&p.b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="12">`+"\n",
		int(float64(width)*shown), int(float64(height)*shown), width, height)
	p.b.WriteString(`<title>Schedule</title>` + "\n" +
		`<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#57606a"/></marker></defs>` + "\n" +
		`<rect width="100%" height="100%" fill="#ffffff"/>` + "\n")
	fmt.Fprintf(&p.b, `<g transform="translate(%d %d)">`+"\n", margin, margin)
	p.b.WriteString(meaning)
	fmt.Fprintf(&p.b, "</g>\n"+`<g transform="translate(%d %d)">`+"\n", margin, margin+legend)
	for i, a := range d.arrows {
		p.arrow(a, l.at[a.from], l.bends[i], l.at[a.to])
	}
	for i, n := range d.nodes {
		p.node(i, n, l.at[i])
	}
	p.b.WriteString("</g>\n</svg>\n")
	return p.b.String()
}

// mostPixels bounds the width and height that a picture declares; a larger one
// is scaled down.
const mostPixels = 16_000

// painter writes the parts of a picture.
type painter struct {
	b        strings.Builder
	d        *diagram
	critical []int
	on       map[int]bool // the nodes of the critical path
}

// Sign returns a symbol for the status, for readers who cannot rely on colour;
// "?" if it is not a status.
func Sign(status string) string {
	switch st, err := kernel.ParseStatus(status); {
	case err != nil:
		return "?"
	case st == kernel.Running:
		return "●"
	case st == kernel.Succeeded:
		return "✓"
	case st == kernel.Failed:
		return "✗"
	case st == kernel.Cancelled, blocked(st):
		return "⊘"
	case st == kernel.WaitingOnApproval:
		return "‖"
	default:
		return "○"
	}
}

// legend returns the explanation of the signs that occur and of the thick line,
// and its width.
func (p *painter) legend() (text string, wide int) {
	var b strings.Builder
	x := 0
	say := func(shape string, width int, text string) {
		b.WriteString(shape)
		fmt.Fprintf(&b, `<text x="%d" y="14">%s</text>`+"\n", x+width+6, escaped(text))
		x += width + 6 + textWidth(text) + 22
	}
	var seen []string
	for _, n := range p.d.nodes {
		if !n.artifact && !slices.Contains(seen, n.status) {
			seen = append(seen, n.status)
			say(fmt.Sprintf(`<rect x="%d" y="3" width="14" height="14" rx="3" fill="%s" fill-opacity="0.12" stroke="%s" stroke-width="1.5"/>`, x, colour(n.status), colour(n.status)), 14, Sign(n.status)+" "+n.status)
		}
	}
	if len(p.critical) > 1 {
		say(fmt.Sprintf(`<path d="M%d,10 h28" stroke="#8250df" stroke-width="4"/>`, x), 28, "critical path")
	}
	return b.String(), x
}

func (p *painter) arrow(a arrow, from point, bends []point, to point) {
	x, y := from.x+nodeWidth, from.y+nodeHeight/2
	end := point{to.x, to.y + nodeHeight/2}
	fmt.Fprintf(&p.b, `<path d="M%d,%d`, x, y)
	for i, next := range append(slices.Clone(bends), end) {
		if i%2 == 1 { // through a column
			fmt.Fprintf(&p.b, " L%d,%d", next.x, next.y)
		} else {
			half := max(columnGap/2, (next.x-x)/2)
			fmt.Fprintf(&p.b, " C%d,%d %d,%d %d,%d", x+half, y, next.x-half, next.y, next.x, next.y)
		}
		x, y = next.x, next.y
	}
	stroke, width := "#57606a", "1.2"
	if p.follows(a) {
		stroke, width = "#8250df", "4"
	}
	fmt.Fprintf(&p.b, `" fill="none" stroke="%s" stroke-width="%s" marker-end="url(#head)">`, stroke, width)
	if a.label != "" {
		p.b.WriteString("<title>" + escaped(a.label) + "</title>")
	}
	p.b.WriteString("</path>\n")
}

// follows reports whether the critical path goes along a.
func (p *painter) follows(a arrow) bool {
	i := slices.Index(p.critical, a.from)
	return i >= 0 && i+1 < len(p.critical) && p.critical[i+1] == a.to
}

func (p *painter) node(i int, n node, at point) {
	ink, width, more := colour(n.status), "1.5", ""
	if p.on[i] && len(p.critical) > 1 {
		width = "3.5"
	}
	switch {
	case n.artifact:
		more = ` rx="0" stroke-dasharray="2 2"`
	case n.hidden:
		more = ` rx="6" stroke-dasharray="6 4"`
	default:
		more = ` rx="6"`
	}
	status := n.status
	if !n.artifact {
		status = strings.TrimSpace(Sign(n.status) + " " + status)
	}
	if n.ref != "" {
		status = n.ref + "  " + status
	}
	fmt.Fprintf(&p.b, `<g><title>%s</title><rect x="%d" y="%d" width="%d" height="%d"%s fill="%s" fill-opacity="0.12" stroke="%s" stroke-width="%s"/>`,
		escaped(strings.TrimSpace(n.title+"\n"+status)), at.x, at.y, nodeWidth, nodeHeight, more, ink, ink, width)
	fmt.Fprintf(&p.b, `<text x="%d" y="%d" font-weight="600">%s</text>`, at.x+10, at.y+18, escaped(Fit(n.title, 24)))
	fmt.Fprintf(&p.b, `<text x="%d" y="%d" fill="#57606a">%s</text></g>`+"\n", at.x+10, at.y+35, escaped(Fit(status, 24)))
}

// criticalPath returns the chain of nodes that takes longest. The weight of an
// ended job is the time it took, of a running job its time so far, and of any
// other the average of the ended ones or, if there are none, one unit.
func (s Schedule) criticalPath(d *diagram) []int {
	weight := make([]time.Duration, len(d.nodes))
	var sum time.Duration
	known := 0
	for i, n := range d.nodes {
		if n.job == nil {
			continue
		}
		from, end := s.snap.Began(n.job), n.job.State.Finished
		if from.IsZero() {
			continue
		}
		if end.Before(from) { // it is running
			end = s.snap.Now()
		}
		if weight[i] = max(end.Sub(from), time.Millisecond); n.job.State.Status.Terminal() {
			sum, known = sum+weight[i], known+1
		}
	}
	usual := time.Minute
	if known > 0 {
		usual = sum / time.Duration(known)
	}
	after := make([][]int, len(d.nodes))
	for _, a := range d.arrows {
		after[a.from] = append(after[a.from], a.to)
	}
	column := longestPaths(after)
	order := make([]int, len(d.nodes))
	for i, n := range d.nodes {
		if order[i] = i; n.job != nil && weight[i] == 0 && !n.job.State.Status.Terminal() {
			weight[i] = usual
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return column[a] - column[b] })
	sofar, from := slices.Clone(weight), make([]int, len(d.nodes))
	for i := range from {
		from[i] = -1
	}
	last := -1
	for _, n := range order {
		for _, k := range after[n] {
			if column[k] > column[n] && sofar[n]+weight[k] > sofar[k] {
				sofar[k], from[k] = sofar[n]+weight[k], n
			}
		}
		if last < 0 || sofar[n] > sofar[last] {
			last = n
		}
	}
	var path []int
	for ; last >= 0; last = from[last] {
		path = append(path, last)
	}
	slices.Reverse(path)
	return path
}

// Fit returns s cut to the given number of terminal columns, with … if
// something was cut off.
func Fit(s string, columns int) string {
	width := 0
	for i, r := range s {
		if width += runeWidth(r); width > columns {
			cut := 0
			for j, r := range s[:i] {
				if cut += runeWidth(r); cut > columns-1 {
					return s[:j] + "…"
				}
			}
			return s[:i] + "…"
		}
	}
	return s
}

// runeWidth returns how many columns a character takes: none for combining marks,
// two for East Asian characters and emoji, else one. It is only as exact as the
// width of a box requires.
func runeWidth(r rune) int {
	switch {
	case unicode.Is(unicode.Mn, r) || r == '\u200c' || r == '\u200d':
		return 0
	case r >= 0x1100 && unicode.In(r, unicode.Hangul, unicode.Han, unicode.Hiragana, unicode.Katakana), r >= 0xff01 && r <= 0xff60, r >= 0x1f300 && r <= 0x1faff:
		return 2
	}
	return 1
}

// textWidth returns the width of a text in a picture, in pixels.
func textWidth(s string) int {
	width := 0
	for _, r := range s {
		width += runeWidth(r)
	}
	return width * 73 / 10
}

// escaped returns s escaped for XML. Characters that XML does not allow become
// U+FFFD.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case strings.ContainsRune(`<>&"'`, r):
			b.WriteString("&#" + strconv.Itoa(int(r)) + ";")
		case r == '\n':
			b.WriteString("&#10;")
		case r < ' ', r >= 0x7f && r < 0xa0, r >= 0xfffe && r <= 0xffff:
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
