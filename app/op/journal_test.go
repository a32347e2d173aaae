package op

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// trial is a node with an operation and a gate whose scripts are functions.
type trial struct {
	*Node
	journal journal
	env     *Env
	ran     []string // in order
	does    map[string]func(context.Context) int
}

func newTrial(t testing.TB, operation, gate string) *trial {
	t.Helper()
	dir := t.TempDir()
	s := &trial{does: map[string]func(context.Context) int{}}
	s.env = &Env{Git: noLocks{}, Files: unlogged{}, Effects: &s.journal, Events: &s.journal, Shell: s, Stdout: io.Discard, Stderr: io.Discard, Now: time.Now}
	s.Node = &Node{Root: dir, Dir: dir, Job: kernel.Job{ID: "00000000000000000000000000000001"}}
	s.ManifestNode = workflow.ManifestNode{Node: "n", Uses: operation, Operation: operation, Args: map[string]string{"command": "op"}}
	if gate != "" {
		s.Gates = []workflow.ManifestGate{{Kind: "script", Script: "gate", Policy: gate}}
	}
	s.Job.State.Status, s.Job.State.Attempt = kernel.Running, 1
	return s
}

// unlogged has no logs.
type unlogged struct{ Files }

func (unlogged) LogTail(kernel.JobID, string, int64) ([]byte, error) { return nil, nil }

func (s *trial) Run(ctx context.Context, _, script string, _ []string) (int, error) {
	s.ran = append(s.ran, script)
	if do := s.does[script]; do != nil {
		return do(ctx), nil
	}
	return 0, nil
}

func (s *trial) Output(ctx context.Context, dir, script string, env []string, _ int) ([]byte, int, error) {
	exit, err := s.Run(ctx, dir, script, env)
	return nil, exit, err
}

// attempt runs the node and returns its result and what ran.
func (s *trial) attempt(t testing.TB) (Result, string) {
	t.Helper()
	s.ran = nil
	r := Run(context.Background(), s.env, s.Node)
	return r, strings.Join(s.ran, " ")
}

// next makes n the job's next attempt; lost says that the one before was.
func (s *trial) next(lost bool) {
	if lost {
		s.Job.State.Lost = s.Job.State.Attempt
	} else {
		s.Job.State.Spent.Retries++
	}
	s.Job.State.Attempt++
}

// cut ends an attempt in the middle of what ran last.
func (s *trial) cut(t testing.TB, script string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s.does[script] = func(context.Context) int { stop(); return 143 }
	defer delete(s.does, script)
	s.ran = nil
	Run(ctx, s.env, s.Node)
}

