package vizier_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// move is a change of a job's status and what brings it about.
type move struct {
	from, to kernel.Status
	by       string
}

// Who moves jobs, in the order of the page.
const (
	byTick    = "a tick"
	byLoss    = "a tick that finds no runner and no result"
	byResult  = "the result that its runner records"
	byRefusal = "the executor, which cannot start it"
	byRoute   = "another node's route"
	byOffer   = "a new job that produces its missing artifact, with the policy `wait`"
	byReject  = "`vizier jobs reject`"
	byCancel  = "`vizier cancel`"
	byRetry   = "`vizier retry`, of it or of a job that it depends on"
)

var movers = []string{byTick, byLoss, byResult, byRefusal, byRoute, byOffer, byReject, byCancel, byRetry}

// variant is one way a job and its surroundings may be.
type variant struct {
	predecessor    int // 0: none; else one that runs, has succeeded, has failed
	held, approval bool
	empty          bool // no command
	budget         bool
	sleeper        int // 0: none; else transient, transient and demanded, routed
	later          bool
}

func eachVariant(f func(variant)) {
	bools := []bool{false, true}
	for predecessor := range 4 {
		for _, held := range bools {
			for _, approval := range bools {
				for _, empty := range bools {
					for _, budget := range bools {
						for sleeper := range 4 {
							for _, later := range bools {
								f(variant{predecessor, held, approval, empty, budget, sleeper, later})
							}
						}
					}
				}
			}
		}
	}
}

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// world returns a job x of status from, with what v puts around it.
func (v variant) world(from kernel.Status) kernel.Observation {
	o := kernel.Observation{Now: noon, Facts: kernel.NewFacts()}
	add := func(id kernel.JobID, status kernel.Status) *kernel.Job {
		o.Jobs = append(o.Jobs, kernel.Job{ID: id, Created: noon, Rev: 1,
			Spec:  kernel.Spec{Task: kernel.Task{Args: []string{"true"}}},
			State: kernel.State{Status: status, Attempt: 1, Started: noon}})
		return &o.Jobs[len(o.Jobs)-1]
	}
	other := add("h", kernel.Running)
	other.Spec.Locks = []kernel.Lock{{Key: "lock"}}
	other.Spec.Routes = []kernel.Route{{On: kernel.OutcomeFailed, To: "x"}, {On: kernel.OutcomeSucceeded, To: "x"}}
	if v.predecessor > 0 {
		add("p", []kernel.Status{kernel.Running, kernel.Succeeded, kernel.Failed}[v.predecessor-1])
	}
	x := add("x", from)
	if v.predecessor > 0 {
		x.Spec.After = []kernel.JobID{"p"}
	}
	if v.held {
		x.Spec.Locks = []kernel.Lock{{Key: "lock"}}
	}
	if v.approval {
		x.State.Approval = kernel.Require(noon, "ann")
	}
	if v.empty {
		x.Spec.Task.Args = nil
	}
	if v.budget {
		x.Spec.Budget = kernel.Budget{Retries: 1, Resumes: 1, Reclaims: 1}
		x.Spec.Retry, x.Spec.Resumable = x.Spec.Retry.On(kernel.ExitFailure), true
	}
	if v.later {
		x.State.RetryAt = noon.Add(time.Hour)
	}
	needed := kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: "x"}
	x.Spec.Needs, x.Spec.MissingProducer = []kernel.Artifact{needed}, kernel.Wait
	o.Facts.Markers[needed] = kernel.Seen([]kernel.JobID{"z"})
	if from == kernel.BlockedByDependency {
		x.State.Wait = kernel.WaitReasonOf(kernel.OnDependencies, "missing "+needed.String())
	}
	switch v.sleeper {
	case 1, 2:
		x.Spec.Transient = kernel.OnDemand
	case 3:
		x.Spec.Routed = true
	}
	if v.sleeper == 2 {
		add("y", kernel.Queued).Spec.After = []kernel.JobID{"x"}
	}
	return o
}

// observedMoves returns the moves that the kernel makes over every variant, by
// every verb it has.
func observedMoves() map[move]bool {
	out := map[move]bool{}
	for _, from := range kernel.Statuses() {
		eachVariant(func(v variant) {
			o := v.world(from)
			s := kernel.NewSnapshot(o)
			try := func(by string, p kernel.Plan, err error) {
				if to := s.Apply(p).Job("x").State.Status; err == nil && to != from {
					out[move{from, to, by}] = true
				}
			}
			p, err := kernel.Cancel(s, "x", "ann", false)
			try(byCancel, p, err)
			p, err = kernel.Reject(s, "x", kernel.Refusal{By: "ann"})
			try(byReject, p, err)
			p, err = kernel.Retry(s, "x", "ann")
			try(byRetry, p, err)
			p, err = kernel.Enqueue(s, []kernel.NewJob{{ID: "zz", Spec: kernel.Spec{Produces: s.Job("x").Spec.Needs, Task: kernel.Task{Args: []string{"true"}}}}})
			try(byOffer, p, err)
			for _, outcome := range []kernel.Outcome{kernel.OutcomeFailed, kernel.OutcomeSucceeded} {
				p, err = kernel.Finish(s, kernel.Result{Attempt: kernel.AttemptID{Job: "h", N: 1}, Outcome: outcome})
				try(byRoute, p, err)
			}
			if from != kernel.Running {
				try(byTick, kernel.Decide(s), nil)
				return
			}
			a := kernel.AttemptID{Job: "x", N: 1}
			p, err = kernel.Finish(s, kernel.Result{Attempt: a, Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.WorkerLost})
			try(byLoss, p, err)
			for _, final := range []bool{false, true} {
				p, err = kernel.Refuse(s, a, "no such program", final)
				try(byRefusal, p, err)
			}
			for _, r := range []kernel.Result{{Outcome: kernel.OutcomeSucceeded}, {Outcome: kernel.OutcomeBlocked}, {Outcome: kernel.OutcomeCancelled},
				{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure}, {Outcome: kernel.OutcomeFailed, Exit: 124, Class: kernel.Timeout}} {
				r.Attempt = a
				p, err = kernel.Finish(s, r)
				try(byResult, p, err)
			}
		})
	}
	return out
}

