package op

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// control performs the steps that workflow.Control decides on: it runs scripts
// and the agent and reports back what is seen, until the node has ended.
// Control policies and cicd.run consist of this alone.
func control(ctx context.Context, env *Env, n *Node) (Result, error) {
	return controlled(ctx, env, n, "")
}

// controlled is control for a part of n. A part that runs nothing has no side
// effect, or one that may be repeated, and is not journalled.
func controlled(ctx context.Context, env *Env, n *Node, part string) (Result, error) {
	seen := workflow.Seen{Approval: n.Job.State.Approval.State, Loops: n.Job.State.Routed}
	c, err := openConflict(ctx, env, n)
	if err != nil {
		return Result{}, err
	}
	if stop, err := c.lost(env, n); err != nil || stop != nil {
		return deref(stop), err
	}
	if seen.Merged, err = mergeSucceeded(env, n); err != nil {
		return Result{}, err
	}
	if c != nil && c.parked != "" && !c.unmerged() {
		return blocked(unstaged, c.mark.Worktree, n.Job.ID, n.Job.ID), nil
	}
	seen.Sentinel, seen.Unmerged, seen.Unstaged = c != nil, c.unmerged(), c != nil && c.unstaged
	if step := workflow.Control(n.ManifestNode, seen); step.Run == workflow.Nothing {
		return c.end(ctx, env, n, step)
	}
	r, err := once(ctx, env, n, part, nil, func(ctx context.Context, env *Env, n *Node) (Result, error) {
		if branch := n.JudgedBranch(); branch != "" {
			return c.judgeBranch(ctx, env, n, branch, seen)
		}
		var note string
		if n.Control == "gate.stop_condition" {
			said, stop, err := commitRest(ctx, env, n)
			if err != nil || stop != nil {
				return deref(stop), err
			}
			note = said
		}
		r, err := c.control(ctx, env, n, seen, nil)
		if note != "" {
			r.Reason += "; " + note
		}
		return r, err
	})
	if c != nil && c.parked != "" {
		r.Reason += "; " + c.parked
	}
	return r, err
}

// control performs the steps of n's control policy until the node has ended.
// after, unless it is nil, is called with the exit codes after each step, and
// may end the node.
func (c *conflict) control(ctx context.Context, env *Env, n *Node, seen workflow.Seen, after func([]int) (*Result, error)) (Result, error) {
	for {
		seen.Sentinel, seen.Unmerged, seen.Unstaged = c != nil, c.unmerged(), c != nil && c.unstaged
		step := workflow.Control(n.ManifestNode, seen)
		exit := 0
		var err error
		switch step.Run {
		case workflow.Nothing:
			return c.end(ctx, env, n, step)
		case workflow.RunScript:
			exit, err = c.try(ctx, env, n, func() (int, error) { return runScript(ctx, env, n, c.dir(n), step.Script) })
		case workflow.RunAgent:
			exit, err = c.try(ctx, env, n, func() (int, error) { return c.ask(ctx, env, n) })
		}
		if err != nil {
			return Result{}, err
		}
		seen.Exits = append(seen.Exits, exit)
		if stop, err := c.lost(env, n); err != nil || stop != nil {
			return deref(stop), err
		}
		if after == nil {
			continue
		}
		if stop, err := after(seen.Exits); err != nil || stop != nil {
			return deref(stop), err
		}
	}
}

// gated performs an operation. If the operation has a gate, it is checked after
// the operation has succeeded.
func (p performer) gated(ctx context.Context, env *Env, n *Node) (Result, error) {
	if own := n.ownBranches(); p.look != nil && len(own) > 0 {
		if err := env.Git.DropStaleRefLocks(own, n.Job.State.Started); err != nil {
			return Result{}, err
		}
	}
	r, err := once(ctx, env, n, "", p.look, p.run)
	if err != nil || r.Outcome != kernel.OutcomeSucceeded {
		return r, err
	}
	if p.judges {
		return r, nil
	}
	g, err := controlled(ctx, env, n, gatePart)
	if err == nil && g.Outcome == kernel.OutcomeSucceeded && g.Reason == "" {
		return r, nil
	}
	if err == nil && g.Outcome == kernel.OutcomeFailed && g.Class != kernel.EffectInDoubt {
		err = recordGateFailure(ctx, env, n, g)
	}
	g.Produced, g.Context = r.Produced, r.Context
	return g, err
}

