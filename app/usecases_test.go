package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// Status lists each prompt of an inbox with its file, its record, or both.
func TestStatusOfAnInbox(t *testing.T) {
	stands := func(rel string, inode uint64, st kernel.Status, run kernel.RunID) func(*kernel.Job) {
		return func(j *kernel.Job) {
			j.Created, j.Spec.Origin.Run, j.State.Status, j.State.Attempt = at.Add(-time.Hour), run, st, 1
			j.Spec.Prompt = &kernel.Prompt{Rel: rel, File: "/inbox/" + inbox.NameOf(kernel.RunningPrompt, rel), Inode: inode}
		}
	}
	m := newMemory(
		job("a", stands("run.prompt.md", 8, kernel.Running, "r1")),
		job("b", func(j *kernel.Job) { running(1)(j); j.Spec.Origin.Run = "r2" }), // of the run of e, and stands for no prompt
		job("c", stands("done.prompt.md", 7, kernel.Succeeded, "r3")),
		job("d", stands("again.prompt.md", 9, kernel.Failed, "r4")), // its file is another one by now
		job("e", stands("away.prompt.md", 8, kernel.Queued, "r2")),  // its file went
		job("f", stands("old.prompt.md", 8, kernel.Failed, "r5")),   // and so did this one's
		job("g", func(j *kernel.Job) {
			stands("else.prompt.md", 8, kernel.Queued, "r6")(j)
			j.Spec.Prompt.File = "/other/else.running.md"
		}),
	)
	f := newFolder(m, "run.running.md", "new.prompt.md", "done.done.md", "again.error.md")
	x := f.inbox()
	c := m.jobs["c"]
	c.Spec.Prompt.Inode = f.inode("done.done.md")
	target := &InboxTarget{Root: "/repo", Scheduler: m.scheduler()}
	alive := func(_ *InboxTarget, j *kernel.Job) time.Time {
		return map[kernel.JobID]time.Time{"a": at.Add(-time.Minute), "b": at.Add(-2 * time.Minute)}[j.ID]
	}
	status := func(all bool, stalled time.Duration, targets ...*InboxTarget) string {
		t.Helper()
		m.scopes = nil
		s, err := x.Status(context.Background(), targets, all, stalled, alive)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, p := range s.Prompts {
			text := inbox.NameOf(p.File.Name, p.File.Rel) + " " + fmt.Sprint(p.Age)
			if p.Job != nil {
				text += " " + string(p.Job.ID) + "@" + p.Repository
			}
			if p.Gone {
				text += " gone"
			}
			if p.Stalled {
				text += " stalled"
			}
			out = append(out, text)
		}
		for _, l := range s.Left {
			out = append(out, "left "+l.Path+": "+l.Reason)
		}
		return strings.Join(out, ", ")
	}
	want := "again.error.md 2h0m0s, new.prompt.md 2h0m0s, away.running.md 1h0m0s e@/repo gone, done.done.md 1h0m0s c@/repo, run.running.md 1h0m0s a@/repo"
	if got := status(false, time.Hour, target); got != want || len(m.scopes) != 2 {
		t.Errorf("got  %s\nwant %s\nread %v", got, want, m.scopes)
	}
	all := "again.error.md 2h0m0s, new.prompt.md 2h0m0s, again.error.md 1h0m0s d@/repo gone, away.running.md 1h0m0s e@/repo gone, done.done.md 1h0m0s c@/repo, old.error.md 1h0m0s f@/repo gone, run.running.md 1h0m0s a@/repo"
	if got := status(true, time.Hour, target); got != all || len(m.scopes) != 1 {
		t.Errorf("got  %s\nwant %s", got, all)
	}
	if got := status(false, 90*time.Second, target); !strings.Contains(got, "e@/repo gone stalled") || strings.Contains(got, "a@/repo stalled") {
		t.Error(got)
	}
	if got := status(false, time.Minute, target); strings.Contains(got, "a@/repo stalled") {
		t.Error(got)
	}
	m.refuse["load"] = errDisk
	if got := status(false, time.Hour, target); got != "again.error.md 2h0m0s, done.done.md 2h0m0s, new.prompt.md 2h0m0s, run.running.md 2h0m0s, left /repo: disk on fire" {
		t.Error(got)
	}
	m.refuse = map[string]error{"scan": errDisk}
	if _, err := x.Status(context.Background(), nil, false, time.Hour, alive); !errors.Is(err, errDisk) {
		t.Errorf("%v", err)
	}
}

