package proc

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/proc/sandbox"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// ownTemporary is the prefix of the names of sandboxed attempts' temporary
// directories.
const ownTemporary = "vizier-job-"

// newTemporary returns an unguessable path for a temporary directory.
func newTemporary() string { return filepath.Join(os.TempDir(), ownTemporary+rand.Text()) }

// Observe answers the probe for what this host can enforce of sandboxes.
func (*Local) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	if p.Sandbox {
		f.Sandbox = kernel.Seen(sandbox.This().Enforcement())
	}
}

// Confine returns the policy for commands of j that run in dir. They may write
// to the working tree that contains dir, to the files that the attempt is
// given, and to the paths in also.
func (l *Local) Confine(j *kernel.Job, dir string, also ...string) (*sandbox.Policy, error) {
	b := j.Spec.Task.Sandbox
	if !b.On() {
		return nil, nil
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	tree, _ := l.treeOf(dir)
	p := &sandbox.Policy{Required: b.Mode == kernel.RequiredSandbox, Offline: b.Network == kernel.NoNetwork, Guarded: l.guarded()}
	in := l.saysIn(j)
	p.Write = append(also, in.submissions, in.report)
	if len(j.Spec.Task.Secrets) == 0 { // with secrets, output goes through a pipe that hides them
		p.Write = append(p.Write, l.Files.LogFile(j.ID, "stdout"), l.Files.LogFile(j.ID, "stderr"))
	}
	if !b.ReadOnly && !l.strays(j, tree) {
		p.Write = append(p.Write, tree)
	}
	if !j.Spec.Task.Builtin {
		p.Write = append(p.Write, in.result)
	}
	if j.Spec.Resumable {
		p.Write = append(p.Write, l.Files.CheckpointDir(j.ID))
	}
	if tmp := os.Getenv("TMPDIR"); strings.HasPrefix(filepath.Base(tmp), ownTemporary) {
		p.Write = append(p.Write, tmp)
	}
	var own sys.Paths
	for _, path := range p.Write {
		own = append(own, resolved(path)) // the step follows no link
	}
	p.Write = own
	asked, err := absolute(b.Write, dir)
	if err != nil {
		return nil, err
	}
	open := openBy(append([]string{tree}, p.Write...), asked)
	for _, path := range asked {
		real, err := writable(path, tree, open, p.Guarded)
		if err != nil {
			return nil, err
		}
		if real != "" {
			p.Write = append(p.Write, real)
		}
	}
	return p, nil
}

// strays reports whether tree is another working tree than the one that j was submitted for,
// by a job: a link in its directory, or that itself, leads there.
func (l *Local) strays(j *kernel.Job, tree string) bool {
	t, at := &j.Spec.Task, j.State.Context.Root
	if j.Spec.Origin.Parent == "" || t.Builtin {
		return false
	}
	base := filepath.Join(l.Root, at)
	if t.Tree != "" && (at == "" || at == ".") {
		base = t.Tree
	}
	own, _ := l.treeOf(resolved(base))
	return tree != own
}

// absolute returns the paths of a sandbox that is for a command in dir.
func absolute(paths []string, dir string) ([]string, error) {
	var out []string
	for _, path := range paths {
		switch rest, ofHome := strings.CutPrefix(path, "~/"); {
		case ofHome:
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, fmt.Errorf("sandbox: write: %s: %w", path, err)
			}
			path = filepath.Join(home, rest)
		case !filepath.IsAbs(path):
			path = filepath.Join(dir, path)
		}
		out = append(out, path)
	}
	return out, nil
}

// openBy returns what a sandbox with these paths opens: open, and what those in asked lead to.
func openBy(open, asked []string) []string {
	for _, path := range asked {
		open = append(open, resolved(path))
	}
	return open
}

// writable returns path, which is absolute, with its links resolved, for a sandbox to open; ""
// if it does not exist, so that nothing that appears there later is. It fails for Vizier's and
// the repository's own files, and for a path with a link that earlier commands in the sandbox
// may have made: one in open that leads out of it.
func writable(path, tree string, open, guarded []string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("sandbox: write: %w", err)
	}
	for link, to := range linksOf(path) {
		for _, dir := range open {
			if sandbox.Beneath(link, dir) && to != dir && !sandbox.Beneath(to, dir) {
				return "", fmt.Errorf("sandbox: write: %s leads out of %s, to %s: name that path itself if it is to be opened", path, dir, to)
			}
		}
	}
	for _, g := range guarded {
		if (real == g || sandbox.Beneath(real, g)) && real != tree && !sandbox.Beneath(real, tree) {
			return "", fmt.Errorf("sandbox: write: %s is in %s, which no sandbox opens", path, g)
		}
	}
	return real, nil
}

// mostLinks is how many links there may be on the way to a file, as EvalSymlinks has it.
const mostLinks = 255

// linksOf returns the symbolic links on the way to path, an absolute path: where each is, without
// links, and what it leads to.
func linksOf(path string) iter.Seq2[string, string] {
	return func(yield func(link, to string) bool) {
		at, links := "/", 0
		for rest := strings.Split(path, "/"); len(rest) > 0; {
			name := rest[0]
			rest = rest[1:]
			next := filepath.Join(at, name)
			text, err := os.Readlink(next)
			if err != nil { // it is no link
				at = next
				continue
			}
			if links++; links > mostLinks || !yield(next, resolved(next)) {
				return
			}
			if filepath.IsAbs(text) {
				at = "/"
			}
			rest = append(strings.Split(text, "/"), rest...)
		}
	}
}

