package vector

import (
	"time"

	"github.com/vizier-scheduler/vizier/app/wire"
	"github.com/vizier-scheduler/vizier/kernel"
)

// epoch is when the jobs of all cases were created, and noon the time of their
// snapshots.
var (
	epoch = time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC)
	noon  = epoch.Add(time.Hour)
)

// world is a case under construction.
type world struct{ Vector }

// given begins a case: no records, and in the repository only main, checked out
// and clean.
func given(name, about string) *world {
	f := kernel.NewFacts()
	f.Clean, f.Head, f.Merging, f.Sandbox = kernel.Seen(true), kernel.Seen("main"), kernel.Seen(""), kernel.Seen(kernel.Enforcement{})
	f.Heads["main"] = kernel.Seen[kernel.CommitID]("c1")
	return &world{Vector{Name: name, About: about, Given: Given{Snapshot: wire.Snapshot{Now: noon, Facts: f}}}}
}

// option sets a property of a case's job.
type option func(*kernel.Job)

// job adds a job that starts at the next tick unless an option holds it up.
func (w *world) job(id kernel.JobID, options ...option) *world {
	all := &w.Given.Snapshot.Jobs
	j := kernel.Job{ID: id, Number: kernel.Number(len(*all) + 1), Created: epoch.Add(time.Duration(len(*all)) * time.Second), Rev: 1,
		Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}}
	for _, o := range options {
		o(&j)
	}
	w.Given.Snapshot.Last = j.Number
	*all = append(*all, j)
	return w
}

// seen changes the facts.
func (w *world) seen(change func(*kernel.Facts)) *world {
	change(&w.Given.Snapshot.Facts)
	return w
}

// marked sets which jobs have a marker of a custom artifact.
func (w *world) marked(label string, owners ...kernel.JobID) *world {
	return w.seen(func(f *kernel.Facts) { f.Markers[artifact(label)] = kernel.Seen(owners) })
}

// present sets whether an artifact of another kind exists.
func (w *world) present(label string, is bool) *world {
	return w.seen(func(f *kernel.Facts) { f.Present[artifact(label)] = kernel.Seen(is) })
}

// runner sets the facts about a running attempt's runner and its result.
func (w *world) runner(id kernel.JobID, n int, r kernel.Runner, result *kernel.Result) *world {
	return w.seen(func(f *kernel.Facts) {
		a := kernel.AttemptID{Job: id, N: n}
		f.Runners[a], f.Results[a] = kernel.Seen(r), kernel.Seen(result)
	})
}

func (w *world) limits(l kernel.Limits) *world {
	w.Given.Snapshot.Limits = l
	return w
}

// ask ends a case that has a request; tick ends one without.
func (w *world) ask(r Request) Vector {
	w.Given.Request = &r
	return w.tick()
}

func (w *world) tick() Vector { return w.Vector }

func artifact(label string) kernel.Artifact {
	a, err := kernel.ParseArtifact(label)
	if err != nil {
		panic(err)
	}
	return a
}

func artifacts(labels []string) (out []kernel.Artifact) {
	for _, l := range labels {
		out = append(out, artifact(l))
	}
	return out
}

func after(ids ...kernel.JobID) option { return func(j *kernel.Job) { j.Spec.After = ids } }

func needs(labels ...string) option {
	return func(j *kernel.Job) { j.Spec.Needs = artifacts(labels) }
}

func produces(labels ...string) option {
	return func(j *kernel.Job) { j.Spec.Produces = artifacts(labels) }
}

func locks(l ...kernel.Lock) option { return func(j *kernel.Job) { j.Spec.Locks = l } }

func inRun(r kernel.RunID) option {
	return func(j *kernel.Job) { j.Spec.Origin.Run, j.Spec.Origin.Node = r, string(j.ID) }
}

func routes(r ...kernel.Route) option { return func(j *kernel.Job) { j.Spec.Routes = r } }

// spec and state return options that change other fields.
func spec(set func(*kernel.Spec)) option { return func(j *kernel.Job) { set(&j.Spec) } }

func state(set func(*kernel.State)) option { return func(j *kernel.Job) { set(&j.State) } }

// running makes the job's n-th attempt run.
func running(n int) option {
	return state(func(st *kernel.State) { st.Status, st.Attempt, st.Started = kernel.Running, n, epoch })
}

// ended makes the job end after its first attempt.
func ended(s kernel.Status, o kernel.Outcome) option {
	return state(func(st *kernel.State) {
		st.Status, st.Outcome, st.Attempt, st.Started, st.Finished = s, o, 1, epoch, epoch.Add(time.Minute)
		st.Exit = kernel.Exited(0)
		if o != kernel.OutcomeSucceeded {
			st.Exit, st.Failure, st.Reason = kernel.Exited(1), kernel.ExitFailure, "exit code 1"
		}
	})
}

var (
	succeeded = ended(kernel.Succeeded, kernel.OutcomeSucceeded)
	failed    = ended(kernel.Failed, kernel.OutcomeFailed)
)

// blocked makes the job end without running, because another one failed.
func blocked(by kernel.JobID) option {
	return state(func(st *kernel.State) {
		st.Status = kernel.BlockedByDependency
		st.Wait = kernel.WaitReason{Kind: kernel.OnDependencies, Detail: "dependency failed for job " + string(by) + " (failed)"}
		st.WaitSince, st.WaitedOn = epoch, st.WaitedOn.With(kernel.OnDependencies)
	})
}

// pending makes the job wait for an approval that ann requested.
var pending = state(func(st *kernel.State) {
	st.Status, st.Approval = kernel.WaitingOnApproval, kernel.Require(epoch, "ann")
	st.Wait, st.WaitSince = kernel.WaitReason{Kind: kernel.OnApproval, Detail: "awaiting human approval"}, epoch
	st.WaitedOn = st.WaitedOn.With(kernel.OnApproval)
})

// granted makes bob approve the job, after which set changes its spec.
func granted(set func(*kernel.Spec)) option {
	return func(j *kernel.Job) {
		text := j.Spec.Statement()
		j.State.Approval = kernel.Approval{State: kernel.Approved, RequestedAt: epoch, RequestedBy: "ann", DecidedAt: epoch.Add(time.Minute), DecidedBy: "bob",
			Grant: &kernel.Grant{How: "terminal", Digest: kernel.DigestOf(text), Statement: text}}
		set(&j.Spec)
	}
}

func unchanged(*kernel.Spec) {}

// dead is the fact that a runner is gone.
var dead = kernel.Runner{Liveness: kernel.Dead}
