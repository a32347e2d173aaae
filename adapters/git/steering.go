package git

import (
	"context"
	"fmt"
	"strings"
)

// Steering returns the files below .vizier that branch has changed since it left
// target, such as the configuration, templates and prompts: once merged, they steer
// Vizier. Plans' documents and the narrative do not count. target "" is what is
// checked out in the main working tree. A branch that does not exist has changed
// none.
func (r *Repo) Steering(ctx context.Context, branch, target string) ([]string, error) {
	heads, err := r.Heads(ctx, []string{branch, target})
	if err != nil || heads[branch] == "" || target != "" && heads[target] == "" {
		return nil, err
	}
	out, err := r.cli.read(ctx, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-relative", "--ignore-submodules=dirty",
		string(heads[target])+"..."+string(heads[branch]), "--", ":(top,icase).vizier", ":(top,exclude).vizier/implementation-plans", ":(top,exclude).vizier/narrative")
	if err != nil {
		return nil, fmt.Errorf("ask git what %s changes below .vizier: %w", branch, err)
	}
	return strings.FieldsFunc(string(out), func(c rune) bool { return c == 0 }), nil
}