// treeOf returns the working tree that contains dir, an absolute path without
// links, and the repository's directory for it, "" for the main one. It only
// reads the repository's files, which no sandbox can write, and none in the
// tree.
func (l *Local) treeOf(dir string) (tree, admin string) {
	for _, link := range sys.Glob(gitDirOf(l.Root), "worktrees/*/gitdir") {
		text, err := os.ReadFile(link)
		if err != nil {
			continue
		}
		at, err := filepath.EvalSymlinks(filepath.Dir(strings.TrimSpace(string(text))))
		if err == nil && len(at) > len(tree) && (at == dir || sandbox.Beneath(dir, at)) {
			tree, admin = at, filepath.Dir(link)
		}
	}
	if tree != "" {
		return tree, admin
	}
	if main, err := filepath.EvalSymlinks(l.Root); err == nil && sandbox.Beneath(dir, main) {
		return main, ""
	}
	return dir, ""
}

// guarded returns the directories that no sandbox opens, with links resolved, and the programs that run outside of sandboxes.
// One that does not exist is guarded too, so that no sandboxed command creates it.
func (l *Local) guarded() []string {
	var out []string
	for _, path := range append([]string{filepath.Join(l.Root, ".vizier"), gitDirOf(l.Root), l.Exe, l.ResidentExe}, l.Closed...) {
		if path != "" {
			out = append(out, resolved(path))
		}
	}
	return out
}

// resolved returns the absolute path with the links in that part of it resolved that exists.
func resolved(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if above := filepath.Dir(path); err != nil && above != path {
		return filepath.Join(resolved(above), filepath.Base(path))
	}
	return cmp.Or(real, path)
}

// gitDirOf returns the git directory of the repository whose main working tree
// is at root.
func gitDirOf(root string) string {
	path := filepath.Join(root, ".git")
	text, err := os.ReadFile(path)
	link, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
	if err != nil || !ok {
		return path
	}
	if link = strings.TrimSpace(link); !filepath.IsAbs(link) {
		link = filepath.Join(root, link)
	}
	return link
}

// confine puts the command of j into its sandbox or its container, with a
// temporary directory of its own. A node does that itself with what it starts.
func (l *Local) confine(c *command, j *kernel.Job) error {
	image := j.Spec.Task.Container
	if !j.Spec.Task.Sandbox.On() && image == "" {
		return nil
	}
	tmp := cmp.Or(l.provided.of(j.Attempt()).tmp, newTemporary())
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	c.tmp = tmp
	own := []string{"TMPDIR=" + tmp, "TMP=" + tmp, "TEMP=" + tmp}
	if image != "" {
		c.env = withVariables(c.env, own)
		return l.contain(c, j)
	}
	own = append(own, "GIT_OPTIONAL_LOCKS=0")
	if !slices.ContainsFunc(j.Spec.Task.Env, func(v string) bool { return strings.HasPrefix(v, "XDG_CACHE_HOME=") }) {
		own = append(own, "XDG_CACHE_HOME="+filepath.Join(tmp, "cache"))
	}
	c.env = withVariables(c.env, own)
	c.handed = []string{c.says.submissions, c.says.report}
	if j.Spec.Task.Builtin {
		return nil
	}
	c.handed = append(c.handed, c.says.result)
	var err error
	c.sandbox, err = l.Confine(j, c.dir, tmp)
	return err
}

// withVariables returns env with the variables in own replaced.
func withVariables(env, own []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	})
	return append(out, own...)
}

// createWritable creates, empty, the files that a sandboxed command may write to, since
// the command cannot create them there.
func (c *command) createWritable() error {
	for _, path := range c.handed {
		f, err := openFile(path, os.O_WRONLY|os.O_CREATE)
		if err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// MendLink restores the file .git of the linked working tree that contains dir,
// according to the repository's own files, which no sandbox can write.
// Otherwise git would follow what a command wrote there, and run the hooks it
// names. The error says that the file was changed.
func (l *Local) MendLink(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil // the tree is gone, and its link with it
	}
	tree, admin := l.treeOf(dir)
	if admin == "" {
		return nil
	}
	sys.LetIn(tree)
	link := filepath.Join(tree, ".git")
	if text, err := readLink(tree); err == nil {
		if to, ok := strings.CutPrefix(string(text), "gitdir: "); ok && sameDir(strings.TrimSpace(to), admin) {
			return nil
		}
	}
	if err = putLink(link, admin); err != nil {
		return fmt.Errorf("it changed %s, which says where the repository is, and that cannot be put back: %w", link, err)
	}
	return fmt.Errorf("it changed %s, which says where the repository is; it was put back", link)
}

// putLink makes the file link point to the git directory admin. The link exists
// at any moment, unless a directory is in its place: without one, git would
// take a working tree for part of the one around it.
func putLink(link, admin string) error {
	next := link + ".vizier"
	if err := sys.RemoveTree(next); err != nil {
		return err
	}
	if err := os.WriteFile(next, []byte("gitdir: "+admin+"\n"), 0o644); err != nil {
		return err
	}
	if st, err := os.Lstat(link); err == nil && st.IsDir() {
		if err := sys.RemoveTree(link); err != nil {
			return err
		}
	}
	return os.Rename(next, link)
}

// sameDir reports whether two paths are of the same directory.
func sameDir(a, b string) bool {
	x, err := filepath.EvalSymlinks(a)
	y, err2 := filepath.EvalSymlinks(b)
	return err == nil && err2 == nil && x == y
}