// meanings say each status in words.
var meanings = map[kernel.Status]string{
	kernel.Queued:              "due; no tick has judged it yet, or its start was refused and is tried again",
	kernel.WaitingOnDeps:       "another job, an artifact, a pinned head or a precondition holds it up",
	kernel.WaitingOnApproval:   "a person must approve or reject it",
	kernel.WaitingOnLocks:      "a lock, a pool or `max_running` holds it up",
	kernel.Running:             "an attempt is on record as started",
	kernel.FailedRetryable:     "an attempt failed and the next one is due",
	kernel.Unscheduled:         "no job needs it (transient), or only a route starts it",
	kernel.Succeeded:           "its last attempt succeeded",
	kernel.Failed:              "its last attempt failed and its budget is used up",
	kernel.Cancelled:           "a person ended it",
	kernel.BlockedByDependency: "a job that it needs failed, or an artifact will never exist",
	kernel.BlockedByApproval:   "a person rejected it, or nobody answered in time",
}

func heldUp(s kernel.Status) bool { return s == kernel.Queued || s.Waiting() }

// stateMachine is docs/state-machine.md.
func stateMachine(moves map[move]bool) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# The states of a job\n\nGenerated from the kernel by `go test -run TestStateMachine . -update`: the test tries every\n" +
		"verb on a job of every status in every relevant situation, and records the moves. `kernel.Status` has the sets.\n")
	line("*Active*: the job continues by itself, so dependents wait for it. *Terminal*: only a retry or a route moves it again, or, out of\n`blocked_by_dependency`, a new job that produces the missing artifact.\n" +
		"*Word* is the content of the file `state` beside `job.json`.\n")
	line("| status | active | terminal | word | meaning |\n|---|---|---|---|---|")
	tick := map[bool]string{true: "yes"}
	for _, s := range kernel.Statuses() {
		line("| `%s` | %s | %s | `%s` | %s |", s, tick[s.Active()], tick[s.Terminal()], s.Coarse(), meanings[s])
	}
	line("\nA new job is `queued`, or `unscheduled` if it is transient or only a route starts it.\n\n## By itself\n\n```mermaid\nstateDiagram-v2\n    [*] --> held_up\n    [*] --> unscheduled\n    state held_up {")
	for _, s := range kernel.Statuses() {
		if heldUp(s) {
			line("        %s", s)
		}
	}
	line("    }")
	node := func(s kernel.Status) string {
		if heldUp(s) {
			return "held_up"
		}
		return s.String()
	}
	labels := map[string]string{byTick: "tick", byLoss: "runner gone", byResult: "result", byRefusal: "refused", byRoute: "route"}
	var drawn []string
	for _, from := range kernel.Statuses() {
		for _, to := range kernel.Statuses() {
			for _, by := range movers {
				arrow := fmt.Sprintf("    %s --> %s: %s", node(from), node(to), labels[by])
				if moves[move{from, to, by}] && labels[by] != "" && by != byRoute && node(from) != node(to) && !slices.Contains(drawn, arrow) {
					drawn = append(drawn, arrow)
					line("%s", arrow)
				}
			}
		}
	}
	line("```\n\n## Who moves a job where\n\n| who | from | to |\n|---|---|---|")
	for _, by := range movers {
		for _, to := range kernel.Statuses() {
			var froms []string
			for _, from := range kernel.Statuses() {
				if moves[move{from, to, by}] {
					froms = append(froms, "`"+from.String()+"`")
				}
			}
			if len(froms) > 0 {
				line("| %s | %s | `%s` |", by, strings.Join(froms, ", "), to)
			}
		}
	}
	line("\nA running job that is cancelled stays `running` until its processes are gone; its result then makes it `cancelled`. An approval\n" +
		"moves no job itself: the next tick does. A tick that finds a runner gone settles the job by the result on record, if there is\n" +
		"one, and then judges it. Only a retry, a route, or a new job that produces the missing artifact of a\n" +
		"blocked job moves a terminal job; none of them moves a running one.")
	return b.String()
}

func TestStateMachine(t *testing.T) {
	const page = "docs/state-machine.md"
	moves := observedMoves()
	for m := range moves {
		if m.from.Terminal() && m.by != byRetry && m.by != byRoute && m.by != byOffer {
			t.Errorf("%s ends a terminal status: %s to %s", m.by, m.from, m.to)
		}
		if m.from == kernel.Running && (m.by == byRetry || m.by == byRoute) {
			t.Errorf("%s moves a running job to %s", m.by, m.to)
		}
	}
	for _, s := range kernel.Statuses() {
		if meanings[s] == "" {
			t.Errorf("%s has no meaning", s)
		}
	}
	want := stateMachine(moves)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil || string(have) != want {
		t.Errorf("%s is not current (%v): run the test with -update and read the difference", page, err)
	}
}
