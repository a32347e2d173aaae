package vizier

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/git"
)

// Git is asked which prompts it tracks when its index has changed, and not for each prompt or pass.
func TestGitIsAskedOnceWhichPromptsItTracks(t *testing.T) {
	dir, real := t.TempDir(), t.TempDir()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(real, "log")
	shim := "#!/bin/sh\ncase \"$*\" in *ls-files*) echo x >>'" + log + "';; esac\nexec '" + program + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(real, "git"), []byte(shim), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", real+string(os.PathListSeparator)+os.Getenv("PATH"))
	do := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(program, append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	do("init", "--quiet")
	if err := os.MkdirAll(filepath.Join(dir, "in[box]", "inbox", "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.prompt.md", "sub/b.prompt.md"} {
		if err := os.WriteFile(filepath.Join(dir, "in[box]", "inbox", name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := git.FindRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := &Repository{Root: root.Dir, Config: config.Config{Inbox: config.Inbox{Home: "in[box]"}}, world: &world{git: git.Open(root)}}
	tracks := r.trackedPrompts()
	look := func(asked int, want ...string) {
		t.Helper()
		var got []string
		for range 2 {
			got = nil
			for _, rel := range []string{"a.prompt.md", "sub/b.prompt.md"} {
				is, err := tracks(t.Context(), rel)
				if err != nil {
					t.Fatal(err)
				}
				if is != "" {
					got = append(got, rel)
				}
			}
		}
		text, _ := os.ReadFile(log)
		if n := strings.Count(string(text), "x"); strings.Join(got, " ") != strings.Join(want, " ") || n != asked {
			t.Errorf("tracked are %v, want %v; git was asked %d times, not %d", got, want, n, asked)
		}
	}
	look(1)
	do("add", ":(literal)in[box]/inbox/sub")
	look(2, "sub/b.prompt.md")
	do("rm", "--quiet", "--cached", "-r", ":(literal)in[box]")
	look(3)
}
