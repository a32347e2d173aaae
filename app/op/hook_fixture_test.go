package op

import (
	"context"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// hook stands between an operation and its ports: it is given each call, by the port's method and what that is
// given, and calls do or answers itself.
type hook func(name string, args []any, do func() (any, error)) (any, error)

func one[T any](h hook, name string, do func() (T, error), args ...any) (T, error) {
	v, err := h(name, args, func() (any, error) { return do() })
	out, _ := v.(T) // without an answer it is zero
	return out, err
}

func just(h hook, name string, do func() error, args ...any) error {
	_, err := h(name, args, func() (any, error) { return nil, do() })
	return err
}

type two[A, B any] struct {
	a A
	b B
}

func both[A, B any](a A, b B, err error) (two[A, B], error) { return two[A, B]{a, b}, err }

// hooked returns env with each call of a port that can fail given to h.
func hooked(env *Env, h hook) *Env {
	out := *env
	out.Git, out.Files, out.Effects = gitCalls{env.Git, h}, fileCalls{env.Files, h}, effectCalls{env.Effects, h}
	if env.Shell != nil {
		out.Shell = shellCalls{env.Shell, h}
	}
	if env.Agents != nil {
		out.Agents = agentCalls{env.Agents, h}
	}
	if env.Records != nil {
		out.Records = recordCalls{env.Records, h}
	}
	return &out
}

type fileCalls struct {
	Files
	hook
}

func (f fileCalls) WritePayload(job kernel.JobID, a kernel.Artifact, data []byte) error {
	return just(f.hook, "WritePayload", func() error { return f.Files.WritePayload(job, a, data) }, job, a)
}

func (f fileCalls) Payload(job kernel.JobID, a kernel.Artifact) ([]byte, error) {
	return one(f.hook, "Payload", func() ([]byte, error) { return f.Files.Payload(job, a) }, job, a)
}

func (f fileCalls) LogTail(job kernel.JobID, stream string, most int64) ([]byte, error) {
	if most == 4<<10 { // of what a script said last, without which the reason is true as well
		return f.Files.LogTail(job, stream, most)
	}
	return one(f.hook, "LogTail", func() ([]byte, error) { return f.Files.LogTail(job, stream, most) }, job, stream)
}

func (f fileCalls) Producers(consumer *kernel.Job, a kernel.Artifact) ([]kernel.JobID, error) {
	return one(f.hook, "Producers", func() ([]kernel.JobID, error) { return f.Files.Producers(consumer, a) }, a)
}

func (f fileCalls) WritePatch(job kernel.JobID, data []byte) error {
	return just(f.hook, "WritePatch", func() error { return f.Files.WritePatch(job, data) }, job)
}

func (f fileCalls) WriteNoInput(job kernel.JobID, reason string) error {
	return just(f.hook, "WriteNoInput", func() error { return f.Files.WriteNoInput(job, reason) }, job)
}

func (f fileCalls) WriteSentinel(slug string, data []byte) error {
	return just(f.hook, "WriteSentinel", func() error { return f.Files.WriteSentinel(slug, data) }, slug)
}

func (f fileCalls) Sentinel(slug string) ([]byte, error) {
	return one(f.hook, "Sentinel", func() ([]byte, error) { return f.Files.Sentinel(slug) }, slug)
}

func (f fileCalls) ClearSentinel(slug string) error {
	return just(f.hook, "ClearSentinel", func() error { return f.Files.ClearSentinel(slug) }, slug)
}

type effectCalls struct {
	Effects
	hook
}

func (e effectCalls) Effect(job kernel.JobID, key string) (*effect.Record, error) {
	return one(e.hook, "Effect", func() (*effect.Record, error) { return e.Effects.Effect(job, key) }, job, key)
}

func (e effectCalls) RecordEffect(ctx context.Context, r effect.Record) error {
	return just(e.hook, "RecordEffect", func() error { return e.Effects.RecordEffect(ctx, r) }, r.Key, r.State)
}

type shellCalls struct {
	Shell
	hook
}

func (s shellCalls) Run(ctx context.Context, dir, script string, env []string) (int, error) {
	return one(s.hook, "Run", func() (int, error) { return s.Shell.Run(ctx, dir, script, env) }, script)
}

func (s shellCalls) Output(ctx context.Context, dir, script string, env []string, limit int) ([]byte, int, error) {
	v, err := one(s.hook, "Output", func() (two[[]byte, int], error) { return both(s.Shell.Output(ctx, dir, script, env, limit)) }, script)
	return v.a, v.b, err
}

type agentCalls struct {
	Agents
	hook
}

func (a agentCalls) Run(ctx context.Context, q kernel.AgentRequest) (kernel.AgentAnswer, error) {
	return one(a.hook, "Agents.Run", func() (kernel.AgentAnswer, error) { return a.Agents.Run(ctx, q) })
}

type recordCalls struct {
	Records
	hook
}

func (r recordCalls) Job(id kernel.JobID) (kernel.Job, error) {
	return one(r.hook, "Job", func() (kernel.Job, error) { return r.Records.Job(id) }, id)
}

type gitCalls struct {
	Git
	hook
}

func (g gitCalls) Heads(ctx context.Context, branches []string) (map[string]kernel.CommitID, error) {
	return one(g.hook, "Heads", func() (map[string]kernel.CommitID, error) { return g.Git.Heads(ctx, branches) }, branches)
}

func (g gitCalls) LastTip(ctx context.Context, branch string) (kernel.CommitID, error) {
	return one(g.hook, "LastTip", func() (kernel.CommitID, error) { return g.Git.LastTip(ctx, branch) }, branch)
}

func (g gitCalls) Head(ctx context.Context) (string, error) {
	return one(g.hook, "Head", func() (string, error) { return g.Git.Head(ctx) })
}

func (g gitCalls) CreateBranch(ctx context.Context, name string, at kernel.CommitID) error {
	return just(g.hook, "CreateBranch", func() error { return g.Git.CreateBranch(ctx, name, at) }, name, at)
}

func (g gitCalls) DeleteBranch(ctx context.Context, name string, old kernel.CommitID) error {
	return just(g.hook, "DeleteBranch", func() error { return g.Git.DeleteBranch(ctx, name, old) }, name, old)
}

func (g gitCalls) Obstacle(ctx context.Context, branch string) (string, error) {
	return one(g.hook, "Obstacle", func() (string, error) { return g.Git.Obstacle(ctx, branch) }, branch)
}

func (g gitCalls) Advance(ctx context.Context, branch string, from, to kernel.CommitID) (string, bool, error) {
	v, err := one(g.hook, "Advance", func() (two[string, bool], error) { return both(g.Git.Advance(ctx, branch, from, to)) }, branch, from, to)
	return v.a, v.b, err
}

func (g gitCalls) EndAdvance(ctx context.Context, branch string) (string, error) {
	return one(g.hook, "EndAdvance", func() (string, error) { return g.Git.EndAdvance(ctx, branch) }, branch)
}

func (g gitCalls) Keep(ctx context.Context, commit kernel.CommitID) error {
	return just(g.hook, "Keep", func() error { return g.Git.Keep(ctx, commit) }, commit)
}

func (g gitCalls) IsAncestor(ctx context.Context, commit, tip kernel.CommitID) (bool, error) {
	return one(g.hook, "IsAncestor", func() (bool, error) { return g.Git.IsAncestor(ctx, commit, tip) }, commit, tip)
}

func (g gitCalls) Has(ctx context.Context, commit kernel.CommitID) (bool, error) {
	return one(g.hook, "Has", func() (bool, error) { return g.Git.Has(ctx, commit) }, commit)
}

func (g gitCalls) Parent(ctx context.Context, commit kernel.CommitID) (kernel.CommitID, error) {
	return one(g.hook, "Parent", func() (kernel.CommitID, error) { return g.Git.Parent(ctx, commit) }, commit)
}

func (g gitCalls) FileAt(ctx context.Context, commit kernel.CommitID, path string) ([]byte, error) {
	return one(g.hook, "FileAt", func() ([]byte, error) { return g.Git.FileAt(ctx, commit, path) }, commit, path)
}

func (g gitCalls) LastFile(ctx context.Context, tip, base kernel.CommitID, path string) ([]byte, error) {
	return one(g.hook, "LastFile", func() ([]byte, error) { return g.Git.LastFile(ctx, tip, base, path) }, tip, base, path)
}

func (g gitCalls) Marked(ctx context.Context, tip kernel.CommitID, mark string, since time.Time) (kernel.CommitID, error) {
	return one(g.hook, "Marked", func() (kernel.CommitID, error) { return g.Git.Marked(ctx, tip, mark, since) }, tip, mark, since)
}

func (g gitCalls) Containing(ctx context.Context, commit kernel.CommitID, except string) ([]string, error) {
	return one(g.hook, "Containing", func() ([]string, error) { return g.Git.Containing(ctx, commit, except) }, commit, except)
}

func (g gitCalls) Touched(ctx context.Context, tip, base kernel.CommitID, branch string, since time.Time) (bool, error) {
	return one(g.hook, "Touched", func() (bool, error) { return g.Git.Touched(ctx, tip, base, branch, since) }, tip, base, branch, since)
}

func (g gitCalls) HeadCommit(ctx context.Context, dir string) (kernel.CommitID, error) {
	return one(g.hook, "HeadCommit", func() (kernel.CommitID, error) { return g.Git.HeadCommit(ctx, dir) }, dir)
}

func (g gitCalls) HeadBranch(ctx context.Context, dir string) (string, error) {
	return one(g.hook, "HeadBranch", func() (string, error) { return g.Git.HeadBranch(ctx, dir) }, dir)
}

func (g gitCalls) Base(dir string) (kernel.CommitID, error) {
	return one(g.hook, "Base", func() (kernel.CommitID, error) { return g.Git.Base(dir) }, dir)
}

func (g gitCalls) Standing(ctx context.Context, branch string) ([]string, string, error) {
	v, err := one(g.hook, "Standing", func() (two[[]string, string], error) { return both(g.Git.Standing(ctx, branch)) }, branch)
	return v.a, v.b, err
}

func (g gitCalls) OwnedWorktree(name string) (kernel.Context, error) {
	return one(g.hook, "OwnedWorktree", func() (kernel.Context, error) { return g.Git.OwnedWorktree(name) }, name)
}

func (g gitCalls) WorktreeNamed(name string) (string, error) {
	return one(g.hook, "WorktreeNamed", func() (string, error) { return g.Git.WorktreeNamed(name) }, name)
}

func (g gitCalls) Damage(c kernel.Context) (string, bool, error) {
	v, err := one(g.hook, "Damage", func() (two[string, bool], error) { return both(g.Git.Damage(c)) }, c)
	return v.a, v.b, err
}

func (g gitCalls) EnsureWorktree(ctx context.Context, name, place, branch string, commit kernel.CommitID) (kernel.Context, error) {
	return one(g.hook, "EnsureWorktree", func() (kernel.Context, error) { return g.Git.EnsureWorktree(ctx, name, place, branch, commit) }, name, place, branch, commit)
}

func (g gitCalls) Detach(ctx context.Context, dir string, commit kernel.CommitID) error {
	return just(g.hook, "Detach", func() error { return g.Git.Detach(ctx, dir, commit) }, dir, commit)
}

func (g gitCalls) Release(ctx context.Context, dir string) error {
	return just(g.hook, "Release", func() error { return g.Git.Release(ctx, dir) }, dir)
}

func (g gitCalls) DropStaleLocks(dir string, before time.Time) error {
	return just(g.hook, "DropStaleLocks", func() error { return g.Git.DropStaleLocks(dir, before) }, dir, before)
}

func (g gitCalls) DropStaleRefLocks(branches []string, before time.Time) error {
	return just(g.hook, "DropStaleRefLocks", func() error { return g.Git.DropStaleRefLocks(branches, before) }, branches, before)
}

func (g gitCalls) RemoveWorktree(ctx context.Context, c kernel.Context) kernel.Cleanup {
	v, err := one(g.hook, "RemoveWorktree", func() (kernel.Cleanup, error) { return g.Git.RemoveWorktree(ctx, c), nil }, c)
	if err != nil {
		return kernel.Cleanup{Status: kernel.CleanupFailed, Error: err.Error()}
	}
	return v
}

func (g gitCalls) DiscardWorktree(ctx context.Context, c kernel.Context) kernel.Cleanup {
	v, err := one(g.hook, "DiscardWorktree", func() (kernel.Cleanup, error) { return g.Git.DiscardWorktree(ctx, c), nil }, c)
	if err != nil {
		return kernel.Cleanup{Status: kernel.CleanupFailed, Error: err.Error()}
	}
	return v
}

func (g gitCalls) Stage(ctx context.Context, dir string, paths, force []string) error {
	return just(g.hook, "Stage", func() error { return g.Git.Stage(ctx, dir, paths, force) }, dir, paths, force)
}

func (g gitCalls) StageTracked(ctx context.Context, dir string) error {
	return just(g.hook, "StageTracked", func() error { return g.Git.StageTracked(ctx, dir) }, dir)
}

func (g gitCalls) Unstaged(ctx context.Context, dir string) ([]string, []string, error) {
	v, err := one(g.hook, "Unstaged", func() (two[[]string, []string], error) { return both(g.Git.Unstaged(ctx, dir)) }, dir)
	return v.a, v.b, err
}

func (g gitCalls) Uncommitted(ctx context.Context, dir string) ([]string, error) {
	return one(g.hook, "Uncommitted", func() ([]string, error) { return g.Git.Uncommitted(ctx, dir) }, dir)
}

func (g gitCalls) Untracked(ctx context.Context, dir string) ([]string, error) {
	return one(g.hook, "Untracked", func() ([]string, error) { return g.Git.Untracked(ctx, dir) }, dir)
}

func (g gitCalls) Staged(ctx context.Context, dir string) (bool, error) {
	return one(g.hook, "Staged", func() (bool, error) { return g.Git.Staged(ctx, dir) }, dir)
}

func (g gitCalls) Leftover(ctx context.Context, dir string) ([]string, error) {
	return one(g.hook, "Leftover", func() ([]string, error) { return g.Git.Leftover(ctx, dir) }, dir)
}

func (g gitCalls) Commit(ctx context.Context, dir, message string) (kernel.CommitID, error) {
	return one(g.hook, "Commit", func() (kernel.CommitID, error) { return g.Git.Commit(ctx, dir, message) }, dir, message)
}

func (g gitCalls) Amend(ctx context.Context, dir, message string) (kernel.CommitID, error) {
	return one(g.hook, "Amend", func() (kernel.CommitID, error) { return g.Git.Amend(ctx, dir, message) }, dir, message)
}

func (g gitCalls) Message(ctx context.Context, commit kernel.CommitID) (string, error) {
	return one(g.hook, "Message", func() (string, error) { return g.Git.Message(ctx, commit) }, commit)
}

func (g gitCalls) RemoveFile(ctx context.Context, dir, path string) error {
	return just(g.hook, "RemoveFile", func() error { return g.Git.RemoveFile(ctx, dir, path) }, dir, path)
}

func (g gitCalls) Merge(ctx context.Context, dir string, source kernel.CommitID, squash bool) error {
	return just(g.hook, "Merge", func() error { return g.Git.Merge(ctx, dir, source, squash) }, dir, source, squash)
}

func (g gitCalls) Related(ctx context.Context, a, b kernel.CommitID) (bool, error) {
	return one(g.hook, "Related", func() (bool, error) { return g.Git.Related(ctx, a, b) }, a, b)
}

func (g gitCalls) Shallow() (bool, error) {
	return one(g.hook, "Shallow", g.Git.Shallow)
}

func (g gitCalls) Merging(ctx context.Context, dir string) (bool, error) {
	return one(g.hook, "Merging", func() (bool, error) { return g.Git.Merging(ctx, dir) }, dir)
}

func (g gitCalls) Squashing(ctx context.Context, dir string) (bool, error) {
	return one(g.hook, "Squashing", func() (bool, error) { return g.Git.Squashing(ctx, dir) }, dir)
}

func (g gitCalls) Rebasing(ctx context.Context, dir string) (bool, error) {
	return one(g.hook, "Rebasing", func() (bool, error) { return g.Git.Rebasing(ctx, dir) }, dir)
}

func (g gitCalls) Sparse(ctx context.Context, dir string) (bool, error) {
	return one(g.hook, "Sparse", func() (bool, error) { return g.Git.Sparse(ctx, dir) }, dir)
}

func (g gitCalls) Unmerged(ctx context.Context, dir string) ([]string, error) {
	return one(g.hook, "Unmerged", func() ([]string, error) { return g.Git.Unmerged(ctx, dir) }, dir)
}

func (g gitCalls) MergeState(ctx context.Context, dir string) (kernel.CommitID, kernel.CommitID, kernel.CommitID, error) {
	v, err := one(g.hook, "MergeState", func() ([3]kernel.CommitID, error) {
		source, target, merged, err := g.Git.MergeState(ctx, dir)
		return [3]kernel.CommitID{source, target, merged}, err
	}, dir)
	return v[0], v[1], v[2], err
}

func (g gitCalls) SetMergeState(ctx context.Context, dir string, source, target, merged kernel.CommitID) error {
	return just(g.hook, "SetMergeState", func() error { return g.Git.SetMergeState(ctx, dir, source, target, merged) }, dir, source, target, merged)
}

func (g gitCalls) Remember(ctx context.Context, dir string, confined bool) error {
	return just(g.hook, "Remember", func() error { return g.Git.Remember(ctx, dir, confined) }, dir, confined)
}

func (g gitCalls) PutBack(ctx context.Context, dir string) (bool, error) {
	return one(g.hook, "PutBack", func() (bool, error) { return g.Git.PutBack(ctx, dir) }, dir)
}

func (g gitCalls) Forget(ctx context.Context, dir string) error {
	return just(g.hook, "Forget", func() error { return g.Git.Forget(ctx, dir) }, dir)
}

func (g gitCalls) Settle(ctx context.Context, dir string, resolved []string) error {
	return just(g.hook, "Settle", func() error { return g.Git.Settle(ctx, dir, resolved) }, dir, resolved)
}

func (g gitCalls) Replay(ctx context.Context, merged, from, onto kernel.CommitID) (kernel.CommitID, error) {
	return one(g.hook, "Replay", func() (kernel.CommitID, error) { return g.Git.Replay(ctx, merged, from, onto) }, merged, from, onto)
}

func (g gitCalls) Patch(ctx context.Context, dir string) ([]byte, error) {
	return one(g.hook, "Patch", func() ([]byte, error) { return g.Git.Patch(ctx, dir) }, dir)
}

func (g gitCalls) Apply(ctx context.Context, dir string, patch []byte) error {
	return just(g.hook, "Apply", func() error { return g.Git.Apply(ctx, dir, patch) }, dir, patch)
}

func (g gitCalls) Applied(ctx context.Context, dir string, patch []byte) (bool, error) {
	return one(g.hook, "Applied", func() (bool, error) { return g.Git.Applied(ctx, dir, patch) }, dir, patch)
}