// Why a prompt stands is said: what was wrong with it, or whose end it waits for.
func TestWhyAPromptStands(t *testing.T) {
	for status, want := range map[kernel.Status]string{
		kernel.Running: "waits until job a, a prompt of the same name, has ended",
		kernel.Failed:  "",
	} {
		m := newMemory(job("a", func(j *kernel.Job) {
			j.State.Status, j.State.Attempt = status, 1
			j.Spec.Prompt = &kernel.Prompt{Rel: "twice.prompt.md", File: "/inbox/twice.running.md", Inode: 8}
		}), job("b", func(j *kernel.Job) {
			j.Spec.Prompt = &kernel.Prompt{Rel: "else.prompt.md", File: "/inbox/else.running.md", Inode: 9}
		}))
		f := newFolder(m, "twice.prompt.md", "bad.error.md", "new.prompt.md")
		f.why["bad.prompt.md"] = "no such branch"
		s, err := f.inbox().Status(t.Context(), []*InboxTarget{{Root: "/repo", Scheduler: m.scheduler()}}, false, time.Hour, func(*InboxTarget, *kernel.Job) time.Time { return time.Time{} })
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, p := range s.Prompts {
			if p.Job == nil {
				got[inbox.NameOf(p.File.Name, p.File.Rel)] = p.Reason
			}
		}
		if len(got) != 3 || got["twice.prompt.md"] != want || got["bad.error.md"] != "no such branch" || got["new.prompt.md"] != "" {
			t.Errorf("%s: %q", status, got)
		}
	}
}

// A prompt stands as its run does: it needs a person if any job of that does.
func TestAPromptWhoseRunAsks(t *testing.T) {
	m := newMemory(job("a", func(j *kernel.Job) {
		j.Spec.Origin.Run, j.State.Status, j.Spec.Prompt = "r", kernel.WaitingOnDeps, &kernel.Prompt{Rel: "a.prompt.md", File: "/inbox/a.running.md", Inode: 8}
	}), job("b", func(j *kernel.Job) { pending(j); j.Spec.Origin.Run = "r" }), job("c", func(j *kernel.Job) { pending(j); j.Spec.Origin.Run = "other" }))
	s, err := newFolder(m, "a.running.md").inbox().Status(t.Context(), []*InboxTarget{{Root: "/repo", Scheduler: m.scheduler()}}, false, time.Hour, func(*InboxTarget, *kernel.Job) time.Time { return time.Time{} })
	if err != nil || len(s.Prompts) != 1 || !slices.Equal(s.Prompts[0].Run.Pending, []kernel.JobID{"b"}) {
		t.Errorf("%+v, %v", s.Prompts, err)
	}
}

