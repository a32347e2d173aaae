package op

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// plansDir is the directory of plan documents in a working tree.
const plansDir = ".vizier/implementation-plans"

func planFile(slug string) string { return plansDir + "/" + slug + ".md" }

// gitStage stages the listed paths and the plan documents that n declares.
func gitStage(ctx context.Context, env *Env, n *Node) (Result, error) {
	paths, err := n.files()
	if err != nil {
		return Result{}, err
	}
	if err := stage(ctx, env, n, append([]string{}, paths...)); err != nil {
		return gitFailed(env, n, err)
	}
	return ok(fmt.Sprintf("staged %s", strings.Join(paths, ", "))), nil
}

// gitStageCommit stages everything and commits it.
func gitStageCommit(ctx context.Context, env *Env, n *Node) (Result, error) {
	return commit(ctx, env, n, true)
}

// gitCommit commits what is staged.
func gitCommit(ctx context.Context, env *Env, n *Node) (Result, error) {
	return commit(ctx, env, n, false)
}

// commit commits the index, with all set after staging everything. The finder
// commitMade tells whether an earlier attempt has done so.
func commit(ctx context.Context, env *Env, n *Node, all bool) (Result, error) {
	if other, err := astray(ctx, env, n); err != nil || other != "" {
		return failed(1, "%s; then `vizier retry %s`", other, n.Job.ID), err
	}
	message, err := commitMessage(env, n)
	if err != nil {
		return Result{}, err
	}
	if all {
		if err := stage(ctx, env, n, nil); err != nil {
			return gitFailed(env, n, err)
		}
	}
	staged, err := env.Git.Staged(ctx, n.Dir)
	if err != nil {
		return Result{}, err
	}
	if !staged && all {
		if rest, err := env.Git.Uncommitted(ctx, n.Dir); err != nil || len(rest) > 0 {
			return deref(leftBehind(n, rest)), err
		}
	}
	if !staged {
		return unchanged(ctx, env, n)
	}
	if left, err := env.Git.Leftover(ctx, n.Dir); err != nil || len(left) > 0 {
		return failed(1, "%s has files that were in conflict and still have conflict markers: %s: resolve them there and %s them, or commit them there if the markers are meant; then `vizier retry %s`",
			n.Dir, shorten(strings.Join(left, ", ")), gitIn(n.Dir, "add"), n.Job.ID), err
	}
	id, err := env.Git.Commit(ctx, n.Dir, withEffect(message, effectKey(n, "")))
	if err != nil {
		return gitFailed(env, n, err)
	}
	return ok("commit " + short(id)), nil
}

// settled wraps an operation that reads or changes the index of n's worktree: it fails while a rebase is in progress
// there, or files are in conflict, whose markers would be taken for a resolution.
func settled(run operation) operation {
	return func(ctx context.Context, env *Env, n *Node) (Result, error) {
		for _, unready := range []func(context.Context, *Env, *Node) (string, error){rebasing, inConflict} {
			if open, err := unready(ctx, env, n); err != nil || open != "" {
				return failed(1, "%s; then `vizier retry %s`", open, n.Job.ID), err
			}
		}
		return run(ctx, env, n)
	}
}

// rebasing says that a rebase is in progress in n's worktree, and how it ends with a branch that still has what its stage
// began from, or "".
func rebasing(ctx context.Context, env *Env, n *Node) (string, error) {
	branch := n.Job.State.Context.Branch
	if branch == "" {
		return "", nil
	}
	if yes, err := env.Git.Rebasing(ctx, n.Dir); err != nil || !yes {
		return "", err
	}
	base, err := env.Git.Base(n.Dir)
	if err != nil {
		return "", err
	}
	if base != "" {
		head, err := env.Git.HeadCommit(ctx, n.Dir)
		if err != nil {
			return "", err
		}
		if has, err := env.Git.IsAncestor(ctx, base, head); err != nil || !has {
			return fmt.Sprintf("a rebase in %s is not finished, and would take from %s what it had when this stage began: undo it with %s, which keeps what was committed before it",
				n.Dir, branch, gitIn(n.Dir, "rebase", "--abort")), err
		}
	}
	files, err := env.Git.Unmerged(ctx, n.Dir)
	if err != nil {
		return "", err
	}
	first := ""
	if len(files) > 0 {
		first = fmt.Sprintf("resolve %s there, %s them, and ", shorten(strings.Join(files, ", ")), gitIn(n.Dir, "add"))
	}
	return fmt.Sprintf("a rebase in %s is not finished: %scontinue it with %s until it is, or undo it with %s",
		n.Dir, first, gitIn(n.Dir, "-c", "core.editor=true", "rebase", "--continue"), gitIn(n.Dir, "rebase", "--abort")), nil
}

