package op

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

var errRehearsed = errors.New("disk under water")

// rehearsal is an operation that runs, and at each call of a port begins anew beside that, with
// the answers so far. There this call fails, and nothing that is called after it does anything.
type rehearsal struct {
	env    *Env
	n      Node // as it was
	calls  []portCall
	untold map[int]string // what an operation said of which a call failed, and nobody was told that
}

type portCall struct {
	name, args string
	answer     any
	err        error
}

// again answers as the call was answered.
func (c portCall) again() (any, error) {
	if list, is := c.answer.([]string); is {
		return slices.Clone(list), c.err // an operation may change what is its own
	}
	return c.answer, c.err
}

// rehearsed runs n, and reports each call of a port whose failure nobody would be told of.
func (w *world) rehearsed(n *Node) Result {
	w.Helper()
	r := rehearsal{w.env, *n, nil, map[int]string{}}
	got := Run(context.Background(), hooked(w.env, r.call), n)
	for i, c := range r.calls {
		if said, is := r.untold[i]; is && !r.tolerated(i) {
			w.Errorf("%s: %s(%s) fails, call %d of %d, and all that is said is %s", n.performs(), c.name, c.args, i+1, len(r.calls), said)
		}
	}
	return got
}

// tolerated reports whether what an operation says is as true if its call i has failed.
func (r *rehearsal) tolerated(i int) bool {
	switch r.calls[i].name {
	case "Heads": // of a branch that it has made itself
		return i > 0 && r.calls[i-1].name == "CreateBranch"
	case "Standing": // it looks once more, in case that another was faster
		return slices.ContainsFunc(r.calls[:i], func(c portCall) bool { return c.name == "Standing" })
	case "MergeState": // of a merge that is done, for what was changed after it
		return !slices.ContainsFunc(r.calls[i+1:], func(c portCall) bool { return c.name == "MergeState" })
	case "Job": // it would name the agent that changed nothing
		return r.n.performs() == "git.stage_commit"
	}
	return false
}

func (r *rehearsal) call(name string, args []any, do func() (any, error)) (any, error) {
	c := portCall{name: name, args: fmt.Sprint(args...)}
	r.fail(c)
	c.answer, c.err = do()
	r.calls = append(r.calls, c)
	return c.again()
}

// fail has the next call fail, which is next.
func (r *rehearsal) fail(next portCall) {
	at, strayed := 0, false
	env := hooked(r.env, func(name string, args []any, _ func() (any, error)) (any, error) {
		now := portCall{name: name, args: fmt.Sprint(args...)}
		is := func(c portCall) bool { return c.name == now.name && c.args == now.args }
		at++
		switch i := slices.IndexFunc(r.calls, is); {
		case at <= len(r.calls) && is(r.calls[at-1]):
			return r.calls[at-1].again()
		case at > len(r.calls)+1 && !strayed && i >= 0:
			return r.calls[i].again()
		case at > len(r.calls)+1 && !strayed:
			return nil, nil
		}
		strayed = strayed || at <= len(r.calls) || !is(next) // what is in files has changed since
		return nil, errRehearsed
	})
	var stderr bytes.Buffer
	env.Stdout, env.Stderr, env.Events, env.Told = new(bytes.Buffer), &stderr, nil, nil
	n := r.n
	got := Run(context.Background(), env, &n)
	if !strayed && at > len(r.calls) && !strings.Contains(got.Reason+stderr.String(), errRehearsed.Error()) {
		r.untold[len(r.calls)] = fmt.Sprintf("%v (%s)\n%s", got.Outcome, got.Reason, &stderr)
	}
}