// Prompts are listed under their own names wherever their files are, and every file once.
func TestStatusOfWhatWasRenamed(t *testing.T) {
	stands := func(id kernel.JobID, inode uint64, st kernel.Status) kernel.Job {
		return job(id, func(j *kernel.Job) {
			j.Created, j.Spec.Origin.Run, j.State.Status, j.State.Attempt, j.State.Reason = at.Add(-time.Hour), kernel.RunID("r"+id), st, 1, "so it is"
			j.Spec.Prompt = &kernel.Prompt{Rel: string(id) + ".prompt.md", File: "/inbox/" + string(id) + ".running.md", Inode: inode, Claimed: at.Add(-time.Hour)}
		})
	}
	young := stands("y", 9, kernel.Queued)
	young.Created = at.Add(time.Hour) // the clock has stepped back
	m := newMemory(stands("a", 201, kernel.Running), stands("b", 777, kernel.Queued), stands("c", 203, kernel.Queued), stands("d", 55, kernel.Failed), stands("k", 204, kernel.Failed), young,
		job("helper", func(j *kernel.Job) { running(1)(j); j.Spec.Origin.Run = "ra" }))
	f := newFolder(m)
	for name, length := range map[string]int{"z.done.md": 101, "c2.done.md": 103, "k.done.md": 104, "new.prompt.md": 7} {
		f.files[name] = strings.Repeat("x", length)
	}
	f.modified = map[string]time.Time{"c2.done.md": at.Add(-time.Minute), "new.prompt.md": at.Add(time.Hour)}
	f.others = []inbox.PromptFile{{Rel: "notes.txt", Inode: 777, Modified: at.Add(-2 * time.Hour)}}
	f.left = []inbox.PromptFile{{Rel: "d.prompt.md", Name: kernel.ErrorPrompt, Inode: 55, Modified: at.Add(-3 * time.Hour)}, {Rel: "e.prompt.md", Name: kernel.ErrorPrompt, Inode: 56, Modified: at.Add(time.Hour)}}
	f.strays = []inbox.Stray{{Path: "odd", Why: "it is odd"}}
	f.why["e.prompt.md"] = "no such flow"
	const odd = "left notes.txt: it is the prompt of job b, which is not over: rename it to b.running.md\nleft odd: it is odd\n"
	for all, want := range map[bool]string{
		false: "k.done.md 2h0m0s: \na.running.md 1h0m0s a@/repo is z.done.md: so it is\nb.running.md 1h0m0s b@/repo is notes.txt: so it is\nc.running.md 1h0m0s c@/repo gone: so it is\n" +
			"c2.done.md 1m0s: \nnew.prompt.md 0s: \ny.running.md 0s y@/repo gone: so it is\n" + odd,
		true: "k.done.md 2h0m0s: \na.running.md 1h0m0s a@/repo is z.done.md: so it is\nb.running.md 1h0m0s b@/repo is notes.txt: so it is\nc.running.md 1h0m0s c@/repo gone: so it is\n" +
			"d.error.md 1h0m0s d@/repo gone: so it is\nk.error.md 1h0m0s k@/repo gone: so it is\nc2.done.md 1m0s: \ne.error.md 0s gone: no such flow\nnew.prompt.md 0s: \ny.running.md 0s y@/repo gone: so it is\n" + odd,
	} {
		m.scopes = nil
		s, err := f.inbox().Status(t.Context(), []*InboxTarget{{Root: "/repo", Scheduler: m.scheduler()}}, all, time.Minute, func(_ *InboxTarget, j *kernel.Job) time.Time {
			return map[kernel.JobID]time.Time{"a": at.Add(-time.Hour), "helper": at.Add(-time.Minute)}[j.ID]
		})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, p := range s.Prompts {
			text := inbox.NameOf(p.File.Name, p.File.Rel) + " " + p.Age.String()
			if p.Job != nil {
				text += " " + string(p.Job.ID) + "@" + p.Repository
			}
			if p.Gone {
				text += " gone"
			}
			if p.Renamed != "" {
				text += " is " + p.Renamed
			}
			if p.Stalled {
				text += " stalled"
			}
			got += text + ": " + p.Reason + "\n"
		}
		for _, l := range s.Left {
			got += "left " + l.Path + ": " + l.Reason + "\n"
		}
		if got != want || len(m.scopes) != 1 {
			t.Errorf("all %v, %d reads:\n%s\nwant\n%s", all, len(m.scopes), got, want)
		}
	}
	for what, change := range map[string]func(){
		"a done prompt of nobody": func() { f.files["n.done.md"] = "of nobody" },
		"a file of nobody":        func() { f.others = append(f.others, inbox.PromptFile{Rel: "n.txt", Inode: 9999}) },
	} {
		delete(f.files, "n.done.md")
		f.others = f.others[:1]
		change()
		m.scopes = nil
		s, err := f.inbox().Status(t.Context(), []*InboxTarget{{Root: "/repo", Scheduler: m.scheduler()}}, false, time.Minute-1, func(_ *InboxTarget, j *kernel.Job) time.Time { return at.Add(-time.Minute) })
		stalled := ""
		for _, p := range s.Prompts {
			if p.Stalled {
				stalled += string(p.Job.ID)
			}
		}
		if err != nil || len(m.scopes) != 2 || !m.scopes[1].All || stalled != "a" {
			t.Errorf("%s: %v, %d reads, stalled are %q", what, err, len(m.scopes), stalled)
		}
	}
}

