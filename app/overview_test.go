package app

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// A prompt of which no run was made counts as refused. One whose run failed does not,
// whether its job is among the given ones or only named in the text beside it.
func TestRefusedPrompts(t *testing.T) {
	f := newFolder(newMemory(), "bad.error.md", "ran.error.md", "told.error.md", "old.error.md", "new.prompt.md")
	f.files["ran.error.md"] = "a text of its own"
	id := kernel.JobID("0123456789abcdef0123456789abcdef")
	f.whyAt = at.Add(-3 * time.Hour) // it was renamed an hour later
	f.why = map[string]string{
		"bad.prompt.md":  "no such flow",
		"ran.prompt.md":  "whatever",
		"told.prompt.md": inbox.Ended(&kernel.Job{ID: id, Number: 3, Part: "a"}, "failed: exit code 2"),
		"old.prompt.md":  "job " + string(id) + " is failed: exit code 2\nnext: vizier why " + string(id),
	}
	jobs := []*kernel.Job{{Spec: kernel.Spec{Prompt: &kernel.Prompt{Inode: f.inode("ran.error.md")}}}}
	got, err := f.inbox().Refused(t.Context(), jobs, at)
	want := view.RefusedPrompt{Path: "/inbox/bad.error.md", Again: "/inbox/bad.prompt.md", Why: "no such flow", Since: at.Add(-3 * time.Hour)}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%+v, %v", got, err)
	}
	f.left = []inbox.PromptFile{{Rel: "bad.prompt.md", Name: kernel.ErrorPrompt, Changed: at.Add(-time.Hour), Inode: 1}}
	for since, n := range map[time.Duration]int{2 * time.Hour: 2, time.Hour: 2, time.Minute: 1} { // of those that were moved out, the latest
		if got, err := f.inbox().Refused(t.Context(), jobs, at.Add(-since)); err != nil || len(got) != n {
			t.Errorf("since %v: %+v, %v", since, got, err)
		}
	}
	got, err = newFolder(newMemory(), "b\xffd.error.md").inbox().Refused(t.Context(), nil, at) // refused for its name
	if err != nil || len(got) != 1 || got[0].Path != "/inbox/b\xffd.error.md" || got[0].Again != "/inbox/b_d.prompt.md" {
		t.Errorf("%q, %v", got, err)
	}
}

// A new prompt that git tracks counts as refused, and after a minute one of which that cannot be told.
func TestNewPromptsThatAreNotTaken(t *testing.T) {
	wait := fmt.Errorf("%w: wait", ErrGitAtWork)
	for _, c := range []struct {
		tracked string
		err     error
		age     time.Duration
		want    view.RefusedPrompt
	}{
		{"", nil, time.Hour, view.RefusedPrompt{}},
		{"in/a.prompt.md", nil, 0, view.RefusedPrompt{Tracked: "in/a.prompt.md", Why: TrackedPrompt}},
		{"", wait, time.Minute - 1, view.RefusedPrompt{}},
		{"", wait, time.Minute, view.RefusedPrompt{Why: "another git is at work: wait"}},
	} {
		f := newFolder(newMemory(), "a.prompt.md")
		x := f.inbox()
		list, err := x.Tree.Scan()
		if err != nil {
			t.Fatal(err)
		}
		dropped := list.OfName(kernel.NewPrompt)[0].Changed
		x.Now = func() time.Time { return dropped.Add(c.age) }
		x.Tracked = func(context.Context, string) (string, error) { return c.tracked, c.err }
		got, err := x.Refused(t.Context(), nil, at)
		if err != nil {
			t.Fatal(err)
		}
		if c.want.Why == "" {
			if len(got) > 0 {
				t.Errorf("%+v: %+v", c, got)
			}
			continue
		}
		c.want.Path, c.want.Since = "/inbox/a.prompt.md", dropped
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// The overview of a run that goes on also counts its succeeded jobs.
func TestOverviewCountsWholeRuns(t *testing.T) {
	m := newMemory()
	s := m.scheduler()
	for i, st := range []kernel.Status{kernel.Succeeded, kernel.Running, kernel.WaitingOnDeps} {
		id := kernel.JobID(rune('a' + i))
		m.jobs[id] = kernel.Job{ID: id, Created: at, Number: 7, Part: string(id), Spec: kernel.Spec{Origin: kernel.Origin{Run: "run_x", Node: string(id)}}, State: kernel.State{Status: st, Attempt: 1}}
	}
	snap, err := s.Records(t.Context(), kernel.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Overview(t.Context(), snap, view.OverviewOptions{})
	if err != nil || len(v.Running) != 1 || v.Running[0].Progress() != "1/3" || v.Running[0].Ref != "7" {
		t.Errorf("%+v, %v", v.Running, err)
	}
}

// counting is a store that knows the tallies of some numbers.
type counting struct {
	*memory
	tallies map[kernel.Number]kernel.Tally
}

func (c counting) Read(ctx context.Context, scope kernel.Scope) (kernel.Records, error) {
	rec, err := c.memory.Read(ctx, scope)
	if len(scope.Tally) > 0 {
		rec.Tallies = c.tallies
	}
	return rec, err
}

// If the store knows the tally of a number, its jobs are not read. The jobs of a run with
// routes are read, since only they tell whether an end of the run is final.
func TestWholesAreTold(t *testing.T) {
	told := kernel.Tally{Created: at}
	told.Statuses[kernel.Queued] = 1000
	m := newMemory()
	var jobs []*kernel.Job
	for i, n := range []kernel.Number{7, 8} {
		id := kernel.JobID(rune('a' + i))
		m.jobs[id] = kernel.Job{ID: id, Created: at, Number: n, Part: "x"}
		jobs = append(jobs, &kernel.Job{ID: id, Number: n, Part: "x"})
	}
	s := m.scheduler()
	s.Store = counting{m, map[kernel.Number]kernel.Tally{7: told}}
	got, err := s.Wholes(t.Context(), jobs[:1])
	if err != nil || got[7] != told || len(m.scopes) != 1 {
		t.Errorf("%+v, %v, read %+v", got, err, m.scopes)
	}
	routed := told
	routed.Routes = 1
	s.Store = counting{m, map[kernel.Number]kernel.Tally{7: told, 8: routed}}
	got, err = s.Wholes(t.Context(), jobs)
	if read := got[8]; err != nil || got[7] != told || read.Total() != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	for n, near := range map[int]int{100: 101, 101: 0} { // with more numbers, everything is read
		m := newMemory()
		var jobs []*kernel.Job
		for i := range n {
			jobs = append(jobs, &kernel.Job{Number: kernel.Number(i + 1), Part: "x"})
		}
		got, err := m.scheduler().Wholes(t.Context(), jobs)
		if last := m.scopes[len(m.scopes)-1]; err != nil || len(got) != n || len(last.Near) != near || !last.All {
			t.Errorf("%d numbers: %d, %v, read %d near", n, len(got), err, len(last.Near))
		}
	}
	if got, err := s.Wholes(t.Context(), nil); got != nil || err != nil {
		t.Errorf("of nothing: %+v, %v", got, err)
	}
}