// ownBranches returns the branches that n's job locks exclusively.
func (n *Node) ownBranches() []string {
	var own []string
	for _, l := range n.Job.Spec.Locks {
		if name, ok := l.Branch(); ok && l.Mode == kernel.Exclusive {
			own = append(own, name)
		}
	}
	return own
}

// unstaged says that a person has resolved a conflict whose agent or script was killed, with the worktree and twice the job
// that has put back what was not staged.
const unstaged = "nothing is in conflict in %s any more, but what was changed there and not staged is put back, and parked (`vizier tail %s`): " +
	"if the resolution is whole without that, `vizier retry %s`"

// conflict is an open merge conflict and the place where it is to be resolved.
// A nil conflict, on which all methods can be called, means that there is none.
type conflict struct {
	slug  string
	mark  *sentinel
	files []string             // left to resolve; relative to the worktree
	since map[string]time.Time // when each of them was last written before the node began

	unstaged bool // none of the files is in conflict any more, and some have changes that are not staged

	undone bool // the merge is not in progress any more, and what was changed since is not all of it
	moved  bool // files are left to resolve, and the branch has moved since it was merged

	answer kernel.AgentAnswer // of the agent that was asked to resolve it
	parked string             // says where the half-done files are of an agent or a script that failed; "": there are none
}

// openConflict returns the conflict that n is to resolve, or nil if n is not a
// node for that or there is no conflict.
func openConflict(ctx context.Context, env *Env, n *Node) (*conflict, error) {
	if n.Control != "gate.conflict_resolution" {
		return nil, nil
	}
	slug := n.arg("slug", "plan")
	if slug == "" {
		slug = n.Job.Spec.Origin.Plan
	}
	if slug == "" {
		return nil, nil
	}
	mark, err := readSentinel(env, slug)
	if err == nil && mark == nil {
		mark, err = markAgain(env, n, slug)
	}
	if err != nil || mark == nil || mark.Worktree != "" && mark.Run != string(n.Job.Spec.Origin.Run) { // another run resolves its own
		return nil, err
	}
	c := &conflict{slug: slug, mark: mark}
	tree, err := env.Git.OwnedWorktree(mergeTree(mark.Slug, kernel.JobID(mark.Job))) // works again if the repository was moved
	if err != nil {
		return nil, err
	}
	c.mark.Worktree = cmp.Or(tree.Worktree, c.mark.Worktree)
	if !filepath.IsAbs(c.mark.Worktree) {
		c.mark.Worktree = filepath.Join(n.Root, c.mark.Worktree)
	}
	if _, err := os.Stat(c.mark.Worktree); errors.Is(err, iofs.ErrNotExist) {
		return c, nil // the merge is gone, and its conflict with it
	}
	if err := errors.Join(env.Git.DropStaleLocks(c.mark.Worktree, n.Job.State.Started), env.Git.DropStaleRefLocks(n.ownBranches(), n.Job.State.Started)); err != nil {
		return nil, err
	}
	if err := c.putBack(ctx, env, n); err != nil { // an attempt was killed, or could not stage all that was resolved
		return nil, err
	}
	c.since = map[string]time.Time{}
	for _, f := range c.files {
		c.since[f] = written(filepath.Join(c.mark.Worktree, f))
	}
	return c, nil
}