// A file that was written anew while its job was open is still its prompt: as the done one, or as the one that was
// refused because that job has ended.
func TestAPromptThatWasWrittenAnew(t *testing.T) {
	id, other := kernel.JobID(strings.Repeat("a", 32)), kernel.JobID(strings.Repeat("b", 32))
	for name, c := range map[string]struct {
		name     kernel.PromptName
		modified time.Duration // since the job was created; it ended an hour later
		named    kernel.PromptName
		why      string
		want     bool
	}{
		"done":                   {kernel.DonePrompt, time.Minute, kernel.DonePrompt, "", true},
		"done, from before":      {kernel.DonePrompt, -time.Minute, kernel.DonePrompt, "", false},
		"done, from after":       {kernel.DonePrompt, 2 * time.Hour, kernel.DonePrompt, "", false},
		"not named yet":          {kernel.DonePrompt, time.Minute, kernel.RunningPrompt, "", false},
		"new":                    {kernel.NewPrompt, time.Minute, kernel.DonePrompt, "", false},
		"refused for it":         {kernel.ErrorPrompt, time.Minute, kernel.ErrorPrompt, "it failed\nid: " + string(id) + "\n", true},
		"refused for another":    {kernel.ErrorPrompt, time.Minute, kernel.ErrorPrompt, "it failed\nid: " + string(other) + "\n", false},
		"refused for its branch": {kernel.ErrorPrompt, time.Minute, kernel.ErrorPrompt, "no such branch", false},
	} {
		f := newFolder(newMemory(), "a.prompt.md")
		f.why["a.prompt.md"] = c.why
		j := job(id, func(j *kernel.Job) {
			j.Created, j.State.Status, j.State.Finished, j.State.Prompt.Named = at, kernel.Failed, at.Add(time.Hour), c.named
			if c.named == kernel.DonePrompt {
				j.State.Status = kernel.Succeeded
			}
			j.Spec.Prompt = &kernel.Prompt{Rel: "a.prompt.md", File: "/inbox/a.running.md"}
		})
		if got := f.inbox().written(&j, inbox.PromptFile{Rel: "a.prompt.md", Name: c.name, Modified: at.Add(c.modified)}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A remote host runs its attempt. It tries to record the result until it is on record or
// never can be.
func TestRunRemote(t *testing.T) {
	a := kernel.AttemptID{Job: "a", N: 1}
	for name, c := range map[string]struct {
		refuse string
		err    error
		gone   bool
		job    func(*kernel.Job)
		want   error
		calls  string
	}{
		"it goes well":    {job: running(1), calls: "claim a/1,conclude a/1 succeeded"},
		"another attempt": {job: running(2), want: kernel.ErrStale},
		"no record":       {job: running(1), gone: true, want: kernel.ErrNotFound},
		"claimed":         {job: running(1), refuse: "claim a/1", err: kernel.ErrStale, want: kernel.ErrStale, calls: "claim a/1"},
		"has an outcome":  {job: running(1), refuse: "conclude a/1 succeeded", err: kernel.ErrStale, want: kernel.ErrStale, calls: "claim a/1,conclude a/1 succeeded"},
		"the job is gone": {job: running(1), refuse: "conclude a/1 succeeded", err: kernel.ErrNotFound, want: kernel.ErrNotFound, calls: "claim a/1,conclude a/1 succeeded"},
	} {
		m := newMemory(job("a", c.job))
		m.gone["a"] = c.gone
		if c.refuse != "" {
			m.refuse[c.refuse] = c.err
		}
		err := m.runner(nil).RunRemote(context.Background(), a)
		if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) || strings.Join(m.calls, ",") != c.calls {
			t.Errorf("%s: %v, %q", name, err, m.calls)
		}
	}
	// an error that may pass is retried until the context ends
	m := newMemory(job("a", running(1)))
	m.refuse["conclude a/1 succeeded"] = errDisk
	ctx, cancel := context.WithCancel(context.Background())
	err := m.runner(func(context.Context, *kernel.Job) kernel.Result {
		cancel()
		return kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded}
	}).RunRemote(ctx, a)
	if !errors.Is(err, errDisk) {
		t.Errorf("%v", err)
	}
	m = newMemory(job("a", running(1)))
	m.refuse["conclude a/1 succeeded"] = errDisk
	tries := 0
	healed := &healing{memory: m, after: 2, tries: &tries}
	r := m.runner(nil)
	r.Outcomes = healed
	if err := r.RunRemote(context.Background(), a); err != nil || tries != 3 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

// A remote host waits for the record of its attempt, which a shared file system may show late, but not for ever.
func TestARemoteHostWaitsForItsRecord(t *testing.T) {
	for after, want := range map[time.Duration]error{90 * time.Second: nil, 150 * time.Second: kernel.ErrStale} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			b := &beating{begun: begun, record: func(d time.Duration) (kernel.Job, error) {
				if d < after {
					return job("a", running(1)), nil
				}
				return job("a", running(2)), nil
			}}
			b.workload = &workload{newMemory(), nil}
			err := (&Runner{Outcomes: b, Workload: b}).RunRemote(t.Context(), kernel.AttemptID{Job: "a", N: 2})
			if took := time.Since(begun); !errors.Is(err, want) || took != min(after, 2*time.Minute) {
				t.Errorf("the record comes after %v: %v after %v", after, err, took)
			}
		})
	}
}

// It waits no longer once its context has ended.
func TestARemoteHostStopsWaitingForItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		begun, looks := time.Now(), 0
		b := &beating{begun: begun, record: func(time.Duration) (kernel.Job, error) {
			if looks++; looks > 100 { // time stands still while it looks
				return kernel.Job{}, errDisk
			}
			return job("a", running(1)), nil
		}}
		b.workload = &workload{newMemory(), nil}
		err := (&Runner{Outcomes: b, Workload: b}).RunRemote(ctx, kernel.AttemptID{Job: "a", N: 2})
		if took := time.Since(begun); !errors.Is(err, kernel.ErrStale) || took != 30*time.Second {
			t.Errorf("%v after %v and %d looks", err, took, looks)
		}
	})
}

// healing is a memory whose Conclude works after some failed tries.
type healing struct {
	*memory
	after int
	tries *int
}

func (h *healing) Conclude(r kernel.Result) error {
	if *h.tries++; *h.tries > h.after {
		h.refuse = map[string]error{}
	}
	return h.memory.Conclude(r)
}

