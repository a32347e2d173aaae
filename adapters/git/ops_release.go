package git

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Operation is what is under way in the main working tree, such as a merge or
// a rebase; "" when nothing is.
func (r *Repo) Operation() (string, error) { return operation(r.root.CommonDir) }

// Tags are the names of the tags that lead to commit or to an ancestor of it.
func (r *Repo) Tags(ctx context.Context, commit kernel.CommitID) ([]string, error) {
	if err := commits(commit); err != nil {
		return nil, fmt.Errorf("list tags: %w", err)
	}
	out, err := r.cli.read(ctx, "for-each-ref", "--format=%(refname:lstrip=2)", "--merged="+string(commit), "refs/tags/")
	return strings.Fields(string(out)), err
}

// TagExists reports whether there is a tag of that name.
func (r *Repo) TagExists(ctx context.Context, name string) (bool, error) {
	at, err := r.cli.refAt(ctx, "refs/tags/"+name)
	return at != "", err
}

// History is the commits that lead to tip and not to the tag since, newest
// first, as alternating ids and messages; an empty since is no bound.
func (r *Repo) History(ctx context.Context, since string, tip kernel.CommitID) ([][2]string, error) {
	if err := commits(tip); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	args := []string{"log", "-z", "--no-show-signature", "--format=%H%n%B", string(tip)}
	if since != "" {
		args = append(args, "^refs/tags/"+since)
	}
	out, err := r.cli.read(ctx, append(args, "--")...)
	if err != nil {
		return nil, err
	}
	var log [][2]string
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if id, message, ok := strings.Cut(entry, "\n"); ok {
			log = append(log, [2]string{id, strings.TrimSpace(message)})
		}
	}
	return log, nil
}

// CommitEmpty puts a commit without changes on top of branch, if it is at from
// still (ErrMoved otherwise). Neither index nor files are touched, so no hook
// runs; commit.gpgSign applies.
func (r *Repo) CommitEmpty(ctx context.Context, branch string, from kernel.CommitID, message string) (kernel.CommitID, error) {
	if err := commits(from); err != nil {
		return "", fmt.Errorf("commit to %s: %w", branch, err)
	}
	args := []string{"commit-tree", string(from) + "^{tree}", "-p", string(from), "-F", "-"}
	sign, err := r.cli.read(ctx, "config", "--type=bool", "--default=false", "--get", "commit.gpgSign")
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(string(sign)) == "true" {
		args = slices.Insert(args, 1, "-S")
	}
	out, err := r.cli.run(ctx, command{args: args, stdin: []byte(message), env: r.cli.fallbackIdentity(ctx, ""), writes: true, hooks: true})
	if err != nil {
		return "", err
	}
	id := kernel.CommitID(strings.TrimSpace(string(out)))
	return id, r.UpdateRef(ctx, "refs/heads/"+branch, id, from)
}

// CreateTag makes an annotated tag and returns its object, for DeleteTag. It
// fails if the tag exists. tag.gpgSign applies.
func (r *Repo) CreateTag(ctx context.Context, name string, at kernel.CommitID, message string) (object string, err error) {
	if err := commits(at); err != nil {
		return "", fmt.Errorf("tag %s: %w", name, err)
	}
	_, err = r.cli.run(ctx, command{writes: true, hooks: true, stdin: []byte(message), env: r.cli.fallbackIdentity(ctx, ""),
		args: []string{"tag", "--annotate", "--cleanup=whitespace", "--file=-", "--", name, string(at)}})
	if err != nil {
		return "", err
	}
	id, err := r.cli.refAt(ctx, "refs/tags/"+name)
	return string(id), err
}

// DeleteTag drops a tag that still is the one CreateTag made; ErrMoved if it
// is not.
func (r *Repo) DeleteTag(ctx context.Context, name, object string) error {
	if err := r.cli.moveRef(ctx, "refs/tags/"+name, "", kernel.CommitID(object)); err != nil {
		return fmt.Errorf("delete tag %s: %w", name, err)
	}
	return nil
}
