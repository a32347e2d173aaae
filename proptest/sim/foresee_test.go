package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
	"pgregory.net/rapid"
)

// fated is a course in which everything is known beforehand. No two things take the
// same time, so the order of events is known too.
type fated struct{ seed int }

func (f fated) at(what string, j *kernel.Job) uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, what, f.seed, j.ID, j.State.Attempt, j.State.Generation)
	return h.Sum32()
}

func (f fated) takes(what string, j *kernel.Job) time.Duration {
	return time.Duration(1+f.at(what, j)%300_000_000) * time.Microsecond
}

func (f fated) Attempt(j *kernel.Job, _ time.Duration) (kernel.Result, time.Duration) {
	r := kernel.Result{Outcome: kernel.OutcomeSucceeded}
	switch f.at("end", j) % 6 {
	case 0:
		r = kernel.Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure}
	case 1:
		r = kernel.Result{Outcome: kernel.OutcomeFailed, Exit: 124, Class: kernel.Timeout}
	case 2:
		r = kernel.Result{Outcome: kernel.OutcomeBlocked, Exit: 10}
	}
	if tree := "w-" + string(j.ID); j.Spec.OwnsContext && r.Outcome == kernel.OutcomeSucceeded {
		r.Context = &kernel.Context{Root: tree, Worktree: tree, Name: tree, Owned: true}
	}
	return r, f.takes("time", j)
}

func (f fated) Decision(j *kernel.Job) (grants bool, takes time.Duration) {
	return f.at("consent", j)%4 > 0, f.takes("decision", j)
}

// Foresight predicts random jobs to their end. Then the scheduler and its runners run them,
// on a clock that goes from one end to the next. Every attempt begins and ends at the
// predicted time, and with the predicted outcome.
func TestWhatIsForetoldHappens(t *testing.T) {
	long := 0
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			m := &machine{w: newWorld(kernel.Limits{MaxRunning: rapid.IntRange(0, 3).Draw(t, "max running"), Pools: map[string]int{"gpu": 2}})}
			w := m.w
			w.narrow = rapid.Bool().Draw(t, "the store can tell what is near")
			defer w.killAll()
			fate := fated{rapid.IntRange(0, 1000).Draw(t, "fate")}
			for range rapid.IntRange(1, 3).Draw(t, "batches") {
				news := m.batch(t)
				w.run(w.start(w.node(), "submit", func(s *app.Scheduler) (app.Report, error) {
					return s.Submit(context.Background(), news, "ann")
				}), 20_000)
				w.quiesce(t)
			}
			var story foresight.Story
			w.finish(t, w.spawn("look", 0, func(p *process) error {
				n := w.node()
				n.process = p
				snap, err := n.sched.Snapshot(context.Background(), kernel.Scope{All: true})
				if err != nil {
					return err
				}
				for {
					story = foresight.Tell(snap, fate)
					asked, facts := story.Then.Probes(), kernel.NewFacts()
					if asked.Attempts = nil; asked.Empty() {
						return nil
					}
					n.Observe(context.Background(), asked, &facts)
					snap = snap.WithFacts(facts)
				}
			}))
			happened := w.live(t, fate)
			var told []string
			for _, s := range story.Spans {
				if s.Attempt > 0 {
					told = append(told, fmt.Sprintf("%s/%d %s-%s %s", s.Job, s.Attempt, since(s.Start), since(s.End), s.Outcome))
				}
			}
			slices.Sort(told)
			slices.Sort(happened)
			if !slices.Equal(told, happened) {
				t.Fatalf("foretold\n%q\nit happened\n%q", told, happened)
			}
			for _, id := range w.jobIDs() {
				is, was := w.truth[id].State, story.Then.Job(id).State
				if is.Status != was.Status || is.Generation != was.Generation || is.Wait != was.Wait {
					t.Fatalf("%s is %s (%s), generation %d; foretold %s (%s), generation %d", id, is.Status, is.Wait.Detail, is.Generation, was.Status, was.Wait.Detail, was.Generation)
				}
			}
			if len(told) > 6 {
				long++
			}
			m.check(t)
		})
	})
	if long == 0 {
		t.Error("no draw was of more than six attempts")
	}
}

func since(at time.Time) time.Duration { return at.Sub(epoch) }

// live runs the world, as fate determines, until nothing more happens by itself, and
// returns the attempts that there were.
func (w *world) live(t *rapid.T, fate fated) (happened []string) {
	asked := map[string]time.Time{}
	for {
		var next time.Time
		var what func()
		sooner := func(at time.Time, f func()) {
			if what == nil || at.Before(next) {
				next, what = at, f
			}
		}
		for _, a := range slices.SortedFunc(maps.Keys(w.children), compareAttempts) {
			j := w.truth[a.Job]
			r, takes := fate.Attempt(&j, 0)
			sooner(j.State.Started.Add(takes), func() {
				happened = append(happened, fmt.Sprintf("%s/%d %s-%s %s", a.Job, a.N, since(j.State.Started), since(w.now), r.Outcome))
				if r.Attempt, r.Ended = a, w.now; r.Outcome == kernel.OutcomeSucceeded {
					w.succeed(&r)
				}
				w.children[a].result = &r
			})
		}
		for _, id := range w.jobIDs() {
			j := w.truth[id]
			if d, ok := j.Due(); ok && !d.Over(w.now) {
				sooner(d.Until, func() { w.tick(t) })
			}
			question := fmt.Sprint(id, j.State.Generation, j.State.Attempt)
			if j.State.Status != kernel.WaitingOnApproval {
				delete(asked, question)
				continue
			}
			grants, takes := fate.Decision(&j)
			if asked[question].IsZero() {
				asked[question] = w.now
			}
			verb := "reject "
			if grants {
				verb = "approve "
			}
			sooner(asked[question].Add(takes), func() {
				w.finish(t, w.start(w.node(), verb+string(id), func(s *app.Scheduler) (app.Report, error) {
					if grants {
						return s.Approve(context.Background(), id, kernel.Consent{By: "ann"})
					}
					return s.Reject(context.Background(), id, kernel.Refusal{By: "ann"})
				}))
			})
		}
		if what == nil {
			return happened
		}
		w.now = next
		what()
		w.quiesce(t)
	}
}
