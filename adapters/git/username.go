package git

import (
	"context"
	"os/exec"
	"strings"
)

// UserName is the name that commits made in the working directory would have;
// "" where none is configured.
func UserName(ctx context.Context) string { return setting(ctx, "user.name") }

// Pager is the program that git pages its output with, by its configuration; "":
// none is configured.
func Pager(ctx context.Context) string { return setting(ctx, "core.pager") }

func setting(ctx context.Context, key string) string {
	out, err := exec.CommandContext(ctx, "git", "config", key).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
