package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/fs/template"
	"github.com/vizier-scheduler/vizier/kernel"
)

//go:embed scaffold
var scaffold embed.FS

type initCmd struct {
	Agent string `placeholder:"NAME" help:"The agent for templates: claude, codex, gemini, builtin or a shim; by default an installed one."`
	Check bool   `help:"Only show what is missing; exit 1 if anything is."`
}

func (*initCmd) Help() string {
	return "Writes the shipped templates and their prompts, a configuration and ci.sh if they are missing, and Vizier's block in " +
		".gitignore. Apart from that block, it changes no existing file, and it writes none that git has and the working tree lacks. A new configuration names an installed agent: if there are several, it asks on a " +
		"terminal which to use. builtin is no model: it runs the blocks of its prompt that begin with ```sh, and nothing else."
}

// starter is a file that `vizier init` writes.
type starter struct {
	path string // relative to the repository's root, with slashes
	text []byte
	mode fs.FileMode
}

// starters returns the files of a repository that uses Vizier.
func starters() ([]starter, error) {
	var out []starter
	for _, s := range []starter{{configPath, nil, 0o644}, {".vizier/narrative/snapshot.md", nil, 0o644},
		{".vizier/narrative/glossary.md", nil, 0o644}, {"ci.sh", nil, 0o755}} {
		var err error
		if s.text, err = scaffold.ReadFile("scaffold/" + path.Base(s.path)); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	err := fs.WalkDir(template.Shipped(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		at := ".vizier/workflows/" + name
		if path.Dir(name) == "prompts" {
			at = ".vizier/" + name
		}
		text, err := fs.ReadFile(template.Shipped(), name)
		out = append(out, starter{at, text, 0o644})
		return err
	})
	return out, err
}

// Run writes what is missing.
func (x *initCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	files, err := starters()
	if err != nil {
		return err
	}
	if err := inPlace(r.Root, files); err != nil {
		return err
	}
	inGit, back, err := r.inIndex(c.ctx, files)
	if err == nil && inGit != "" && !x.Check {
		err = &failure{class: classUsage, err: fmt.Errorf("git has %s, and the working tree lacks it: nothing is written", inGit), hint: back}
	}
	if err != nil {
		return err
	}
	var missing []string
	agent := ""
	for _, s := range files {
		absent, err := s.missing(r.Root)
		if err != nil {
			return err
		}
		if s.path == configPath && !x.Check {
			if s, agent, err = x.configured(c, r, s, absent); err != nil {
				return err
			}
		}
		if !absent {
			continue
		}
		missing = append(missing, s.path)
		if !x.Check {
			if err := s.write(r.Root); err != nil {
				return err
			}
		}
	}
	at := filepath.Join(r.Root, ".gitignore")
	before, err := os.ReadFile(at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read .gitignore: %w", err)
	}
	after, lacks := ignoring(string(before))
	missing = append(missing, lacks...)
	if !x.Check && after != string(before) {
		if err := replaceFile(at, []byte(after)); err != nil {
			return fmt.Errorf("write .gitignore: %w", err)
		}
	}
	flow := func(file string) bool { return strings.HasPrefix(file, ".vizier/workflows/") }
	if i := slices.IndexFunc(missing, flow); x.Check && back == "" && i >= 0 {
		back = r.onBranch(c.ctx, missing[i])
	}
	err = x.answer(c, missing, cmp.Or(back, "vizier init"))
	if r.Tree != r.Root {
		c.ui.print("Main working tree: " + r.Root + " (here is a linked worktree; Vizier's files are there)")
	}
	if err != nil || agent == "" {
		return err
	}
	c.ui.print("Agent: " + agent)
	return nil
}

// answer says what was missing, and for --check with next what to do about it.
func (x *initCmd) answer(c *call, missing []string, next string) error {
	switch {
	case x.Check && len(missing) == 0:
		c.ui.print("Outcome: vizier init check: satisfied")
	case x.Check:
		c.ui.print("Outcome: vizier init check: missing required items")
		for _, m := range missing {
			c.ui.print("missing: " + m)
		}
		return &failure{class: class{"failed", 1, next}, err: errors.New("vizier init --check failed")}
	case len(missing) == 0:
		c.ui.print("Outcome: vizier init already satisfied")
	default:
		c.ui.print("Outcome: vizier init newly initialized")
	}
	return nil
}

// inPlace refuses directories that are links: otherwise a foreign repository
// could have files written anywhere.
func inPlace(root string, files []starter) error {
	for _, s := range files {
		for dir := path.Dir(s.path); dir != "."; dir = path.Dir(dir) {
			info, err := os.Lstat(filepath.Join(root, dir))
			if err == nil && !info.IsDir() {
				return fmt.Errorf("%s is a link or a file, but Vizier needs a directory there: move it away, and run `vizier init` again", filepath.Join(root, dir))
			}
		}
	}
	at := filepath.Join(root, ".gitignore")
	real, err := filepath.EvalSymlinks(at)
	if info, e := os.Lstat(at); err != nil && e == nil && info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s is a link that leads nowhere: move it away, and run `vizier init` again", at)
	}
	if err != nil {
		return nil // it does not exist; other errors are found when it is read
	}
	home, err := filepath.EvalSymlinks(root)
	if rel, e := filepath.Rel(home, real); err == nil && (e != nil || !filepath.IsLocal(rel)) {
		return fmt.Errorf("%s is a link to %s, outside the repository: move it away, and run `vizier init` again", at, real)
	}
	return nil
}

