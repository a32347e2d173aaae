package git

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
)

// checkInner returns an error if a linked working tree, such as one that an
// agent works in, contains a repository that git would treat as a submodule:
// git add and git commit would run programs from its configuration, such as a
// file monitor or a filter. Submodules that git has made are allowed; their git
// directories are within the repository's own.
func (r *Repo) checkInner(ctx context.Context, dir string) error {
	all, err := worktrees(r.root.CommonDir)
	if err != nil {
		return err
	}
	top, at := "", resolved(dir)
	for _, w := range all {
		if path := resolved(w.Path); within(at, path) && len(path) > len(top) {
			top = path
		}
	}
	if top == "" {
		return nil
	}
	staged, err := r.cli.run(ctx, command{dir: top, args: []string{"ls-files", "--stage", "-z"}})
	if err != nil {
		return err
	}
	for entry := range strings.SplitSeq(string(staged), "\x00") {
		_, name, _ := strings.Cut(entry, "\t")
		if !strings.HasPrefix(entry, "160000 ") {
			continue
		}
		if own, err := ownSubmodule(filepath.Join(top, name), r.root.CommonDir); err != nil || !own {
			return errors.Join(err, fmt.Errorf("%s is a repository within %s, and git would run what its configuration says: remove %s, or leave the directory out of what is committed", name, top, filepath.Join(name, ".git")))
		}
	}
	return nil
}

// ownSubmodule reports whether path contains no repository, or a submodule that
// git has made, with its git directory below common.
func ownSubmodule(path, common string) (bool, error) {
	link := filepath.Join(path, ".git")
	st, err := os.Lstat(link)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return true, nil
	case err != nil || !st.Mode().IsRegular():
		return false, err
	}
	text, err := os.ReadFile(link)
	if err != nil {
		return false, err
	}
	to, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
	if !ok {
		return false, nil
	}
	if to = strings.TrimSpace(to); !filepath.IsAbs(to) {
		to = filepath.Join(path, to)
	}
	return within(resolved(to), resolved(common)), nil
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
