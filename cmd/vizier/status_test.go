package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// status returns what `status --format json` says of w.
func (w *fake) status() view.Overview {
	w.t.Helper()
	out := w.ok("status", "--json")
	conforms(w.t, "status", out)
	var doc overviewDoc
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		w.t.Fatal(err)
	}
	return doc.Overview
}

// needy returns a job of each kind of attention that jobs have.
func (w *fake) needy() map[kernel.Attention]kernel.JobID {
	w.t.Helper()
	jobs := map[kernel.Attention]kernel.JobID{
		kernel.NeedsApproval:   w.submit("--approval", "--name", "deploy"),
		kernel.NeedsResolution: w.submit("--name", "merge"),
		kernel.NeedsUnblocking: w.submit("--name", "obstacle"),
		kernel.NeedsDecision:   w.submit("--name", "payment", "--in-doubt", "ask"),
		kernel.NeedsRunner:     w.submit("--name", "stuck"),
	}
	for kind, reason := range map[kernel.Attention]string{
		kernel.NeedsResolution: "merging draft/x into main " + kernel.InConflict + ": resolve a.txt in trees/x, `git add` them, then `vizier retry 2`",
		kernel.NeedsUnblocking: "main has changes of its own",
	} {
		id := jobs[kind]
		w.endAs(id, kernel.Result{Outcome: kernel.OutcomeBlocked, Exit: 10, Reason: reason})
	}
	w.endAs(jobs[kernel.NeedsDecision], kernel.Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.WorkerLost, Reason: "its runner is gone"})
	a := w.job(jobs[kernel.NeedsRunner]).Attempt()
	w.facts.Runners[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Stalled, Heard: w.now.Add(-2 * time.Minute), Remark: "stalled: not heard of for 2m0s"})
	return jobs
}

// endAs ends the running attempt of a job, and ticks.
func (w *fake) endAs(id kernel.JobID, r kernel.Result) {
	w.t.Helper()
	a := w.job(id).Attempt()
	r.Attempt, r.Ended = a, w.now
	w.facts.Runners[a], w.facts.Results[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead}), kernel.Seen(&r)
	repo, err := w.open(w.t.Context(), nil, globals{})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := repo.Scheduler.Tick(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// Every command that status names, executed, makes its line go away, or says what does besides a cancel. That
// of a prompt is in status.txtar.
func TestWhatStatusSaysTakesItsLineAway(t *testing.T) {
	w := newFake(t)
	jobs := w.needy()
	w.fails(10, "status", "--attention")
	about := func(id kernel.JobID) int {
		return slices.IndexFunc(w.status().Attention, func(it view.Item) bool { return it.Job == id })
	}
	for kind, id := range jobs {
		i := about(id)
		if i < 0 {
			t.Fatalf("%s: job %s is not among what needs a person: %+v", kind, id, w.status().Attention)
		}
		it := w.status().Attention[i]
		if it.Kind != kind || it.Since == nil {
			t.Errorf("job %s needs a person as %q since %v, want %q", id, it.Kind, it.Since, kind)
		}
		has(t, w.ok("status"), "vizier "+strings.Join(it.Command[1:], " ")+"\n")
		said := w.ok(it.Command[1:]...)
		if does := map[kernel.Attention]string{kernel.NeedsPool: "enlarge pool", kernel.NeedsSecret: "see to what secret"}[kind]; does != "" {
			has(t, said, "To start it:\n  "+does)
			w.ok("cancel", it.Command[2])
		}
		if about(id) >= 0 {
			t.Errorf("%s: after %q the line is still there", kind, it.Command)
		}
	}
	if left := w.status().Attention; len(left) > 0 {
		t.Errorf("still there: %+v", left)
	}
	w.ok("status", "--attention")
}

// A failure in doubt is one for a person as well, and so is none that was taken
// back.
func TestAnEffectInDoubtNeedsAPerson(t *testing.T) {
	w := newFake(t)
	id := w.submit("--name", "payment")
	w.endAs(id, kernel.Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.EffectInDoubt, Reason: "whether it was paid cannot be told"})
	v := w.status()
	if len(v.Attention) != 1 || v.Attention[0].Kind != kernel.NeedsDecision || len(v.Failed) != 0 {
		t.Fatalf("%+v", v)
	}
	w.ok(v.Attention[0].Command[1:]...)
	if v = w.status(); len(v.Attention) != 0 || len(v.Running) != 1 {
		t.Errorf("%+v", v)
	}
}

