package main

import (
	"fmt"
	"regexp"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// wide is the least width, in columns, at which the logs are beside the tree
// instead of below it.
const wide = 140

// narrow is the width, in columns, below which lines give up what matters least.
const narrow = 72

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
	case m.asks != nil && m.height == 1:
		lines = nil
	case m.asks != nil && m.asks.says != nil:
		lines = append(lines, m.statement(body)...)
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
	foot := m.footer()
	lines = append(lines[:max(0, min(len(lines), m.height-len(foot)))], foot...)
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
	text := "vizier top  " + m.counts
	if m.filter != everything {
		text += "  [" + m.filter.String() + "]"
	}
	if m.search != "" && !m.typing {
		text += "  /" + m.search
	}
	return text
}

// footer returns the last lines of the screen: one, or more if what is said does not fit.
func (m *model) footer() []string {
	switch {
	case m.asks != nil:
		return []string{m.style(reverse, m.question())}
	case m.typing:
		return []string{m.fit("/"+m.search+"_", m.width)}
	case m.message != "":
		return strings.Split(ansi.Wrap(m.message, m.width, ""), "\n")
	}
	return []string{m.style(dim, m.fit("a approve  x reject  r retry  c cancel  f filter  / search  J K logs  ? help  q quit", m.width))}
}

// question asks for the answer. If there is no room for all of it, its end stays, which names the keys.
func (m *model) question() string {
	yes, no := "  y: yes", ", any other key: no"
	if m.asks.says != nil && !m.asks.seen && !m.atEnd() {
		yes = "  space: more"
	}
	if m.width < narrow {
		yes, no = yes[1:], ", n: no"
	}
	return m.fit(m.fit(m.asks.text+"?", m.width-ansi.StringWidth(yes+no))+yes+no, m.width)
}

// statement returns the lines of what an approval covers that fit, below one that says which these are.
func (m *model) statement(height int) []string {
	lines := m.covered()
	from := min(m.asks.top, len(lines))
	to := min(from+m.coveredHeight(), len(lines))
	title := fmt.Sprintf("── what you approve: %d-%d of %s ", from+1, to, view.Counted(len(lines), "line"))
	return m.box(append([]string{m.style(dim, pad(m.fit(title, m.width), m.width))}, lines[from:to]...), m.width, height)
}

// covered returns what an approval covers, in lines that fit the screen. What continues a line is indented, so that
// it cannot be taken for another one.
func (m *model) covered() (out []string) {
	for _, line := range m.asks.says {
		out = append(out, strings.Split(strings.ReplaceAll(ansi.Hardwrap(answer.Visible(line, ""), max(1, m.width-2), true), "\n", "\n  "), "\n")...)
	}
	return out
}

// coveredHeight returns how many of these lines fit.
func (m *model) coveredHeight() int { return max(0, m.height-3) }

// atEnd reports whether the last of these lines is on the screen.
func (m *model) atEnd() bool {
	end := m.asks.top + m.coveredHeight()
	return end > m.asks.top && end >= len(m.covered())
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
			line = m.style(r.colour(), line)
		}
		out = append(out, line)
	}
	if len(m.rows) == 0 && m.snap != nil {
		out = append(out, m.fit("nothing to show", width))
	}
	return m.box(out, width, height)
}

// line formats the row as one line, with as much of its name and status as
// fits. On a narrow screen the name gives way to the status and its reason.
func (r *row) line(width int) string {
	name := r.name
	if r.inside && strings.TrimPrefix(r.ref, "/") == name {
		name = ""
	}
	status := r.sign() + " " + r.short()
	if width < narrow {
		ref := r.ref
		if r.inside {
			ref = "  " + ref
		}
		nameWidth, statusWidth := max(8, width/4), 11
		return fmt.Sprintf("%s %s %s", pad(view.Fit(oneLine(ref+" "+name), nameWidth), nameWidth), pad(view.Fit(status, statusWidth), statusWidth), oneLine(r.done+r.note))
	}
	nameWidth, statusWidth := 26, 17
	if width >= 96 {
		nameWidth = min(40, width/3)
	}
	ref, took := fmt.Sprintf("%4s", r.ref), ""
	if r.inside {
		ref = "     " + r.ref
	}
	if r.done != "" {
		status += " " + r.done
	}
	if r.took > 0 {
		took = kernel.Brief(r.took)
	}
	return fmt.Sprintf("%s  %s  %s  %s", pad(view.Fit(oneLine(ref+" "+name), nameWidth), nameWidth), pad(view.Fit(status, statusWidth), statusWidth), pad(took, 6), oneLine(r.note))
}

// log returns the end of the logs, below a line that names their job. In place of logs that are empty it
// says what the job's own line may have no room for.
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
	lines := m.output()
	end := max(0, len(lines)-m.back)
	lines = lines[max(0, end-height+1):end]
	if r := m.chosen(); len(lines) == 0 && r != nil {
		lines = strings.Split(ansi.Wrap(oneLine(r.note), max(1, width), ""), "\n")
	}
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

// sign returns a symbol for the status, for readers who cannot rely on colour.
func (r *row) sign() string {
	switch s := view.Sign(r.status); {
	case r.status == "needs you", r.needs && s != view.Sign(kernel.WaitingOnApproval.String()):
		return "!"
	case s != "?":
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

func (r *row) colour() lipgloss.Style {
	st := lipgloss.NewStyle()
	if r.needs {
		return st.Foreground(lipgloss.Magenta).Bold(true)
	}
	switch r.status {
	case "running":
		return st.Foreground(lipgloss.Cyan)
	case "succeeded":
		return st.Foreground(lipgloss.Green)
	case "failed", "blocked", "blocked_by_dependency", "blocked_by_approval":
		return st.Foreground(lipgloss.Red)
	case "needs you":
		return st.Foreground(lipgloss.Magenta).Bold(true)
	case "cancelled":
		return st.Faint(true)
	}
	return st.Foreground(lipgloss.Yellow)
}

// oneLine returns s on one line, with everything else that could move the cursor or hide text made visible.
func oneLine(s string) string {
	return answer.Visible(strings.NewReplacer("\n", " ", "\t", " ").Replace(s), "")
}

// colours are the sequences that only colour text.
var colours = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// logLine is oneLine for a line of a log, without its colours.
func logLine(s string) string {
	return oneLine(colours.ReplaceAllString(strings.TrimRight(s, "\r"), ""))
}