// The roots of a run wait for its predecessors, and only they ask for its approval. All
// runs are enqueued, or none.
func TestEnqueueRuns(t *testing.T) {
	m := newMemory(job("x", func(j *kernel.Job) { j.State.Status = kernel.Succeeded }), job("y", func(j *kernel.Job) { j.State.Status = kernel.Succeeded }))
	spec := func(change func(*kernel.Spec)) kernel.Spec {
		s := kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}
		if change != nil {
			change(&s)
		}
		return s
	}
	asked := kernel.Require(at, "ann")
	runs := []RunRequest{
		{Run: "r1", Manifest: []byte("one"), After: []kernel.JobID{"x"}, Approval: &asked, Jobs: []kernel.NewJob{{ID: "b", Spec: spec(nil)}, {ID: "a", Spec: spec(nil)},
			{ID: "c", Spec: spec(func(s *kernel.Spec) { s.After = []kernel.JobID{"a"} })}, {ID: "d", Spec: spec(func(s *kernel.Spec) { s.Routed = true })}}},
		{Run: "r2", Manifest: []byte("two"), Jobs: []kernel.NewJob{{ID: "e", Spec: spec(func(s *kernel.Spec) { s.After = []kernel.JobID{"y"} })}}},
	}
	rep, err := m.scheduler().EnqueueRun(context.Background(), runs...)
	if err != nil || fmt.Sprint(rep.Roots) != "[[a b] []]" {
		t.Fatalf("%v %v", rep.Roots, err)
	}
	var got []string
	for _, id := range []kernel.JobID{"a", "b", "c", "d", "e"} {
		j := m.jobs[id]
		got = append(got, fmt.Sprint(id, j.Spec.After, j.State.Approval.State))
	}
	if g := strings.Join(got, " "); g != "a[x] pending b[x] pending c[a]  d[]  e[y] " {
		t.Error(g)
	}
	var made []string
	for _, p := range m.plans {
		for _, r := range p.Records {
			if c, ok := r.(kernel.CreateRun); ok {
				made = append(made, string(c.Run)+"="+string(c.Manifest))
			}
		}
	}
	if !slices.Equal(made, []string{"r1=one", "r2=two"}) {
		t.Error(made)
	}
	if !slices.Contains(m.scopes[0].Jobs, "x") || !slices.Contains(m.scopes[0].Jobs, "y") {
		t.Errorf("loaded %v", m.scopes)
	}
	runs[1].Jobs[0].Spec.After = []kernel.JobID{"nobody"}
	runs[0].Jobs = []kernel.NewJob{{ID: "z", Spec: spec(nil)}}
	if _, err := m.scheduler().EnqueueRun(context.Background(), runs...); err == nil || m.jobs["z"].ID != "" {
		t.Errorf("%v, %+v", err, m.jobs["z"])
	}
}