// markAgain returns the mark of the conflict that a merge of n's run is blocked by, as its record says, and writes it:
// somebody removed the mark. It is nil if there is no such conflict. How the merge left the files is not known any more.
func markAgain(env *Env, n *Node, slug string) (*sentinel, error) {
	merges, err := mergesOf(env, n)
	for _, m := range merges {
		st := m.Job.State
		tree := TreeToResolve(st.Reason)
		if of, source := mergeOf(m); of == slug && st.Status == kernel.BlockedByDependency && strings.Contains(st.Reason, kernel.InConflict) && tree != "" {
			target := cmp.Or(m.arg("target", "target_branch"), m.Job.Spec.Origin.Target)
			if err := writeSentinel(env, m, sentinel{Slug: slug, Source: source, Target: target, Worktree: tree}); err != nil {
				return nil, err
			}
			return readSentinel(env, slug)
		}
	}
	return nil, err
}

// mergeSucceeded reports whether a merge has succeeded whose conflicts n resolves.
func mergeSucceeded(env *Env, n *Node) (bool, error) {
	if n.Control != "gate.conflict_resolution" {
		return false, nil
	}
	merges, err := mergesOf(env, n)
	return slices.ContainsFunc(merges, func(m *Node) bool { return m.Job.State.Status == kernel.Succeeded }), err
}

// mergesOf returns the merges whose conflicts n resolves, with what is on record of them.
func mergesOf(env *Env, n *Node) ([]*Node, error) {
	if env.Records == nil {
		return nil, nil
	}
	var all []*Node
	for _, m := range n.Manifest.Nodes {
		if !slices.ContainsFunc(m.Routes[kernel.OutcomeBlocked.String()], func(r workflow.ManifestRoute) bool { return r.Node == n.Node }) {
			continue
		}
		j, err := env.Records.Job(m.Job)
		if errors.Is(err, kernel.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, &Node{Job: j, Manifest: n.Manifest, ManifestNode: m, Root: n.Root, Dir: n.Dir})
	}
	return all, nil
}

// written returns when a file was last written, or zero if there is none.
func written(path string) time.Time {
	st, err := os.Lstat(path)
	if err != nil || st.IsDir() {
		return time.Time{}
	}
	return st.ModTime()
}

// decided reports whether somebody has decided about a file in conflict: it has
// no conflict markers, and is not what the merge left, or was written since the
// node began. A file that the merge left without markers, such as one that a side
// deleted, is kept as it is by writing it again. One that was gone when the node began is
// not decided by that: nobody need have removed it.
func (c *conflict) decided(file string) (bool, error) {
	path := filepath.Join(c.mark.Worktree, file)
	state, marked, err := look(path)
	if errors.Is(err, iofs.ErrPermission) {
		return true, nil // staging it says so, and waits until it can be read
	}
	if err != nil || marked {
		return false, err
	}
	if left, known := c.mark.Left[file]; known && state != "" && state != left {
		return true, nil
	}
	return !written(path).Equal(c.since[file]), nil
}