// inConflict says which files in n's worktree are in conflict, and what to do, or "".
func inConflict(ctx context.Context, env *Env, n *Node) (string, error) {
	files, err := env.Git.Unmerged(ctx, n.Dir)
	if err != nil || len(files) == 0 {
		return "", err
	}
	return fmt.Sprintf("%s has files in conflict, of a merge or the like that is not finished: %s: resolve them there and %s them",
		n.Dir, shorten(strings.Join(files, ", ")), gitIn(n.Dir, "add")), nil
}

// astray says how n's worktree is not on its branch, or the branch not what its stage began from, and what to do,
// or "". No advice leaves out commits of the worktree that the branch lacks.
func astray(ctx context.Context, env *Env, n *Node) (string, error) {
	branch, err := env.Git.HeadBranch(ctx, n.Dir)
	want := n.Job.State.Context.Branch
	if err != nil || want == "" {
		return "", err
	}
	tip, err := tipOf(ctx, env, want)
	if err != nil {
		return "", err
	}
	if branch == want && tip != "" {
		return rewritten(ctx, env, n, tip)
	}
	if branch == want { // git would begin a history of its own
		return fmt.Sprintf("branch %s, on which %s is, is gone: make it again with `%s`", want, n.Dir, remake(ctx, env, want, "")), nil
	}
	head, err := env.Git.HeadCommit(ctx, n.Dir)
	if err != nil {
		return "", err
	}
	if tip == "" {
		return gone(ctx, env, n, branch, head)
	}
	has, lacks, err := compare(ctx, env, head, tip)
	if err != nil {
		return "", err
	}
	off := fmt.Sprintf("%s is not on branch %s any more", n.Dir, want)
	back := gitIn(n.Dir, "switch", want)
	switch {
	case !lacks:
		return fmt.Sprintf("%s: another run has taken the branch, or it was switched; in that case %s", off, back), nil
	case has && branch == "":
		return fmt.Sprintf("%s, and has commits that the branch lacks: finish what git has in progress there, if anything, then put the branch at them with %s",
			off, gitIn(n.Dir, "switch", "-C", want)), nil
	case has: // -M: while another branch has these commits too, they do not count as the run's
		return fmt.Sprintf("%s, but on %s, which has commits that it lacks: if the agent made that branch, rename it with %s; otherwise %s",
			off, branch, gitIn(n.Dir, "branch", "-M", want), back), nil
	}
	return fmt.Sprintf("%s, and has commits that the branch lacks: finish what git has in progress there, if anything, then %s, and take those that belong to it with %s",
		off, back, gitIn(n.Dir, "cherry-pick", ".."+cmp.Or(branch, string(head)))), nil
}

// rewritten is what astray says if tip, where n's branch is, does not contain the commit that its worktree was
// made at: what earlier stages committed is gone from it.
func rewritten(ctx context.Context, env *Env, n *Node, tip kernel.CommitID) (string, error) {
	base, err := env.Git.Base(n.Dir)
	if err != nil || base == "" {
		return "", err
	}
	has, err := env.Git.IsAncestor(ctx, base, tip)
	if err != nil || has {
		return "", err
	}
	if err := env.Git.Keep(ctx, base); err != nil { // a later stage would begin without it
		return "", err
	}
	related, err := env.Git.Related(ctx, base, tip)
	back := gitIn(n.Dir, "merge", "--no-edit", string(base))
	if !related {
		back = gitIn(n.Dir, "reset", "--soft", string(base)) + ", which keeps the files as they are there"
	}
	return fmt.Sprintf("branch %s does not contain %s any more, which it was at when this stage began: its history was rewritten: put it back with %s",
		n.Job.State.Context.Branch, short(base), back), err
}

