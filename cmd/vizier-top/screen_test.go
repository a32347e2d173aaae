package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/teatest/v2"

	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

var t0 = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// fake is a source that tests change.
type fake struct {
	dir     string
	changed chan struct{}

	looking, both atomic.Bool // a look is under way; two were at once

	mu      sync.Mutex
	jobs    []kernel.Job
	gone    error
	runners map[int]kernel.Runner // what is known of those of jobs
	reports map[kernel.JobID]view.Progress
	did     []string
	deny    error
}

func newFake(t *testing.T, jobs ...kernel.Job) *fake {
	f := &fake{dir: t.TempDir(), changed: make(chan struct{}, 1), jobs: jobs}
	f.changed <- struct{}{} // something changes while it starts
	t.Cleanup(func() {
		if f.both.Load() {
			t.Error("the store was read twice at once, which it is not made for")
		}
	})
	return f
}

func (f *fake) Look(context.Context) (*kernel.Snapshot, error) {
	f.both.CompareAndSwap(false, f.looking.Swap(true))
	defer f.looking.Store(false)
	time.Sleep(time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone != nil {
		return nil, f.gone
	}
	facts := kernel.NewFacts()
	for i, r := range f.runners {
		facts.Runners[f.jobs[i].Attempt()] = kernel.Seen(r)
	}
	return kernel.TakeSnapshot(kernel.Observation{Now: t0.Add(time.Hour), Jobs: append([]kernel.Job(nil), f.jobs...)}).WithFacts(facts), nil
}

func (f *fake) Changed() <-chan struct{} { return f.changed }

func (f *fake) Lines(id kernel.JobID) *joblog.Lines {
	return joblog.NewLines(func(name string) (*os.File, error) { return os.Open(filepath.Join(f.dir, string(id)+"."+name)) })
}

func (f *fake) Progress(a kernel.AttemptID) view.Progress { return f.reports[a.Job] }

func (f *fake) Approves(_ context.Context, j *kernel.Job) []string {
	return answer.Approves(j, j.Spec.Statement(), nil) // no job has a manifest
}

func (f *fake) Do(_ context.Context, what action, jobs []*kernel.Job) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deny != nil {
		return f.deny
	}
	for _, j := range jobs {
		f.did = append(f.did, string(what)+" "+j.Ref())
	}
	return nil
}

// change changes what the screen is of, and says so.
func (f *fake) change(how func()) {
	f.mu.Lock()
	how()
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *fake) log(t *testing.T, id, stream, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, id+"."+stream), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func job(n int, name string, st kernel.Status) kernel.Job {
	j := kernel.Job{ID: kernel.JobID(fmt.Sprintf("%032x", n)), Created: t0.Add(time.Duration(n) * time.Second), Number: kernel.Number(n), Spec: kernel.Spec{Name: name, Task: kernel.Task{Args: []string{"do", name}}}}
	if j.State.Status = st; st == kernel.Running || st == kernel.Failed || st == kernel.Succeeded {
		j.State.Attempt, j.State.Started = 1, t0
	}
	if st == kernel.Failed {
		j.State.Finished, j.State.Reason = t0.Add(90*time.Second), "exit code 3"
	}
	return j
}

func node(run, n int, part string, st kernel.Status) kernel.Job {
	j := job(run*100+n, part, st)
	j.Number, j.Part, j.Spec.Origin = kernel.Number(run), part, kernel.Origin{Run: kernel.RunID(fmt.Sprintf("run_%032x", run)), Node: part, Alias: "flow"}
	return j
}

// world has a run, a job that waits for a person, one that failed and one that runs.
func world(t *testing.T) *fake {
	f := newFake(t, job(1, "tests", kernel.Failed), job(2, "deploy", kernel.WaitingOnApproval), job(3, "serve", kernel.Running),
		node(4, 1, "build", kernel.Succeeded), node(4, 2, "pack", kernel.Running), node(4, 3, "ship", kernel.WaitingOnDeps))
	f.log(t, string(f.jobs[2].ID), "stdout", "listening\nserved \x1b[2J\x1b[31mone\tpage\n")
	f.log(t, string(f.jobs[4].ID), "stderr", strings.Repeat("a long line of what is packed ", 20)+"\n")
	return f
}