// unresolved returns the files of the merge in the worktree dir that must not be
// committed as they are. These are the files in conflict or, if there are none, the
// tracked files with changes that are not staged. Unless a person has committed, files
// that were in conflict (was) and still have conflict markers, or are staged with some, count as well. unstaged reports
// whether none is in conflict, and there are changes that are not staged.
func unresolved(ctx context.Context, env *Env, dir string, was []string) (files []string, unstaged bool, err error) {
	files, err = env.Git.Unmerged(ctx, dir)
	if err != nil || len(files) > 0 {
		return files, false, err
	}
	if files, _, err = env.Git.Unstaged(ctx, dir); err != nil {
		return nil, false, err
	}
	unstaged = len(files) > 0
	staged, err := env.Git.Staged(ctx, dir)
	if err != nil || !staged {
		return files, unstaged, err
	}
	left, err := env.Git.Leftover(ctx, dir)
	if err != nil {
		return nil, false, err
	}
	for _, f := range was {
		_, marked, err := look(filepath.Join(dir, f))
		if err != nil {
			return nil, false, err
		}
		if marked {
			left = append(left, f)
		}
	}
	for _, f := range left {
		if !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
	return files, unstaged, nil
}

func (c *conflict) unmerged() bool { return c != nil && len(c.files) > 0 }

// dir returns the directory that scripts and agents work in.
func (c *conflict) dir(n *Node) string {
	if c == nil {
		return n.Dir
	}
	return c.mark.Worktree
}

// try runs what is to resolve the conflict, if there is one, and stages what it resolved. If it fails or is cut
// off, its half-done files are parked, and the conflict is put back as it was.
func (c *conflict) try(ctx context.Context, env *Env, n *Node, run func() (int, error)) (exit int, err error) {
	if c == nil {
		exit, err = run()
		return exit, errors.Join(err, ctx.Err())
	}
	if err := env.Git.Remember(ctx, c.mark.Worktree, env.Confined); err != nil {
		return 0, err
	}
	exit, err = run()
	if err = errors.Join(err, ctx.Err()); err != nil || exit != 0 {
		return exit, errors.Join(err, c.putBack(context.WithoutCancel(ctx), env, n))
	}
	return 0, c.stage(ctx, env)
}

// putBack puts the conflict back as it was before an agent or a script that has not ended well, and determines
// what is left to resolve.
func (c *conflict) putBack(ctx context.Context, env *Env, n *Node) error {
	changed, err := env.Git.PutBack(ctx, c.mark.Worktree)
	if err != nil {
		return err
	}
	if changed {
		c.parked = fmt.Sprintf("what it left half done is parked (`vizier tail %s`)", n.Job.ID)
	}
	return c.see(ctx, env)
}

// ask asks the agent to resolve the conflict.
func (c *conflict) ask(ctx context.Context, env *Env, n *Node) (int, error) {
	env.said = "" // what follows is the agent's
	var text string
	raw, _, err := promptSource(ctx, env, n)
	if err == nil {
		text, err = raw.render(n)
	}
	var absent *classed
	if errors.As(err, &absent) && absent.class == kernel.MissingInput {
		fmt.Fprintf(env.Stderr, "warning: %v\n", err)
	} else if err != nil {
		return 0, err
	}
	var b strings.Builder
	if text != "" {
		b.WriteString(strings.TrimRight(text, "\n") + "\n\n")
	}
	fmt.Fprintf(&b, "## The conflict\n\nSource branch: %s\nTarget branch: %s\nWorktree: %s\n\nFiles in conflict:\n", c.mark.Source, c.mark.Target, c.mark.Worktree)
	for _, f := range c.files {
		fmt.Fprintf(&b, "- %s\n", f)
	}
	b.WriteString("\nA file that has conflict markers is resolved once it has none. One that has none is resolved by writing it, also with what it has (`touch` it), or by removing it.\n")
	c.answer, _, err = askAgent(ctx, env, n, c.mark.Worktree, b.String())
	if err == nil && c.answer.Class != kernel.NoFailure {
		return max(c.answer.Exit, 1), nil
	}
	return 0, err
}

// stage stages, as resolved, the files in conflict that somebody has decided
// about, and determines anew which are left. The other files that were changed for it, or made,
// are part of the resolution.
func (c *conflict) stage(ctx context.Context, env *Env) error {
	if !c.unmerged() {
		return env.Git.Forget(ctx, c.mark.Worktree)
	}
	var done []string
	for _, f := range c.files {
		ok, err := c.decided(f)
		if err != nil {
			return err
		}
		if ok {
			done = append(done, f)
		}
	}
	if err := env.Git.Settle(ctx, c.mark.Worktree, done); err != nil {
		return err
	}
	return c.see(ctx, env)
}

// see determines what is left to resolve.
func (c *conflict) see(ctx context.Context, env *Env) error {
	source, onto, merged, err := env.Git.MergeState(ctx, c.mark.Worktree)
	if err != nil {
		return err
	}
	if source != "" && merged == "" {
		if _, c.undone, err = undone(ctx, env, c.mark.Worktree, onto); err != nil {
			return err
		}
	}
	if c.files, c.unstaged, err = unresolved(ctx, env, c.mark.Worktree, c.mark.Files); err != nil || len(c.files) == 0 || source == "" {
		return err
	}
	tips, err := env.Git.Heads(ctx, []string{c.mark.Source})
	tip := tips[c.mark.Source]
	if err != nil || tip == "" {
		return err
	}
	now, err := current(ctx, env, c.slug, source, tip)
	c.moved = !now
	return err
}

// lost returns a result that ends the node if the merge cannot be continued, or nil: the branch has moved, or the
// merge was undone. The merge begins anew then; of one that was undone the node says so first, and who then retries lets it.
func (c *conflict) lost(env *Env, n *Node) (*Result, error) {
	switch {
	case c == nil || !c.undone && !c.moved:
		return nil, nil
	case c.moved:
		r := ok(c.mark.Source + " has moved since, and is merged anew")
		return &r, env.Files.ClearSentinel(c.slug)
	case c.mark.Undone:
		r := ok("the merge was undone, and begins anew")
		return &r, env.Files.ClearSentinel(c.slug)
	}
	mark, err := readSentinel(env, c.slug)
	if err != nil || mark == nil {
		return nil, err
	}
	mark.Undone = true
	r := blocked("the merge in %s was undone, and what was changed there since is not all of it: `vizier retry %s` merges anew, and keeps that under refs/vizier/parked", c.mark.Worktree, n.Job.ID)
	return &r, keepSentinel(env, mark)
}

// directory is the state that look returns for a directory.
const directory = "directory"

// isMarker reports whether a line begins with a conflict marker of that character. Markers have seven of them, or more
// where the attribute conflict-marker-size says so.
func isMarker(line []byte, of byte) bool {
	rest := bytes.TrimLeft(line, string(of))
	return len(line)-len(rest) >= 7 && bytes.HasPrefix(rest, []byte(" "))
}

// look returns a text that identifies the state of a file, "" if there is no file, and
// whether a line of the file begins with a conflict marker. It does not look into
// directories, which in a merge are submodules.
func look(path string) (state string, marked bool, err error) {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, iofs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return "", false, nil
	case err != nil:
		return "", false, err
	case st.IsDir():
		return directory, false, nil
	case st.Mode().Type() == iofs.ModeSymlink:
		to, err := os.Readlink(path)
		return "link to " + to, false, err
	}
	f, err := openRegular(path)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	h := sha256.New()
	r := bufio.NewReader(f)
	for start := true; ; {
		line, err := r.ReadSlice('\n')
		h.Write(line)
		marked = marked || start && (isMarker(line, '<') || isMarker(line, '>'))
		start = err == nil
		switch {
		case errors.Is(err, io.EOF):
			kind := "file"
			if st.Mode()&0o100 != 0 { // all of the mode that git keeps
				kind = "program"
			}
			return fmt.Sprintf("%s %x", kind, h.Sum(nil)), marked, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return "", false, err
		}
	}
}

// end returns the result of the node's last step.
func (c *conflict) end(ctx context.Context, env *Env, n *Node, step workflow.Step) (Result, error) {
	if step.ClearSentinel {
		if err := env.Files.ClearSentinel(c.slug); err != nil {
			return Result{}, err
		}
	}
	r := Result{Outcome: step.Outcome, Exit: step.Exit, Reason: step.Reason}
	if step.Outcome == kernel.OutcomeFailed {
		r.Class = kernel.ExitFailure
		if c != nil && c.answer.Class != kernel.NoFailure {
			r.Class, r.Reason = c.answer.Class, c.answer.Reason
		}
	}
	if step.Outcome != kernel.OutcomeSucceeded && c.unmerged() {
		r.Reason += ": " + toResolve(ctx, env, c.mark.Worktree, c.files, n.Job.ID)
	}
	return r, nil
}
