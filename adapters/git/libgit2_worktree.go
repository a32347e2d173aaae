//go:build cgo && libgit2

package git

/*
#cgo pkg-config: libgit2
#include <git2.h>
#include <stdlib.h>

// All of it happens in one call, because libgit2 keeps its last error by
// thread and a goroutine may change threads between two calls.
static int vizier_worktree_prune(const char *dir, const char *name, char *message, size_t size)
{
	git_repository *repo = NULL;
	git_worktree *wt = NULL;
	git_worktree_prune_options opts = GIT_WORKTREE_PRUNE_OPTIONS_INIT;
	const git_error *e;
	const char *kept = NULL;
	int rc;

	git_error_clear();
	if ((rc = git_repository_open(&repo, dir)) == 0 &&
	    (rc = git_worktree_lookup(&wt, repo, name)) == 0) {
		if ((rc = git_worktree_is_prunable(wt, &opts)) > 0)
			rc = git_worktree_prune(wt, &opts);
		else if (rc == 0) {
			rc = GIT_ERROR;
			kept = "the working tree is still there, or it is locked";
		}
	}
	if (rc < 0 && size > 0) {
		const char *text = kept ? kept : (e = git_error_last()) && e->message ? e->message : "unknown error";
		size_t n = 0;
		for (; n + 1 < size && text[n]; n++)
			message[n] = text[n];
		message[n] = '\0';
	}
	git_worktree_free(wt);
	git_repository_free(repo);
	return rc;
}

static void vizier_libgit2_version(int v[3]) { git_libgit2_version(&v[0], &v[1], &v[2]); }
*/
import "C"

import (
	"context"
	"fmt"
	"unsafe"
)

// Functions for which git2go v34 has no binding.

func (libgit2) Version(context.Context) (string, error) {
	var v [3]C.int
	C.vizier_libgit2_version(&v[0])
	return fmt.Sprintf("libgit2 %d.%d.%d", v[0], v[1], v[2]), nil
}

func (l libgit2) PruneWorktree(ctx context.Context, w Worktree) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("libgit2 prune: %w", err)
	}
	dir, name := C.CString(l.root.Dir), C.CString(w.Name)
	defer C.free(unsafe.Pointer(dir))
	defer C.free(unsafe.Pointer(name))
	var message [512]C.char
	if C.vizier_worktree_prune(dir, name, &message[0], C.size_t(len(message))) < 0 {
		return fmt.Errorf("libgit2 prune: %s", C.GoString(&message[0]))
	}
	return nil
}
