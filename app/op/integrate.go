package op

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/vizier-scheduler/vizier/kernel"
)

// integration is one merge of a plan's branch (semantics 3.12). It takes place
// in a worktree of its own, detached at the target's tip; the target is moved
// at the end, by compare-and-swap. The worktree holds the progress
// (MergeState): the source once files are merged or in conflict, and the result
// once there is one. So after a crash there is either nothing, or a merge to
// continue.
type integration struct {
	env  *Env
	n    *Node
	slug string

	source, target string          // branches
	tip, onto      kernel.CommitID // commits of source and target; "": the branch does not exist any more
	from           kernel.CommitID // what is merged: tip, or the removal of the plan's document on top of it
	squash, drop   bool
	tree           kernel.Context // its worktree; zero: none yet
	dir            string         // where the worktree is, or a path at which there is nothing; absolute
	key            string
	since          string // what has happened since an earlier conflict, for the reason of a new one; "": nothing
	putBack        bool   // something was changed after a conflict's agent or script was killed, and is parked
}

// gitIntegrate merges a plan's branch into its target.
func gitIntegrate(ctx context.Context, env *Env, n *Node) (Result, error) {
	m, err := newIntegration(ctx, env, n)
	if err != nil {
		return Result{}, err
	}
	if m.onto == "" {
		return *m.stuck(m.noTarget(ctx)), nil
	}
	for _, branch := range []string{m.target, m.source} {
		if obstacle, err := env.Git.EndAdvance(ctx, branch); err != nil || obstacle != "" {
			return deref(m.stuck(obstacle)), err
		}
	}
	if err := env.Git.DropStaleLocks(m.dir, n.Job.State.Started); err != nil {
		return Result{}, err
	}
	if m.putBack, err = env.Git.PutBack(ctx, m.dir); err != nil { // what was to resolve its conflict was killed, or could not stage all that was resolved
		return Result{}, err
	}
	source, onto, merged, err := env.Git.MergeState(ctx, m.dir)
	if err != nil {
		return Result{}, fmt.Errorf("look at worktree %s: %w", m.tree.Worktree, err)
	}
	if done, err := m.published(ctx, merged); err != nil || done != "" {
		if err != nil {
			return Result{}, err
		}
		what := "merged as " + short(done) + " by an earlier attempt"
		if done == onto {
			what = m.nothing()
		}
		return m.finish(ctx, what, source, done)
	}
	if m.tip == "" {
		if again, err := m.finishAgain(ctx); err != nil || again != nil {
			return deref(again), err
		}
		if source != "" {
			if has, err := env.Git.Has(ctx, source); err != nil || !has {
				return m.sourceGone(source), err
			}
		}
		was, err := m.merging(ctx, source)
		return failed(1, "there is no branch %s to merge: if another run has merged the plan, nothing is left to do; otherwise make it again with `%s`, then `vizier retry %s`",
			m.source, remake(ctx, env, m.source, cmp.Or(was, n.Job.ApprovedHead(m.source))), n.Job.ID), err
	}
	if why := unapproved(n, m.source, m.tip); why != "" {
		return *m.stuck(why), nil
	}
	contained, err := env.Git.IsAncestor(ctx, m.tip, m.onto)
	if err != nil {
		return Result{}, err
	}
	if contained {
		return m.finish(ctx, m.source+" is merged already", m.tip, m.tip)
	}
	if stop, err := m.clear(ctx); err != nil || stop != nil {
		return deref(stop), err
	}
	goOn, stop, err := m.resume(ctx, source, onto, merged)
	if err != nil || stop != nil {
		return deref(stop), err
	}
	if !goOn {
		if stop, err := m.begin(ctx); err != nil || stop != nil {
			return deref(stop), err
		}
	}
	return m.conclude(ctx)
}

