package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// Clause is a promise of every engine, and whether this one kept it when it was tried.
type Clause struct {
	Promise string
	Broken  string // how; "": it was kept
	Next    string // what to do about that
	Unasked string // the broken promise on which it rests, so that it was not tried; "": it was tried
}

// trial is one run of the contract's suite. Its jobs are shell commands that wait for
// files in dir.
type trial struct {
	c    *Cluster
	dir  string
	jobs []Job // that were submitted
	tell func(Clause)

	tried  map[string]bool // by promise
	broken string          // the promise that was broken last
}

// The promises on which others rest, and these others.
const (
	doesAnswer      = "list answers"
	doesTake        = "submit takes a job and says its id"
	doesList        = "the next list has the job, by its name and with its id"
	doesRun         = "the job runs"
	doesRunThere    = "it runs in the directory that was asked for"
	doesLog         = "what it prints is appended to the log that was asked for"
	listsRunning    = "list has it as running meanwhile"
	listsEnded      = "list has it as neither waiting nor running once it has ended"
	doesTerminate   = "cancel has a job that runs get SIGTERM"
	listsTerminated = "list has it as neither waiting nor running after that"
	mayCancelEnded  = "cancel of a job that has ended is no failure"
)

// resting are these promises in the order in which they are tried.
var resting = []string{doesAnswer, doesTake, doesList, doesRun, doesRunThere, doesLog, listsRunning, listsEnded, doesTerminate, listsTerminated, mayCancelEnded}

// errBroken ends a part of a trial: its other promises rest on a broken one.
var errBroken = errors.New("broken")

// Try tests the promises of every engine with small jobs, and calls tell for each. It
// does not test a promise that rests on a broken one, and says so.
func (c *Cluster) Try(ctx context.Context, tell func(Clause)) error {
	dir, err := c.probeDir()
	if err != nil {
		return fmt.Errorf("try executor %s: %w", c.Name, err)
	}
	t := &trial{c: c, dir: dir, tell: tell, tried: map[string]bool{}}
	defer func() {
		_ = c.cancel(context.WithoutCancel(ctx), t.jobs) // those that still run
		_ = sys.RemoveTree(dir)
	}()
	if t.listed(ctx) == nil {
		_ = t.cancels(ctx)
	}
	if ctx.Err() == nil {
		t.unasked()
	}
	t.askAgain()
	_ = t.keep("cancel of a job that nobody knows is no failure", Cancelling, t.cancelsNothing(ctx, Job{ID: "0", Name: t.c.ownPrefix() + "none"}))
	t.askAgain()
	_ = t.keep("submit refuses permanently what it does not know", Submitting, t.refuses(ctx))
	return ctx.Err()
}

// askAgain has the cluster asked again that did not answer another question a moment ago: else
// what follows would be told of as broken, untried.
func (t *trial) askAgain() { _ = os.Remove(t.c.awayFile()) }

// keep reports that a promise was kept, or how the answer to q broke it.
func (t *trial) keep(promise string, q Question, broken error) error {
	t.tried[promise] = true
	if broken == nil {
		t.tell(Clause{Promise: promise})
		return nil
	}
	t.broken = promise
	t.tell(Clause{Promise: promise, Broken: broken.Error(), Next: "docs/user/executors.md says what it is to do; " + t.c.Engine.Mend(q)})
	return errBroken
}

// unasked reports the promises that were not tried, with the last broken one as the reason.
func (t *trial) unasked() {
	for _, promise := range resting {
		if !t.tried[promise] {
			t.tell(Clause{Promise: promise, Unasked: t.broken})
		}
	}
}

func (t *trial) file(name string) string { return filepath.Join(t.dir, name) }

func (t *trial) log(name string) string { return t.file(name + ".log") }

// called returns the full name of the trial's job of that name.
func (t *trial) called(name string) string {
	return t.c.ownPrefix() + filepath.Base(t.dir) + "-" + name
}

// submit submits a shell command as a job of the trial.
func (t *trial) submit(ctx context.Context, name, script string, options ...string) (j Job, err error) {
	j.Name = t.called(name)
	err = t.c.ask(ctx, func(ctx context.Context) (err error) {
		j.ID, err = t.c.Engine.Submit(ctx, Request{Name: j.Name, Argv: []string{"/bin/sh", "-c", script}, Dir: t.c.Root, Log: t.log(name), Options: options})
		return err
	})
	if err == nil {
		t.jobs = append(t.jobs, j)
	}
	return j, err
}

// now returns what a list says of a job; false if the list does not have it.
func (t *trial) now(ctx context.Context, j Job) (Job, bool, error) {
	list, err := t.c.refresh(ctx)
	got, known := list.jobs[j.Name]
	return got, known, err
}

// until waits until is returns nil.
func (t *trial) until(ctx context.Context, is func() error) error {
	pause := firstLook
	for end := time.Now().Add(probePatience); ; pause = nextLook(pause) {
		err := is()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("after %s: %w", probePatience, err)
		}
		time.Sleep(pause)
	}
}

