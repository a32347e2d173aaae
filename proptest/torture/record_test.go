package torture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// damage holds functions that return a damaged job.json, by the kind of damage.
var damage = map[string]func(string) string{
	"truncated":      func(s string) string { return s[:len(s)/2] },
	"empty":          func(string) string { return "" },
	"wrong type":     func(s string) string { return strings.Replace(s, `"attempt": 0`, `"attempt": "none"`, 1) },
	"future version": func(s string) string { return strings.Replace(s, `"version": 1`, `"version": 99`, 1) },
	"another's id":   func(s string) string { return strings.Replace(s, `"id": "0`, `"id": "f`, 1) },
	"not a record":   func(string) string { return "[1, 2]\n" },
	"unknown status": func(s string) string { return strings.Replace(s, `"waiting_on_approval"`, `"resting"`, 1) },
	"binary":         func(string) string { return "\x7fELF\x00\x01\xff\xfe" },
}

// One record that makes no sense blocks what depends on it, with the reason,
// and nothing else.
func TestADamagedRecordIsContained(t *testing.T) {
	t.Parallel()
	for name, damaged := range damage {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, plainBin, "")
			bad := r.submit("--approval", "--", "true")
			text := r.read(r.jobPath(bad, "job.json"))
			if damaged(text) == text {
				t.Fatal("the record is whole")
			}
			consumer := r.submit("--after", bad, "--", "true")
			r.is(consumer, "waiting_on_deps", "")
			if err := os.WriteFile(r.jobPath(bad, "job.json"), []byte(damaged(text)), 0o600); err != nil {
				t.Fatal(err)
			}
			good := r.submit("--", "true")
			if code := r.wait(good); code != 0 {
				t.Errorf("a job that has nothing to do with it: exit %d", code)
			}
			rec := r.is(consumer, "blocked_by_dependency", "")
			if !strings.HasPrefix(rec.Schedule.Wait.Detail, "scheduler data error for job dependency "+bad+": ") {
				t.Errorf("the consumer waits: %q", rec.Schedule.Wait.Detail)
			}
			for _, args := range [][]string{{"list", "--all", "--format", "block"}, {"schedule"}, {"list", "--all", "--format", "json"}} {
				res := r.exits(0, append([]string{"jobs"}, args...)...)
				if !strings.Contains(res.out+res.err, bad) || !r.tells(res.out, consumer) && args[0] == "list" {
					t.Errorf("jobs %v hides one of %s, %s:\n%s%s", args, bad, consumer, res.out, res.err)
				}
			}
			if res := r.run("jobs", "show", bad); res.code == 0 || !strings.Contains(res.err, bad) {
				t.Errorf("show of the damaged job: exit %d, %s", res.code, res.err)
			}
			if got := r.read(r.jobPath(bad, "job.json")); got != damaged(text) {
				t.Error("the damaged record was written over")
			}
			// A record that is put back counts again.
			if err := os.WriteFile(r.jobPath(bad, "job.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			r.ok("jobs", "approve", bad)
			r.wait(bad)
			r.ok("jobs", "retry", consumer)
			if code := r.wait(bad, consumer); code != 0 {
				t.Errorf("after the repair: exit %d", code)
			}
			r.coherent()
		})
	}
}

// Fields that another program put into a record stay there.
func TestForeignFieldsAreKept(t *testing.T) {
	t.Parallel()
	r := newRepo(t, plainBin, "")
	job := r.submit("--approval", "--", "true")
	path := r.jobPath(job, "job.json")
	text := strings.Replace(r.read(path), `"metadata": {`, `"x_owner": {"team": [1, "ü"]}, "metadata": {"x_ticket": 7`, 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.ok("jobs", "approve", job)
	r.wait(job)
	r.is(job, "succeeded", "")
	for _, want := range []string{`"x_owner"`, `"ü"`, `"x_ticket": 7`} {
		if !strings.Contains(r.read(path), want) {
			t.Errorf("%s is gone from the record", want)
		}
	}
	r.coherent()
}

// A state file that contradicts the record is ignored, and the next writer corrects
// it.
func TestAStateFileThatLies(t *testing.T) {
	t.Parallel()
	for _, lie := range []string{"succeeded\n", "", "\x00\xff", strings.Repeat("x", 1<<20)} {
		r := newRepo(t, plainBin, "")
		job := r.submit("--approval", "--", "true")
		r.write(".vizier/jobs/"+job+"/state", lie)
		r.is(job, "waiting_on_approval", "")
		consumer := r.submit("--after", job, "--", "true")
		r.is(consumer, "waiting_on_deps", "")
		r.ok("jobs", "approve", job)
		if code := r.wait(consumer); code != 0 {
			t.Errorf("%.10q: exit %d", lie, code)
		}
		r.coherent()
	}
}

// Nothing follows a symbolic link out of .vizier.
func TestLinksLeadNowhere(t *testing.T) {
	t.Parallel()
	outside := func(t *testing.T) (dir, file string) {
		dir = t.TempDir()
		file = filepath.Join(dir, "precious")
		if err := os.WriteFile(file, []byte("precious\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir, file
	}
	untouched := func(t *testing.T, dir, file string) {
		t.Helper()
		names, _ := filepath.Glob(filepath.Join(dir, "*"))
		if b, err := os.ReadFile(file); err != nil || string(b) != "precious\n" || len(names) != 1 {
			t.Errorf("outside is now %v, %q, %v", names, b, err)
		}
	}
	link := func(t *testing.T, to, at string) {
		t.Helper()
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{".vizier", ".vizier/jobs"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, plainBin, "")
			dir, file := outside(t)
			r.write(".vizier/keep", "")
			link(t, dir, r.path(at))
			if res := r.exits(1, "jobs", "submit", "--", "true"); !strings.Contains(res.err, "symbolic link") {
				t.Errorf("submit: %s", res.err)
			}
			untouched(t, dir, file)
		})
	}
	for _, name := range []string{"job.json", "state", "stdout.log", "stderr.log", "outcome.json", "attempts", "job.lock"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, plainBin, "[scheduler]\nlock_timeout = \"5s\"\n")
			job := r.submit("--approval", "--", "echo", "out")
			dir, file := outside(t)
			to := file
			if name == "attempts" {
				to = dir
			}
			link(t, to, r.jobPath(job, name))
			good := r.submit("--", "true")
			r.run("jobs", "approve", job) // may be refused
			r.run("jobs", "wait", "--timeout", "3s", job)
			untouched(t, dir, file)
			if code := r.wait(good); code != 0 {
				t.Errorf("a job that has nothing to do with it: exit %d", code)
			}
			r.ok("jobs", "list", "--all")
			r.run("jobs", "cancel", job)
			untouched(t, dir, file)
		})
	}
}