// indexed is what telling a file that is missing from one that is only not checked out needs of git.
type indexed interface {
	Tracked(ctx context.Context, below ...string) (string, error)
	Sparse(ctx context.Context, dir string) (bool, error)
}

// inIndex returns one of files that git's index has and the working tree lacks, as in a sparse
// checkout, and how to get it back: what was committed is not to be replaced by what is shipped.
// path is "" if there is none.
func (r *repo) inIndex(ctx context.Context, files []starter) (path, back string, err error) {
	var absent []string
	for _, s := range files {
		if missing, err := s.missing(r.Root); err == nil && missing { // errors are told when it is written
			absent = append(absent, s.path)
		}
	}
	return r.fromIndex(ctx, absent...)
}

// fromIndex returns a path at or below one of those given that git's index has and the
// working tree lacks, and how to get it back. path is "" if there is none.
func (r *repo) fromIndex(ctx context.Context, among ...string) (path, back string, err error) {
	if len(among) == 0 {
		return "", "", nil
	}
	if path, err = r.Git.Tracked(ctx, among...); err != nil || path == "" {
		return "", "", err
	}
	if _, err := os.Lstat(filepath.Join(r.Root, path)); !errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	back = "`" + kernel.CommandLine("git", "checkout", "--", path) + "` brings it back"
	if sparse, err := r.Git.Sparse(ctx, r.Root); err == nil && sparse {
		back = "`" + kernel.CommandLine("git", "sparse-checkout", "add", filepath.Dir(path)) + "` checks it out; if it was deleted, " + back
	}
	return path, back, nil
}

// onBranch returns how to get a file that a local branch has and HEAD lacks, or "": one that is written
// instead would be in the way of switching to that branch. Branches of plans come last.
func (r *repo) onBranch(ctx context.Context, path string) string {
	const most = 16
	tips, err := r.Git.Branches(ctx, "")
	if err != nil {
		return ""
	}
	usual := func(branch string) int {
		switch {
		case branch == "main", branch == "master":
			return 0
		case strings.HasPrefix(branch, "draft/"):
			return 2
		}
		return 1
	}
	branches := slices.SortedFunc(maps.Keys(tips), func(a, b string) int { return cmp.Or(usual(a)-usual(b), strings.Compare(a, b)) })
	for _, branch := range branches[:min(most, len(branches))] {
		if text, err := r.Git.FileAt(ctx, tips[branch], path); err == nil && text != nil {
			return fmt.Sprintf("branch %s has it: switch to that, or `%s` takes it over", branch, kernel.CommandLine("git", "checkout", branch, "--", ".vizier"))
		}
	}
	return ""
}

func (s starter) missing(root string) (bool, error) {
	info, err := os.Stat(filepath.Join(root, s.path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("required file %s: %w", s.path, err)
	case !info.Mode().IsRegular():
		return false, fmt.Errorf("failed to create required file %s: path exists and is not a file", s.path)
	}
	return false, nil
}

// write creates the file. If it has come to exist meanwhile, it is left
// unchanged.
func (s starter) write(root string) error {
	at := filepath.Join(root, s.path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return fmt.Errorf("failed to create required file %s: %w", s.path, err)
	}
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, s.mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = bytes.NewReader(s.text).WriteTo(f)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("failed to create required file %s: %w", s.path, err)
	}
	return nil
}

// replaceFile atomically replaces a file by another with the same mode.
func replaceFile(at string, text []byte) error {
	mode := fs.FileMode(0o644)
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
		if info, err := os.Stat(at); err == nil {
			mode = info.Mode().Perm()
		}
	}
	f, err := os.CreateTemp(filepath.Dir(at), ".vizier-init-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), at)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