// gone is what astray says of a branch that does not exist any more, while n's worktree is
// at the commit head of another branch, or of none ("").
func gone(ctx context.Context, env *Env, n *Node, branch string, head kernel.CommitID) (string, error) {
	want := n.Job.State.Context.Branch
	last, err := env.Git.LastTip(ctx, want)
	if err != nil {
		fmt.Fprintln(env.Stderr, err)
	}
	has, _, err := compare(ctx, env, head, last)
	if err != nil {
		return "", err
	}
	says := fmt.Sprintf("branch %s is gone, and %s is not on it: if another run has merged it, nothing is left to do; ", want, n.Dir)
	switch {
	case !has:
		return says + fmt.Sprintf("otherwise make it again with `%s`, then %s", remake(ctx, env, want, last), gitIn(n.Dir, "switch", want)), nil
	case branch == "":
		return says + "otherwise make it again with " + gitIn(n.Dir, "switch", "-c", want), nil
	}
	return says + fmt.Sprintf("if it was renamed to %s, %s; otherwise %s", branch, gitIn(n.Dir, "branch", "-m", want), gitIn(n.Dir, "switch", "-c", want)), nil
}

// compare reports whether the commit head contains tip, and whether it has commits that tip lacks.
// Where there is none ("") it has nothing, and lacks nothing.
func compare(ctx context.Context, env *Env, head, tip kernel.CommitID) (has, lacks bool, err error) {
	if head == "" || tip == "" || head == tip {
		return head != "", false, nil
	}
	if has, err = env.Git.IsAncestor(ctx, tip, head); err != nil || has {
		return has, has, err
	}
	within, err := env.Git.IsAncestor(ctx, head, tip)
	return false, !within, err
}

// leftBehind returns the failure of a commit of everything that leaves changes
// behind: they lie within submodules, or were made meanwhile.
func leftBehind(n *Node, rest []string) *Result {
	files := slices.DeleteFunc(slices.Clone(rest), func(name string) bool {
		state, _, err := look(filepath.Join(n.Dir, name))
		return err == nil && state == directory
	})
	if len(files) > 0 {
		r := failed(1, "%s in %s changed again while it was committed, as by a hook of git: have that stage it or leave it alone, or have git ignore it", shorten(strings.Join(files, ", ")), n.Dir)
		return &r
	}
	r := failed(1, "what has changed in %s lies within %s, and a commit of a submodule is made there: make it, or undo the changes", n.Dir, shorten(strings.Join(rest, ", ")))
	return &r
}

// unchanged returns the result of a commit without changes. With allow_empty =
// false that is a failure, unless the run has committed something before: an
// agent may commit by itself although it was asked not to.
func unchanged(ctx context.Context, env *Env, n *Node) (Result, error) {
	allowed, err := n.flag("allow_empty", true)
	if err != nil {
		return Result{}, err
	}
	if allowed {
		return ok("nothing to commit"), nil
	}
	tip, err := env.Git.HeadCommit(ctx, n.Dir)
	if err != nil {
		return Result{}, err
	}
	var base kernel.CommitID
	if n.Job.State.Generation == 0 { // else the commits of earlier generations count too, which may have had other worktrees
		if base, err = env.Git.Base(n.Dir); err != nil {
			return Result{}, err
		}
	}
	if touched, err := env.Git.Touched(ctx, tip, base, n.Job.State.Context.Branch, n.Job.Created); err != nil || touched {
		return ok("nothing more to commit: the run has committed before"), err
	}
	elsewhere, err := n.elsewhere(ctx, env, base, tip)
	if err != nil {
		return Result{}, err
	}
	who, next, why := cmp.Or(elsewhere, "nothing was changed"), n.Job.ID, ""
	if asked := agentBefore(env, n); asked != nil {
		run := asked.State.Agent.Last
		who, next = fmt.Sprintf("agent %s ended well and %s", run.Agent, cmp.Or(elsewhere, "changed nothing")), asked.ID
		if len(run.Denied) > 0 {
			why = "; " + denied(run) + ", which permissions = \"run\" or \"all\" of its table in .vizier/config.toml lets it"
		}
	}
	return Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.MissingOutput,
		Reason: fmt.Sprintf("%s%s; `vizier retry %s` asks again, and where nothing is to be done run it with `--set allow_empty=true`", who, why, next)}, nil
}

