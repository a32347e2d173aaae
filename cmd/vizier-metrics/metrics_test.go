package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/internal/promtest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Nothing of a repository changes by being looked at; a store that is not acted on is
// looked at as well.
func TestARepositoryIsOnlyLookedAt(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=ann", "-c", "user.email=ann@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	environ := vizier.Environment{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "VIZIER_SCHEDULER_RESIDENT=false"}
	r, err := vizier.Open(dir, vizier.Options{Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	job, err := r.Builder(vizier.Asker{Name: func() string { return "ann" }}).One(t.Context(), enqueue.Request{Command: []string{"true"}, Approval: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Scheduler.Submit(t.Context(), []kernel.NewJob{job}, "ann"); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	look := func() string {
		t.Helper()
		var out bytes.Buffer
		if err := run(t.Context(), nil, environ, &out); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for _, want := range []string{`vizier_jobs{repository="` + r.Root + `",status="waiting_on_approval"} 1`, `vizier_attention{kind="approval",repository="` + r.Root + `"} 1`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
		return still(text)
	}
	before := filesBelow(t, dir)
	first := look()
	promtest.Check(t, first)
	git("add", "-f", ".vizier")
	if r.Store.Foreign(t.Context()) == nil {
		t.Fatal("the store counts as one's own")
	}
	if again := look(); again != first {
		t.Errorf("a store that is not acted on:\n%s\nwant\n%s", again, first)
	}
	if now := filesBelow(t, dir); now != before {
		t.Errorf("files\n%s\nwere\n%s", now, before)
	}

	file := filepath.Join(t.TempDir(), "vizier.prom")
	if err := run(t.Context(), []string{"--output", file}, environ, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || still(string(text)) != first {
		t.Errorf("%v, the file has\n%s", err, text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the collector cannot read it: %v, %v", info.Mode(), err)
	}
	err = run(t.Context(), []string{"--output", filepath.Join(file, "no", "x.prom")}, environ, nil)
	if err == nil || !strings.Contains(err.Error(), file+"/no/x.prom: not a directory: name a file in an existing directory") {
		t.Errorf("no place for the file: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(left) != 1 {
		t.Errorf("files are left: %v", left)
	}
}

// still returns text without what is another one at each look.
func still(text string) string {
	return regexp.MustCompile(`(?m)^vizier_(observed|tick).*$`).ReplaceAllString(text, "")
}

// filesBelow returns the files of .vizier with their times; that of the lock
// tells who held it, and nothing else.
func filesBelow(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(filepath.Join(dir, ".vizier"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() == "scheduler.lock" {
			return err
		}
		info, err := d.Info()
		if err == nil {
			b.WriteString(path + " " + info.Mode().String() + " " + info.ModTime().String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