// wait waits for a file that a job makes.
func (t *trial) wait(ctx context.Context, name string, j Job) error {
	err := t.until(ctx, func() error {
		_, err := os.Stat(t.file(name))
		return err
	})
	if err == nil {
		return nil
	}
	got, _, asked := t.now(ctx, j)
	log, _ := os.ReadFile(t.log(strings.TrimPrefix(j.Name, t.called(""))))
	return errors.Join(asked, fmt.Errorf("it did not make a file: %w (it is %s%s) %s", err, got.called(), got.because(": "), strings.TrimSpace(string(log))))
}

// gone waits until a list has the job as ended, or not at all.
func (t *trial) gone(ctx context.Context, j Job) error {
	return t.until(ctx, func() error {
		got, known, err := t.now(ctx, j)
		if err == nil && known && !got.ended() {
			err = fmt.Errorf("job %s is listed as %s", j.ID, got.called())
		}
		return err
	})
}

// listed follows a job from its submission to its end.
func (t *trial) listed(ctx context.Context) error {
	_, err := t.c.refresh(ctx)
	if err := t.keep(doesAnswer, Listing, err); err != nil {
		return err
	}
	first, err := t.submit(ctx, "first", fmt.Sprintf(`echo "out"; echo "err" >&2; pwd -P >%[1]s/where.new && mv %[1]s/where.new %[1]s/where; while [ ! -e %[1]s/go ]; do sleep 0.1; done`, t.dir))
	if err == nil && first.ID == "" {
		err = errors.New("it has no id")
	}
	if err := t.keep(doesTake, Submitting, err); err != nil {
		return err
	}
	got, known, err := t.now(ctx, first)
	switch {
	case err == nil && !known:
		err = fmt.Errorf("there is no job named %s: should the answer of submit be lost, it would be submitted again", first.Name)
	case err == nil && got.ID != first.ID:
		err = fmt.Errorf("job %s has the id %s there, and submit said %s", first.Name, got.ID, first.ID)
	}
	if err := t.keep(doesList, Listing, err); err != nil {
		return err
	}
	if err := t.keep(doesRun, Submitting, t.wait(ctx, "where", first)); err != nil {
		return err
	}
	_ = t.keep(doesRunThere, Submitting, t.ranIn())
	_ = t.keep(doesLog, Submitting, t.until(ctx, t.printed))
	err = t.until(ctx, func() error {
		got, known, err := t.now(ctx, first)
		if err == nil && (!known || got.State != Running) {
			err = fmt.Errorf("its state is %q", got.State)
		}
		return err
	})
	_ = t.keep(listsRunning, Listing, err)
	if err = sys.Touch(t.file("go")); err == nil {
		err = t.gone(ctx, first)
	}
	return t.keep(listsEnded, Listing, err)
}

func (t *trial) ranIn() error {
	b, err := os.ReadFile(t.file("where"))
	where, want := strings.TrimSpace(string(b)), t.c.Root
	if real, linked := filepath.EvalSymlinks(want); linked == nil {
		want = real
	}
	if err == nil && where != want {
		err = fmt.Errorf("it ran in %s, and not in %s", where, want)
	}
	return err
}

func (t *trial) printed() error {
	b, err := os.ReadFile(t.log("first"))
	if err == nil && (!strings.Contains(string(b), "out") || !strings.Contains(string(b), "err")) {
		err = fmt.Errorf("%s has only %q of what it wrote to both of its streams", t.log("first"), b)
	}
	return err
}

// cancels tries to cancel a running job, and jobs that are gone.
func (t *trial) cancels(ctx context.Context) error {
	script := fmt.Sprintf(`trap 'echo >%[1]s/asked; exit 0' TERM; echo >%[1]s/runs; for i in $(seq 600); do sleep 0.1; done`, t.dir)
	j, err := t.submit(ctx, "second", script)
	if err == nil {
		err = t.wait(ctx, "runs", j)
	}
	if err == nil {
		err = t.c.cancel(ctx, []Job{j})
	}
	if err == nil {
		err = t.wait(ctx, "asked", j)
	}
	if err := t.keep(doesTerminate, Cancelling, err); err != nil {
		return err
	}
	_ = t.keep(listsTerminated, Listing, t.gone(ctx, j))
	_ = t.keep(mayCancelEnded, Cancelling, t.cancelsNothing(ctx, j))
	return nil
}

// cancelsNothing cancels a job that does not exist. A refusal of that breaks no promise.
func (t *trial) cancelsNothing(ctx context.Context, j Job) error {
	err := t.c.cancel(ctx, []Job{j})
	if errors.As(err, new(*Refusal)) {
		return nil
	}
	return err
}

// refuses submits a job with an option that no cluster has.
func (t *trial) refuses(ctx context.Context) error {
	_, err := t.submit(ctx, "third", "exit 0", "--vizier-no-such-option=1")
	no, refused := errors.AsType[*Refusal](err)
	switch {
	case err == nil:
		err = errors.New("a job that asks for --vizier-no-such-option=1 was taken")
	case refused && no.Kind == Never:
		err = nil
	case refused:
		err = fmt.Errorf("it is not said that this is permanent: %w", err)
	}
	return err
}