func newIntegration(ctx context.Context, env *Env, n *Node) (*integration, error) {
	m := &integration{env: env, n: n, target: n.arg("target", "target_branch"), key: effectKey(n, "")}
	m.slug, m.source = mergeOf(n)
	tree, err := env.Git.OwnedWorktree(m.treeName())
	if err != nil {
		return nil, err
	}
	m.standIn(tree)
	if m.squash, err = n.flag("squash", true); err != nil {
		return nil, err
	}
	if m.drop, err = n.flag("delete_branch", false); err != nil {
		return nil, err
	}
	if m.target == "" {
		m.target = n.Job.Spec.Origin.Target
	}
	if m.target == "" {
		if m.target, err = env.Git.Head(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case m.target == "":
		return nil, errors.New("no target branch: the main working tree is on none, so set target_branch")
	case m.source == "":
		return nil, errors.New("no source branch: set branch or slug")
	case m.source == m.target:
		return nil, fmt.Errorf("branch %s cannot be merged into itself: set target_branch", m.source)
	}
	tips, err := env.Git.Heads(ctx, []string{m.source, m.target})
	if err != nil {
		return nil, err
	}
	m.tip, m.onto = tips[m.source], tips[m.target]
	return m, nil
}

func (m *integration) treeName() string { return mergeTree(m.slug, m.n.Job.ID) }

// mergeTree returns the name of the worktree in which a job merges a plan.
func mergeTree(slug string, job kernel.JobID) string {
	return fileName("merge-"+slug) + "-" + string(job)
}

// standIn makes tree the worktree of the merge. If it is zero, dir becomes a
// path at which there is nothing.
func (m *integration) standIn(tree kernel.Context) {
	m.tree = tree
	m.dir = filepath.Join(m.n.Root, cmp.Or(tree.Worktree, path.Join(worktreeHome, m.treeName())))
}

// published returns the commit on the target that already is this merge, if
// there is one: it has the effect's trailer, or it is the result recorded in
// the worktree. The first attempt believes no trailer: none can be its own.
func (m *integration) published(ctx context.Context, merged kernel.CommitID) (kernel.CommitID, error) {
	if m.n.again {
		if done, err := committed(ctx, m.env, m.n, m.onto, m.key); err != nil || done != "" {
			return done, err
		}
	}
	if merged == "" {
		return "", nil
	}
	if there, err := m.env.Git.IsAncestor(ctx, merged, m.onto); err != nil || !there {
		return "", err
	}
	return merged, nil
}

// clear returns a result that ends the node if working trees on the target are
// in the way, before anything has happened or before the target is moved to
// what an earlier attempt merged.
func (m *integration) clear(ctx context.Context) (*Result, error) {
	obstacle, err := m.env.Git.Obstacle(ctx, m.target)
	if err == nil && obstacle == "" {
		obstacle, err = m.env.Git.Obstacle(ctx, m.source)
	}
	if err != nil || obstacle == "" {
		return nil, err
	}
	return m.stuck(obstacle), nil
}

func (m *integration) stuck(obstacle string) *Result {
	r := blocked("%s; then run `vizier retry %s`", obstacle, m.n.Job.ID)
	return &r
}

func (m *integration) noTarget(ctx context.Context) string {
	return fmt.Sprintf("there is no branch %s to merge into: queue the merge again with another --target, or create it with `%s`", m.target, remake(ctx, m.env, m.target, ""))
}

// sourceGone is the result if neither the branch nor the commit of it that is being merged is there.
func (m *integration) sourceGone(source kernel.CommitID) Result {
	return failed(1, "there is no branch %s to merge, and git does not have the commit %s any more that is being merged: make the branch again from where it still is, such as with `%s`, then `vizier retry %s`, which merges anew and keeps what is in %s under refs/vizier/parked; `vizier clean %s` keeps that, too, and gives the merge up",
		m.source, short(source), kernel.CommandLine("git", "fetch", "REMOTE", m.source+":"+m.source), m.n.Job.ID, m.dir, m.n.Job.ID)
}

// begin merges in a fresh worktree, after removing the plan's document.
func (m *integration) begin(ctx context.Context) (*Result, error) {
	git := m.env.Git
	tree, err := git.EnsureWorktree(ctx, m.treeName(), placeOf("merge", m.slug), "", m.tip)
	if err != nil {
		return nil, err
	}
	m.standIn(tree)
	if stop, err := m.removeDoc(ctx); err != nil || stop != nil {
		return stop, err
	}
	return m.mergeOnto(ctx, m.from)
}

// mergeOnto merges a commit, which is the source or the result of merging it so far,
// into the target's tip in the worktree.
func (m *integration) mergeOnto(ctx context.Context, commit kernel.CommitID) (*Result, error) {
	git := m.env.Git
	if err := git.Detach(ctx, m.dir, m.onto); err != nil {
		return nil, err
	}
	related, err := git.Related(ctx, commit, m.onto)
	if err != nil {
		return nil, err
	}
	if !related {
		return m.unrelated()
	}
	if err := git.Merge(ctx, m.dir, commit, m.squash); err != nil {
		r, err := gitFailed(m.env, m.n, err)
		return &r, err
	}
	files, err := git.Unmerged(ctx, m.dir)
	if err != nil {
		return nil, err
	}
	var merged kernel.CommitID
	if len(files) == 0 {
		empty, err := m.empty(ctx, m.onto)
		if err != nil {
			return nil, err
		}
		if empty {
			merged = m.onto
		}
	}
	if err := git.SetMergeState(ctx, m.dir, m.from, m.onto, merged); err != nil || len(files) == 0 {
		return nil, err
	}
	return m.conflict(ctx, files)
}

// unrelated says what to do if git finds no commit that the source and the target have in common.
func (m *integration) unrelated() (*Result, error) {
	shallow, err := m.env.Git.Shallow()
	if err != nil {
		return nil, err
	}
	if shallow {
		r := failed(1, "%s and %s have no commit in common in this shallow clone: get the rest of their histories with `git fetch --unshallow`, then `vizier retry %s`", m.source, m.target, m.n.Job.ID)
		return &r, nil
	}
	r := failed(1, "%s and %s have no commit in common: join them where %s is checked out with `%s`, or put the commits of %s on top of %s with `%s`, and `%s` afterwards; then `vizier retry %s`",
		m.source, m.target, m.target, kernel.CommandLine("git", "merge", "--allow-unrelated-histories", m.source),
		m.source, m.target, kernel.CommandLine("git", "rebase", "--root", "--onto", m.target, m.source), kernel.CommandLine("git", "switch", m.target), m.n.Job.ID)
	return &r, nil
}

// removedDoc is in the first line of the message of the commit that removeDoc makes.
const removedDoc = ": remove implementation plan doc "

// removeDoc commits the removal of the plan's document on top of the source, so
// that the merge does not bring it along. The branch follows when the target has
// moved (leave): until then other stages of the plan need the document. The message
// begins as the merge's if that is given: what hooks demand of one they demand of both.
func (m *integration) removeDoc(ctx context.Context) (*Result, error) {
	git, doc := m.env.Git, planFile(m.slug)
	m.from = m.tip
	text, err := git.FileAt(ctx, m.tip, doc)
	if err != nil || text == nil {
		return nil, err
	}
	if err := git.RemoveFile(ctx, m.dir, doc); err != nil {
		return nil, err
	}
	subject, _, _ := strings.Cut(cmp.Or(strings.TrimSpace(m.n.arg("message")), "chore"), "\n")
	id, err := git.Commit(ctx, m.dir, withEffect(strings.TrimSpace(subject)+removedDoc+m.slug, effectKey(m.n, "remove plan doc")))
	if err != nil {
		// Detach first, or the removal would be parked as if it were a person's
		// work.
		r, err := gitFailed(m.env, m.n, errors.Join(err, git.Detach(ctx, m.dir, m.tip)))
		return &r, err
	}
	m.from = id
	return nil, nil
}

// merging returns the commit of the branch that a merge in progress has as its source: source, or its parent if
// removeDoc made it. It is "" if nothing is being merged.
func (m *integration) merging(ctx context.Context, source kernel.CommitID) (kernel.CommitID, error) {
	if source == "" {
		return "", nil
	}
	text, err := m.env.Git.Message(ctx, source)
	if first, _, _ := strings.Cut(text, "\n"); err == nil && strings.Contains(first, removedDoc) {
		return m.env.Git.Parent(ctx, source)
	}
	return source, err
}

// current reports whether source, the commit that was merged in the worktree, is tip, the
// branch's current commit, with or without the document of plan slug.
func current(ctx context.Context, env *Env, slug string, source, tip kernel.CommitID) (bool, error) {
	if source == "" || source == tip {
		return source != "", nil
	}
	text, err := env.Git.FileAt(ctx, source, planFile(slug))
	if err != nil || text != nil {
		return false, err
	}
	parent, err := env.Git.Parent(ctx, source)
	if err != nil || parent != tip {
		return false, err
	}
	text, err = env.Git.FileAt(ctx, parent, planFile(slug))
	return text != nil, err
}

// conflict ends the node as blocked and leaves the merge in progress.
func (m *integration) conflict(ctx context.Context, files []string) (*Result, error) {
	open, err := readSentinel(m.env, m.slug)
	if err != nil {
		return nil, err
	}
	if other, err := m.otherConflict(ctx, open); err != nil || other != nil {
		return other, err
	}
	if open == nil || open.Job != string(m.n.Job.ID) || m.since != "" {
		mark := sentinel{Slug: m.slug, Source: m.source, Target: m.target, Worktree: m.tree.Worktree, Files: files, Left: map[string]string{}}
		for _, f := range files {
			if mark.Left[f], _, err = look(filepath.Join(m.dir, f)); err != nil {
				return nil, err
			}
		}
		err = writeSentinel(m.env, m.n, mark)
		if err != nil {
			return nil, err
		}
	}
	r := blocked("%smerging %s into %s "+kernel.InConflict+": %s", m.since, m.source, m.target, toResolve(ctx, m.env, m.dir, files, m.n.conflictGate()))
	if m.putBack {
		r.Reason += fmt.Sprintf("; what was left half done is parked (`vizier tail %s`)", m.n.Job.ID)
	}
	r.Produced = []kernel.Artifact{{Kind: kernel.MergeSentinel, Name: m.slug}}
	return &r, nil
}

// toResolve says how files of the merge in dir are resolved by hand. git add does
// not take a submodule whose directory is empty nor, unless told, what is outside of a sparse
// checkout.
func toResolve(ctx context.Context, env *Env, dir string, files []string, retry kernel.JobID) string {
	add := "git add"
	if sparse, err := env.Git.Sparse(ctx, dir); err != nil {
		fmt.Fprintln(env.Stderr, err)
	} else if sparse {
		add += " --sparse"
	}
	modules, hasMarks := "", false
	for _, f := range files {
		state, marked, err := look(filepath.Join(dir, f))
		if err == nil && state == directory {
			modules += fmt.Sprintf(" (submodule %s: %s)", f, gitIn(dir, "update-index", "--cacheinfo", "160000,COMMIT,"+f))
		}
		hasMarks = hasMarks || marked
	}
	meant := ""
	if hasMarks {
		if open, err := env.Git.Unmerged(ctx, dir); err != nil {
			fmt.Fprintln(env.Stderr, err)
		} else if len(open) == 0 {
			meant = " (conflict markers that are meant: commit them there)"
		}
	}
	return fmt.Sprintf("resolve %s in %s, `%s` them%s%s, then `vizier retry %s`", shorten(strings.Join(files, ", ")), dir, add, shorten(modules), meant, retry)
}

// inTreeToResolve matches what toResolve says: the worktree, and the command that follows.
var inTreeToResolve = sync.OnceValue(func() *regexp.Regexp { //nolint:gochecknoglobals // compiled for who needs it
	return regexp.MustCompile("resolve .* in ((?:/.*/)?[^ ]+), `git add[^`]*` them.*, then (`vizier retry [^`]+`)")
})

// inOtherTree matches what otherConflict says: the worktree, and the command that follows.
var inOtherTree = sync.OnceValue(func() *regexp.Regexp { //nolint:gochecknoglobals // compiled for who needs it
	return regexp.MustCompile("is open in ((?:/.*/)?[^ ]+): resolve it there as .*; then (`vizier retry [^`]+`)")
})

// TreeToResolve returns the worktree, relative to the repository's root, that the reason of a job whose merge is in conflict, or
// behind another conflict, names to resolve that in; "": it names none.
func TreeToResolve(reason string) string {
	for _, said := range []*regexp.Regexp{inTreeToResolve(), inOtherTree()} {
		if m := said.FindStringSubmatch(reason); m != nil {
			return belowRoot(m[1])
		}
	}
	return ""
}

// belowRoot returns the path of a worktree of jobs relative to the root: versions before this one put absolute paths on
// record, which are wrong once the repository was moved.
func belowRoot(dir string) string {
	if i := strings.LastIndex(dir, "/"+worktreeHome+"/"); i >= 0 {
		return dir[i+1:]
	}
	return dir
}

// Resolvable returns the reason of a job whose merge is in conflict, or behind another conflict, given
// where the worktree of that is now, "" if it is gone. A retry without it merges anew. Where a person has moved it, a merge
// finds it only among the worktrees of jobs.
func Resolvable(reason string, now func(dir string) string) string {
	for _, of := range []struct {
		said        *regexp.Regexp
		gone, moved string
	}{
		{inTreeToResolve(), "its worktree %s is gone, and %s merges anew", "its worktree %s was moved to %s: `%s`, then "},
		{inOtherTree(), "is gone with its worktree %s, and %s merges unless that has merged the plan", "was in %s, which was moved to %s: `%s`; it "},
	} {
		m := of.said.FindStringSubmatch(reason)
		if m == nil {
			continue
		}
		if dir := belowRoot(m[1]); dir != m[1] {
			return Resolvable(strings.ReplaceAll(reason, m[1], dir), now)
		}
		switch at := now(m[1]); {
		case at == "":
			return strings.Replace(reason, m[0], fmt.Sprintf(of.gone, m[1], m[2]), 1)
		case path.Dir(at) == worktreeHome:
			return strings.Replace(reason, m[0], strings.Replace(m[0], m[1], at, 1), 1)
		case at != m[1]:
			return strings.Replace(reason, m[0], fmt.Sprintf(of.moved, m[1], at, kernel.MoveWorktree(at, m[1]))+m[0], 1)
		}
	}
	return reason
}

// MarkedTree returns git's name of the worktree in which the conflict is that mark, the mark of a plan's conflict, is about; "": it says
// none.
func MarkedTree(mark []byte) string {
	var s sentinel
	if err := json.Unmarshal(mark, &s); err != nil || s.Worktree == "" {
		return ""
	}
	return mergeTree(s.Slug, kernel.JobID(s.Job))
}

// LeftToResolve returns the reason of a job whose merge is in conflict, with what its gate has left to resolve since,
// by the gate's reason.
func LeftToResolve(reason, gate string) string {
	was, is := inTreeToResolve().FindString(reason), inTreeToResolve().FindString(gate)
	if was == "" || is == "" {
		return reason
	}
	return strings.Replace(reason, was, is, 1)
}

// otherConflict returns a result that ends the node if open, the plan's mark,
// belongs to another job whose merge is still in progress: what is resolved there
// must not be lost. Otherwise it returns nil.
func (m *integration) otherConflict(ctx context.Context, open *sentinel) (*Result, error) {
	if open == nil || open.Job == string(m.n.Job.ID) || open.Worktree == "" {
		return nil, nil
	}
	dir, err := m.treeOf(open)
	if err != nil || dir == "" {
		return nil, err
	}
	source, _, _, err := m.env.Git.MergeState(ctx, dir)
	if err != nil || source == "" {
		return nil, err
	}
	r := blocked("merging %s into %s "+kernel.BehindConflict+"%s is open in %s: resolve it there as `vizier why %s` says, or `vizier clean %s`; then `vizier retry %s`",
		m.source, m.target, open.Job, dir, open.Job, open.Job, m.n.Job.ID)
	return &r, m.discard(ctx)
}

// treeOf returns where the worktree is that open, the mark of another job's conflict, is about, also if somebody has moved it and
// this merge is in its place; "": it is gone.
func (m *integration) treeOf(open *sentinel) (string, error) {
	at, err := m.env.Git.WorktreeNamed(mergeTree(open.Slug, kernel.JobID(open.Job)))
	if err != nil {
		return "", err
	}
	if at == "" { // git has lost it, or it is elsewhere since the repository was moved
		dir := filepath.Join(m.n.Root, open.Worktree)
		if _, err := os.Stat(dir); open.Worktree == m.tree.Worktree || errors.Is(err, iofs.ErrNotExist) {
			return "", nil
		}
		return dir, nil
	}
	beside := filepath.Join(m.n.Root, worktreeHome, filepath.Base(at))
	if was, err := os.Stat(at); err == nil {
		if is, err := os.Stat(beside); err == nil && os.SameFile(was, is) {
			return beside, nil
		}
	}
	return at, nil
}

// conflictGate returns the job to retry once the conflict of merge n is
// resolved: the conflict gate that the merge is routed to, if it has one.
func (n *Node) conflictGate() kernel.JobID {
	for _, r := range n.Routes[kernel.OutcomeBlocked.String()] {
		if to := n.Manifest.Nodes[r.Node]; to.Control == "gate.conflict_resolution" {
			return to.Job
		}
	}
	return n.Job.ID
}
