package op

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

var errFaulty = errors.New("disk on fire")

// faulty is the ports of a world, of which one call fails.
type faulty struct {
	Files
	Effects
	Shell
	calls, at     int
	writes, fills int // the disk is full at the write with the number fills, and no more at the next one
}

func (f *faulty) fails() error {
	if f.calls++; f.calls == f.at {
		return errFaulty
	}
	return nil
}

// write is the beginning of a call that writes.
func (f *faulty) write() error {
	if f.writes++; f.writes == f.fills {
		return fmt.Errorf("write: %w", syscall.ENOSPC)
	}
	return f.fails()
}

func (f *faulty) WritePayload(job kernel.JobID, a kernel.Artifact, data []byte) error {
	if err := f.write(); err != nil {
		return err
	}
	return f.Files.WritePayload(job, a, data)
}

func (f *faulty) Payload(job kernel.JobID, a kernel.Artifact) ([]byte, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.Files.Payload(job, a)
}

func (f *faulty) Producers(consumer *kernel.Job, a kernel.Artifact) ([]kernel.JobID, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.Files.Producers(consumer, a)
}

func (f *faulty) WritePatch(job kernel.JobID, data []byte) error {
	if err := f.write(); err != nil {
		return err
	}
	return f.Files.WritePatch(job, data)
}

func (f *faulty) WriteSentinel(slug string, data []byte) error {
	if err := f.write(); err != nil {
		return err
	}
	return f.Files.WriteSentinel(slug, data)
}

func (f *faulty) Sentinel(slug string) ([]byte, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.Files.Sentinel(slug)
}

func (f *faulty) ClearSentinel(slug string) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Files.ClearSentinel(slug)
}

func (f *faulty) Effect(job kernel.JobID, key string) (*effect.Record, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.Effects.Effect(job, key)
}

// RecordEffect may lose how an effect ended: the record of the job has it too.
func (f *faulty) RecordEffect(ctx context.Context, e effect.Record) error {
	if e.State == effect.Intended {
		if err := f.write(); err != nil {
			return err
		}
	}
	return f.Effects.RecordEffect(ctx, e)
}

func (f *faulty) Run(ctx context.Context, dir, script string, env []string) (int, error) {
	if err := f.fails(); err != nil {
		return 0, err
	}
	return f.Shell.Run(ctx, dir, script, env)
}

func (f *faulty) Output(ctx context.Context, dir, script string, env []string, limit int) ([]byte, int, error) {
	if err := f.fails(); err != nil {
		return nil, 0, err
	}
	return []byte("said"), 0, nil
}

// Whichever call of what keeps files, of the journal or of the shell fails, an
// operation does not say that it succeeded, and the next attempt does what is
// left, where it can be told that.
func TestWhateverElseFails(t *testing.T) {
	custom := func(name string) kernel.Artifact { return kernel.Artifact{Kind: kernel.Custom, Name: name, Ref: "k"} }
	needs := func(n *Node, a kernel.Artifact) *Node {
		n.Needs = []workflow.ArtifactRecord{workflow.RecordOf(a)}
		return n
	}
	for name, c := range map[string]struct {
		again bool // it can be told what was done
		world func(*testing.T) *world
		node  func(*world) *Node
	}{
		"commit": {true, newWorld, func(w *world) *Node {
			w.write(w.dir, "new.txt", "new\n")
			w.produce(custom("commit_message"), `{"text": "feat: new"}`)
			return needs(w.node("git.stage_commit", map[string]string{"message": "read_payload(commit_message)"}), custom("commit_message"))
		}},
		"worktree": {true, newWorld, func(w *world) *Node { return w.node("worktree.prepare", map[string]string{"slug": "foo"}) }},
		"plan": {true, newWorld, func(w *world) *Node {
			w.produce(custom("plan_text"), `{"text": "1. Do it."}`)
			return needs(w.node("plan.persist", map[string]string{"name_override": "foo", "spec_text": "a"}), custom("plan_text"))
		}},
		"patch": {true, newWorld, func(w *world) *Node {
			w.write(w.dir, "readme.txt", "changed\n")
			return w.node("git.save_worktree_patch", nil)
		}},
		"step": {true, newWorld, func(w *world) *Node {
			return w.node("build.materialize_step", map[string]string{"build_id": "b1", "step_key": "s-1", "slug": "foo", "branch": "draft/foo", "target": "main"})
		}},
		"sentinel": {true, newWorld, func(w *world) *Node {
			return w.node("merge.sentinel.write", map[string]string{"slug": "foo", "target": "main"})
		}},
		"gated": {false, newWorld, func(w *world) *Node {
			return w.node("merge.sentinel.write", map[string]string{"slug": "foo", "target": "main"}).gatedBy("true", "block")
		}},
		"no sentinel": {true, newWorld, func(w *world) *Node {
			w.want(w.node("merge.sentinel.write", map[string]string{"slug": "foo", "target": "main"}), kernel.OutcomeSucceeded)
			return w.node("merge.sentinel.clear", map[string]string{"slug": "foo"})
		}},
		"prompt": {false, newWorld, func(w *world) *Node {
			return w.node("prompt.resolve", map[string]string{"script": "say"}).declares(custom("prompt_text"))
		}},
		"command": {false, newWorld, func(w *world) *Node { return w.node("command.run", map[string]string{"command": "true"}) }},
		"gate":    {false, newWorld, func(w *world) *Node { return w.judge("true", nil) }},
		"merge":   {true, planned, func(w *world) *Node { return w.merge(nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			broken := func(w *world, at int) *faulty {
				f := &faulty{Files: w.env.Files, Effects: w.env.Effects, Shell: script{}, at: at}
				w.env.Files, w.env.Effects, w.env.Shell = f, f, f
				w.swept = true
				return f
			}
			w := c.world(t)
			w.env.Shell = script{}
			n := c.node(w)
			f := broken(w, 0)
			w.want(n, kernel.OutcomeSucceeded)
			want, calls, writes := w.standing(), f.calls, f.writes
			if calls == 0 {
				t.Fatal("it called for nothing")
			}
			for at := 1; at <= writes; at++ { // a disk that is full for a while is waited for
				w := c.world(t)
				w.env.Shell = script{}
				n := c.node(w)
				broken(w, 0).fills = at
				w.want(n, kernel.OutcomeSucceeded)
				if got := w.standing(); got != want {
					t.Errorf("the disk is full at write %d of %d: it stands\n%s\nand not\n%s", at, writes, got, want)
				}
			}
			for at := 1; at <= calls; at++ {
				w := c.world(t)
				w.env.Shell = script{}
				n := c.node(w)
				f := broken(w, at)
				r := w.run(n)
				if r.Outcome == kernel.OutcomeSucceeded || r.Reason == "" {
					t.Errorf("call %d of %d fails: %v (%s)", at, calls, r.Outcome, r.Reason)
				}
				if f.at = 0; !c.again {
					continue
				}
				w.want(n, kernel.OutcomeSucceeded)
				if got := w.standing(); got != want {
					t.Errorf("call %d of %d fails: after the next attempt it stands\n%s\nand not\n%s", at, calls, got, want)
				}
			}
		})
	}
}
