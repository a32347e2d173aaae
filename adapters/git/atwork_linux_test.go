//go:build !portable

package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Of the processes on a system, only a git that was at work in the repository already counts; what nobody can tell does.
func TestWhichProcessesAreAtWork(t *testing.T) {
	const since = "50000" // half of the time since the system was started, in ticks
	stat := func(name, started string) string {
		return "7 (" + name + ") S" + strings.Repeat(" 0", 18) + " " + started + " 0 0\n"
	}
	home := t.TempDir()
	r := Open(Root{Dir: home + "/repo", CommonDir: home + "/common.git"})
	type files = map[string]string // "cwd" is a link; "/" is a directory; "": it is not there
	git := func(with files) files {
		all := files{"stat": stat("git", since), "cwd": "/", "cmdline": "git\x00status", "environ": "HOME=/"}
		for name, text := range with {
			all[name] = text
		}
		return all
	}
	for name, c := range map[string]struct {
		process files
		at      bool
	}{
		"elsewhere":                    {git(nil), false},
		"beside it":                    {git(files{"cwd": home + "/repository"}), false},
		"in the tree":                  {git(files{"cwd": home + "/repo"}), true},
		"below the tree":               {git(files{"cwd": home + "/repo/sub"}), true},
		"in the git directory":         {git(files{"cwd": home + "/common.git"}), true},
		"in a worktree":                {git(files{"cwd": home + "/linked"}), true},
		"by its arguments":             {git(files{"cmdline": "git\x00--git-dir=" + home + "/common.git"}), true},
		"by its environment":           {git(files{"environ": "A=b\x00GIT_DIR=" + home + "/common.git"}), true},
		"begun by it":                  {git(files{"environ": "PWD=" + home + "/repo"}), false},
		"a helper":                     {git(files{"stat": stat("git-remote-http", since), "cwd": home + "/repo"}), true},
		"no git":                       {git(files{"stat": stat("bash", since), "cwd": home + "/repo"}), false},
		"no git in brackets":           {git(files{"stat": stat("(git) x", since), "cwd": home + "/repo"}), false},
		"it began later":               {git(files{"stat": stat("git", "80000"), "cwd": home + "/repo"}), false},
		"nobody knows when":            {git(files{"stat": stat("git", "x"), "cwd": home + "/repo"}), true},
		"less is told":                 {git(files{"stat": "7 (git) S" + strings.Repeat(" 0", 18)}), true},
		"just enough is told":          {git(files{"stat": "7 (git) S" + strings.Repeat(" 0", 18) + " " + since}), false},
		"it has ended":                 {git(files{"cwd": ""}), false},
		"it has ended, and was there":  {git(files{"cwd": "", "cmdline": "git\x00-C\x00" + home + "/repo"}), false},
		"it has ended meanwhile":       {git(files{"stat": "", "cwd": home + "/repo"}), false},
		"what it was given is unknown": {git(files{"cmdline": "/"}), true},
		"its environment is unknown":   {git(files{"environ": "/"}), true},
		"it is the lock's user's":      {git(files{"environ": "/", "status": "Name:\tgit\nUid:\t7\t7\t7\t1000\nGid:\t7\n"}), true},
		"it is another's":              {git(files{"environ": "/", "status": "Name:\tgitea\nUid:\t1000\t1000\t1000\t7\nGid:\t7\n"}), false},
		"it is another's, and there":   {git(files{"cwd": home + "/repo", "status": "Name:\tgit\nUid:\t7\t7\t7\t7\nGid:\t7\n"}), true},
		"nobody knows whose it is":     {git(files{"environ": "/", "status": "Name:\tgit\nUid:\t7\n"}), true},
	} {
		proc := t.TempDir()
		put := func(dir string, files files) {
			for name, text := range files {
				path := filepath.Join(dir, name)
				err := os.MkdirAll(dir, 0o700)
				switch {
				case err != nil || text == "":
				case name == "cwd":
					err = os.Symlink(text, path)
				case text == "/":
					err = os.Mkdir(path, 0o700)
				default:
					err = os.WriteFile(path, []byte(text), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		put(home+"/common.git/worktrees/x", files{"gitdir": home + "/linked/.git\n"})
		put(proc, files{"uptime": "1000.00 1.00\n"})
		put(proc+"/1", git(nil))
		put(proc+"/2", git(files{"stat": ""}))
		put(proc+"/3", git(files{"cwd": ""}))
		put(proc+"/sys", git(files{"cwd": home + "/repo"}))
		put(proc+"/7", c.process)
		if at := r.atWorkIn(proc, time.Now().Add(-300*time.Second), 1000); at != c.at {
			t.Errorf("%s: at work %t", name, at)
		}
		if !r.atWorkIn(filepath.Join(proc, "none"), time.Now(), 1000) {
			t.Error("without a table of processes nothing is at work")
		}
		put(proc, files{"uptime": "long\n"})
		if !r.atWorkIn(proc, time.Now(), 1000) {
			t.Error("nobody knows how long the system runs, and nothing is at work")
		}
	}
	proc := t.TempDir()
	if err := os.WriteFile(filepath.Join(proc, "uptime"), []byte("1000.00 1.00\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r.atWorkIn(proc, time.Now(), 1000) {
		t.Error("something is at work where nothing is")
	}
	if !r.atWorkIn(t.TempDir(), time.Now(), 1000) {
		t.Error("the system does not say how long it runs, and nothing is at work")
	}
	undo := looped(t, home+"/common.git/worktrees")
	defer undo()
	if !r.atWorkIn(proc, time.Now(), 1000) {
		t.Error("nobody knows the worktrees, and nothing is at work")
	}
}