func TestWhatALaterAttemptExecutes(t *testing.T) {
	exits := func(code int) func(context.Context) int { return func(context.Context) int { return code } }
	t.Run("nothing that is on record as done", func(t *testing.T) {
		s := newTrial(t, "command.run", workflow.PolicyBlock)
		s.cut(t, "gate")
		s.next(false)
		if r, ran := s.attempt(t); r.Outcome != kernel.OutcomeSucceeded || ran != "gate" {
			t.Errorf("%+v after %q: its operation is known to have ended well", r, ran)
		}
		s.next(true) // killed before its outcome was on record
		if r, ran := s.attempt(t); r.Outcome != kernel.OutcomeSucceeded || ran != "" {
			t.Errorf("%+v after %q: all is known to have ended well", r, ran)
		}
		want := []string{
			"effect.caught_up 2 command.run is not executed again: attempt 1 did, and its result is on record",
			"effect.caught_up 3 command.run is not executed again: attempt 1 did, and its result is on record",
			"effect.caught_up 3 the gate of command.run is not executed again: attempt 2 did, and its result is on record",
		}
		if !slices.Equal(s.journal.told, want) {
			t.Errorf("the events are %q", s.journal.told)
		}
	})
	t.Run("a failure that a retry knows of", func(t *testing.T) {
		s := newTrial(t, "command.run", "")
		s.does["op"] = exits(3)
		s.attempt(t)
		s.next(true) // the failure is not on the job's record: a reclaim takes it
		if r, ran := s.attempt(t); r.Exit != 3 || ran != "" {
			t.Errorf("%+v after %q", r, ran)
		}
		s.next(false)
		if r, ran := s.attempt(t); r.Exit != 3 || ran != "op" {
			t.Errorf("%+v after %q", r, ran)
		}
	})
	t.Run("an operation whose gate failed", func(t *testing.T) {
		s := newTrial(t, "command.run", workflow.PolicyRetry)
		s.does["gate"] = exits(1)
		if r, ran := s.attempt(t); r.Outcome != kernel.OutcomeFailed || ran != "op gate" {
			t.Fatalf("%+v after %q", r, ran)
		}
		s.next(false)
		delete(s.does, "gate")
		if r, ran := s.attempt(t); r.Outcome != kernel.OutcomeSucceeded || ran != "op gate" {
			t.Errorf("%+v after %q", r, ran)
		}
	})
	for policy, want := range map[kernel.InDoubt]string{kernel.FailInDoubt: "", kernel.AskInDoubt: "", kernel.RerunInDoubt: "op"} {
		t.Run("in doubt: "+policy.String(), func(t *testing.T) {
			s := newTrial(t, "command.run", "")
			s.Job.Spec.InDoubt = policy
			s.cut(t, "op")
			s.next(true)
			r, ran := s.attempt(t)
			if ran != want || (r.Class == kernel.EffectInDoubt) != (want == "") {
				t.Fatalf("%+v after %q", r, ran)
			}
			if advised := strings.Contains(r.Reason, "`vizier retry "); advised != (policy == kernel.FailInDoubt) { // else nobody needs to, or a person is asked
				t.Errorf("advised: %v: %s", advised, r.Reason)
			}
			if e := s.journal.entries[effectKey(s.Node, "")]; want == "" && e.Attempt != 1 {
				t.Errorf("attempt %d owns it, and did nothing", e.Attempt)
			}
			s.next(false)
			s.Job.State.Lost = 0 // leave was given
			if r, ran := s.attempt(t); r.Outcome != kernel.OutcomeSucceeded || want == "" && ran != "op" {
				t.Errorf("with leave: %+v after %q", r, ran)
			}
		})
	}
	t.Run("a gate in doubt", func(t *testing.T) {
		s := newTrial(t, "command.run", workflow.PolicyBlock)
		s.cut(t, "gate")
		s.next(true)
		if r, ran := s.attempt(t); r.Class != kernel.EffectInDoubt || ran != "" || !strings.Contains(r.Reason, "the gate of command.run") {
			t.Errorf("%+v after %q", r, ran)
		}
	})
	t.Run("a prompt, unless a script makes it", func(t *testing.T) {
		s := newTrial(t, "prompt.resolve", "")
		s.declares(kernel.Artifact{Kind: kernel.Custom, Name: "prompt_text", Ref: "x"})
		s.cut(t, "op")
		s.next(true)
		if r, ran := s.attempt(t); r.Class != kernel.EffectInDoubt || ran != "" {
			t.Errorf("%+v after %q", r, ran)
		}
		_, env, n := deskNode(t, "prompt.resolve", "Say it")
		ctx, stop := context.WithCancel(t.Context())
		stop()
		Run(ctx, env, n)
		n.Job.State.Attempt, n.Job.State.Lost = 1, 0
		if r := Run(t.Context(), env, n); r.Outcome != kernel.OutcomeSucceeded {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a time-out that is retried", func(t *testing.T) {
		s := newTrial(t, "command.run", "")
		s.cut(t, "op")
		s.next(false)
		if r, ran := s.attempt(t); r.Outcome != kernel.OutcomeSucceeded || ran != "op" {
			t.Errorf("%+v after %q", r, ran)
		}
	})
	t.Run("cicd.run is its own effect", func(t *testing.T) {
		s := newTrial(t, "cicd.run", "")
		s.Args = map[string]string{"command": "op"}
		s.attempt(t)
		if len(s.journal.entries) != 1 || len(s.journal.writes) != 2 {
			t.Errorf("journal %+v", s.journal.writes)
		}
	})
	t.Run("what runs nothing has no effect", func(t *testing.T) {
		s := newTrial(t, "", "")
		s.Control, s.Uses = "terminal", "control.terminal"
		if r, _ := s.attempt(t); r.Outcome != kernel.OutcomeSucceeded || len(s.journal.writes) > 0 {
			t.Errorf("%+v, journal %+v", r, s.journal.writes)
		}
	})
}

// A result for which there is no room reaches the runner all the same.
func TestAFullDiskLosesNoResult(t *testing.T) {
	s := newTrial(t, "command.run", "")
	s.journal.full = true
	if r, ran := s.attempt(t); r.Outcome != kernel.OutcomeSucceeded || ran != "op" {
		t.Errorf("%+v after %q", r, ran)
	}
}

// An attempt that is not current any more executes nothing.
func TestAStaleAttemptExecutesNothing(t *testing.T) {
	s := newTrial(t, "command.run", "")
	s.Job.State.Attempt = 2
	s.attempt(t)
	s.Job.State.Attempt = 1
	if r, ran := s.attempt(t); r.Outcome != kernel.OutcomeFailed || ran != "" {
		t.Errorf("%+v after %q", r, ran)
	}
}

// errKilled is the death of the process at a step of a history.
var errKilled = errors.New("killed")

// mortal is a journal and a shell that die before or after a chosen call.
type mortal struct {
	*trial
	left int // calls until then
	made int // times that the operation's script did its work
}

func (m *mortal) step() {
	if m.left--; m.left < 0 {
		panic(errKilled)
	}
}

func (m *mortal) RecordEffect(ctx context.Context, e effect.Record) error {
	m.step()
	err := m.journal.RecordEffect(ctx, e)
	m.step()
	return err
}

func (m *mortal) Effect(id kernel.JobID, key string) (*effect.Record, error) {
	return m.journal.Effect(id, key)
}

func (m *mortal) Run(_ context.Context, _, script string, _ []string) (int, error) {
	m.step()
	if script == "op" {
		m.made++
	}
	m.step()
	return 0, nil
}

// Whatever step each attempt dies at, an effect is made once at most unless it
// is said to be idempotent, and never in the dark: an attempt either knows, or
// says that it does not (I15).
func TestAnEffectIsMadeOnceAtMost(t *testing.T) {
	dir := t
	rapid.Check(t, func(t *rapid.T) {
		m := &mortal{trial: newTrial(dir, "command.run", rapid.SampledFrom([]string{"", workflow.PolicyBlock}).Draw(t, "gate"))}
		m.env.Effects, m.env.Shell = m, m
		m.Job.Spec.InDoubt = rapid.SampledFrom([]kernel.InDoubt{kernel.FailInDoubt, kernel.AskInDoubt, kernel.RerunInDoubt}).Draw(t, "policy")
		leaves := 0
		for n := rapid.IntRange(1, 6).Draw(t, "attempts"); n > 0; n-- {
			m.left = rapid.IntRange(0, 14).Draw(t, "dies at")
			before := m.made
			r := Run(context.Background(), m.env, m.Node)
			if m.left < 0 {
				m.next(true)
				continue
			}
			switch r.Class {
			case kernel.NoFailure:
				if m.made == 0 {
					t.Fatalf("attempt %d says it was made, and it was not", m.Job.State.Attempt)
				}
			case kernel.EffectInDoubt:
				if m.made > before {
					t.Fatal("it was made before it was found to be in doubt")
				}
				if m.Job.Spec.InDoubt == kernel.RerunInDoubt {
					t.Fatal("in doubt, though twice does no harm")
				}
				if rapid.Bool().Draw(t, "leave") {
					leaves++
					m.next(false)
					m.Job.State.Lost = 0
					continue
				}
			default:
				t.Fatalf("%+v", r)
			}
			break
		}
		if m.made > 1+leaves && m.Job.Spec.InDoubt != kernel.RerunInDoubt {
			t.Fatalf("made %d times with %d leaves", m.made, leaves)
		}
		var owner int
		for _, e := range m.journal.writes { // I6
			if e.Attempt < owner && e.Part == "" {
				t.Fatalf("attempt %d writes after attempt %d", e.Attempt, owner)
			}
			if owner = e.Attempt; e.State != effect.Intended && e.Result.Outcome == kernel.NoOutcome {
				t.Fatalf("%+v has no result", e)
			}
		}
	})
}

// dead is a git that dies before or after the calls that change something.
type dead struct {
	Git
	left *int
}

func (d dead) step() {
	if *d.left--; *d.left < 0 {
		panic(errKilled)
	}
}

func (d dead) Stage(ctx context.Context, dir string, paths, force []string) error {
	d.step()
	err := d.Git.Stage(ctx, dir, paths, force)
	d.step()
	return err
}

func (d dead) Commit(ctx context.Context, dir, message string) (kernel.CommitID, error) {
	d.step()
	id, err := d.Git.Commit(ctx, dir, message)
	d.step()
	return id, err
}

func (d dead) Advance(ctx context.Context, branch string, from, to kernel.CommitID) (string, bool, error) {
	d.step()
	obstacle, moved, err := d.Git.Advance(ctx, branch, from, to)
	d.step()
	return obstacle, moved, err
}

func (d dead) SetMergeState(ctx context.Context, dir string, source, target, merged kernel.CommitID) error {
	d.step()
	err := d.Git.SetMergeState(ctx, dir, source, target, merged)
	d.step()
	return err
}

func (d dead) RemoveWorktree(ctx context.Context, c kernel.Context) kernel.Cleanup {
	d.step()
	gone := d.Git.RemoveWorktree(ctx, c)
	d.step()
	return gone
}

// deadJournal likewise.
type deadJournal struct {
	*journal
	left *int
}

func (d deadJournal) RecordEffect(ctx context.Context, e effect.Record) error {
	dead{left: d.left}.step()
	err := d.journal.RecordEffect(ctx, e)
	dead{left: d.left}.step()
	return err
}

// U08, at every step there is: killed before or after it, the next attempt
// decides by trailer and ref, and there is one commit.
func TestKilledAtEveryStepThereIsOneCommit(t *testing.T) {
	for operation, args := range map[string]map[string]string{
		"git.stage_commit":          {"message": "the work"},
		"git.commit":                {"message": "the work"},
		"git.integrate_plan_branch": {"slug": "foo", "target": "main", "message": "the work", "delete_branch": "true"},
	} {
		for at, done := 0, false; !done; at++ {
			t.Run(fmt.Sprint(operation, " ", at), func(t *testing.T) {
				w := newWorld(t)
				if operation == "git.integrate_plan_branch" {
					w = worldLike(t, "work", newWorld, func(w *world) { w.plan(map[string]string{"work.txt": "1\n"}) })
				} else {
					w.write(w.dir, "work.txt", "1\n")
					w.git(w.dir, "add", "work.txt")
				}
				n, left, real := w.node(operation, args), at, w.env.Git
				w.env.Git, w.env.Effects = dead{real, &left}, deadJournal{&w.journal, &left}
				r := Run(t.Context(), w.env, n)
				if done = left >= 0; !done && !strings.Contains(r.Reason, "killed") {
					t.Fatalf("it outlived its death: %+v", r)
				}
				if !done {
					if operation != "git.integrate_plan_branch" {
						w.write(w.dir, "later.txt", "") // a second commit would have something to commit
					}
					w.env.Git, w.env.Effects = real, &w.journal
					n.Job.State.Lost, n.Job.State.Attempt = 1, 2
					made := w.git(w.dir, "log", "--format=%h", "--grep", "^Vizier-Effect: "+effectKey(n, "")+"$")
					r = Run(t.Context(), w.env, n)
					if told := strings.Join(w.journal.told, "\n"); operation != "git.integrate_plan_branch" && (made != "") != strings.HasPrefix(told, "effect.caught_up 2 ") {
						t.Errorf("commit %q was there, and the events are %q", made, told)
					}
				}
				if r.Outcome != kernel.OutcomeSucceeded {
					t.Fatalf("%+v\n%s", r, w.stderr)
				}
				if got := strings.Fields(w.git(w.dir, "log", "--format=%H", "--grep", "^Vizier-Effect: "+effectKey(n, "")+"$", "main")); len(got) != 1 {
					t.Errorf("%d commits of one effect", len(got))
				}
				if !strings.Contains(strings.Join(w.files("main"), " "), "work.txt") {
					t.Error("the work is not in main")
				}
				if e := w.journal.entries[effectKey(n, "")]; e.State != effect.Applied {
					t.Errorf("journal: %+v", e)
				}
				if left, _ := os.ReadDir(filepath.Join(w.dir, worktreeHome)); len(left) > 0 {
					t.Errorf("worktrees are left: %v", left)
				}
			})
		}
	}
}

// U22: a rewind is a new generation, and its effects have keys of their own.
func TestARewindMakesTheEffectAnew(t *testing.T) {
	s := newTrial(t, "command.run", "")
	s.attempt(t)
	s.next(false)
	s.Job.State.Generation++
	if _, ran := s.attempt(t); ran != "op" {
		t.Errorf("after a rewind %q ran", ran)
	}
	var generations []int
	for _, e := range s.journal.entries {
		generations = append(generations, e.Generation)
	}
	slices.Sort(generations)
	if !slices.Equal(generations, []int{0, 1}) {
		t.Errorf("the journal has effects of generations %v", generations)
	}
}