// elsewhere says that what n's branch has had since its worktree was made at base is on other branches already, such
// as the target of its merge, or "".
func (n *Node) elsewhere(ctx context.Context, env *Env, base, tip kernel.CommitID) (string, error) {
	if base == "" || base == tip {
		return "", nil
	}
	branch := n.Job.State.Context.Branch
	on, err := env.Git.Containing(ctx, tip, branch)
	if err != nil || len(on) == 0 {
		return "", err
	}
	return fmt.Sprintf("left nothing to commit: what was committed to %s since the stage began is on %s already (`%s`)",
		branch, shorten(strings.Join(on, ", ")), kernel.CommandLine("git", "log", short(base)+".."+short(tip))), nil
}

// agentBefore returns the nearest job before n that ran an agent, or nil if
// none is known.
func agentBefore(env *Env, n *Node) *kernel.Job {
	return kernel.NearestAgent(&n.Job, func(id kernel.JobID) *kernel.Job {
		if env.Records == nil {
			return nil
		}
		j, err := env.Records.Job(id)
		if err != nil {
			return nil
		}
		return &j
	})
}

// stage stages paths (nil: everything) and the plan documents that n declares,
// even ignored ones.
func stage(ctx context.Context, env *Env, n *Node, paths []string) error {
	var docs []string
	for _, rec := range n.Artifacts[kernel.OutcomeSucceeded.String()] {
		a, err := rec.Artifact()
		if err != nil {
			return &classed{kernel.DataError, err}
		}
		if a.Kind != kernel.PlanDoc {
			continue
		}
		if !present(n.Dir, planFile(a.Name)) {
			return missingInput("the declared plan document %s is not there: write it, or run the node that does", planFile(a.Name))
		}
		docs = append(docs, planFile(a.Name))
	}
	return env.Git.Stage(ctx, n.Dir, paths, docs)
}

// files returns the paths in the argument files_json. Paths that lead out of
// the tree are an error.
func (n *Node) files() ([]string, error) {
	text := n.arg("files_json")
	if text == "" {
		return nil, nil
	}
	paths, err := workflow.Paths(text)
	if err != nil {
		return nil, fmt.Errorf("argument files_json: %w", err)
	}
	for _, p := range paths {
		if !filepath.IsLocal(p) {
			return nil, fmt.Errorf("argument files_json: %q does not lead into the repository: %w", p, kernel.ErrInvalid)
		}
	}
	return paths, nil
}

// defaultMessage is the message that the original uses.
const defaultMessage = "chore: workflow stage commit"

// commitMessage returns the message given by n's arguments.
func commitMessage(env *Env, n *Node) (string, error) {
	message := n.arg("message", "commit_message")
	if message == "" {
		return defaultMessage, nil
	}
	sel, ok := workflow.Payload(message)
	if !ok {
		return message, nil
	}
	matches, err := customs(n.Needs, func(a kernel.Artifact) bool { return workflow.Selects(sel, a) })
	if err != nil {
		return "", err
	}
	if len(matches) != 1 {
		return "", fmt.Errorf("message %s: %d custom needs match, expected one: %w", message, len(matches), kernel.ErrInvalid)
	}
	text, err := readText(env, n, matches[0])
	if err == nil && strings.TrimSpace(text) == "" {
		err = missingInput("message %s: the payload is empty", message)
	}
	return strings.ReplaceAll(strings.TrimSpace(text), "\x00", ""), err
}

// gitFailed returns the result of an operation that git, or a hook of the
// user's, refused. Their full output goes to the log.
func gitFailed(env *Env, n *Node, err error) (Result, error) {
	var c *classed
	if errors.As(err, &c) || errors.Is(err, context.Canceled) {
		return Result{}, err
	}
	fmt.Fprintln(env.Stderr, err)
	return failed(1, "%s: %s", n.performs(), shorten(err.Error())), nil
}

// shorten returns the beginning and the end of a long message.
func shorten(text string) string {
	const most = 600
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most/3]+" … "+text[len(text)-most*2/3:], "")
}

func short(id kernel.CommitID) string { return string(id[:min(len(id), 12)]) }
