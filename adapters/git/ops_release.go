package git

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Operation returns what is in progress in the main working tree, such as a
// merge or a rebase, or "".
func (r *Repo) Operation() (string, error) { return operation(r.root.CommonDir) }

// Tags returns the names of the tags of commit and of its ancestors.
func (r *Repo) Tags(ctx context.Context, commit kernel.CommitID) ([]string, error) {
	if err := commits(commit); err != nil {
		return nil, fmt.Errorf("list tags: %w", err)
	}
	out, err := r.cli.read(ctx, "for-each-ref", "--format=%(refname:lstrip=2)", "--merged="+string(commit), "refs/tags/")
	return strings.Fields(string(out)), err
}

// TagExists reports whether a tag exists.
func (r *Repo) TagExists(ctx context.Context, name string) (bool, error) {
	at, err := r.cli.refAt(ctx, "refs/tags/"+name)
	return at != "", err
}

// History returns the commits reachable from tip but not from the tag since,
// newest first, as pairs of id and message. If since is empty, it returns all
// commits reachable from tip.
func (r *Repo) History(ctx context.Context, since string, tip kernel.CommitID) ([][2]string, error) {
	if err := commits(tip); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	args := []string{"log", "-z", "--format=%H%n%B", string(tip)}
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

// EmptyCommit makes a commit without changes on top of from, which is on no
// branch yet. Index and files are not touched, so no hook runs; commit.gpgSign
// applies.
func (r *Repo) EmptyCommit(ctx context.Context, from kernel.CommitID, message string) (kernel.CommitID, error) {
	if err := commits(from); err != nil {
		return "", fmt.Errorf("commit: %w", err)
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
	return kernel.CommitID(strings.TrimSpace(string(out))), err
}

// CreateTag creates an annotated tag and returns the tag object, for DeleteTag.
// It fails if the tag exists. tag.gpgSign applies.
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

// DeleteTag deletes a tag. It fails with ErrMoved if the tag is not the one
// that CreateTag made.
func (r *Repo) DeleteTag(ctx context.Context, name, object string) error {
	if err := r.cli.moveRef(ctx, "refs/tags/"+name, "", kernel.CommitID(object)); err != nil {
		return fmt.Errorf("delete tag %s: %w", name, err)
	}
	return nil
}
