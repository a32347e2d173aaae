package kernel_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

func TestPromptNames(t *testing.T) {
	for _, c := range [][3]string{
		{"xyz.prompt.md", "xyz.running.md", "xyz.done.md"},
		{"a/b/x.y.prompt.md", "a/b/x.y.running.md", "a/b/x.y.done.md"},
		{"foo.txt", "foo.running.txt", "foo.done.txt"},
		{"foo", "foo.running", "foo.done"},
		{"d.x/foo", "d.x/foo.running", "d.x/foo.done"},
		{".hidden", ".hidden.running", ".hidden.done"},
		{" \n.prompt.md", " \n.running.md", " \n.done.md"},
	} {
		if r, d := kernel.RunningPrompt.Of(c[0]), kernel.DonePrompt.Of(c[0]); r != c[1] || d != c[2] {
			t.Errorf("%q: %q, %q", c[0], r, d)
		}
	}
	for name, want := range map[string]string{"x.prompt.md": "x.prompt.md prompt", "d/x.running.md": "d/x.prompt.md running", "x.done.md": "x.prompt.md done",
		"x.error.md": "x.prompt.md error", "x.md": "", ".prompt.md": "", "d/.prompt.md": "", "x.prompt.md.tmp": "", "prompt.md": "", "x.error.txt": ""} {
		got := ""
		if p, n, ok := kernel.PromptOf(name); ok {
			got = p + " " + n.String()
		}
		if got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

func TestInboxPaths(t *testing.T) {
	marks := map[string]string{"o/r/feat": "feature/x", "o/r/bad": "a..b", "r/feat": "feature/x", "o/r/main/deep": "release/1"}
	for _, c := range []struct {
		layout    kernel.InboxLayout
		rel, want string // "": refused
	}{
		{kernel.SimpleLayout, "x.prompt.md", "//"},
		{kernel.SimpleLayout, "any/where/x.prompt.md", "//"},
		{kernel.MultiOwner, "o/r/main/x.prompt.md", "o/r/main"},
		{kernel.MultiOwner, "o/r/main/a/b/x.prompt.md", "o/r/main"},
		{kernel.MultiOwner, "o/r/feat/x.prompt.md", "o/r/feature/x"},
		{kernel.MultiOwner, "o/r/feat/sub/x.prompt.md", "o/r/feature/x"},
		{kernel.MultiOwner, "o/r/main/deep/x.prompt.md", "o/r/release/1"},
		{kernel.MultiOwner, "o/r/x.prompt.md", ""},
		{kernel.MultiOwner, "x.prompt.md", ""},
		{kernel.MultiOwner, "o/r/bad/x.prompt.md", ""},
		{kernel.MultiOwner, "o/r/ma in/x.prompt.md", ""},
		{kernel.MultiOwner, "o/../main/x.prompt.md", ""},
		{kernel.MultiOwner, "o//main/x.prompt.md", ""},
		{kernel.MultiOwner, "o/r/main/x.md", ""},
		{kernel.MultiOwner, "o/r/main/x.running.md", ""},
		{kernel.MultiOwner, "o/r/main/\xff.prompt.md", ""},
		{kernel.SingleOwner, "r/main/x.prompt.md", "me/r/main"},
		{kernel.SingleOwner, "r/feat/x.prompt.md", "me/r/feature/x"},
		{kernel.SingleOwner, "r/x.prompt.md", ""},
		{99, "r/main/x.prompt.md", ""},
	} {
		p, err := kernel.ParseInboxPath(c.layout, "me", c.rel, func(dir string) string { return marks[dir] })
		got := strings.Join([]string{p.Owner, p.Repository, p.Branch}, "/")
		if err != nil {
			got = ""
		}
		if got != c.want || err != nil && !errors.Is(err, kernel.ErrInvalid) {
			t.Errorf("%s %q: %q, %v, want %q", c.layout, c.rel, got, err, c.want)
		}
	}
	if _, err := kernel.ParseInboxPath(kernel.SingleOwner, "", "r/main/x.prompt.md", func(string) string { return "" }); err == nil {
		t.Error("an owner was guessed")
	}
}

func TestSplitFront(t *testing.T) {
	for text, want := range map[string][2]string{
		"":                                 {"", ""},
		"text":                             {"", "text"},
		"---\nflow: a\n---\nbody\n---\n":   {"flow: a\n", "body\n---\n"},
		"\ufeff---\r\nflow: a\r\n---\r\nb": {"flow: a\r\n", "b"},
		"---\n---\n":                       {"", ""},
		"---\nflow: a\n...\nb":             {"flow: a\n", "b"},
		"---\nflow: a\n---":                {"flow: a\n", ""},
		"----\nx":                          {"", "----\nx"},
		" ---\nx\n---\n":                   {"", " ---\nx\n---\n"},
		"---":                              {"", "---"},
	} {
		front, body, err := kernel.SplitFront(text)
		if err != nil || front != want[0] || body != want[1] {
			t.Errorf("%q: %q, %q, %v", text, front, body, err)
		}
	}
	for _, text := range []string{"---\nflow: a\n", "---\n", "---\n\n --- x"} {
		if _, _, err := kernel.SplitFront(text); !errors.Is(err, kernel.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A prompt is ready when it was still for long enough, in the order of its
// time and then its name, and never before its namesake is through.
func TestReady(t *testing.T) {
	now := t0.Add(time.Hour)
	file := func(rel string, n kernel.PromptName, age time.Duration) kernel.PromptFile {
		return kernel.PromptFile{Rel: rel, Name: n, Inode: 1, Modified: now.Add(-age), Changed: now.Add(-age)}
	}
	l := kernel.InboxListing{Files: []kernel.PromptFile{
		file("b.prompt.md", 0, 5*time.Second), file("a.prompt.md", 0, 5*time.Second), file("z.prompt.md", 0, 9*time.Second),
		file("young.prompt.md", 0, time.Second), file("future.prompt.md", 0, -time.Hour),
		file("twin.prompt.md", 0, time.Minute), file("twin.prompt.md", kernel.RunningPrompt, time.Minute), file("done.prompt.md", kernel.DonePrompt, time.Minute),
	}}
	rels := func(fs []kernel.PromptFile) string {
		var out []string
		for _, f := range fs {
			out = append(out, strings.TrimSuffix(f.Rel, ".prompt.md"))
		}
		return strings.Join(out, " ")
	}
	ready, seen, wait := l.Ready(now, 2*time.Second, nil)
	if rels(ready) != "z a b" || len(seen) != 2 || wait != time.Second {
		t.Errorf("%q, %d seen, %v", rels(ready), len(seen), wait)
	}
	ready, _, _ = l.Ready(now.Add(3*time.Second), 2*time.Second, seen)
	if rels(ready) != "z a b young future" { // the clock of whoever wrote it is ahead, and it was still
		t.Errorf("%q", rels(ready))
	}
	grown := l
	grown.Files = append([]kernel.PromptFile(nil), l.Files...)
	grown.Files[3].Size, grown.Files[3].Modified = 9, now.Add(3*time.Second)
	if ready, _, _ = grown.Ready(now.Add(3*time.Second), 2*time.Second, seen); rels(ready) != "z a b future" {
		t.Errorf("one that still grows: %q", rels(ready))
	}
	if gone, wait := l.Expired(now, 2*time.Minute); len(gone) != 0 || wait != time.Minute {
		t.Errorf("%v %v", gone, wait)
	}
	if gone, _ := l.Expired(now, time.Minute); rels(gone) != "done" {
		t.Errorf("%v", gone)
	}
}

func FuzzSplitFront(f *testing.F) {
	for _, s := range []string{"---\na: b\n---\nx", "\ufeff---\r\n...\r\n", "---", "---\n", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		front, body, err := kernel.SplitFront(text)
		if err != nil {
			return
		}
		if !strings.Contains(text, front) || !strings.HasSuffix(text, body) || len(front)+len(body) > len(text) {
			t.Fatalf("%q is %q and %q", text, front, body)
		}
	})
}

// Whatever the path: what is taken for a prompt has a repository, a branch that
// leads nowhere, and names that belong together.
func FuzzInboxPath(f *testing.F) {
	for _, s := range []string{"o/r/b/x.prompt.md", "x.prompt.md", "../../../x.prompt.md", "o/r/\x00/x.prompt.md", "o/r/.git/x.prompt.md"} {
		f.Add(uint8(2), s, "feature/x")
	}
	f.Fuzz(func(t *testing.T, layout uint8, rel, mark string) {
		p, err := kernel.ParseInboxPath(kernel.InboxLayout(layout), "me", rel, func(string) string { return mark })
		if err != nil {
			return
		}
		if kernel.InboxLayout(layout) != kernel.SimpleLayout {
			for _, part := range append(strings.Split(p.Branch, "/"), p.Owner, p.Repository) {
				if part == "" || part == ".." || part == "." || part != p.Owner && part != p.Repository && strings.ContainsAny(part, "\x00\n ~^:?*[\\") {
					t.Fatalf("%q: %+v", rel, p)
				}
			}
		}
		for _, n := range []kernel.PromptName{kernel.NewPrompt, kernel.RunningPrompt, kernel.DonePrompt, kernel.ErrorPrompt} {
			if back, m, ok := kernel.PromptOf(n.Of(rel)); !ok || m != n || back != rel {
				t.Fatalf("%q as %s is %q, and that is %q as %s", rel, n, n.Of(rel), back, m)
			}
		}
		in := kernel.Intake{Rel: rel, File: "/home/inbox/" + kernel.RunningPrompt.Of(rel)}
		if in.Home() != "/home" {
			t.Fatalf("the home of %q is %q", in.File, in.Home())
		}
	})
}

// The name follows the status, whatever leads to it; a rewind takes it back.
func TestTheNameOfAPromptFollowsItsJob(t *testing.T) {
	j := job("q", func(j *kernel.Job) {
		j.Spec.Intake = &kernel.Intake{Rel: "x.prompt.md", File: "/h/inbox/x.running.md", Inode: 1}
	})
	s := snapshot(facts(), j)
	tend := func(want kernel.PromptName) {
		t.Helper()
		p := kernel.Decide(s)
		got := actionsOf[kernel.TendPrompt](p)
		if len(got) != 1 || got[0].Name != want {
			t.Fatalf("%v, want %s", got, want)
		}
		if launches := actionsOf[kernel.Launch](p); len(launches) > 0 {
			for _, a := range p.Actions() { // what has no input must not start
				if _, first := a.(kernel.TendPrompt); first {
					break
				}
				if _, launch := a.(kernel.Launch); launch {
					t.Fatal("launched before the prompt was seen to")
				}
			}
		}
		s = s.Apply(p)
		if !s.Job("q").HoldsPrompt() {
			t.Error("the file is given up before it is named")
		}
		answer, err := kernel.Tended(s, got[0], true, want == kernel.ErrorPrompt)
		if err != nil {
			t.Fatal(err)
		}
		s = s.Apply(answer)
		if again := actionsOf[kernel.TendPrompt](kernel.Decide(s)); len(again) != 0 {
			t.Errorf("tended, and again %v", again)
		}
	}
	tend(kernel.RunningPrompt)
	a := s.Job("q").Attempt()
	p, err := kernel.Finish(s, kernel.Result{Attempt: a, Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure})
	if err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	tend(kernel.ErrorPrompt)
	if s.Job("q").HoldsPrompt() {
		t.Error("it ended, and still holds its prompt")
	}
	if p, err = kernel.Retry(s, "q", "ann"); err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	tend(kernel.RunningPrompt)
	if p, err = kernel.Finish(s, kernel.Result{Attempt: s.Job("q").Attempt(), Outcome: kernel.OutcomeSucceeded}); err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	tend(kernel.DonePrompt)
}

// A prompt that is gone before anything began fails its whole run, and nothing
// is launched.
func TestWithoutItsPromptARunFails(t *testing.T) {
	run := func(j *kernel.Job) { j.Spec.Origin.Run = "r" }
	first := job("a", run)
	last := job("b", run, func(j *kernel.Job) {
		j.Spec.After, j.Spec.Intake = []kernel.JobID{"a"}, &kernel.Intake{Rel: "x.prompt.md", File: "/h/inbox/x.running.md"}
	})
	other := job("c")
	s := snapshot(facts(), first, last, other)
	s = s.Apply(kernel.Decide(s))
	launch := s.Job("a").Attempt()
	p, err := kernel.Tended(s, kernel.TendPrompt{Job: "b", Name: kernel.RunningPrompt}, false, false)
	if err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	for _, id := range []kernel.JobID{"a", "b"} {
		if st := s.Job(id).State; st.Status != kernel.Failed || st.Failure != kernel.MissingInput || st.Reason == "" {
			t.Errorf("%s is %+v", id, st)
		}
	}
	if s.Job("a").Fence(launch) == nil {
		t.Error("the first job may still start")
	}
	if s.Job("c").State.Status == kernel.Failed {
		t.Error("a job of no run failed with it")
	}
	if again := actionsOf[kernel.TendPrompt](kernel.Decide(s)); len(again) != 0 {
		t.Errorf("%v", again)
	}
}

// Cancelling the job that stands for a prompt cancels its run.
func TestCancellingAPromptCancelsItsRun(t *testing.T) {
	run := func(j *kernel.Job) { j.Spec.Origin.Run = "r" }
	s := snapshot(facts(), job("a", run), job("b", run, func(j *kernel.Job) {
		j.Spec.After, j.Spec.Intake = []kernel.JobID{"a"}, &kernel.Intake{}
	}), job("c"))
	s = s.Apply(kernel.Decide(s))
	p, err := kernel.Cancel(s, "b", "ann", false)
	if err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	if a, b, c := s.Job("a").State, s.Job("b").State, s.Job("c").State; a.Stop.At.IsZero() || b.Status != kernel.Cancelled || !c.Stop.At.IsZero() || c.Status == kernel.Cancelled {
		t.Errorf("%s %v, %s, %s", a.Status, a.Stop, b.Status, c.Status)
	}
}
