package git

import (
	"context"
	"errors"
	iofs "io/fs"
	"sync"

	"github.com/vizier-scheduler/vizier/kernel"
)

// fallback asks first, and if that fails the complete Backend.
type fallback struct {
	Backend
	first engine

	mu       sync.Mutex
	failures int
	reason   string
}

// degraded returns how often first has failed so far, and the last reason.
func (f *fallback) degraded() (failures int, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failures, f.reason
}

// failed reports whether to ask the other backend: err is not an answer, and
// the caller's context has not ended.
func (f *fallback) failed(ctx context.Context, err error) bool {
	if err == nil || errors.Is(err, iofs.ErrNotExist) || ctx.Err() != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures++
	f.reason = err.Error()
	return true
}

// try returns first's answer or, if it fails, second's.
func try[T any](ctx context.Context, f *fallback, first, second func() (T, error)) (T, error) {
	v, err := first()
	if f.failed(ctx, err) {
		return second()
	}
	return v, err
}

func (f *fallback) Version(ctx context.Context) (string, error) {
	return try(ctx, f,
		func() (string, error) { return f.first.Version(ctx) },
		func() (string, error) { return f.Backend.Version(ctx) })
}

func (f *fallback) Heads(ctx context.Context, branches []string) (map[string]kernel.CommitID, error) {
	return try(ctx, f,
		func() (map[string]kernel.CommitID, error) { return f.first.Heads(ctx, branches) },
		func() (map[string]kernel.CommitID, error) { return f.Backend.Heads(ctx, branches) })
}

func (f *fallback) Files(ctx context.Context, files []File) (map[File]bool, error) {
	return try(ctx, f,
		func() (map[File]bool, error) { return f.first.Files(ctx, files) },
		func() (map[File]bool, error) { return f.Backend.Files(ctx, files) })
}

func (f *fallback) ReadFile(ctx context.Context, file File) ([]byte, error) {
	return try(ctx, f,
		func() ([]byte, error) { return f.first.ReadFile(ctx, file) },
		func() ([]byte, error) { return f.Backend.ReadFile(ctx, file) })
}

func (f *fallback) Head(ctx context.Context) (string, error) {
	return try(ctx, f,
		func() (string, error) { return f.first.Head(ctx) },
		func() (string, error) { return f.Backend.Head(ctx) })
}

// Clean trusts first only if it says clean. What looks dirty to libgit2 may be
// due to a filter or a sparse checkout that it does not support, so then git
// decides.
func (f *fallback) Clean(ctx context.Context) (bool, error) {
	clean, err := f.first.Clean(ctx)
	if f.failed(ctx, err) || err == nil && !clean {
		return f.Backend.Clean(ctx)
	}
	return clean, err
}

func (f *fallback) IsAncestor(ctx context.Context, commit, tip kernel.CommitID) (bool, error) {
	return try(ctx, f,
		func() (bool, error) { return f.first.IsAncestor(ctx, commit, tip) },
		func() (bool, error) { return f.Backend.IsAncestor(ctx, commit, tip) })
}

// PruneWorktree only asks first. Repo handles its failure as seed 000
// prescribes.
func (f *fallback) PruneWorktree(ctx context.Context, w Worktree) error {
	err := f.first.PruneWorktree(ctx, w)
	f.failed(ctx, err)
	return err
}
