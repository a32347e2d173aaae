package git

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// ErrNotRepository says that neither a directory nor one above it is a
// repository.
var ErrNotRepository = errors.New("vizier cannot be used outside a git repository")

// ErrNamed says that there is a repository for git alone: GIT_DIR names it.
var ErrNamed = errors.New("git has one because of the variable GIT_DIR, which vizier ignores: hooks and other programs leave it behind")

// Named returns err, an error of FindRoot, with ErrNamed if it is ErrNotRepository and gitDir,
// the value of GIT_DIR, names a repository. A relative gitDir begins at the working directory.
func Named(err error, gitDir string) error {
	if !errors.Is(err, ErrNotRepository) || gitDir == "" || !isGitDir(gitDir) {
		return err
	}
	return fmt.Errorf("%w; %w (%s)", err, ErrNamed, gitDir)
}

// Root holds the paths of a repository. They are absolute and free of symbolic
// links.
type Root struct {
	Dir       string // the main working tree, which contains .vizier
	Tree      string // the working tree the search began in
	GitDir    string // the git directory of the working tree the search began in
	CommonDir string // the git directory that all of its working trees share
	Linked    bool   // the search began in a linked worktree
}

// FindRoot finds the repository that contains dir, the innermost one if they
// are nested. In a linked worktree that is the one of the main working tree
// (semantics 3.18); a submodule is a repository of its own. FindRoot only reads
// files. Outside of a repository it fails with ErrNotRepository.
func FindRoot(dir string) (Root, error) {
	start, err := filepath.Abs(dir)
	if err == nil {
		start, err = filepath.EvalSymlinks(start)
	}
	if err != nil {
		return Root{}, fmt.Errorf("find the repository of %s: %w", dir, err)
	}
	for at := start; ; at = filepath.Dir(at) {
		gitDir, err := gitDirOf(at)
		if err != nil {
			return Root{}, fmt.Errorf("find the repository of %s: %w", dir, err)
		}
		if gitDir != "" {
			root, err := rootAt(at, gitDir)
			if err != nil {
				return Root{}, fmt.Errorf("find the repository of %s: %w", dir, err)
			}
			return root, nil
		}
		if isGitDir(at) && filepath.Base(at) != ".git" {
			return Root{}, fmt.Errorf("%s is a git directory without a working tree (a bare repository?): "+
				"run vizier in a clone that has one", at)
		}
		if at == filepath.Dir(at) {
			return Root{}, fmt.Errorf("%w: %s", ErrNotRepository, start)
		}
	}
}

// maxLink is how long a file may be that leads to a git directory; git's own
// limit. It is in a tree that a job can write: reading a pipe or a device in
// its place would not end.
const maxLink = 1 << 20

// gitDirOf returns the git directory that at/.git is or points to, or "". Like
// git, it ignores a .git that is neither a git directory nor a file, and fails
// for a .git file that leads nowhere.
func gitDirOf(at string) (string, error) {
	path := filepath.Join(at, ".git")
	info, err := os.Stat(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		if _, err := os.Lstat(filepath.Join(path, "HEAD")); errors.Is(err, iofs.ErrPermission) {
			return "", err // it may be one
		}
		if !isGitDir(path) {
			return "", nil
		}
		return filepath.EvalSymlinks(path)
	}
	text, err := sys.ReadLinked(path, maxLink)
	if errors.Is(err, sys.ErrNotRegular) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	target, ok := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), "gitdir:")
	if !ok {
		return "", fmt.Errorf("%s is a file that does not begin with `gitdir:`", path)
	}
	target = absolute(at, strings.TrimSpace(target))
	if !isGitDir(target) {
		return "", fmt.Errorf("%s points to %s, which is no git directory: "+
			"if the repository was moved, run `git worktree repair` in it", path, target)
	}
	return filepath.EvalSymlinks(target)
}

// isGitDir reports whether git would recognise dir as a git directory: it has a
// HEAD, and its own or shared objects and refs.
func isGitDir(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		return false
	}
	if _, err := os.Stat(filepath.Join(dir, "commondir")); err == nil {
		return true
	}
	for _, sub := range []string{"objects", "refs"} {
		if info, err := os.Stat(filepath.Join(dir, sub)); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// rootAt returns the Root of the working tree at, whose git directory is
// gitDir.
func rootAt(at, gitDir string) (Root, error) {
	r := Root{Dir: at, Tree: at, GitDir: gitDir, CommonDir: gitDir}
	text, err := sys.ReadLinked(filepath.Join(gitDir, "commondir"), maxLink)
	switch {
	case err == nil:
		r.Linked = true
		common := absolute(gitDir, strings.TrimSpace(string(text)))
		if !isGitDir(common) {
			return r, fmt.Errorf("worktree %s belongs to %s, which is no git directory: "+
				"if the repository was moved, run `git worktree repair` in it", at, common)
		}
		if r.CommonDir, err = filepath.EvalSymlinks(common); err != nil {
			return r, err
		}
	case !errors.Is(err, iofs.ErrNotExist):
		return r, err
	}
	if r.Dir, err = mainTree(r, at); err != nil {
		return r, err
	}
	if !r.Linked {
		r.Tree = r.Dir
		if r.Dir == at {
			return r, nil
		}
	}
	if own, err := gitDirOf(r.Dir); err != nil || own != r.CommonDir {
		return r, fmt.Errorf("%s belongs to %s, whose main working tree cannot be used: %s does not belong to it: "+
			"run vizier in a clone that has a working tree of its own", at, r.CommonDir, r.Dir)
	}
	return r, nil
}

// mainTree returns the main working tree of r's repository.
func mainTree(r Root, at string) (string, error) {
	core, err := readCore(r.CommonDir)
	if err != nil {
		return "", err
	}
	dir := at
	switch {
	case core.worktree != "":
		dir = absolute(r.CommonDir, core.worktree)
	case core.bare && filepath.Base(r.CommonDir) == ".git":
		return "", fmt.Errorf("core.bare is true in %s, so it is a bare repository, and vizier keeps its records in a main working tree: "+
			"if %s is that, run `%s`; otherwise run vizier in a clone that has one", filepath.Join(r.CommonDir, "config"), filepath.Dir(r.CommonDir),
			kernel.CommandLine("git", "--git-dir="+r.CommonDir, "config", "core.bare", "false"))
	case core.bare:
		return "", fmt.Errorf("%s is a bare repository: vizier keeps its records in a main working tree, "+
			"so run it in a clone that has one", r.CommonDir)
	case r.Linked && filepath.Base(r.CommonDir) != ".git":
		return "", fmt.Errorf("%s is a linked worktree of %s, which does not say where its main working tree is: "+
			"run vizier there", at, r.CommonDir)
	case r.Linked:
		dir = filepath.Dir(r.CommonDir)
	}
	if dir == at {
		return dir, nil // the caller has resolved its links
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", fmt.Errorf("main working tree: %w", err)
	}
	return dir, nil
}

func absolute(base, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}
