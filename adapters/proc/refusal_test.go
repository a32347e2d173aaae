package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/adapters/proc/sandbox"
	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// The file .git of a linked working tree is put back whatever is in its place, and that is said; one that leads where it should stays as it
// is.
func TestTheLinkOfAWorkingTreeIsPutBack(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, tree := filepath.Join(top, "root"), filepath.Join(top, "tree")
	admin, link := filepath.Join(root, ".git", "worktrees", "x"), filepath.Join(tree, ".git")
	alias := filepath.Join(top, "alias")
	if err := errors.Join(os.MkdirAll(admin, 0o700), os.MkdirAll(filepath.Join(tree, "sub"), 0o700), os.Symlink(root, alias),
		os.WriteFile(filepath.Join(admin, "gitdir"), []byte(link+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }
	right := "gitdir: " + admin + "\n"
	l := &Local{Root: root}
	for name, c := range map[string]struct {
		left func() error
		same string // what stays; "": it is put back
	}{
		"what it was":           {func() error { return write(link, right) }, right},
		"the same, spelled out": {func() error { return write(link, "gitdir: "+alias+"/.git/worktrees/x \n") }, "gitdir: " + alias + "/.git/worktrees/x \n"},
		"nothing":               {func() error { return nil }, ""},
		"another repository":    {func() error { return write(link, "gitdir: "+root+"/.git\n") }, ""},
		"nowhere":               {func() error { return write(link, "gitdir: "+top+"/gone\n") }, ""},
		"no link":               {func() error { return write(link, admin+"\n") }, ""},
		"a symbolic link":       {func() error { return errors.Join(write(top+"/as-it-was", right), os.Symlink(top+"/as-it-was", link)) }, ""},
		"a directory":           {func() error { return os.MkdirAll(filepath.Join(link, "hooks"), 0o700) }, ""},
		"half of it":            {func() error { return os.MkdirAll(filepath.Join(link+".vizier", "x"), 0o700) }, ""},
	} {
		if err := errors.Join(os.RemoveAll(link), c.left()); err != nil {
			t.Fatal(err)
		}
		want := "it changed " + link + ", which says where the repository is; it was put back"
		err := l.MendLink(filepath.Join(tree, "sub"))
		if c.same != "" && err != nil || c.same == "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v", name, err)
		}
		st, err := os.Lstat(link)
		if err != nil || !st.Mode().IsRegular() || c.same == "" && st.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
		if got, err := os.ReadFile(link); err != nil || string(got) != right && string(got) != c.same {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if _, err := os.Lstat(link + ".vizier"); err == nil {
			t.Errorf("%s: a part is left", name)
		}
	}
	for _, dir := range []string{root, top + "/gone"} {
		if err := l.MendLink(dir); err != nil {
			t.Errorf("%s, which is in no linked working tree: %v", dir, err)
		}
	}
}

// What cannot be confined is not started: the error says what is wrong.
func TestWhatCannotBeConfined(t *testing.T) {
	w := setup(t, "true")
	loop := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	w.job.Spec.Task.Sandbox = kernel.Sandbox{Mode: kernel.BestEffortSandbox}
	if p, err := w.Confine(&w.job, w.root+"/gone"); p != nil || err == nil || !strings.HasPrefix(err.Error(), "sandbox: lstat ") {
		t.Errorf("a directory that is gone: %+v, %v", p, err)
	}
	for path, says := range map[string]string{loop: "sandbox: write: EvalSymlinks: too many links", "~/x": "sandbox: write: ~/x: $HOME is not defined"} {
		t.Setenv("HOME", "")
		j := w.job
		j.Spec.Task.Sandbox.Write = []string{path}
		if p, err := w.Confine(&j, w.root); p != nil || err == nil || err.Error() != says {
			t.Errorf("%s: %+v, %v", path, p, err)
		}
	}
	c := &command{handed: []string{w.root + "/gone/report"}}
	if err := c.createWritable(); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "sandbox: ") {
		t.Errorf("a report in a directory that is gone: %v", err)
	}
	own := filepath.Join(t.TempDir(), ownTemporary+"x")
	t.Setenv("TMPDIR", own)
	if p, err := w.Confine(&w.job, w.root); err != nil || !slices.Contains(p.Write, own) {
		t.Errorf("with a temporary directory of its own: %+v, %v", p, err)
	}
	t.Setenv("TMPDIR", w.root+"/gone")
	if p, err := w.Confine(&w.job, w.root); err != nil || slices.Contains(p.Write, w.root+"/gone") {
		t.Errorf("with everybody's: %+v, %v", p, err)
	}
	if err := w.confine(c, &w.job); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "sandbox: ") || c.tmp != "" {
		t.Errorf("without a place for its temporary directory: %v, %q", err, c.tmp)
	}
	f := kernel.NewFacts()
	w.Observe(t.Context(), kernel.Probes{}, &f)
	if f.Sandbox.Known {
		t.Error("nobody has asked what this host enforces")
	}
	if w.Observe(t.Context(), kernel.Probes{Sandbox: true}, &f); !f.Sandbox.Known || f.Sandbox.Value != sandbox.This().Enforcement() {
		t.Errorf("%+v", f.Sandbox)
	}
}

