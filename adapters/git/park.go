package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// parkedRefs is the prefix of the refs that keep commits which would be lost
// with their worktree.
const parkedRefs = "refs/vizier/parked/"

// stagedSuffix ends the refs of what was only staged.
const stagedSuffix = ".staged"

// Parked is work that was kept when its worktree or branch was removed.
type Parked struct {
	Worktree string // its path; "": only the branch was removed
	Branch   string // the branch it was on; "" : none
	Module   string // the submodule that has the commit; "": none
	Repo     string // the repository with Ref, if Module is not ""
	Staged   bool   // it was only staged: the files had something else
	Ref      string // the ref that keeps the work
	Commit   kernel.CommitID
}

// String returns a line for people, with the commands that restore the work.
func (p Parked) String() string {
	if p.Module != "" {
		return fmt.Sprintf("work in submodule %s of worktree %s that none of its remotes has is kept as %s: see it with `%s`, %s",
			p.Module, p.Worktree, p.Ref, kernel.CommandLine("git", "show", p.Ref), fetched(p.Repo, p.Ref))
	}
	of := "worktree " + p.Worktree
	if p.Worktree == "" {
		of = "branch " + p.Branch
	}
	work := "work of " + of + " that no branch has"
	if p.Staged {
		work = "what was staged in " + of + ", and is not what the files had,"
	}
	return fmt.Sprintf("%s is kept as %s: see it with `%s`, %s", work, p.Ref, kernel.CommandLine("git", "show", p.Ref), switched(p.Ref))
}

// switched and fetched say how to get back what ref keeps: in the repository, or from that of a submodule.
func switched(ref string) string {
	return "get it back with `" + kernel.CommandLine("git", "switch", "--create", "NAME", ref) + "`"
}

func fetched(repo, ref string) string {
	return "get it back in another clone of the submodule with `" + kernel.CommandLine("git", "fetch", repo, ref+":refs/heads/NAME") + "`"
}

// ParkedOf returns the parked work of jobs' worktrees, and the work that jobs parked, as lines for people.
func (r *Repo) ParkedOf(ctx context.Context, jobs func() ([]kernel.JobID, error)) ([]string, error) {
	if none, err := r.noneBelow(parkedRefs); none || err != nil {
		return nil, err
	}
	refs, err := r.cli.read(ctx, "for-each-ref", "--format=%(refname)", parkedRefs)
	if err != nil || len(refs) == 0 {
		return nil, err
	}
	ids, err := jobs()
	var out []string
	for line := range strings.Lines(string(refs)) {
		ref := strings.TrimSuffix(line, "\n")
		for _, id := range ids {
			name, staged := strings.CutSuffix(strings.TrimPrefix(ref, parkedRefs), stagedSuffix)
			of, module, found := strings.Cut(name, "-"+string(id)+"-")
			if !found {
				continue
			}
			only := "only"
			if staged {
				only = "only staged"
			}
			back := switched(ref)
			if at := strings.LastIndexByte(module, '-'); at >= 0 { // the commit follows it
				of += ", in its submodule " + module[:at]
				back = fetched(r.root.Dir, ref)
			}
			out = append(out, fmt.Sprintf("what was %s in %s is kept as %s: see it with `%s`, %s", only, of, ref, kernel.CommandLine("git", "show", ref), back))
		}
	}
	return out, err
}

// noneBelow reports whether the files of refs show that there is none below prefix, so that most callers
// start no git.
func (r *Repo) noneBelow(prefix string) (bool, error) {
	for _, file := range []string{prefix, tablesDir} {
		if there, err := exists(filepath.Join(r.root.CommonDir, file)); there || err != nil {
			return false, err
		}
	}
	packed, err := os.ReadFile(filepath.Join(r.root.CommonDir, "packed-refs"))
	if errors.Is(err, iofs.ErrNotExist) {
		return true, nil
	}
	return !bytes.Contains(packed, []byte(" "+prefix)), err
}

// initializing is the reason with which git locks a worktree while making it. A
// worktree still locked with it was never finished, and nobody has worked in
// it.
const initializing = "initializing"

