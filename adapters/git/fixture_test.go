package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// TestMain takes the machine's configuration and whatever git started the
// tests out of the picture.
func TestMain(m *testing.M) {
	for _, name := range foreign {
		os.Unsetenv(name)
	}
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
		"GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.org",
		"GIT_COMMITTER_NAME": "Ann", "GIT_COMMITTER_EMAIL": "ann@example.org", "GIT_TEMPLATE_DIR": "",
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "maintenance.auto", "GIT_CONFIG_VALUE_0": "false", // a process for each commit
	} {
		os.Setenv(name, value)
	}
	dir, err := os.MkdirTemp("", "vizier-git-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	originals.in, originals.made = dir, map[string]any{}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// fixture is a real repository.
type fixture struct {
	testing.TB
	dir string
}

func newFixture(t testing.TB, init ...string) fixture {
	t.Helper()
	f := newDirectory(t)
	f.mkdir("")
	f.git(append([]string{"init", "--quiet", "--initial-branch=main"}, init...)...)
	return f
}

// newDirectory is a fixture that is not made yet.
func newDirectory(t testing.TB) fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return fixture{t, filepath.Join(dir, "repo")}
}

// originals has the repositories that others are copied from, by name.
var originals struct {
	sync.Mutex

	in   string         // their directory
	made map[string]any // what is known of them
}

// like returns a repository like the one that build makes, and what build knows of it. The first of
// that name is kept and copied, with what is beside it: git takes ten times as long.
func like[T any](t testing.TB, name string, build func() (fixture, T)) (fixture, T) {
	t.Helper()
	kept := filepath.Join(originals.in, name)
	originals.Lock()
	knows, made := originals.made[name]
	originals.Unlock()
	if !made {
		f, first := build()
		originals.Lock()
		if knows, made = originals.made[name]; !made { // nobody was faster
			copyTo(t, kept, filepath.Dir(f.dir))
			knows, originals.made[name] = first, first
		}
		originals.Unlock()
	}
	f := newDirectory(t)
	copyTo(t, filepath.Dir(f.dir), kept)
	f.mayFail("update-index", "-q", "--refresh") // the files are others
	return f, knows.(T)
}

// copyTo copies a directory, in which repositories and worktrees may have each other's paths.
func copyTo(t testing.TB, to, from string) {
	t.Helper()
	err := os.CopyFS(to, os.DirFS(from))
	if err == nil {
		err = filepath.WalkDir(to, func(p string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() != ".git" && d.Name() != "gitdir" {
				return err
			}
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			return os.WriteFile(p, bytes.ReplaceAll(text, []byte(from), []byte(to)), 0o600)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// git runs git as a user would and returns its output, trimmed.
func (f fixture) git(args ...string) string {
	f.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = f.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// shell runs a command that somebody was told to paste.
func (f fixture) shell(line string) {
	f.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = f.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		f.Fatalf("%s: %v\n%s", line, err, out)
	}
}

func (f fixture) path(p string) string { return filepath.Join(f.dir, p) }

func (f fixture) mkdir(p string) {
	f.Helper()
	if err := os.MkdirAll(f.path(p), 0o755); err != nil {
		f.Fatal(err)
	}
}

func (f fixture) write(p, content string) {
	f.Helper()
	f.mkdir(filepath.Dir(p))
	if err := os.WriteFile(f.path(p), []byte(content), 0o644); err != nil {
		f.Fatal(err)
	}
}

// commit commits a file and returns the commit.
func (f fixture) commit(p, content string) kernel.CommitID {
	f.Helper()
	f.write(p, content)
	f.git("add", "--force", "--", p)
	told := made.FindStringSubmatch(f.git("-c", "core.abbrev=no", "commit", "-m", "add "+p))
	if told == nil {
		f.Fatal("git does not say what it committed")
	}
	return kernel.CommitID(told[1])
}

// made finds the commit in what git says of it.
var made = regexp.MustCompile(`(?m)^\[.* ([0-9a-f]{40,})\] `)

// signs has git sign commits with a program that says the same about every signature.
func (f fixture) signs() {
	f.Helper()
	signer := filepath.Join(f.TempDir(), "signer")
	if err := os.WriteFile(signer, []byte("#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho '-----BEGIN PGP SIGNATURE-----'\necho x\necho '-----END PGP SIGNATURE-----'\n"), 0o700); err != nil {
		f.Fatal(err)
	}
	f.git("config", "gpg.program", signer)
	f.git("config", "commit.gpgSign", "true")
}

func (f fixture) rev(name string) kernel.CommitID {
	f.Helper()
	return kernel.CommitID(f.git("rev-parse", "--verify", name))
}

func (f fixture) root() Root {
	f.Helper()
	root, err := FindRoot(f.dir)
	if err != nil {
		f.Fatal(err)
	}
	return root
}

// in returns the same fixture seen from another directory.
func (f fixture) in(dir string) fixture { return fixture{f.TB, dir} }

// counting makes c count the processes it runs.
func counting(c *cli) *atomic.Int64 {
	var n atomic.Int64
	run := c.exec
	c.exec = func(cmd *exec.Cmd) error { n.Add(1); return run(cmd) }
	return &n
}

var errBroken = errors.New("broken on purpose")

// broken is an engine that never has an answer.
type broken struct{}

func (broken) Version(context.Context) (string, error) { return "", errBroken }
func (broken) Heads(context.Context, []string) (map[string]kernel.CommitID, error) {
	return nil, errBroken
}
func (broken) Files(context.Context, []File) (map[File]bool, error) { return nil, errBroken }
func (broken) ReadFile(context.Context, File) ([]byte, error)       { return nil, errBroken }
func (broken) Head(context.Context) (string, error)                 { return "", errBroken }
func (broken) Clean(context.Context) (bool, error)                  { return true, errBroken }
func (broken) MergeBase(context.Context, kernel.CommitID, kernel.CommitID) (kernel.CommitID, error) {
	return "", errBroken
}
func (broken) IsAncestor(context.Context, kernel.CommitID, kernel.CommitID) (bool, error) {
	return true, errBroken
}
func (broken) PruneWorktree(context.Context, Worktree) error { return errBroken }

// eachEngine runs a test over every engine of this build, by itself and behind
// the fallback.
func eachEngine(t *testing.T, test func(t *testing.T, open func(Root) engine)) {
	for name, open := range taggedEngines {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
	t.Run("cli", func(t *testing.T) { test(t, func(r Root) engine { return newCLI(r) }) })
	t.Run("broken first", func(t *testing.T) {
		test(t, func(r Root) engine { return &fallback{Backend: newCLI(r), first: broken{}} })
	})
}

// eachRepo runs a test over a Repo of this build, of the CLI alone, and of a
// first engine that never answers.
func eachRepo(t *testing.T, test func(t *testing.T, open func(Root) *Repo)) {
	t.Run("default", func(t *testing.T) { test(t, Open) })
	t.Run("cli", func(t *testing.T) {
		test(t, func(r Root) *Repo {
			repo := Open(r)
			repo.Backend = repo.cli
			return repo
		})
	})
	t.Run("broken first", func(t *testing.T) {
		test(t, func(r Root) *Repo {
			repo := Open(r)
			repo.Backend = &fallback{Backend: repo.cli, first: broken{}}
			return repo
		})
	})
}

// feed runs git with text on its standard input.
func (f fixture) feed(text string, args ...string) {
	f.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = f.dir, strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		f.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// mayFail runs git for what it leaves behind when it stops.
func (f fixture) mayFail(args ...string) {
	cmd := exec.Command("git", args...)
	cmd.Dir = f.dir
	_ = cmd.Run()
}