// A clean removes the branches that no other job works on, and reports which it kept and
// why. A plan of it says the same.
func TestCleanTakesBranchesThatNobodyWorksOn(t *testing.T) {
	jobs := func() []kernel.Job {
		in := func(id kernel.JobID, run kernel.RunID, branch, context string, st kernel.Status) kernel.Job {
			return job(id, func(j *kernel.Job) {
				j.Spec.Origin.Run, j.Spec.Origin.Branch, j.State.Context.Branch, j.State.Status = run, branch, context, st
			})
		}
		making := func(j kernel.Job, a kernel.Artifact) kernel.Job {
			j.Spec.Produces = []kernel.Artifact{a}
			return j
		}
		passed := func(j kernel.Job, merged bool) kernel.Job {
			j.Spec.Produces, j.State.Retired = []kernel.Artifact{{Kind: kernel.Custom, Name: kernel.StageToken, Ref: "approve:p"}}, merged
			return j
		}
		return []kernel.Job{in("a", "r", "draft/one", "draft/two", kernel.Succeeded), in("b", "r", "draft/one", "main", kernel.Failed), in("c", "r", "draft/three", "draft/four", kernel.Failed),
			in("u", "q", "draft/three", "", kernel.Queued), in("v", "q", "", "draft/four", kernel.Running), in("w", "q", "draft/two", "", kernel.Succeeded), in("x", "q", "draft/two", "", kernel.Cancelled), in("y", "q", "draft/five", "", kernel.Failed),
			in("d", "r", "draft/five", "", kernel.Succeeded), in("e", "r", "draft/six", "", kernel.Succeeded), in("f", "r", "draft/seven", "draft/eight", kernel.Succeeded),
			passed(in("z", "p", "draft/six", "", kernel.Succeeded), false), passed(in("zz", "p", "draft/seven", "", kernel.Succeeded), true),
			in("g", "r", "draft/nine", "draft/ten", kernel.Succeeded), making(in("zzz", "p", "draft/nine", "", kernel.Succeeded), kernel.Artifact{Kind: kernel.PlanBranch, Name: "p"}),
			making(in("zzzz", "p", "draft/ten", "", kernel.Succeeded), kernel.Artifact{Kind: kernel.Custom, Name: "binary"}), passed(in("zzzzz", "p", "draft/ten", "", kernel.Failed), true)}
	}
	want := "[draft/one draft/seven draft/ten draft/two] map[draft/eight:it is checked out in /tree draft/five:a retry of job y needs it draft/four:job v works on it draft/nine:what job zzz made of the plan is not merged draft/six:what job z made of the plan is not merged draft/three:job u works on it]"
	m := newMemory(jobs()...)
	m.checkedOut = map[string]string{"draft/eight": "/tree"}
	plan, err := m.scheduler().PlanClean(context.Background(), []kernel.JobID{"a"}, CleanOptions{})
	if got := fmt.Sprint(plan.Branches, " ", plan.KeptBranches); err != nil || got != want || plan.Manifests != 1 || len(plan.Removed) != 7 || plan.Markers != 14 || plan.Payloads != 7 || plan.PlanStates != 3 || len(m.plans) > 0 {
		t.Errorf("%s %v %+v", got, err, plan)
	}
	done, _, err := m.scheduler().Clean(context.Background(), []kernel.JobID{"a"}, CleanOptions{})
	if got := fmt.Sprint(done.Branches, " ", done.KeptBranches); err != nil || got != want || len(done.Removed) != 7 || done.Manifests != 1 || done.Markers != 14 || done.Payloads != 7 || done.PlanStates != 3 {
		t.Errorf("%s %v %+v", got, err, done)
	}
	for _, id := range []kernel.JobID{"a", "b", "c"} {
		if _, there := m.jobs[id]; there {
			t.Errorf("%s is there", id)
		}
	}
	m = newMemory(jobs()...)
	if done, _, err := m.scheduler().Clean(context.Background(), []kernel.JobID{"a"}, CleanOptions{KeepBranches: true}); err != nil || len(done.Branches)+len(done.KeptBranches) > 0 {
		t.Errorf("%v %+v", err, done)
	}
	m = newMemory(jobs()...)
	owner := m.jobs["a"]
	owner.State.Context.Worktree, owner.State.Context.Owned = ".vizier/tmp-worktrees/a", true
	m.jobs["a"] = owner
	s := m.scheduler()
	s.Worktrees = worktrees{m, map[kernel.JobID][]kernel.Context{"a": {owner.State.Context}, "c": {{Worktree: "x"}, {Worktree: "y"}}}}
	m.checkedOut = map[string]string{"draft/two": "/repo/.vizier/tmp-worktrees/a", "draft/eight": "/repo/.vizier/tmp-worktrees/f"}
	if plan, err := s.PlanClean(context.Background(), []kernel.JobID{"a"}, CleanOptions{}); err != nil || plan.Worktrees != 3 || fmt.Sprint(plan.Branches) != "[draft/one draft/seven draft/ten draft/two]" || plan.KeptBranches["draft/eight"] != "it is checked out in /repo/.vizier/tmp-worktrees/f" {
		t.Errorf("%d worktrees, %v, %+v", plan.Worktrees, err, plan)
	}
	m = newMemory(jobs()...)
	m.kept = map[string]string{"draft/one": "its commits are nowhere else"}
	if done, _, err := m.scheduler().Clean(context.Background(), []kernel.JobID{"a"}, CleanOptions{}); err != nil || slices.Contains(done.Branches, "draft/one") || done.KeptBranches["draft/one"] != m.kept["draft/one"] {
		t.Errorf("the only copy of work: %+v, %v", done, err)
	}
	m = newMemory(jobs()...)
	m.noBranch = "draft/three" // a job works on it, and somebody has removed it
	if done, _, err := m.scheduler().Clean(context.Background(), []kernel.JobID{"a"}, CleanOptions{}); err != nil || done.KeptBranches["draft/three"] != "" || done.KeptBranches["draft/four"] == "" {
		t.Errorf("%v %+v", err, done)
	}
	if plan, err := newMemory(jobs()...).scheduler().PlanClean(context.Background(), []kernel.JobID{"a"}, CleanOptions{KeepBranches: true}); err != nil || len(plan.Branches)+len(plan.KeptBranches) > 0 {
		t.Errorf("%v %+v", err, plan)
	}
	for _, call := range []string{"drop draft/one", "drop states"} {
		m = newMemory(jobs()...)
		m.refuse[call] = errDisk
		if _, _, err := m.scheduler().Clean(context.Background(), []kernel.JobID{"a"}, CleanOptions{}); !errors.Is(err, errDisk) || m.jobs["a"].ID == "" {
			t.Errorf("%s fails: %v", call, err)
		}
	}
	m = newMemory(jobs()...)
	m.refuse["load"] = errDisk
	if _, err := m.scheduler().PlanClean(context.Background(), []kernel.JobID{"a"}, CleanOptions{}); !errors.Is(err, errDisk) {
		t.Errorf("%v", err)
	}
	if _, err := newMemory(jobs()...).scheduler().PlanClean(context.Background(), []kernel.JobID{"v"}, CleanOptions{}); !errors.Is(err, kernel.ErrConflict) {
		t.Errorf("%v", err)
	}
}