// save makes sure that nothing is lost when w is removed: it fails for a
// worktree that is locked or contains other repositories, and parks what no ref
// keeps, in it and in its submodules. present says whether w's files exist, and
// becomes what its index is to become.
func (r *Repo) save(ctx context.Context, w Worktree, present bool, becomes fate) error {
	if w.Reason == initializing {
		return nil
	}
	if w.Locked {
		why := ""
		if w.Reason != "" {
			why = " (" + w.Reason + ")"
		}
		return fmt.Errorf("it is locked%s: run `%s`, then try again", why, kernel.CommandLine("git", "worktree", "unlock", w.Path))
	}
	modules, err := r.cli.modules(ctx, w)
	if err == nil {
		err = r.saveModules(ctx, w, modules)
	}
	if err != nil {
		return err
	}
	t := tree{cli: r.cli, w: w}
	if present {
		t.dir = w.Path
	}
	head, err := t.head(ctx)
	if err != nil {
		return err
	}
	work := head
	if present && becomes != discarded {
		s, err := t.status(ctx, modules)
		if err != nil {
			return err
		}
		if s.inner != "" {
			return fmt.Errorf("it contains another repository, %s, which cannot be parked: move that away, then try again", s.inner)
		}
		if s.dirty {
			var staged kernel.CommitID
			if work, staged, err = t.changes(ctx, head, s.unseen, becomes); err != nil {
				return fmt.Errorf("park its changes: %w", err)
			}
			if staged != "" {
				if err := r.park(ctx, Parked{Worktree: w.Path, Branch: w.Branch, Commit: staged, Staged: true}, w.Name); err != nil {
					return err
				}
			}
		}
	}
	if work == "" || work == head && w.Branch != "" {
		return nil
	}
	if work == head {
		if kept, err := r.cli.kept(ctx, head, ""); kept || err != nil {
			return err
		}
		if merged, err := r.mergedIn(ctx, head, w.Name); merged || err != nil {
			return err
		}
	}
	return r.park(ctx, Parked{Worktree: w.Path, Branch: w.Branch, Commit: work}, w.Name)
}

// saveLogged parks the commits that were made in w, where a merge was in progress, and left behind there, as by a switch to
// a branch: only the reflog of its head has them. Vizier's own commits, and what was amended, do not count.
func (r *Repo) saveLogged(ctx context.Context, w Worktree) error {
	log, err := r.headLog(w.Name)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var made []string
	for _, line := range log {
		ids, what, _ := strings.Cut(line, "\t")
		f := strings.Fields(ids)
		if of, _, _ := strings.Cut(what, ":"); len(f) < 2 || slices.Contains([]string{"", "checkout", "reset", "vizier"}, of) { // these make none
			continue
		}
		if strings.HasPrefix(what, "commit (amend)") {
			made = slices.DeleteFunc(made, func(id string) bool { return id == f[0] })
		}
		made = append(made, f[1])
	}
	t := tree{cli: r.cli, w: Worktree{gitDir: w.gitDir}}
	if source, err := t.merges(ctx, nil); source == "" || len(made) == 0 || err != nil {
		return err
	}
	args := append([]string{"rev-list", "--parents", "--ignore-missing", "--invert-grep", "--grep=^" + effect.Trailer}, made...)
	out, err := t.git(ctx, nil, append(args, "--not", "--branches", "--tags", "--remotes", "--glob="+parkedRefs+"*")...)
	if err != nil {
		return err
	}
	for _, id := range tips(out) {
		if err := r.park(ctx, Parked{Worktree: w.Path, Branch: w.Branch, Commit: id}, w.Name); err != nil {
			return err
		}
	}
	return nil
}

// DeleteBranch implements Backend, and first parks commits that no other ref
// keeps (semantics 3.13). Of a symbolic ref it deletes that, and not the branch that it stands for.
func (r *Repo) DeleteBranch(ctx context.Context, name string, old kernel.CommitID) error {
	err := r.cli.deletable(ctx, name, old)
	if err != nil {
		return err
	}
	if to, err := r.symbolic(ctx, "refs/heads/"+name); err != nil || to != "" {
		var head string
		if err == nil {
			head, err = r.symbolic(ctx, "HEAD") // which git resolves, so that deletable saw the other branch
		}
		if head == "refs/heads/"+name {
			err = fmt.Errorf("%w in %s", ErrCheckedOut, r.root.Dir)
		}
		if err == nil {
			_, err = r.cli.run(ctx, command{args: []string{"symbolic-ref", "--delete", "refs/heads/" + name}, writes: true})
		}
		if err != nil {
			return fmt.Errorf("delete branch %s: %w", name, err)
		}
		return nil
	}
	kept, err := r.cli.kept(ctx, old, "refs/heads/"+name)
	if err == nil && !kept {
		err = r.park(ctx, Parked{Branch: name, Commit: old}, strings.TrimSuffix(name+"-"+string(r.ParkedBy), "-"))
	}
	if err != nil {
		return fmt.Errorf("delete branch %s: %w", name, err)
	}
	return r.Backend.DeleteBranch(ctx, name, old)
}

