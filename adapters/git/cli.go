package git

import (
	"bytes"
	"context"
	"fmt"
	iofs "io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// cli implements Backend with the git program.
type cli struct {
	root Root
	exec func(*exec.Cmd) error // runs a process
}

func newCLI(root Root) *cli { return &cli{root: root, exec: (*exec.Cmd).Run} }

// read runs a git process that changes nothing.
func (c *cli) read(ctx context.Context, args ...string) ([]byte, error) {
	return c.run(ctx, command{args: args})
}

func (c *cli) Version(ctx context.Context) (string, error) {
	out, err := c.run(ctx, command{dir: ".", args: []string{"version"}})
	if err != nil {
		return "", err
	}
	return "git CLI " + strings.TrimPrefix(strings.TrimSpace(string(out)), "git version "), nil
}

// fewBranches is up to how many names are looked up one by one. For more, all
// branches are listed, because an argument list has a limit, git compares each
// branch with each pattern, and libgit2 opens a file for each name.
const fewBranches = 64

func (c *cli) Heads(ctx context.Context, branches []string) (map[string]kernel.CommitID, error) {
	heads := make(map[string]kernel.CommitID, len(branches))
	args := []string{"for-each-ref", "--format=%(objectname) %(refname)"}
	for _, name := range branches {
		heads[name] = ""
		if validBranch(name) {
			args = append(args, "refs/heads/"+name)
		}
	}
	switch asked := len(args) - 2; {
	case asked == 0:
		return heads, nil
	case asked > fewBranches:
		args = append(args[:2:2], "refs/heads/")
	}
	out, err := c.read(ctx, args...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		id, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		name := strings.TrimPrefix(ref, "refs/heads/")
		if _, asked := heads[name]; asked && validBranch(name) {
			heads[name] = kernel.CommitID(id)
		}
	}
	return heads, nil
}

func (c *cli) Files(ctx context.Context, files []File) (map[File]bool, error) {
	found := make(map[File]bool, len(files))
	var asked []File
	for _, f := range files {
		found[f] = false
		if f.valid() {
			asked = append(asked, f)
		}
	}
	if len(asked) == 0 {
		return found, nil
	}
	err := c.objects(ctx, "--batch-check", asked, func(f File, kind string, _ []byte) { found[f] = kind == "blob" })
	return found, err
}

func (c *cli) ReadFile(ctx context.Context, f File) ([]byte, error) {
	var content []byte
	ok := false
	if f.valid() {
		err := c.objects(ctx, "--batch", []File{f}, func(_ File, kind string, data []byte) {
			content, ok = data, kind == "blob"
		})
		if err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, fmt.Errorf("read %s in commit %s: %w", f.Path, f.Commit, iofs.ErrNotExist)
	}
	return content, nil
}

// objects asks one git cat-file process for all files. It calls see with each
// file's kind ("" if it does not exist) and, with mode --batch, its content.
func (c *cli) objects(ctx context.Context, mode string, files []File, see func(f File, kind string, data []byte)) error {
	args := []string{"cat-file", mode + "=%(objecttype) %(objectsize)"}
	end := "\n"
	if slices.ContainsFunc(files, func(f File) bool { return strings.Contains(f.Path, "\n") }) {
		args, end = append(args, "-z"), "\x00" // -z needs git 2.38, so it is only used where necessary
	}
	var in strings.Builder
	for _, f := range files {
		in.WriteString(string(f.Commit) + ":" + f.Path + end)
	}
	out, err := c.run(ctx, command{args: args, stdin: []byte(in.String())})
	if err != nil {
		return err
	}
	for _, f := range files {
		// Git repeats the name of a missing object, including line breaks.
		if rest, missing := bytes.CutPrefix(out, []byte(string(f.Commit)+":"+f.Path+" missing\n")); missing {
			see(f, "", nil)
			out = rest
			continue
		}
		header, rest, _ := bytes.Cut(out, []byte("\n"))
		kind, length, _ := strings.Cut(string(header), " ")
		size, err := strconv.Atoi(length)
		if err != nil {
			return fmt.Errorf("git cat-file: unexpected answer %q for %s in commit %s", header, f.Path, f.Commit)
		}
		if out = rest; mode == "--batch-check" {
			size = -1 // no content follows
		}
		if size >= len(out) {
			return fmt.Errorf("git cat-file: answer for %s in commit %s is cut short", f.Path, f.Commit)
		}
		see(f, kind, out[:max(size, 0)])
		out = out[size+1:]
	}
	return nil
}

func (c *cli) Head(ctx context.Context) (string, error) {
	return c.headBranch(ctx, c.root.Dir)
}

func (c *cli) Clean(ctx context.Context) (bool, error) {
	args := []string{"status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=all",
		"--no-renames", "--"}
	out, err := c.run(ctx, command{whole: true, args: append(args, notScratch()...)})
	return err == nil && len(out) == 0, err
}

func (c *cli) IsAncestor(ctx context.Context, commit, tip kernel.CommitID) (bool, error) {
	if err := commits(commit, tip); err != nil {
		return false, fmt.Errorf("ancestry: %w", err)
	}
	_, err := c.read(ctx, "merge-base", "--is-ancestor", string(commit), string(tip))
	if exitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

func (c *cli) PruneWorktree(ctx context.Context, w Worktree) error {
	_, err := c.run(ctx, command{args: []string{"worktree", "remove", "--force", "--", filepath.Clean(w.Path)}, writes: true})
	return err
}

// commits returns an error unless all ids are full object ids.
func commits(ids ...kernel.CommitID) error {
	for _, id := range ids {
		if !validCommit(id) {
			return fmt.Errorf("%q is no full commit id", id)
		}
	}
	return nil
}