// shown returns a screen of so many columns and lines, after keys.
func shown(t *testing.T, f *fake, width, height int, keys ...tea.KeyPressMsg) (*model, []string) {
	t.Helper()
	m := newModel(t.Context(), f, true)
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	m.Update(m.look())
	for _, k := range keys {
		m.Update(k)
	}
	return m, m.draw()
}

func key(s string) tea.KeyPressMsg {
	switch s {
	case "enter":
		return tea.KeyPressMsg{Code: tea.KeyEnter}
	case "esc":
		return tea.KeyPressMsg{Code: tea.KeyEscape}
	case "backspace":
		return tea.KeyPressMsg{Code: tea.KeyBackspace}
	case "space":
		return tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
	}
	return tea.KeyPressMsg{Code: []rune(s)[0], Text: s}
}

func keys(text string) (out []tea.KeyPressMsg) {
	for _, r := range text {
		out = append(out, key(string(r)))
	}
	return out
}

// Whatever the size, there are as many lines as the screen has, and none is wider: so
// nothing wraps and nothing scrolls away.
func TestTheScreenIsAsLargeAsTheTerminal(t *testing.T) {
	f := world(t)
	for n := range 300 {
		f.jobs = append(f.jobs, job(500+n, strings.Repeat("名前", 30), kernel.Queued))
	}
	for _, size := range [][2]int{{80, 12}, {200, 60}, {139, 20}, {140, 20}, {40, 8}, {20, 5}, {10, 3}, {3, 2}, {1, 1}} {
		for _, pressed := range []string{"", "?", "/x", "G", "Gr", "ffa", "ffaj", "jjK", "f", "ff"} {
			m, lines := shown(t, f, size[0], size[1], keys(pressed)...)
			if len(lines) != size[1] {
				t.Errorf("%v, %q: %d lines", size, pressed, len(lines))
			}
			for _, l := range lines {
				if ansi.StringWidth(l) > size[0] {
					t.Errorf("%v, %q: %q is %d wide", size, pressed, l, ansi.StringWidth(l))
				}
			}
			if !m.View().AltScreen {
				t.Error("it is not on the other screen")
			}
		}
	}
}