// Keep parks a commit that no branch, no tag and no parked work keeps.
func (r *Repo) Keep(ctx context.Context, commit kernel.CommitID) error {
	kept, err := r.cli.kept(ctx, commit, "")
	if err == nil && !kept {
		err = r.park(ctx, Parked{Commit: commit}, strings.TrimSuffix("lost-"+string(r.ParkedBy), "-"))
	}
	return err
}

// park keeps p's commit under a ref that contains name. It runs no hooks: a
// failing hook must not cost anybody's work.
func (r *Repo) park(ctx context.Context, p Parked, name string) error {
	p.Ref = parkedRefs + refPart(name) + "-" + string(p.Commit[:12])
	if p.Staged {
		p.Ref += stagedSuffix
	}
	now, err := r.cli.refAt(ctx, p.Ref)
	if err == nil && now != p.Commit {
		absent := strings.Repeat("0", len(p.Commit))
		_, err = r.cli.run(ctx, command{writes: true, quiet: true, env: identity,
			args: []string{"update-ref", "-m", "vizier: parked", p.Ref, string(p.Commit), absent}})
	}
	if err != nil {
		return fmt.Errorf("park its work: %w", err)
	}
	r.tell(p)
	return nil
}

// DropStaged removes the refs of what was parked before a time and was only staged. The work itself, and commits, stay parked.
func (r *Repo) DropStaged(ctx context.Context, before time.Time) error {
	if none, err := r.noneBelow(parkedRefs); none || err != nil {
		return err
	}
	refs, err := r.cli.read(ctx, "for-each-ref", "--format=%(committerdate:unix) %(objectname) %(refname)", parkedRefs)
	if err != nil {
		return err
	}
	var in strings.Builder
	for line := range strings.Lines(string(refs)) {
		f := strings.Fields(line)
		if len(f) != 3 || !strings.HasSuffix(f[2], stagedSuffix) {
			continue
		}
		if at, err := strconv.ParseInt(f[0], 10, 64); err == nil && time.Unix(at, 0).Before(before) {
			fmt.Fprintf(&in, "delete %s %s\n", f[2], f[1])
		}
	}
	if in.Len() == 0 {
		return nil
	}
	if _, err := r.cli.run(ctx, command{args: []string{"update-ref", "--stdin"}, stdin: []byte(in.String()), writes: true}); err != nil {
		return fmt.Errorf("remove refs of what was staged long ago: %w", err)
	}
	return nil
}

// kept reports whether commit is reachable from a branch, a tag, a remote's
// branch or parked work other than the ref except.
func (c *cli) kept(ctx context.Context, commit kernel.CommitID, except string) (bool, error) {
	out, err := c.read(ctx, "for-each-ref", "--count=2", "--format=%(refname)", "--contains="+string(commit),
		"refs/heads/", "refs/tags/", "refs/remotes/", parkedRefs)
	for ref := range strings.Lines(string(out)) {
		if strings.TrimSuffix(ref, "\n") != except {
			return true, err
		}
	}
	return false, err
}

// mergedIn reports whether commit is the result of a merge that is in progress in a worktree which
// is not called except: that worktree keeps it.
func (r *Repo) mergedIn(ctx context.Context, commit kernel.CommitID, except string) (bool, error) {
	all, err := r.Worktrees()
	for _, w := range all {
		if w.Name == except || !r.atHome(w) {
			continue
		}
		if _, _, merged, err := r.MergeState(ctx, w.Path); err == nil && merged == commit {
			return true, nil
		}
	}
	return false, err
}

// refPart returns name in a form that is valid as a part of a ref's name.
func refPart(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			return c
		}
		return '-'
	}, name)
}
