package kernel_test

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

func TestWorktreeName(t *testing.T) {
	for link, want := range map[string]string{
		"gitdir: /r/.git/worktrees/draft-1\n": "draft-1",
		"gitdir: ../.git/worktrees/draft-1":   "draft-1",
		"gitdir: /r/.git/modules/sub\n":       "",
		"/r/.git/worktrees/draft-1\n":         "",
		"gitdir: worktrees\n":                 "",
		"":                                    "",
	} {
		if got := kernel.WorktreeName(link); got != want {
			t.Errorf("%q: %q, want %q", link, got, want)
		}
	}
}