func TestStatusForPeople(t *testing.T) {
	w := newFake(t)
	if got := w.ok("status"); got != "Nothing runs, waits or needs you.\n" {
		t.Errorf("nothing at all: %q", got)
	}
	w.needy()
	if err := os.MkdirAll(filepath.Join(w.dir, "trees/x"), 0o700); err != nil { // the conflict's worktree
		t.Fatal(err)
	}
	tests := w.submit("--name", "tests")
	w.submit("--name", "package", "--after", string(tests), "--approval")
	w.settle(w.submit("--name", "lint"), kernel.OutcomeFailed)
	w.now = w.now.Add(90 * time.Second)
	golden(t, "testdata/status.golden", w.ok("status", "--utc"))
	if a, b := w.ok("jobs"), w.ok("status"); a != b {
		t.Errorf("jobs alone says\n%s\nand status\n%s", a, b)
	}
	w.now = w.now.Add(24 * time.Hour)
	if v := w.status(); len(v.Failed) != 0 {
		t.Errorf("failed yesterday: %+v", v.Failed)
	}
	w.fails(2, "status", "--attention", "1")
}

// With many open jobs nobody waits for their ETAs.
func TestStatusForeseesOnlySoMuch(t *testing.T) {
	w := newFake(t)
	for range 100 {
		w.submit("--estimate", "5m")
	}
	if out := w.ok("status", "--format", "json"); !strings.Contains(out, `"eta"`) {
		t.Error("of a hundred jobs there are no ETAs")
	}
	w.submit("--estimate", "5m")
	if out := w.ok("status", "--format", "json"); strings.Contains(out, `"eta"`) {
		t.Error("of more there are")
	}
}

// What an executor has accepted and not begun does not run yet.
func TestWhatIsSubmittedDoesNotRun(t *testing.T) {
	w := newFake(t)
	far, near := w.submit("--name", "far"), w.submit("--name", "near")
	w.facts.Runners[w.job(far).Attempt()] = kernel.Seen(kernel.Runner{Liveness: kernel.Alive, Pending: true})
	w.facts.Runners[w.job(near).Attempt()] = kernel.Seen(kernel.Runner{Liveness: kernel.Alive})
	has(t, w.ok("status"), "running 1 of 100, submitted 1\n  1  far   submitted  0s\n  2  near             0s\n")
	if v := w.status(); len(v.Running) != 2 || v.Running[0].Status != view.Submitted || v.Running[1].Status != "running" {
		t.Errorf("%+v", v.Running)
	}
	has(t, w.ok("ls"), "1  far   submitted")
	has(t, w.ok("status", "1"), "1 far [submitted]")
}

// No command has a character that nobody sees, or that changes as it is printed.
func TestCommandsArePrintedAsTheyAre(t *testing.T) {
	for r := range unicode.MaxRune {
		if line := kernel.CommandLine("mv", "a"+string(r)+"b"); plainLine(line) != line {
			t.Errorf("%q: printed as %s", line, plainLine(line))
		}
	}
	for word, want := range map[string]string{
		"`git worktree move /a .vizier/tmp-worktrees/b`":            "`git worktree move /a '/my repo'/.vizier/tmp-worktrees/b`",
		"`git worktree move /a '.vizier/tmp-worktrees/b c'`":        "`git worktree move /a '/my repo'/'.vizier/tmp-worktrees/b c'`",
		"in .vizier/tmp-worktrees/b, `.vizier/tmp-worktrees/b/run`": "in '/my repo'/.vizier/tmp-worktrees/b, `'/my repo'/.vizier/tmp-worktrees/b/run`",
	} {
		if got := (&ui{root: "/my repo"}).places(word); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}