// The screen shows what the views say about runs and jobs.
func TestWhatTheScreenShows(t *testing.T) {
	_, lines := shown(t, world(t), 100, 20, keys("jjj")...)
	text := strings.Join(lines, "\n")
	for _, want := range []string{"vizier top  1 needs you, 2 running, 1 waiting, 1 failed", "   4 flow", "● running 1/3", "/build", "/pack", "○ waiting",
		"   3 serve", "1h ", "   2 deploy", "‖ approval", "   1 tests", "✗ failed", "exit code 3", "logs of 4/ship"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	_, lines = shown(t, world(t), 80, 12, keys("jjjj")...)
	text = strings.Join(lines, "\n")
	if !strings.Contains(text, "logs of 3 serve") || !strings.Contains(text, "  listening\n  served \\x1b[2Jone page") || strings.Contains(text, "\x1b") {
		t.Errorf("the logs of the chosen job are\n%q", text)
	}
}

// The last line of a log is shown before its end is written, and once.
func TestALineWithoutAnEndIsShown(t *testing.T) {
	f := newFake(t, job(1, "asks", kernel.Failed))
	id := string(f.jobs[0].ID)
	f.log(t, id, "stderr", "FATAL: the real")
	m, _ := shown(t, f, 80, 12)
	has := func(want ...string) {
		t.Helper()
		if got := m.log(80, 5)[1:]; !slices.Equal(got, want) {
			t.Errorf("the logs are %q, want %q", got, want)
		}
	}
	has("! FATAL: the real")
	f.log(t, id, "stdout", "one\nPassword: ")
	m.Update(tick{})
	has("  one", "  Password: ", "! FATAL: the real")
	f.log(t, id, "stderr", "FATAL: the real error\nend")
	m.Update(tick{}) // what no record says the order of is read at the second look
	m.Update(tick{})
	has("  one", "! FATAL: the real error", "  Password: ", "! end")
}

// The time of an attempt on a cluster is since its node began it, and until then since it
// was handed over.
func TestTimesOfJobsElsewhere(t *testing.T) {
	f := newFake(t, job(1, "begun", kernel.Running), job(2, "pending", kernel.Running))
	f.runners = map[int]kernel.Runner{0: {Liveness: kernel.Alive, Began: t0.Add(45 * time.Minute)}, 1: {Liveness: kernel.Alive, Pending: true, Remark: "no room"}}
	for i := range f.jobs {
		f.jobs[i].Spec.Task.Executor = "lab"
	}
	_, lines := shown(t, f, 100, 20)
	text := strings.Join(lines, "\n")
	for _, want := range []string{"vizier top  1 running, 1 submitted, 0 waiting, 0 failed", "1 begun *● running +15m", "2 pending *. submitted +1h +no room"} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// Keys choose, fold, filter and search.
func TestKeys(t *testing.T) {
	for pressed, want := range map[string]string{
		"": "4 /build /pack /ship 3 2 1", "E": "4 3 2 1", "EE": "4 /build /pack /ship 3 2 1", "jE": "4 3 2 1", "f": "4 /pack /ship 3 2", "ff": "2", "fff": "1", "ffff": "4 /build /pack /ship 3 2 1",
		"/PA": "4 /pack", "/serveE": "3", "/servX": "4 /build /pack /ship 3 2 1", "/sXX": "4 /build /pack /ship 3 2 1", "/texBsts": "1", "/nothing": "",
	} {
		var press []tea.KeyPressMsg
		for _, r := range pressed {
			press = append(press, key(map[rune]string{'E': "enter", 'X': "esc", 'B': "backspace"}[r]+strings.Trim(string(r), "EXB")))
		}
		m, _ := shown(t, world(t), 80, 24, press...)
		var refs []string
		for _, r := range m.rows {
			refs = append(refs, r.ref)
		}
		if got := strings.Join(refs, " "); got != want {
			t.Errorf("%q: %s, want %s", pressed, got, want)
		}
	}
}

// Nothing is done without being asked once more, and only what can be.
func TestActionsAreAskedOnceMore(t *testing.T) {
	for pressed, want := range map[string]string{
		"jjjjjay": "approve 2", "jjjjjxy": "reject 2", "Gry": "retry 1", "cy": "cancel 4/pack,cancel 4/ship", "jjcy": "cancel 4/pack", "jjjjcy": "cancel 3",
		"jjjjja": "", "jjjjjan": "", "jjjjjaq": "", "Gay": "", "Gcy": "", "jry": "retry 4/build", "ry": "",
	} {
		f := world(t)
		m := newModel(t.Context(), f, true)
		m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
		m.Update(m.look())
		for _, k := range keys(pressed) {
			if _, cmd := m.Update(k); cmd != nil {
				m.Update(cmd())
			}
		}
		if got := strings.Join(f.did, ","); got != want {
			t.Errorf("%q: did %q, want %q; it says %q", pressed, got, want, m.footer())
		}
	}
	f := world(t)
	f.deny = fmt.Errorf("job %s may not\napprove: %w", f.jobs[2].ID, kernel.ErrConflict)
	m := newModel(t.Context(), f, true)
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	m.Update(m.look())
	for _, k := range keys("jjjjjay") {
		if _, cmd := m.Update(k); cmd != nil {
			m.Update(cmd())
		}
	}
	if got := strings.Join(m.footer(), "|"); got != "not done: job 3 may not approve" {
		t.Errorf("of a refusal it says %q", got)
	}

	// What does not fit on one line is said on several, in place of what is above.
	m.message = "not done: " + strings.Repeat("word ", 30) + "end"
	for _, height := range []int{1, 2, 5, 24} {
		m.Update(tea.WindowSizeMsg{Width: 40, Height: height})
		screen := m.draw()
		if said := len(m.footer()); len(screen) != height || said < 4 || height > said && strings.TrimSpace(screen[height-1]) != m.footer()[said-1] {
			t.Errorf("on %d lines: %q", height, screen)
		}
	}
}

// What an approval covers is shown whole before a yes counts, with nothing in it hidden, whatever the size of the
// screen; the keys that answer are always there.
func TestAnApprovalShowsAllThatItCovers(t *testing.T) {
	j := job(1, "innocent", kernel.WaitingOnApproval)
	j.Spec.Task = kernel.Task{Args: []string{"sh", "-c", "echo harmless #\x1b]0;\ntouch OWNED\n#\a" + strings.Repeat("; echo on", 60) + "; echo LAST"}, Env: []string{"LD_PRELOAD=x.so"},
		Dir: "below", Executor: "lab", Sandbox: kernel.Sandbox{Mode: kernel.RequiredSandbox}}
	want := strings.Join(view.Statement(j.Spec.Statement()), "")
	for _, size := range [][2]int{{80, 40}, {80, 12}, {40, 8}, {20, 5}} {
		f := newFake(t, j)
		m, _ := shown(t, f, size[0], size[1], keys("a")...)
		all := make([]string, len(m.covered()))
		for page := 0; ; page++ {
			lines := m.draw()
			copy(all[m.asks.top:], lines[2:len(lines)-1])
			last := lines[len(lines)-1]
			if strings.Contains(last, "y: yes") {
				break
			}
			if !strings.Contains(last, "space: more") || !strings.Contains(last, "n: no") && !strings.Contains(last, "any other key: no") || page > 200 {
				t.Fatalf("%v: it ends with %q", size, last)
			}
			if _, cmd := m.Update(key("y")); cmd != nil || m.asks == nil {
				t.Fatalf("%v: a yes counts before all was shown", size)
			}
			m.Update(key("space"))
		}
		for i, l := range all {
			all[i] = strings.TrimPrefix(l, "  ") // of what continues a line
		}
		if got := strings.Join(all, ""); got != want {
			t.Errorf("%v: it shows\n%q\nwant\n%q", size, got, want)
		}
		if _, cmd := m.Update(key("y")); cmd != nil {
			m.Update(cmd())
		}
		if got := strings.Join(f.did, ","); got != "approve 1" {
			t.Errorf("%v: did %q", size, got)
		}
	}
	_, lines := shown(t, newFake(t, j), 80, 40, keys("a")...)
	text := strings.Join(lines, "\n")
	for _, want := range []string{`\x1b]0;\ntouch OWNED`, "LAST", `env "LD_PRELOAD"`, `directory "below"`, `executor "lab"`, `sandbox "required"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// Nothing that somebody else wrote hides text, in whichever part of the screen.
func TestNothingIsHidden(t *testing.T) {
	hostile := "A\x1b]0;B\aC\u202eD\u200bE"
	seen := `A\x1b]0;B\x07C\u202eD\u200bE`
	j := job(1, hostile, kernel.Failed)
	j.State.Reason = "because " + hostile
	f := newFake(t, j)
	f.log(t, string(j.ID), "stdout", "said \x1b[1;31m"+hostile+"\x1b[0m\r\n")
	m, lines := shown(t, f, 200, 20)
	m.Update(looked{err: errors.New("broken " + hostile)})
	text := strings.Join(append(lines, m.header()), "\n")
	for _, want := range []string{"1 " + seen, "because " + seen, "said " + seen, "broken " + seen} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%q", want, text)
		}
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && answer.Unseen(r) }); i >= 0 {
		t.Errorf("%q reaches the terminal", text[i:])
	}
}

// Of what is wrong or under way, the screen says what a list says.
func TestItSaysWhatAListSays(t *testing.T) {
	secret, again, busy := job(1, "locked", kernel.Queued), job(2, "flaky", kernel.FailedRetryable), job(3, "steps", kernel.Running)
	secret.Spec.Task.Secrets = []kernel.Secret{{Name: "X", Source: "false"}}
	secret.State.Refused, secret.State.Reason = 1, secret.Spec.Task.Secrets[0].Unavailable()+"exit status 1"
	again.State.Attempt, again.State.Started, again.State.Finished, again.State.Reason, again.State.RetryAt = 1, t0, t0.Add(time.Minute), "exit code 3", t0.Add(3*time.Hour)
	f := newFake(t, secret, again, busy)
	done, total := int64(1), int64(4)
	f.reports = map[kernel.JobID]view.Progress{busy.ID: {Done: &done, Total: &total, Text: "step"}}
	m, lines := shown(t, f, 260, 20)
	for i, l := range lines {
		lines[i] = strings.TrimRight(strings.Split(l, "│")[0], " ")
	}
	text := strings.Join(lines, "\n")
	for _, l := range view.Lines(m.snap, m.snap.Jobs(), view.LinesOptions{Progress: f.Progress}) {
		says := l.Says(m.snap.Now().Local())
		if says == "" || !regexp.MustCompile(l.Ref+" "+l.Name+" +. "+l.Status+" .*"+regexp.QuoteMeta(says)).MatchString(text) {
			t.Errorf("%s %q is missing in\n%s", l.Status, says, text)
		}
	}
	if !strings.Contains(text, "1 needs you") || strings.Count(text, "! ") != 1 || !regexp.MustCompile("1 locked +! waiting").MatchString(text) {
		t.Errorf("which one needs a person is not marked in\n%s", text)
	}
}

// On a narrow screen the name gives way to the status, and then to the reason. The reason of the chosen job is
// there in full if it has no logs.
func TestNarrowScreens(t *testing.T) {
	for width, want := range map[int][]string{20: {"✗ failed", "‖ approval", "● running"}, 40: {"✗ failed    cannot begin: no", "‖ approval", "● running   1/3"}} {
		f := world(t)
		f.jobs[0].State.Reason = "cannot begin: no such program: deploy-everything"
		_, lines := shown(t, f, width, 24, key("G"))
		text := strings.Join(lines, "\n")
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%d columns: %q is missing in\n%s", width, w, text)
			}
		}
		_, pane, _ := strings.Cut(text, "logs of 1")
		_, pane, _ = strings.Cut(pane, "\n")
		if got := strings.Join(strings.Fields(pane), ""); !strings.HasPrefix(got, strings.ReplaceAll(f.jobs[0].State.Reason, " ", "")) {
			t.Errorf("%d columns: the reason is not there in full in\n%s", width, text)
		}
	}
}

// The chosen row stays chosen while others come and go, and the logs of a
// chosen run are those of its running job.
func TestTheChoiceStays(t *testing.T) {
	f := world(t)
	m, _ := shown(t, f, 80, 24, keys("jjjj")...)
	f.jobs = append(f.jobs, job(9, "new", kernel.Queued))
	m.Update(m.look())
	if r := m.chosen(); r == nil || r.ref != "3" {
		t.Errorf("chosen: %+v", r)
	}
	f.jobs = f.jobs[:2]
	m.Update(m.look())
	if r := m.chosen(); r == nil || r.ref != "1" {
		t.Errorf("after its job went: %+v", r)
	}
	m, _ = shown(t, world(t), 80, 24)
	if j := m.logJob(); j == nil || j.Part != "pack" {
		t.Errorf("the run's logs are those of %+v", j)
	}
}

// The program draws what happens, survives a store that vanishes and comes again, and
// leaves on q.
func TestTheProgram(t *testing.T) {
	f := world(t)
	tm := teatest.NewTestModel(t, newModel(t.Context(), f, false), teatest.WithInitialTermSize(80, 12))
	var seen bytes.Buffer
	until := func(want string) {
		t.Helper()
		teatest.WaitFor(t, io.TeeReader(tm.Output(), &seen), func([]byte) bool { return strings.Contains(ansi.Strip(seen.String()), want) }, teatest.WithDuration(30*time.Second), teatest.WithCheckInterval(5*time.Millisecond))
		seen.Reset()
	}
	until("1 needs you, 2 running")
	f.change(func() { f.gone = errors.New("nothing there") })
	until("cannot read the store")
	f.change(func() { f.gone, f.jobs[0].State.Status = nil, kernel.Succeeded })
	until("1 waiting, 0 failed")
	tm.Send(tea.WindowSizeMsg{Width: 200, Height: 60})
	until("│")
	tm.Type("q")
	tm.WaitFinished(t, teatest.WithFinalTimeout(30*time.Second))
}

// Of many changes in a row the screen does not show each: it rests between two reads of the store.
func TestItRestsBetweenReads(t *testing.T) {
	f := newFake(t)
	m := newModel(t.Context(), f, true)
	begun := time.Now()
	if _, told := m.await()().(changed); !told || time.Since(begun) < rest {
		t.Errorf("after %s it reads again", time.Since(begun))
	}
	if len(f.changed) > 0 {
		t.Error("it did not hear of the change")
	}
}
