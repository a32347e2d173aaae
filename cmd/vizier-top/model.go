package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// model is the state of the screen.
type model struct {
	ctx           context.Context
	src           source
	width, height int
	plain         bool        // no colour
	left          func() bool // reports whether the process that started the program is gone; nil: not known

	snap   *kernel.Snapshot // nil: nothing has been read yet
	said   progress
	gone   error  // why the last read failed
	counts string // how the jobs stand, in a few words
	rows   []row
	at     string // key of the chosen row
	top    int    // the first row shown
	folded map[string]bool
	filter filter
	search string

	logs   *joblog.Lines
	logsOf kernel.JobID
	lines  []string
	begun  []string // the lines that have no end yet
	back   int      // lines that the logs are scrolled back

	asks    *question
	typing  bool // a search is being typed
	help    bool
	message string // the result of the last action
}

// question is an action that waits for confirmation.
type question struct {
	what action
	jobs []*kernel.Job
	text string

	says []string // what an approval covers
	top  int      // the first of its lines on the screen
	seen bool     // its last line was on the screen
}

// progress is what the running attempts reported last.
type progress map[kernel.AttemptID]view.Progress

func (p progress) of(a kernel.AttemptID) view.Progress { return p[a] }

// The messages that Update receives.
type (
	looked struct { // the store was read
		snap *kernel.Snapshot
		said progress
		err  error
	}
	tick    struct{}
	changed struct{}
	done    struct { // an action was done
		text string
		err  error
	}
)

// The time between two reads of the store if changes are not reported, and at
// least; the time between two reads of the logs; and how many lines of a job's
// logs are kept.
const (
	lookPause = time.Second
	rest      = 100 * time.Millisecond
	logPause  = 100 * time.Millisecond
	mostLines = 2000
)

func newModel(ctx context.Context, src source, plain bool) *model {
	return &model{ctx: ctx, src: src, plain: plain, folded: map[string]bool{}}
}

// Init starts reading the store.
func (m *model) Init() tea.Cmd { return tea.Batch(m.look, m.again()) }

// look reads the store. Only one read is under way at a time: its result
// triggers the next.
func (m *model) look() tea.Msg {
	snap, err := m.src.Look(m.ctx)
	if err != nil {
		return looked{err: err}
	}
	said := progress{}
	for _, j := range snap.Jobs() {
		if j.State.Status == kernel.Running {
			said[j.Attempt()] = m.src.Progress(j.Attempt())
		}
	}
	return looked{snap, said, nil}
}

// await waits until the store may have changed. Of many changes in a row it
// does not show each.
func (m *model) await() tea.Cmd {
	return func() tea.Msg {
		pause, rested := time.NewTimer(lookPause), time.After(rest)
		defer pause.Stop()
		select {
		case <-m.ctx.Done():
		case <-rested:
		}
		select {
		case <-m.ctx.Done():
		case <-m.src.Changed():
		case <-pause.C:
		}
		return changed{}
	}
}

func (m *model) again() tea.Cmd { return tea.Tick(logPause, func(time.Time) tea.Msg { return tick{} }) }

// Update handles a message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case changed:
		return m, m.look
	case looked:
		if m.gone = msg.err; msg.err == nil {
			m.snap, m.said = msg.snap, msg.said
			m.arrange()
		}
		return m, m.await()
	case tick:
		if m.left != nil && m.left() {
			return m, tea.Quit
		}
		m.readLogs()
		return m, m.again()
	case done:
		if m.message = msg.text; msg.err != nil {
			m.message = "not done: " + oneLine(view.People(m.snap, kernel.Said(msg.err)))
		}
		return m, nil
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// arrange rebuilds the rows and keeps the chosen one.
func (m *model) arrange() {
	if m.snap == nil {
		return
	}
	was := m.index()
	m.counts = counts(m.snap)
	m.rows = rowsOf(m.snap, m.said, m.folded, m.filter, m.search)
	if m.index() < 0 && len(m.rows) > 0 {
		m.at = m.rows[min(max(was, 0), len(m.rows)-1)].key
	}
	m.follow()
}

func (m *model) index() int {
	return slices.IndexFunc(m.rows, func(r row) bool { return r.key == m.at })
}

func (m *model) chosen() *row {
	if i := m.index(); i >= 0 {
		return &m.rows[i]
	}
	return nil
}

// follow switches to the logs of the chosen row.
func (m *model) follow() {
	var id kernel.JobID
	if r := m.chosen(); r != nil {
		if j := r.job(); j != nil {
			id = j.ID
		}
	}
	if id == m.logsOf {
		return
	}
	if m.logs != nil {
		_ = m.logs.Close()
	}
	m.logs, m.logsOf, m.lines, m.begun, m.back = nil, id, nil, nil, 0
	if id != "" {
		m.logs = m.src.Lines(id)
		m.logs.Last(mostLines)
		m.readLogs()
	}
}

// readLogs reads new lines of the logs. If that fails, it shows the error
// instead.
func (m *model) readLogs() {
	if m.logs == nil || m.gone != nil {
		return
	}
	_, err := m.logs.Read(m.ctx, len(m.lines) == 0, func(l joblog.Line) error {
		if m.lines = append(m.lines, marked(l)); len(m.lines) > 2*mostLines {
			m.lines = append(m.lines[:0], m.lines[len(m.lines)-mostLines:]...)
		}
		if m.back > 0 {
			m.back++ // keep showing the same lines
		}
		return nil
	})
	if m.begun = nil; err != nil && !errors.Is(err, context.Canceled) {
		m.lines = []string{"! " + oneLine(err.Error())}
		_ = m.logs.Close()
		m.logs = nil
		return
	}
	for _, l := range m.logs.Unended() {
		m.begun = append(m.begun, marked(l))
	}
}