// Many jobs are cancelled in one transaction; those that have ended are left.
func TestCancelAll(t *testing.T) {
	m := newMemory(job("a", nil), job("b", running(1)), job("c", func(j *kernel.Job) { j.State.Status = kernel.Succeeded }), job("d", nil))
	done, err := m.scheduler().CancelAll(t.Context(), []kernel.JobID{"a", "c", "d", "b", "a"}, Cancellation{By: "ann"})
	if err != nil || !slices.Equal(done.Jobs, []kernel.JobID{"d", "b", "a"}) {
		t.Fatalf("cancelled %v, %v", done.Jobs, err)
	}
	for id, want := range map[kernel.JobID]kernel.Status{"a": kernel.Cancelled, "d": kernel.Cancelled, "b": kernel.Running, "c": kernel.Succeeded} {
		if st := done.Snapshot.Job(id).State; st.Status != want || id == "b" && st.Stop.At.IsZero() {
			t.Errorf("%s is %+v", id, st)
		}
	}
	if _, err := m.scheduler().CancelAll(t.Context(), []kernel.JobID{"a", "nobody"}, Cancellation{By: "ann"}); !errors.Is(err, kernel.ErrNotFound) {
		t.Errorf("one that does not exist: %v", err)
	}
}

// A retry of a whole run begins at the first jobs that ended badly. The jobs after them are
// retried with them, even if they have no worktree on record yet.
func TestWaysOutBeginAtTheFirst(t *testing.T) {
	bad := func(id kernel.JobID, after ...kernel.JobID) kernel.Job {
		return job(id, func(j *kernel.Job) { j.State.Status, j.Spec.After = kernel.Cancelled, after })
	}
	m := newMemory(bad("a"), bad("b", "a"), bad("c", "b"), bad("d"))
	ways, err := m.scheduler().WaysOut(context.Background(), []kernel.JobID{"a", "b", "c", "d"})
	if want := []kernel.JobID{"a", "d"}; err != nil || !slices.Equal(ways, want) {
		t.Errorf("%v, %v, want %v", ways, err, want)
	}
}

// What can be retried is told from what cannot, with the reason, and nothing happens.
func TestWhatCanBeRetried(t *testing.T) {
	stands := func(st kernel.Status) func(*kernel.Job) {
		return func(j *kernel.Job) { j.State.Status, j.State.Attempt = st, 1 }
	}
	m := newMemory(job("a", stands(kernel.Failed)), job("b", stands(kernel.Running)), job("c", stands(kernel.Cancelled)))
	s, h := seer(m)
	d := job("d", onBranch("x"))
	stands(kernel.Failed)(&d)
	m.jobs["d"] = d
	can, refused, err := s.Retryable(t.Context(), []kernel.JobID{"a", "b", "c", "d", "gone"})
	if err != nil || !slices.Equal(can, []kernel.JobID{"a", "c", "d"}) || len(refused) != 2 || refused["b"] == nil || !errors.Is(refused["gone"], kernel.ErrNotFound) {
		t.Errorf("can %q, refused %v, %v", can, refused, err)
	}
	if len(m.calls) > 0 {
		t.Errorf("done was %q, asked %v", m.calls, h.asked)
	}
	m.refuse["load"] = errDisk
	if can, refused, err := s.Retryable(t.Context(), []kernel.JobID{"a"}); !errors.Is(err, errDisk) || can != nil || refused != nil {
		t.Errorf("of what cannot be read: %q, %v, %v", can, refused, err)
	}
}

// A retry after which jobs would wait for each other is refused, whether it is tried or asked about.
func TestARetryOfJobsThatWouldWaitForEachOther(t *testing.T) {
	made := kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: "c"}
	m := newMemory(
		job("a", func(j *kernel.Job) { j.State.Status, j.Spec.Needs = kernel.Succeeded, []kernel.Artifact{made} }),
		job("b", func(j *kernel.Job) {
			j.State.Status, j.Spec.After, j.Spec.Produces = kernel.Succeeded, []kernel.JobID{"a"}, []kernel.Artifact{made}
		}))
	s := m.scheduler()
	_, tried := s.Retry(t.Context(), "ann", "a")
	_, asked := s.RetrySets(t.Context(), []kernel.JobID{"a"})
	can, refused, err := s.Retryable(t.Context(), []kernel.JobID{"a"})
	if err != nil || len(can) > 0 {
		t.Errorf("can %q, %v", can, err)
	}
	for how, err := range map[string]error{"tried": tried, "asked about": asked, "among others": refused["a"]} {
		if _, is := errors.AsType[*kernel.DeadlockError](err); !is {
			t.Errorf("%s: %v", how, err)
		}
	}
	if len(m.calls) > 0 {
		t.Errorf("%q", m.calls)
	}
}

// What is refused is told, and nothing happens.
func TestASubmissionAfterNobody(t *testing.T) {
	m := newMemory()
	news := []kernel.NewJob{{ID: "n", Spec: job("n", func(j *kernel.Job) { j.Spec.After = []kernel.JobID{"nobody"} }).Spec}}
	if _, err := m.scheduler().Submit(t.Context(), news, "ann"); err == nil || len(m.calls) > 0 {
		t.Errorf("%v, %q", err, m.calls)
	}
}

