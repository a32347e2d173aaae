package main

import (
	"fmt"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// wide is the least width, in columns, at which the logs are beside the tree
// instead of below it.
const wide = 140

const helpText = `up down j k   another line           enter         jobs of a run, shown or not
g G           first, last line       f             all, open, need you, failed
/             search, esc ends it    J K           scroll the logs
a             approve                x             reject
r             retry                  c             cancel
?             this help              q             quit: jobs continue`

var (
	bold    = lipgloss.NewStyle().Bold(true)
	reverse = lipgloss.NewStyle().Reverse(true)
	dim     = lipgloss.NewStyle().Faint(true)
)

// View draws the screen: exactly as many lines as fit, none wider than the
// screen.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.draw(), "\n"))
	v.AltScreen, v.WindowTitle = true, "vizier top"
	return v
}

func (m *model) draw() []string {
	if m.width < 1 || m.height < 1 {
		return nil
	}
	lines := []string{m.style(bold, m.fit(m.header(), m.width))}
	body := max(0, m.height-2)
	switch {
	case m.help:
		lines = append(lines, m.box(strings.Split(helpText, "\n"), m.width, body)...)
	case m.width >= wide:
		left := m.width / 2
		tree, logs := m.tree(left-1, body), m.box(m.log(m.width-left-2, body), m.width-left-2, body)
		for i := range body {
			lines = append(lines, pad(tree[i], left-1)+" "+m.style(dim, "│")+" "+logs[i])
		}
	default:
		lines = append(lines, m.tree(m.width, m.treeHeight())...)
		lines = append(lines, m.box(m.log(m.width, m.logHeight()), m.width, m.logHeight())...)
	}
	lines = append(lines, m.footer())
	return lines[:min(len(lines), m.height)]
}

func (m *model) treeHeight() int {
	body := m.height - 2
	if m.width < wide {
		body = (body + 1) / 2
	}
	return max(1, body)
}

func (m *model) logHeight() int {
	body := m.height - 2
	if m.width < wide {
		body -= m.treeHeight()
	}
	return max(0, body)
}

func (m *model) header() string {
	switch {
	case m.gone != nil:
		return "vizier top  cannot read the store; this is the last state: " + oneLine(m.gone.Error())
	case m.snap == nil:
		return "vizier top"
	}
	text := "vizier top  " + counts(m.snap)
	if m.filter != everything {
		text += "  [" + m.filter.String() + "]"
	}
	if m.search != "" && !m.typing {
		text += "  /" + m.search
	}
	return text
}

func (m *model) footer() string {
	switch {
	case m.asks != nil:
		return m.style(reverse, m.fit(m.asks.text+"?  y: yes, any other key: no", m.width))
	case m.typing:
		return m.fit("/"+m.search+"_", m.width)
	case m.message != "":
		return m.fit(m.message, m.width)
	}
	return m.style(dim, m.fit("a approve  x reject  r retry  c cancel  f filter  / search  J K logs  ? help  q quit", m.width))
}

// tree returns the rows that fit, including the chosen one.
func (m *model) tree(width, height int) []string {
	at := m.index()
	m.top = min(max(m.top, at-height+1, 0), max(0, len(m.rows)-height), max(at, 0))
	var out []string
	for i := m.top; i < len(m.rows) && len(out) < height; i++ {
		r := &m.rows[i]
		line := pad(m.fit(r.line(width), width), width)
		switch {
		case i == at:
			line = m.style(reverse, line)
		default:
			line = m.style(colourOf(r.status), line)
		}
		out = append(out, line)
	}
	if len(m.rows) == 0 && m.snap != nil {
		out = append(out, m.fit("nothing to show", width))
	}
	return m.box(out, width, height)
}

// line formats the row as one line, with as much of its name and status as
// fits.
func (r *row) line(width int) string {
	nameWidth, statusWidth := 26, 17
	if width >= 96 {
		nameWidth = min(40, width/3)
	}
	ref, took := fmt.Sprintf("%4s", r.ref), ""
	if r.inside {
		ref = "     " + r.ref
	}
	name := r.name
	if r.inside && strings.TrimPrefix(r.ref, "/") == name {
		name = ""
	}
	status := mark(r.status) + " " + r.short()
	if r.done != "" {
		status += " " + r.done
	}
	if r.took > 0 {
		took = kernel.Brief(r.took)
	}
	return fmt.Sprintf("%s  %s  %s  %s", pad(view.Fit(ref+" "+oneLine(name), nameWidth), nameWidth), pad(view.Fit(status, statusWidth), statusWidth), pad(took, 6), oneLine(r.note))
}

// log returns the end of the logs, below a line that names their job.
func (m *model) log(width, height int) []string {
	if height < 1 {
		return nil
	}
	title := "no job"
	if j := m.logJob(); j != nil {
		if title = "logs of " + j.Ref(); j.Part == "" {
			title += " " + oneLine(view.Title(j))
		}
		if m.back > 0 {
			title += fmt.Sprintf("  (%d lines back, J goes on)", m.back)
		}
	}
	end := max(0, len(m.lines)-m.back)
	lines := m.lines[max(0, end-height+1):end]
	return append([]string{m.style(dim, pad(m.fit("── "+title+" ", width), width))}, lines...)
}

func (m *model) logJob() *kernel.Job {
	if m.snap == nil {
		return nil
	}
	return m.snap.Job(m.logsOf)
}

// box returns exactly height lines that are no wider than width.
func (m *model) box(lines []string, width, height int) []string {
	out := make([]string, max(0, height))
	for i := range out {
		if i < len(lines) {
			out[i] = m.fit(lines[i], width)
		}
	}
	return out
}

func (m *model) fit(s string, width int) string { return ansi.Truncate(s, max(0, width), "…") }

func (m *model) style(st lipgloss.Style, s string) string {
	if m.plain {
		return s
	}
	return st.Render(s)
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}

// mark returns a symbol for a status, for readers who cannot rely on colour.
func mark(status string) string {
	switch status {
	case "needs you":
		return "!"
	case "cancelled":
		return "⊘"
	}
	if s := view.Sign(status); s != "?" {
		return s
	}
	return "○"
}

// short returns the short form of the status, as in lists.
func (r *row) short() string {
	if st, err := kernel.ParseStatus(r.status); err == nil {
		return view.ShortStatus(st)
	}
	return r.status
}

func colourOf(status string) lipgloss.Style {
	st := lipgloss.NewStyle()
	switch status {
	case "running":
		return st.Foreground(lipgloss.Cyan)
	case "succeeded":
		return st.Foreground(lipgloss.Green)
	case "failed", "blocked", "blocked_by_dependency", "blocked_by_approval":
		return st.Foreground(lipgloss.Red)
	case "needs you", "waiting_on_approval":
		return st.Foreground(lipgloss.Magenta).Bold(true)
	case "cancelled":
		return st.Faint(true)
	}
	return st.Foreground(lipgloss.Yellow)
}

// oneLine removes everything from s that could move the cursor.
func oneLine(s string) string {
	s = ansi.Strip(strings.ToValidUTF8(s, "\ufffd"))
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' {
			return ' '
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, s)
}
