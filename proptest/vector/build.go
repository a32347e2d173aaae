package vector

import (
	"time"

	"github.com/vizier-scheduler/vizier/app/wire"
	"github.com/vizier-scheduler/vizier/kernel"
)

// epoch is when the jobs of all cases were created, and noon is when they are
// looked at.
var (
	epoch = time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC)
	noon  = epoch.Add(time.Hour)
)

// world is a case under construction.
type world struct{ Vector }

// given begins a case: nothing on record, nothing in the repository but main,
// checked out and clean.
func given(name, about string) *world {
	f := kernel.NewFacts()
	f.Clean, f.Head, f.Merging, f.Sandbox = kernel.Seen(true), kernel.Seen("main"), kernel.Seen(""), kernel.Seen(kernel.Enforcement{})
	f.Heads["main"] = kernel.Seen[kernel.CommitID]("c1")
	return &world{Vector{Name: name, About: about, Given: Given{Snapshot: wire.Snapshot{Now: noon, Facts: f}}}}
}

// option is something that a job of a case has.
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

// seen changes what was observed.
func (w *world) seen(change func(*kernel.Facts)) *world {
	change(&w.Given.Snapshot.Facts)
	return w
}

// marked says which jobs' markers of a custom artifact exist.
func (w *world) marked(label string, owners ...kernel.JobID) *world {
	return w.seen(func(f *kernel.Facts) { f.Markers[artifact(label)] = kernel.Seen(owners) })
}

// present says whether an artifact of another kind exists.
func (w *world) present(label string, is bool) *world {
	return w.seen(func(f *kernel.Facts) { f.Present[artifact(label)] = kernel.Seen(is) })
}

// runner says what is known of a running attempt's runner and of its result.
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

// ask ends a case with a request, and tick one without.
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

// spec and state are options for all else.
func spec(set func(*kernel.Spec)) option { return func(j *kernel.Job) { set(&j.Spec) } }

func state(set func(*kernel.State)) option { return func(j *kernel.Job) { set(&j.State) } }

// running is the job's n-th attempt under way.
func running(n int) option {
	return state(func(st *kernel.State) { st.Status, st.Attempt, st.Started = kernel.Running, n, epoch })
}

// ended is the job's first attempt, as it ended.
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

// blocked is a job that ended without running since another did not end well.
func blocked(by kernel.JobID) option {
	return state(func(st *kernel.State) {
		st.Status = kernel.BlockedByDependency
		st.Wait = kernel.WaitReason{Kind: kernel.OnDependencies, Detail: "dependency failed for job " + string(by) + " (failed)"}
		st.WaitSince, st.WaitedOn = epoch, st.WaitedOn.With(kernel.OnDependencies)
	})
}

// pending waits for an approval that ann asked for.
var pending = state(func(st *kernel.State) {
	st.Status, st.Approval = kernel.WaitingOnApproval, kernel.Require(epoch, "ann")
	st.Wait, st.WaitSince = kernel.WaitReason{Kind: kernel.OnApproval, Detail: "awaiting human approval"}, epoch
	st.WaitedOn = st.WaitedOn.With(kernel.OnApproval)
})

// granted has been approved by bob, of a spec that set changed since.
func granted(set func(*kernel.Spec)) option {
	return func(j *kernel.Job) {
		text := j.Spec.Statement()
		j.State.Approval = kernel.Approval{State: kernel.Approved, RequestedAt: epoch, RequestedBy: "ann", DecidedAt: epoch.Add(time.Minute), DecidedBy: "bob",
			Grant: &kernel.Grant{How: "terminal", Digest: kernel.DigestOf(text), Statement: text}}
		set(&j.Spec)
	}
}

func unchanged(*kernel.Spec) {}

// dead is a runner that is gone.
var dead = kernel.Runner{Liveness: kernel.Dead}
