package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/adapters/proc"
)

// begun waits until an effect has begun.
func (r *repo) begun(name string) {
	r.Helper()
	r.eventually(func() string {
		if r.read("effects/"+name) == "" {
			return name + " has not begun"
		}
		return ""
	})
}

// done waits until an effect has ended. It runs no command of Vizier, which might tick.
func (r *repo) done(name string) {
	r.Helper()
	r.eventually(func() string {
		if !strings.Contains(r.read("effects/"+name), "end") {
			return name + " has not ended"
		}
		return ""
	})
}

// noResident kills the resident scheduler, including one that is just being started.
func (r *repo) noResident() {
	r.Helper()
	r.eventually(func() string {
		r.killResident()
		if held, _ := proc.Locked(r.dir + "/.vizier/jobs/resident.lock"); held {
			return "there is one"
		}
		return ""
	})
}

const untilGo = "while [ ! -e $VIZIER_ROOT/go ]; do sleep 0.2; done;"

// If the resident scheduler is killed, the end of an attempt still starts the jobs
// that depend on it on the cluster, without any command. Jobs of the submitting host
// wait, and the next command that reads there starts them.
func TestAnAttemptsEndGoesOnWithoutAResident(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	first := r.submit("lab", effect("first", untilGo))
	second := r.submit("lab", effect("second", ""), "--after", first)
	here := r.submit("local", effect("here", ""), "--after", first)
	r.begun("first")
	r.noResident()
	r.write("go", "")
	r.done("second")
	if r.read("effects/here") != "" {
		t.Error("a node started a job of the submitting host")
	}
	if held, _ := proc.Locked(r.dir + "/.vizier/jobs/resident.lock"); held {
		t.Error("a resident scheduler was started on a node")
	}
	r.v("jobs", "list") // a command that only reads
	r.done("here")
	for _, id := range []string{first, second, here} {
		r.becomes(id, "succeeded")
	}
	r.happened("first")
	r.happened("second")
	r.happened("here")
}

// The workers of a pilot do the same. They need not do so at each end, but no job is
// forgotten.
func TestAPilotGoesOnWithoutAResident(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	first := r.submit("packed", effect("first", untilGo))
	var after []string
	for i := range 20 {
		after = append(after, "--after", r.submit("packed", effect(fmt.Sprint("many", i), ""), "--after", first))
	}
	last := r.submit("packed", effect("last", ""), after...)
	r.begun("first")
	r.noResident()
	r.write("go", "")
	r.done("last")
	if held, _ := proc.Locked(r.dir + "/.vizier/jobs/resident.lock"); held {
		t.Error("a resident scheduler was started on a node")
	}
	r.becomes(last, "succeeded")
	for i := range 20 {
		r.happened(fmt.Sprint("many", i))
	}
	r.happened("last")
}

// If locks do not hold between hosts, no process on a node may schedule. A reading
// command finds the end of the attempt and starts a resident scheduler. If it must not
// start one, it says what to type.
func TestALookGoesOnWithoutAResident(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	first := r.submit("leases", effect("first", untilGo))
	r.submit("leases", effect("second", ""), "--after", first)
	r.begun("first")
	ref := r.job(first)["ref"]
	r.noResident()
	for _, look := range [][]string{{"jobs", "list"}, {"jobs", "show", first}, {"jobs", "status", first}, {"jobs", "why", first}} {
		_, errs, err := r.try("", append([]string{"--no-resident"}, look...)...)
		want := "no scheduler is running (--no-resident starts none), and job " + ref + " is with executor leases: `vizier wait " + ref
		if err != nil || !strings.Contains(errs, want) {
			t.Errorf("%q: %v %q", look, err, errs)
		}
	}
	r.write("go", "")
	r.done("first")
	r.v("jobs", "list")
	r.done("second")
	r.happened("first")
	r.happened("second")
}

// A wait without a resident scheduler does not wait for a cluster that does not answer.
func TestAWaitDoesNotWaitForTheCluster(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.write(".vizier/config.toml", strings.ReplaceAll(config, `"5s"`, `"10m"`)+"[scheduler]\nresident = false\n")
	away := r.submit("lab", "true", "--option=--begin=now+1hour")
	r.eventually(func() string {
		if job := r.job(away); !strings.Contains(job["remark"], "BeginTime") {
			return fmt.Sprint(job)
		}
		return ""
	})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "squeue"), []byte("#!/bin/sh\nwhile [ -e $0 ]; do sleep 0.1; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.env = append(r.env, "PATH="+dir+":"+filepath.Dir(bin)+":"+os.Getenv("PATH"))
	here := r.submit("local", "true")
	r.sh("rm .vizier/jobs/cluster/lab.list") // the latest answer, which may be recent enough
	if out, errs, err := r.try("", "wait", "--timeout", "1m", here); err != nil {
		t.Errorf("%v: %s%s", err, out, errs)
	}
}
