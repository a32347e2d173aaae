package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// Below a run stands what is at work or ended badly; the rest is counted, and
// shown where all is asked for. A run that is over is one line, and what failed.
func TestLines(t *testing.T) {
	t.Parallel()
	s := snap(
		job("a1", 0, kernel.Failed, numbered(1, ""), ended(10, "exit code 2", kernel.ExitFailure), func(j *kernel.Job) { j.Spec.Name = "lint" }),
		job("b1", 1, kernel.Succeeded, numbered(2, "persist_plan"), node("run_ab12", "persist_plan"), ended(10, "", kernel.NoFailure)),
		job("b2", 2, kernel.Running, numbered(2, "invoke_agent"), node("run_ab12", "invoke_agent"), func(j *kernel.Job) { j.State.Started, j.State.Attempt = hour, 1 }),
		job("b3", 3, kernel.WaitingOnDeps, numbered(2, "merge"), node("run_ab12", "merge"), waitsForJob("b2")),
		job("b4", 4, kernel.Unscheduled, numbered(2, "gate"), node("run_ab12", "gate")),
		job("c1", 5, kernel.Failed, numbered(3, "x"), ended(20, "exit code 2", kernel.ExitFailure)),
		job("c2", 6, kernel.BlockedByDependency, numbered(3, "y"), after("c1")),
		job("d1", 7, kernel.FailedRetryable, numbered(4, ""), ended(20, "exit code 2", kernel.ExitFailure), againLater),
		job("e1", 8, kernel.WaitingOnApproval, numbered(5, ""), func(j *kernel.Job) { j.Spec.Name, j.State.WaitSince = "deploy", hour }),
		job("f1", 9, kernel.Running, numbered(6, "one"), func(j *kernel.Job) { j.State.Started, j.State.Attempt = hour, 1 }),
		job("f2", 10, kernel.WaitingOnDeps, numbered(6, "two"), waitsForJob("f1")),
	)
	lines := func(o view.LinesOptions) string {
		o.Wholes = map[kernel.Number]kernel.Tally{2: s.Tally(jobsOf(t, s, "2")), 3: s.Tally(jobsOf(t, s, "3")), 6: s.Tally(jobsOf(t, s, "6"))}
		jobs := slices.Clone(s.Jobs())
		slices.Reverse(jobs)
		var b strings.Builder
		for _, l := range view.Lines(s, jobs, o) {
			fmt.Fprintln(&b, strings.Join(strings.Fields(fmt.Sprint(l.Ref, " ", l.Name, " ", l.Status, " ", kernel.Brief(l.For), " ", l.What)), " "))
		}
		return b.String()
	}
	for _, j := range s.Jobs() {
		if got, want := view.LineOf(s, j, nil).Says(s.Now()), map[kernel.JobID]string{"a1": "exit 2", "c1": "exit 2", "b3": "after 2/invoke_agent", "f2": "after 6/one", "d1": "until Jan 1 2100 00:00, automatic retry after: exit code 2"}[j.ID]; got != want && j.ID != "c2" {
			t.Errorf("%s: %q, want %q", j.ID, got, want)
		}
	}
	since := kernel.Brief(s.Now().Sub(hour))
	created := func(minute int) string { return kernel.Brief(s.Now().Sub(job("x", minute, kernel.Queued).Created)) }
	text(t, lines(view.LinesOptions{}), `6 batch running 0/2 `+created(9)+`
/one do f1 running `+since+`
/… 0s and 1 more
5 deploy approval `+since+`
4 do d1 retrying `+created(7)+` automatic retry after: exit code 2
3 batch failed 0s
/x do c1 failed 3s exit 2
2 running 1/3 `+created(1)+`
/invoke_agent running `+since+`
/… 0s and 2 more
1 lint failed 3s exit 2
`)
	all := lines(view.LinesOptions{Whole: true})
	for _, want := range []string{"/persist_plan succeeded 3s\n", "/merge waiting", "after 2/invoke_agent\n", "/y do c2 blocked"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if strings.Contains(all, "/gate") || strings.Contains(all, "/…") {
		t.Errorf("what nothing wakes, or a count of what is shown:\n%s", all)
	}
}

// A job that never began has taken no time; one of which nobody knows whether it ran says so while it asks.
func TestLinesOfOddJobs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		job  kernel.Job
		want view.Line
	}{
		{job("a", 0, kernel.Cancelled, func(j *kernel.Job) { j.State.Finished = hour }), view.Line{Status: "cancelled", Standing: kernel.Cancelled, What: "cancelled"}},
		{job("a", 0, kernel.Succeeded, func(j *kernel.Job) { j.State.Started, j.State.Finished = hour.Add(time.Second), hour }), view.Line{Status: "succeeded", Standing: kernel.Succeeded}},
		{job("a", 0, kernel.WaitingOnApproval, func(j *kernel.Job) {
			j.State.WaitSince, j.State.Wait.Detail = noon, "its runner\nis gone"
			j.State.Approval = kernel.Approval{State: kernel.Pending, InDoubt: true, ExpiresAt: later}
		}), view.Line{Status: "approval", Standing: kernel.WaitingOnApproval, For: time.Hour, Until: later, What: "its runner is gone"}},
		{job("a", 0, kernel.WaitingOnApproval, func(j *kernel.Job) {
			j.State.Wait.Detail, j.State.Approval.State = "waiting on approval", kernel.Pending
		}), view.Line{Status: "approval", Standing: kernel.WaitingOnApproval}},
	} {
		c.want.Ref, c.want.Name = "a", "do a"
		equal(t, view.LineOf(snap(c.job), &c.job, nil), c.want)
	}
}

