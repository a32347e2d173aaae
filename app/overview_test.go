package app

import (
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// A prompt that no run was made of is refused; one whose run failed is not, whether
// its job is among those given or only told of beside it.
func TestRefusedPrompts(t *testing.T) {
	f := newFolder(newMemory(), "bad.error.md", "ran.error.md", "told.error.md", "old.error.md", "new.prompt.md")
	f.files["ran.error.md"] = "a text of its own"
	id := kernel.JobID("0123456789abcdef0123456789abcdef")
	f.why = map[string]string{
		"bad.prompt.md":  "no such flow",
		"ran.prompt.md":  "whatever",
		"told.prompt.md": inbox.Ended(&kernel.Job{ID: id, Number: 3, Part: "a"}, "failed: exit code 2"),
		"old.prompt.md":  "job " + string(id) + " is failed: exit code 2\nnext: vizier why " + string(id),
	}
	jobs := []*kernel.Job{{Spec: kernel.Spec{Prompt: &kernel.Prompt{Inode: f.inode("ran.error.md")}}}}
	got, err := f.inbox().Refused(jobs, at)
	want := view.RefusedPrompt{Path: "/inbox/bad.error.md", Again: "/inbox/bad.prompt.md", Why: "no such flow", Since: at.Add(-2 * time.Hour)}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%+v, %v", got, err)
	}
}

// Of a run that goes on, the jobs that succeeded count as well.
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
