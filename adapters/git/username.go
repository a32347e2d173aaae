package git

import (
	"context"
	"os/exec"
	"strings"
)

// UserName is the name that commits made in the working directory would have;
// "" where none is configured.
func UserName(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "config", "user.name").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