// Without tallies of all jobs, those that are there are counted; a batch may have one job, and one that is over has no progress.
func TestLinesOfBatches(t *testing.T) {
	t.Parallel()
	s := snap(job("a", 0, kernel.Queued, numbered(1, "x")), job("b", 1, kernel.Succeeded, numbered(2, "x")), job("c", 2, kernel.BlockedByDependency, numbered(2, "y"), after("gone")),
		job("d", 3, kernel.WaitingOnApproval, numbered(3, "x")), job("e", 4, kernel.Succeeded, numbered(3, "y")), job("f", 5, kernel.Succeeded, numbered(4, "x")), job("g", 6, kernel.Cancelled, numbered(5, "x"), func(j *kernel.Job) { j.State.Reason = "by Ann" }))
	var got []string
	for _, l := range view.Lines(s, s.Jobs(), view.LinesOptions{}) {
		if l.Status != "" { // else it is no job
			l.Status += " " + l.Standing.String()
		}
		got = append(got, strings.Join(strings.Fields(strings.Join([]string{l.Ref, l.Name, l.Status, l.What}, " ")), " "))
	}
	text(t, strings.Join(got, "\n"), `1 batch waiting 0/1 waiting_on_deps
/… and 1 more
2 batch blocked blocked_by_dependency
3 batch needs you 1/2 waiting_on_approval
/x do d approval waiting_on_approval
/… and 1 more
4 batch succeeded succeeded
5 batch cancelled cancelled
/x do g cancelled cancelled by Ann`)
}

// Every status goes by its own word, by its short one, and what has not ended is open.
func TestStatusesOf(t *testing.T) {
	t.Parallel()
	for _, st := range kernel.Statuses() {
		for _, word := range []string{st.String(), view.ShortStatus(st)} {
			if !slices.Contains(view.StatusesOf(word), st) {
				t.Errorf("%s: %v, without %s", word, view.StatusesOf(word), st)
			}
		}
		if slices.Contains(view.StatusesOf("open"), st) != st.Active() {
			t.Errorf("open: %s", st)
		}
	}
	for short, statuses := range map[string][]kernel.Status{
		"waiting": {kernel.Queued, kernel.WaitingOnDeps, kernel.WaitingOnLocks}, "approval": {kernel.WaitingOnApproval}, "retrying": {kernel.FailedRetryable}, "asleep": {kernel.Unscheduled},
		"blocked": {kernel.BlockedByDependency, kernel.BlockedByApproval}, "running": {kernel.Running}, "succeeded": {kernel.Succeeded}, "failed": {kernel.Failed}, "cancelled": {kernel.Cancelled},
	} {
		for _, st := range statuses {
			equal(t, view.ShortStatus(st), short)
		}
	}
	if got := view.StatusesOf("waiting"); len(got) != 5 || slices.Contains(got, kernel.Running) || view.StatusesOf("nope") != nil {
		t.Errorf("waiting: %v, nope: %v", got, view.StatusesOf("nope"))
	}
}

// The line of a job of a batch says what its executor does, and not twice which job it is.
func TestALineWithARemark(t *testing.T) {
	t.Parallel()
	one, other := job("a", 0, kernel.Running, numbered(3, "1")), job("b", 0, kernel.Running, numbered(3, "2"))
	f := kernel.NewFacts()
	for _, j := range []*kernel.Job{&one, &other} {
		j.Spec.Task.Executor, j.State.Attempt = "lab", 1
		f.Runners[j.Attempt()] = kernel.Seen(kernel.Runner{Liveness: kernel.Alive, Pending: true, Remark: "no room"})
	}
	s := snap(one, other).WithFacts(f)
	for _, l := range view.Lines(s, s.Jobs(), view.LinesOptions{}) {
		if strings.HasPrefix(l.Ref, "/") {
			equal(t, l.What, "no room")
		}
	}
}
