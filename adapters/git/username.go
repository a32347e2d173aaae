package git

import (
	"context"
	"os/exec"
	"strings"
)

// UserName returns the author name of commits made in the working directory, or
// "" if none is configured.
func UserName(ctx context.Context) string { return setting(ctx, "user.name") }

// Pager returns the pager in git's configuration, or "" if none is configured.
func Pager(ctx context.Context) string { return setting(ctx, "core.pager") }

func setting(ctx context.Context, key string) string {
	out, err := exec.CommandContext(ctx, "git", "config", key).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
