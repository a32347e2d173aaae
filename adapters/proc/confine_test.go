package proc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// A link that an earlier command in the sandbox may have made is not followed
// when a path is opened. Links of the user's, outside of what jobs can write
// to, are. ~ is the user's home, and Vizier's own files stay shut.
func TestNoLinkOpensASandbox(t *testing.T) {
	w := setup(t, "true")
	home, disk := t.TempDir(), t.TempDir()
	cache, chain := filepath.Join(t.TempDir(), "cache"), filepath.Join(t.TempDir(), "chain")
	for link, to := range map[string]string{filepath.Join(w.root, "out"): home, filepath.Join(disk, "sub"): home, cache: disk, chain: cache, filepath.Join(w.root, "in"): "jobs"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	own := t.TempDir()
	t.Setenv("HOME", own)
	for _, dir := range []string{filepath.Join(own, "open"), filepath.Join(w.root, ".vizier")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		dir     string
		write   []string
		want    string
		refused string // what the error says
	}{
		{w.root, []string{"out"}, "", "leads out of"},
		{w.root, []string{filepath.Join(w.root, "out")}, "", "leads out of"},
		{w.root, []string{disk, filepath.Join(disk, "sub")}, "", "leads out of"},
		{w.root, []string{"in"}, filepath.Join(w.root, "jobs"), ""},
		{w.root, []string{cache}, disk, ""},
		{w.root, []string{"~/open"}, filepath.Join(own, "open"), ""},
		{w.root, []string{"~/gone"}, "", ""},
		{w.root, []string{filepath.Join(disk, "sub"), disk}, "", "leads out of"}, // in any order
		{w.root, []string{filepath.Join(cache, "sub"), disk}, "", "leads out of"},
		{w.root, []string{filepath.Join(cache, "sub"), cache}, "", "leads out of"},
		{w.root, []string{filepath.Join(chain, "sub"), disk}, "", "leads out of"},
		{disk, []string{filepath.Join(w.root, ".vizier")}, "", "which no sandbox opens"},
	} {
		w.job.Spec.Task.Sandbox = kernel.Sandbox{Mode: kernel.BestEffortSandbox, Write: c.write}
		p, err := w.Confine(&w.job, c.dir)
		switch {
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%v: %+v, %v", c.write, p, err)
		case c.refused == "" && (err != nil || c.want != "" && !slices.Contains(p.Write, c.want) || slices.Contains(p.Write, filepath.Join(own, "gone"))):
			t.Errorf("%v: %+v, %v", c.write, p, err)
		}
	}
}

// A job that another has submitted may not write to the working tree that a link leads it to.
func TestWhereASubmittedJobStrays(t *testing.T) {
	w := setup(t, "true")
	other := filepath.Join(w.root, "other")
	admin := filepath.Join(gitDirOf(w.root), "worktrees", "other")
	if err := errors.Join(os.MkdirAll(filepath.Join(other, "sub"), 0o700), os.MkdirAll(admin, 0o700), os.WriteFile(filepath.Join(admin, "gitdir"), []byte(other+"/.git\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w.job.Spec.Task.Sandbox = kernel.Sandbox{Mode: kernel.RequiredSandbox}
	for name, c := range map[string]struct {
		parent    kernel.JobID
		tree, dir string
		want      bool
	}{
		"a person's":             {"", "", other, true},
		"a job's":                {"p", "", filepath.Join(other, "sub"), false},
		"a job's, for that tree": {"p", other, other, true},
		"a job's, for the main":  {"p", "", w.root, true},
	} {
		j := w.job
		j.Spec.Origin.Parent, j.Spec.Task.Tree = c.parent, c.tree
		p, err := w.Confine(&j, c.dir)
		if err != nil || (slices.Contains(p.Write, other) || slices.Contains(p.Write, w.root)) != c.want {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

// What a sandboxed command may write to follows from what its job asks for.
func TestWhatASandboxedCommandMayWriteTo(t *testing.T) {
	w := setup(t, "true")
	a := w.job.Attempt()
	logs := []string{w.Files.LogFile(a.Job, "stdout"), w.Files.LogFile(a.Job, "stderr")}
	in := w.saysIn(&w.job)
	for name, c := range map[string]struct {
		change    func(*kernel.Spec)
		with, not []string
	}{
		"a command": {func(*kernel.Spec) {}, append([]string{w.root, in.result, in.submissions, in.report, "/also"}, logs...), []string{w.Files.CheckpointDir(a.Job)}},
		"read-only": {func(s *kernel.Spec) { s.Task.Sandbox.ReadOnly = true }, append([]string{in.result}, logs...), []string{w.root}},
		"resumable": {func(s *kernel.Spec) { s.Resumable = true }, []string{w.Files.CheckpointDir(a.Job)}, nil},
		"built in":  {func(s *kernel.Spec) { s.Task.Builtin = true }, append([]string{in.submissions}, logs...), []string{in.result}},
	} {
		j := w.job
		j.Spec.Task.Sandbox = kernel.Sandbox{Mode: kernel.RequiredSandbox, Network: kernel.NoNetwork}
		c.change(&j.Spec)
		p, err := w.Confine(&j, w.root, "/also")
		if err != nil || !p.Required || !p.Offline {
			t.Errorf("%s: %+v, %v", name, p, err)
			continue
		}
		for path, want := range either(c.with, c.not) {
			if slices.Contains(p.Write, path) != want {
				t.Errorf("%s: %s: may be written to: %v", name, path, !want)
			}
		}
	}
	j := w.job
	j.Spec.Task.Sandbox, j.Spec.Task.Secrets = kernel.Sandbox{Mode: kernel.BestEffortSandbox}, []kernel.Secret{{Name: "S", Source: "@x"}}
	p, err := w.Confine(&j, w.root) // its output goes through a pipe that hides the secrets
	if err != nil || p.Required || p.Offline || slices.ContainsFunc(logs, func(path string) bool { return slices.Contains(p.Write, path) }) {
		t.Errorf("with secrets: %+v, %v", p, err)
	}
	j.Spec.Task.Sandbox = kernel.Sandbox{}
	if p, err := w.Confine(&j, w.root); p != nil || err != nil {
		t.Errorf("no sandbox: %+v, %v", p, err)
	}
}

func either(yes, no []string) map[string]bool {
	all := map[string]bool{}
	for _, path := range yes {
		all[path] = true
	}
	for _, path := range no {
		all[path] = false
	}
	return all
}

// No sandbox opens the trees of the inbox, whose prompts run outside, those that are not there yet included.
func TestTheInboxIsGuarded(t *testing.T) {
	w := setup(t, "true")
	w.Closed = []string{filepath.Join(w.root, "prompts", "inbox"), filepath.Join(w.root, "link", "not", "yet")}
	if err := os.MkdirAll(w.Closed[0], 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("prompts", filepath.Join(w.root, "link")); err != nil {
		t.Fatal(err)
	}
	w.job.Spec.Task.Sandbox = kernel.Sandbox{Mode: kernel.BestEffortSandbox}
	p, err := w.Confine(&w.job, w.root)
	if err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(w.Closed[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{real, filepath.Join(filepath.Dir(real), "not", "yet")} {
		if !slices.Contains(p.Guarded, want) {
			t.Errorf("%q does not contain %s", p.Guarded, want)
		}
	}
}

// The programs that run outside of sandboxes are written to in none.
func TestThisProgramIsGuarded(t *testing.T) {
	w := setup(t, "true")
	w.file("vizier", "", 0o700)
	w.Exe = filepath.Join(w.root, "vizier")
	w.job.Spec.Task.Sandbox = kernel.Sandbox{Mode: kernel.BestEffortSandbox}
	p, err := w.Confine(&w.job, w.root)
	if err != nil || !slices.Contains(p.Guarded, w.Exe) {
		t.Errorf("%+v, %v", p, err)
	}
}

// A working tree is the innermost that has the directory, linked trees before the main one.
func TestTheTreeOfADirectory(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(root, `[a*]\?`) // which are no pattern
	elsewhere, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	admins := filepath.Join(root, ".git", "worktrees")
	inside, outside, nested := filepath.Join(root, "sub", "in"), filepath.Join(elsewhere, "out"), filepath.Join(elsewhere, "out", "deep", "in")
	for name, tree := range map[string]string{"inside": inside, "nested": nested, "outside": outside, "removed": filepath.Join(elsewhere, "gone")} {
		if name != "removed" {
			if err := os.MkdirAll(tree, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Join(admins, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(admins, name, "gitdir"), []byte(tree+"/.git\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := &Local{Root: root}
	for _, c := range []struct{ dir, tree, admin string }{
		{root, root, ""},
		{filepath.Join(root, "sub"), root, ""},
		{root + "-beside", root + "-beside", ""},
		{inside, inside, "inside"},
		{filepath.Join(inside, "a"), inside, "inside"},
		{outside, outside, "outside"},
		{filepath.Join(outside, "deep"), outside, "outside"},
		{nested, nested, "nested"},
		{elsewhere, elsewhere, ""},
		{filepath.Join(elsewhere, "gone"), filepath.Join(elsewhere, "gone"), ""},
	} {
		want := c.admin
		if want != "" {
			want = filepath.Join(admins, want)
		}
		if tree, admin := l.treeOf(c.dir); tree != c.tree || admin != want {
			t.Errorf("%s: %s, %s", c.dir, tree, admin)
		}
	}
}

// The link of a working tree that a command has shut to the user can be looked at all the same.
func TestMendLinkOfATreeThatIsShut(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, tree := filepath.Join(home, "root"), filepath.Join(home, "tree")
	admin := filepath.Join(root, ".git", "worktrees", "x")
	link := filepath.Join(tree, ".git")
	write := func(path, text string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(admin, "gitdir"), link+"\n")
	l := &Local{Root: root}
	for text, says := range map[string]string{"gitdir: " + admin + "\n": "", "gitdir: elsewhere\n": "it was put back"} {
		for _, mode := range []os.FileMode{0, 0o500} {
			write(link, text)
			if err := os.Chmod(tree, mode); err != nil {
				t.Fatal(err)
			}
			if err := l.MendLink(tree); (err == nil) != (says == "") || err != nil && !strings.HasSuffix(err.Error(), says) {
				t.Errorf("mode %o: %v", mode, err)
			}
			if got, err := os.ReadFile(link); string(got) != "gitdir: "+admin+"\n" || err != nil {
				t.Errorf("mode %o: %q, %v", mode, got, err)
			}
		}
	}
}
