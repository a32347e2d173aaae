package git

import (
	"context"
)

// Patch returns the difference between the tracked files at dir, staged or not,
// and the checked-out commit, as a binary patch that Apply understands whatever
// the user's settings are. It is empty if there is no difference. Patch fails while
// files at dir are in conflict.
func (r *Repo) Patch(ctx context.Context, dir string) ([]byte, error) {
	top, err := r.linkedTop(dir)
	if err != nil {
		return nil, err
	}
	i, err := r.indexIn(ctx, dir, top)
	if err == nil {
		err = inConflict(dir, i.unmerged)
	}
	if err != nil {
		return nil, err
	}
	// git diff takes what it cannot read for deleted.
	if _, err := r.cli.run(ctx, command{dir: dir, whole: true, args: []string{"status", "--porcelain=v1", "--untracked-files=no", "--ignore-submodules=dirty"}}); err != nil {
		return nil, err
	}
	base, err := r.HeadCommit(ctx, dir)
	if err != nil {
		return nil, err
	}
	from := string(base)
	if from == "" {
		empty, err := r.cli.run(ctx, command{dir: dir, args: []string{"hash-object", "-t", "tree", "--stdin"}})
		if err != nil {
			return nil, err
		}
		from = string(empty[:len(empty)-1])
	}
	args := []string{"diff", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-relative",
		"--unified=3", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=dirty", from, "--", ":(top)"}
	for _, d := range scratch[:] {
		args = append(args, ":(top,exclude)"+d)
	}
	return r.cli.run(ctx, command{dir: dir, args: args})
}

// Apply applies a patch to the files and the index at dir, all of it or
// nothing. It fails while files at dir are in conflict.
func (r *Repo) Apply(ctx context.Context, dir string, patch []byte) error {
	if err := r.checkUnmerged(ctx, dir); err != nil {
		return err
	}
	_, err := r.cli.run(ctx, command{dir: dir, stdin: patch, writes: true,
		args: []string{"apply", "--index", "--binary", "--whitespace=nowarn", "-"}})
	return err
}

// Applied reports whether patch is applied to the files and the index at dir,
// which means that it could be reverted.
func (r *Repo) Applied(ctx context.Context, dir string, patch []byte) (bool, error) {
	_, err := r.cli.run(ctx, command{dir: dir, stdin: patch,
		args: []string{"apply", "--index", "--binary", "--whitespace=nowarn", "--reverse", "--check", "-"}})
	if exitCode(err) > 0 {
		return false, nil
	}
	return err == nil, err
}