// The git directory of a repository may be elsewhere, as its file .git says.
func TestWhereTheGitDirectoryIs(t *testing.T) {
	root := t.TempDir()
	link := filepath.Join(root, ".git")
	for text, want := range map[string]string{"gitdir: ../there\n": filepath.Join(filepath.Dir(root), "there"), "gitdir: /there \n": "/there", "there\n": link} {
		if err := os.WriteFile(link, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := gitDirOf(root); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// A claim that cannot be made, or looked at, says of which attempt it is. A file that a killed process left is not taken for one.
func TestAClaimThatCannotBeMade(t *testing.T) {
	w := setup(t, "true")
	a := w.job.Attempt()
	dir := filepath.Dir(w.Files.ClaimFile(a))
	left := filepath.Join(dir, fmt.Sprintf(".%d.json.%d.%s.tmp", a.N, os.Getpid(), strconv.FormatUint(claims.Load()+1, 36)))
	if err := os.WriteFile(left, []byte("left"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Claim(a); err != nil {
		t.Fatal(err)
	}
	if is, err := claimed(w.Files.ClaimFile(a)); !is || err != nil {
		t.Errorf("claimed: %t, %v", is, err)
	}
	if text, err := os.ReadFile(left); string(text) != "left" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if files, err := os.ReadDir(dir); len(files) != 2 || err != nil {
		t.Errorf("%v, %v", files, err)
	}
	if is, err := claimed(left + "/1.json"); is || err == nil || !strings.HasPrefix(err.Error(), "claim "+left+"/1.json: ") {
		t.Errorf("below a file: %t, %v", is, err)
	}
	none := kernel.AttemptID{Job: "0123456789abcdef0123456789abcdef", N: 1}
	if err := w.Claim(none); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "claim "+label(none)+": mkdir ") {
		t.Errorf("of no job: %v", err)
	}
	long := kernel.AttemptID{Job: a.Job, N: 2}
	w.Files = longNames{layout(w.root)}
	if err := w.Claim(long); err == nil || !strings.HasPrefix(err.Error(), "claim "+label(long)+": ") {
		t.Errorf("with a name that is too long: %v", err)
	}
}

// longNames are files whose claims have names of the greatest length.
type longNames struct{ layout }

func (l longNames) ClaimFile(a kernel.AttemptID) string {
	return filepath.Join(filepath.Dir(l.layout.ClaimFile(a)), strings.Repeat("x", 255))
}

// Where a file system cannot rename to what must not be there, a file is linked there.
func TestAFileIsMovedByALink(t *testing.T) {
	dir := t.TempDir()
	for _, move := range []func(from, to string) error{moveNew, moveLinked} {
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
		for n, want := range []string{"0", "0"} {
			if err := os.WriteFile(from, []byte(strconv.Itoa(n)), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := move(from, to); (n == 0) != (err == nil) || n > 0 && !errors.Is(err, fs.ErrExist) {
				t.Errorf("%d: %v", n, err)
			}
			if got, err := os.ReadFile(to); string(got) != want || err != nil {
				t.Errorf("%d: %q, %v", n, got, err)
			}
			if _, err := os.Lstat(from); (err == nil) != (n > 0) {
				t.Errorf("%d: the first name is left: %t", n, err == nil)
			}
		}
		if err := errors.Join(os.Remove(from), os.Remove(to)); err != nil {
			t.Fatal(err)
		}
	}
}

// A job's container is told of as the configuration would have it. What its sandbox may write to is mounted, unless it is the repository's.
func TestTheLineOfAContainer(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := newLocal(filepath.Join(top, "root"))
	cache := filepath.Join(top, "cache")
	if err := errors.Join(os.MkdirAll(filepath.Join(l.Root, ".git"), 0o700), os.MkdirAll(filepath.Join(l.Root, ".vizier"), 0o700), os.Mkdir(cache, 0o700)); err != nil {
		t.Fatal(err)
	}
	j := &kernel.Job{ID: "0123456789abcdef0123456789abcdef", State: kernel.State{Attempt: 1}}
	l.Containers.Run = []string{"run", "<x> & y", "{image}"}
	if got := l.ContainerLine(j); got != "" {
		t.Errorf("without a container: %s", got)
	}
	j.Spec.Task.Container = "image"
	if got := l.ContainerLine(j); got != `["run","<x> & y","{image}"]` {
		t.Error(got)
	}
	j.Spec.Task.Sandbox = kernel.Sandbox{Mode: kernel.RequiredSandbox, Write: []string{cache, filepath.Join(l.Root, ".vizier")}}
	tree := filepath.Join(top, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := l.mounts(j, tree, "")
	git, said := filepath.Join(l.Root, ".git"), filepath.Dir(l.saysIn(j).result)
	want := []string{cache + ":" + cache, git + ":" + git + ":ro", said + ":" + said, tree + ":" + tree}
	if slices.Sort(want); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	l.Containers.Run[0] = "/bin/sh"
	if argv, _, err := l.Contain(j, top+"/gone", []string{"x"}, nil); argv != nil || err == nil || !strings.HasPrefix(err.Error(), "container: lstat ") {
		t.Errorf("in a directory that is gone: %q, %v", argv, err)
	}
}

// Only root's containers have the host's users; others keep the user's id. podman is to share the host's queues where there are any.
func TestTheEngineOfAnOrdinaryUser(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	_, err := os.Stat("/dev/mqueue")
	run := Engine("podman", nil, nil).Run
	if got := strings.Join(run[:5], " "); got != "podman run --rm --pull=never --userns=keep-id" || slices.Contains(run, "--ipc=host") != (err == nil) {
		t.Errorf("%q", run)
	}
	if run := Engine("docker", nil, nil).Run; slices.Contains(run, "--userns=keep-id") || !slices.Contains(run, "--ipc=host") {
		t.Errorf("%q", run)
	}
}

// A node of a job hides its secrets, which are in files, and does not go on without one.
func TestANodeHidesTheSecretsOfItsJob(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, []byte("open sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, j := newLocal(t.TempDir()), &kernel.Job{}
	if hide, err := l.Hide(j); hide != nil || err != nil {
		t.Errorf("without any: %v", err)
	}
	j.Spec.Task.Secrets = []kernel.Secret{{Name: "S"}}
	t.Setenv(secretPrefix+"S", path)
	hide, err := l.Hide(j)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(hide([]byte("say open sesame now"))); strings.Contains(got, "sesame") || !strings.HasPrefix(got, "say ") || !strings.HasSuffix(got, " now") {
		t.Errorf("%q", got)
	}
	t.Setenv(secretPrefix+"S", path+".gone")
	if hide, err := l.Hide(j); hide != nil || !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "secret S: ") {
		t.Errorf("without its file: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "private")
	for name, p := range map[string]provided{
		"a directory that is there": {dir: filepath.Dir(path), values: []secretValue{{"S", []byte("x")}}},
		"a name that is none":       {dir: dir, values: []secretValue{{"a/b", []byte("x")}}},
	} {
		if err := p.write(); err == nil || !strings.HasPrefix(err.Error(), "hand over secrets: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (provided{dir: path}).write(); err != nil {
		t.Errorf("without any: %v", err)
	}
}

// A job of a linked worktree runs there, and says what is wrong if it cannot.
func TestTheDirectoryOfAJobInAWorktree(t *testing.T) {
	w := setup(t, "true")
	tree, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(tree, "loop")
	if err := errors.Join(os.MkdirAll(tree+"/sub", 0o700), os.Symlink(loop, loop)); err != nil {
		t.Fatal(err)
	}
	j := w.job
	j.Spec.Task.Tree = tree
	gone := "the worktree " + tree + " that the job was submitted from is gone: `git worktree add` it again and retry, or submit the job from another"
	if dir, err := w.dir(&j); dir != "" || err == nil || err.Error() != gone {
		t.Errorf("%s, %v", dir, err)
	}
	if err := os.Mkdir(tree+"/.git", 0o700); err != nil {
		t.Fatal(err)
	}
	if dir, err := w.dir(&j); dir != "" || err == nil || err.Error() != gone {
		t.Errorf("a repository of its own: %s, %v", dir, err)
	}
	j.Spec.Task.Builtin = true
	if dir, err := w.dir(&j); dir != "" || err == nil {
		t.Errorf("another operation: %s, %v", dir, err)
	}
	j.Spec.Origin.About.Operation = "worktree.prepare"
	if dir, err := w.dir(&j); dir != w.root || err != nil {
		t.Errorf("who makes one: %s, %v", dir, err)
	}
	j.Spec.Task.Builtin = false
	if dir, err := w.dir(&j); dir != "" || err == nil {
		t.Errorf("a command of that: %s, %v", dir, err)
	}
	if err := errors.Join(os.Remove(tree+"/.git"), os.WriteFile(tree+"/.git", []byte("gitdir: x\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string][2]string{
		"":     {tree, ""},
		"sub":  {tree + "/sub", ""},
		"/sub": {"", "working directory /sub is outside the worktree " + tree},
		"..":   {"", "working directory .. is outside the worktree " + tree},
		"loop": {"", "working directory: EvalSymlinks: too many links"},
		"none": {"", "working directory " + tree + "/none does not exist"},
	} {
		j.Spec.Task.Dir = at
		if dir, err := w.dir(&j); dir != want[0] || (err == nil) != (want[1] == "") || err != nil && err.Error() != want[1] {
			t.Errorf("%s: %s, %v", at, dir, err)
		}
	}
	j.Spec.Task.Dir, j.State.Context.Root = "", "."
	if dir, err := w.dir(&j); dir != tree || err != nil {
		t.Errorf("at its top: %s, %v", dir, err)
	}
	j.State.Context.Root = "elsewhere"
	if dir, err := w.dir(&j); dir != "" || err == nil || err.Error() != "working directory "+w.root+"/elsewhere does not exist" {
		t.Errorf("once an operation has moved on: %s, %v", dir, err)
	}
	if dir, err := inside(tree+"/none", tree, fs.ErrInvalid); dir != "" || err == nil || !strings.HasPrefix(err.Error(), "repository: ") {
		t.Errorf("in a repository that is gone: %s, %v", dir, err)
	}
	file := filepath.Join(w.root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j = w.job
	j.State.Context = kernel.Context{Root: "file", Worktree: "file"}
	if dir, err := w.dir(&j); dir != "" || err == nil || err.Error() != "something else is in the place of the worktree that this ran in: move "+file+" away, then retry" {
		t.Errorf("a file in the place of its worktree: %s, %v", dir, err)
	}
}

// A directory that its user may not enter is told, with what to do.
func TestADirectoryThatMayNotBeEntered(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	shut := filepath.Join(root, "shut")
	if err := os.Mkdir(shut, 0o600); err != nil {
		t.Fatal(err)
	}
	want := "working directory " + shut + " may not be entered: `chmod u+rwx " + shut + "`, then retry"
	if dir, err := inside(root, shut, fs.ErrInvalid); dir != "" || err == nil || err.Error() != want {
		t.Errorf("%s, %v", dir, err)
	}
}