// marked is a line of a log as it is shown.
func marked(l joblog.Line) string {
	if l.Stream == joblog.Stderr {
		return "! " + logLine(string(l.Text))
	}
	return "  " + logLine(string(l.Text))
}

// output is what is shown of the logs.
func (m *model) output() []string { return append(slices.Clip(m.lines), m.begun...) }

// stoppable reports whether a shell started this program as a job of its own,
// and so can continue it after it was stopped.
func stoppable() bool {
	parent := os.Getppid()
	own, err := unix.Getsid(0)
	others, err2 := unix.Getsid(parent)
	group, err3 := unix.Getpgid(parent)
	return errors.Join(err, err2, err3) == nil && own == others && group != unix.Getpgrp()
}

// key handles a key.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z" && stoppable():
		return tea.Suspend
	case m.asks != nil:
		return m.answer(name)
	case m.typing:
		m.typed(name, k.Text)
		return nil
	case m.help:
		m.help = false
		return nil
	}
	m.message = ""
	switch name {
	case "q":
		return tea.Quit
	case "?", "h":
		m.help = true
	case "j", "down":
		m.move(1)
	case "k", "up":
		m.move(-1)
	case "pgdown", "space":
		m.move(m.treeHeight())
	case "pgup":
		m.move(-m.treeHeight())
	case "g", "home":
		m.move(-len(m.rows))
	case "G", "end":
		m.move(len(m.rows))
	case "enter", "right", "left":
		m.fold()
	case "J":
		m.back = max(0, m.back-m.logHeight()/2-1)
	case "K":
		m.back = min(max(0, len(m.output())-m.logHeight()), m.back+m.logHeight()/2+1)
	case "f":
		m.filter = (m.filter + 1) % filters
		m.arrange()
	case "/":
		m.typing = true
	case "esc":
		m.search = ""
		m.arrange()
	case "a":
		m.ask(approve)
	case "x":
		m.ask(reject)
	case "r":
		m.ask(retry)
	case "c":
		m.ask(cancel)
	}
	return nil
}

// move chooses another row.
func (m *model) move(by int) {
	if len(m.rows) > 0 {
		m.at = m.rows[min(max(m.index()+by, 0), len(m.rows)-1)].key
		m.follow()
	}
}

// fold hides or shows the jobs of the chosen run.
func (m *model) fold() {
	i := m.index()
	for i >= 0 && !m.rows[i].whole && m.rows[i].inside {
		i--
	}
	if i < 0 || !m.rows[i].whole {
		return
	}
	shown := i+1 < len(m.rows) && m.rows[i+1].inside
	m.at = m.rows[i].key
	m.folded[m.at] = shown
	m.arrange()
}

// typed handles a key of a search.
func (m *model) typed(name, text string) {
	switch name {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.search = false, ""
	case "backspace":
		if r := []rune(m.search); len(r) > 0 {
			m.search = string(r[:len(r)-1])
		}
	default:
		m.search += text
	}
	m.arrange()
}

// ask asks for confirmation of an action.
func (m *model) ask(what action) {
	r := m.chosen()
	if r == nil {
		return
	}
	jobs := able(what, r.jobs)
	switch {
	case len(jobs) == 0:
		m.message = fmt.Sprintf("nothing to %s in %s", what, m.called(r))
		return
	case (what == approve || what == reject) && len(jobs) > 1:
		m.message = fmt.Sprintf("%d jobs wait for an approval: choose one of them", len(jobs))
		return
	}
	text := fmt.Sprintf("%s %s", what, m.called(r))
	if len(jobs) > 1 {
		text += fmt.Sprintf(" (%d jobs)", len(jobs))
	}
	m.asks = &question{what: what, jobs: jobs, text: text}
	if what == approve {
		m.asks.says = m.src.Approves(m.ctx, jobs[0])
	}
}

// called returns the reference of the chosen row.
func (m *model) called(r *row) string {
	if r.inside {
		return oneLine(r.jobs[0].Ref())
	}
	return oneLine(r.ref)
}

// answer handles the answer to a question. A yes counts once all of what it covers was on the screen.
func (m *model) answer(name string) tea.Cmd {
	q := m.asks
	if q.says != nil {
		lines, height := len(m.covered()), m.coveredHeight()
		q.seen = q.seen || m.atEnd()
		if by, moves := map[string]int{"down": 1, "j": 1, "up": -1, "k": -1, "pgdown": height, "space": height, "pgup": -height,
			"G": lines, "end": lines, "g": -lines, "home": -lines}[name]; moves || name == "y" && !q.seen {
			q.top = max(0, min(q.top+by, lines-height))
			return nil
		}
	}
	m.asks = nil
	if name != "y" {
		m.message = "not done"
		return nil
	}
	m.message = string(q.what) + " …"
	return func() tea.Msg { return done{q.text + ": done", m.src.Do(m.ctx, q.what, q.jobs)} }
}
