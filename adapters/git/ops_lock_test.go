package git

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Lock files that a killed git left for a branch are removed; those that a
// running git may hold stay.
func TestStaleLocksOfBranches(t *testing.T) {
	if !tellsWhere {
		t.Skip("any git of this machine counts here: see TestGitsAtWork")
	}
	f := newFixture(t)
	f.commit("a.txt", "1\n")
	f.git("branch", "draft/x")
	r := Open(f.root())
	names := []string{"refs/heads/draft/x.lock", "packed-refs.lock", "config.lock", "HEAD.lock", "reftable/tables.list.lock", "refs/vizier/held/merge-x/1.lock"}
	now := time.Now()
	left := func(at time.Time) {
		t.Helper()
		for _, name := range append(names, "refs/heads/main.lock") {
			f.write(".git/"+name, "")
			if err := os.Chtimes(f.path(".git/"+name), at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	gone := func(want bool) {
		t.Helper()
		if err := r.DropStaleRefLocks([]string{"draft/x", "../../outside"}, now); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, err := os.Lstat(f.path(".git/" + name)); os.IsNotExist(err) != want {
				t.Errorf("%s: %v, want it gone: %v", name, err, want)
			}
		}
		if _, err := os.Lstat(f.path(".git/refs/heads/main.lock")); err != nil {
			t.Errorf("the lock of a branch that was not asked for: %v", err)
		}
	}
	left(now.Add(time.Hour))
	gone(false)
	left(now.Add(-time.Hour))
	gone(true)

	for name, from := range map[string]func(*exec.Cmd){
		"in the repository": func(c *exec.Cmd) { c.Dir = f.dir },
		"by an argument": func(c *exec.Cmd) {
			c.Args = append(c.Args[:1], append([]string{"--git-dir", f.path(".git")}, c.Args[1:]...)...)
		},
		"by a variable": func(c *exec.Cmd) { c.Env = append(os.Environ(), "GIT_DIR="+f.path(".git")) },
	} {
		t.Run(name, func(t *testing.T) {
			work := exec.Command("git", "cat-file", "--batch")
			work.Dir = t.TempDir()
			from(work)
			in, err := work.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := work.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := work.Start(); err != nil {
				t.Fatal(err)
			}
			_, err = in.Write([]byte("HEAD\n"))
			if _, err2 := bufio.NewReader(out).ReadString('\n'); err != nil || err2 != nil { // before it answers, /proc may not have its arguments
				t.Fatal(err, err2)
			}
			began := time.Now()
			now = began.Add(time.Hour)
			left(began.Add(time.Minute)) // it was there before the locks
			gone(false)
			left(began.Add(-time.Minute)) // it came later, and cannot hold them
			gone(true)
			left(began.Add(time.Minute))
			_ = in.Close()
			_ = work.Wait()
			gone(true)
		})
	}
}

// A program that works with a git library holds the lock that it has open, whatever it is called and wherever it began.
func TestALockThatAnotherProgramHolds(t *testing.T) {
	if _, err := exec.LookPath("lsof"); err != nil && !tellsWhere {
		t.Skip("no lsof, so nobody knows who has a file open")
	}
	f := newFixture(t)
	f.commit("a.txt", "1\n")
	f.git("branch", "draft/x")
	r := Open(f.root())
	const name = ".git/refs/heads/draft/x.lock"
	f.write(name, "")
	began := time.Now()
	if err := os.Chtimes(f.path(name), began.Add(-time.Hour), began.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(f.path(name))
	if err != nil {
		t.Fatal(err)
	}
	drop := func() bool {
		t.Helper()
		stale, _, err := r.StaleLocks(began)
		if err := errors.Join(err, r.DropStaleRefLocks([]string{"draft/x"}, began)); err != nil {
			t.Fatal(err)
		}
		_, err = os.Lstat(f.path(name))
		if (len(stale) > 0) != os.IsNotExist(err) {
			t.Errorf("%q are stale, and: %v", stale, err)
		}
		return os.IsNotExist(err)
	}
	if drop() {
		t.Error("the lock that this process has open was removed")
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if tellsWhere && !drop() { // else any git on this machine counts
		t.Error("a lock that nobody has open stayed")
	}
}

// In a worktree of a job nobody else works; in one of the user's somebody may.
func TestStaleLocksOfWorktrees(t *testing.T) {
	f := newFixture(t)
	f.commit("a.txt", "1\n")
	f.git("worktree", "add", "--quiet", ".vizier/tmp-worktrees/job", "-b", "one")
	f.git("worktree", "add", "--quiet", "../users", "-b", "two")
	r := Open(f.root())
	for dir, stays := range map[string]bool{f.path(".vizier/tmp-worktrees/job"): false, f.path("../users"): true} {
		w, err := worktreeAt(f.path(".git"), dir)
		if err != nil || w.Name == "" {
			t.Fatal(w, err)
		}
		lock := w.gitDir + "/index.lock"
		if err := os.WriteFile(lock, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.DropStaleLocks(dir, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(lock); (err == nil) != stays {
			t.Errorf("%s: the lock: %v, want it to stay: %v", dir, err, stays)
		}
	}
}

// Of the lock files in a job's worktree only those go that are older than it is said, none of its submodules', and nothing that is no
// file.
func TestStaleLocksOfAWorktree(t *testing.T) {
	o := newOwned(t, Open)
	now := time.Now()
	dir := o.tree.git("rev-parse", "--absolute-git-dir")
	at := func(name string, at time.Time) string {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err == nil {
			err = os.Chtimes(path, at, at)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	old, young := now.Add(-time.Hour), now.Add(time.Hour)
	for path, stays := range map[string]bool{at("index.lock", old): false, at("refs/bisect/x.lock", old): false, at("HEAD.lock", young): true, at("modules/m/index.lock", old): true,
		at("logs/HEAD.locked", old): true, filepath.Dir(at("d.lock/file", old)): true} {
		if err := o.repo.DropStaleLocks(o.tree.dir, now); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(path); (err == nil) != stays {
			t.Errorf("%s: %v, and it is to stay: %t", path, err, stays)
		}
	}
}