// In a store that cannot read narrowly a job that has succeeded is found by its number, and a prompt with its whole run.
func TestWhatIsFoundInAWholeStore(t *testing.T) {
	id := func(c string) kernel.JobID { return kernel.JobID(strings.Repeat(c, 32)) }
	m := newMemory(job(id("a"), func(j *kernel.Job) { j.Number, j.State.Status = 1, kernel.Succeeded }),
		job(id("b"), func(j *kernel.Job) { j.Number, j.Spec.Origin.Run, j.Spec.Prompt = 2, "run_1", &kernel.Prompt{} }),
		job(id("c"), func(j *kernel.Job) { j.Number, j.Spec.Origin.Run, j.State.Status = 2, "run_1", kernel.Succeeded }))
	if _, got, err := m.scheduler().Job(t.Context(), "1"); got != id("a") || err != nil {
		t.Errorf("by its number: %s, %v", got, err)
	}
	m.scopes = nil
	if snap, _, err := m.scheduler().Job(t.Context(), string(id("b"))); err != nil || snap.Job(id("c")) == nil || len(m.scopes) != 2 || m.scopes[0].All {
		t.Errorf("a prompt: %v, read %+v", err, m.scopes)
	}
	m.scopes = nil
	if _, err := m.scheduler().Resolver(t.Context(), nil); err != nil || len(m.scopes) > 0 {
		t.Errorf("for nothing: %v, read %+v", err, m.scopes)
	}
	if resolve, err := m.scheduler().Resolver(t.Context(), []string{"1"}); err != nil {
		t.Error(err)
	} else if got, err := resolve("1"); got != id("a") || err != nil {
		t.Errorf("resolved: %s, %v", got, err)
	}
}

// worktrees are those that operations of jobs have made.
type worktrees struct {
	*memory
	of map[kernel.JobID][]kernel.Context
}

func (w worktrees) WorktreesOf(jobs []kernel.JobID) (map[kernel.JobID][]kernel.Context, error) {
	out := map[kernel.JobID][]kernel.Context{}
	for _, id := range jobs {
		if all := w.of[id]; all != nil {
			out[id] = all
		}
	}
	return out, w.fails("worktrees of")
}

func (worktrees) InPlace(kernel.Context) bool { return true }

// A worktree of an operation that cannot be removed keeps the job and its run, so that the clean can be repeated, as
// one that a job owns does; what is cleaned besides goes. By force, or where nobody would repeat it, all goes.
func TestACleanKeepsTheRunWhoseWorktreeStays(t *testing.T) {
	ended := func(id kernel.JobID, run kernel.RunID) kernel.Job {
		return job(id, func(j *kernel.Job) { j.Spec.Origin.Run, j.State.Status = run, kernel.Failed })
	}
	for _, c := range []struct {
		o    CleanOptions
		gone string
	}{{CleanOptions{}, "[c d]"}, {CleanOptions{Force: true}, "[a b c d e]"}, {CleanOptions{Alone: true}, "[a b c d e]"}} {
		m := newMemory(ended("a", "r"), ended("b", "r"), ended("c", "q"), ended("d", ""), ended("e", ""))
		m.cleanup = kernel.Cleanup{Status: kernel.CleanupFailed, Error: "busy"}
		s := m.scheduler()
		s.Worktrees = worktrees{m, map[kernel.JobID][]kernel.Context{"b": {{Worktree: "gate-p"}}, "e": {{Worktree: "gate-q"}}}}
		done, _, err := s.Clean(t.Context(), []kernel.JobID{"a", "c", "d", "e"}, c.o)
		slices.Sort(done.Removed)
		if got := fmt.Sprint(done.Removed); err != nil || got != c.gone || done.KeptWorktrees["b"] != "busy" || done.KeptWorktrees["e"] != "busy" {
			t.Errorf("%+v: %s, want %s; %v %v", c.o, got, c.gone, done.KeptWorktrees, err)
		}
		if !c.o.Force && !c.o.Alone {
			m.cleanup = kernel.Cleanup{Status: kernel.CleanupDone}
			if done, _, err := s.Clean(t.Context(), []kernel.JobID{"a", "e"}, c.o); err != nil || len(done.Removed) != 3 || done.Worktrees != 2 {
				t.Errorf("again: %+v %v", done, err)
			}
		}
	}
	m := newMemory(ended("a", "r"))
	m.cleanup = kernel.Cleanup{Status: kernel.CleanupFailed, Error: "busy"}
	s := m.scheduler()
	s.Worktrees = worktrees{m, map[kernel.JobID][]kernel.Context{"a": {{Worktree: "gate-p"}}}}
	if done, _, err := s.Clean(t.Context(), []kernel.JobID{"a"}, CleanOptions{}); err != nil || len(done.Removed) != 0 || m.jobs["a"].ID == "" {
		t.Errorf("%+v %v", done, err)
	}
}
