package vizier_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
)

// TestJobsOfEarlierStoresGetNumbers writes to a store of before there were any.
func TestJobsOfEarlierStoresGetNumbers(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	if err := os.CopyFS(filepath.Join(dir, ".vizier"), os.DirFS("adapters/fs/testdata/compat/v1/store")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, ".vizier/jobs"), 0o700); err != nil { // as it was written
		t.Fatal(err)
	}
	open := func() *vizier.Repository {
		t.Helper()
		r, err := vizier.Open(dir, vizier.Options{Environ: vizier.Environment{"HOME=" + dir, "VIZIER_SCHEDULER_RESIDENT=false", "VIZIER_SCHEDULER_MAX_RUNNING=1"}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	all := func() *kernel.Snapshot {
		t.Helper()
		s, err := open().Scheduler.Records(t.Context(), kernel.Scope{All: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := len(all().Jobs())
	r := open()
	job, err := r.Builder(vizier.Asker{Name: func() string { return "ann" }}).One(t.Context(), enqueue.Request{Command: []string{"true"}, Approval: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Scheduler.Submit(t.Context(), []kernel.NewJob{job}, "ann"); err != nil {
		t.Fatal(err)
	}
	after := all()
	if before < 3 || len(after.Jobs()) != before+1 {
		t.Fatalf("%d jobs, then %d", before, len(after.Jobs()))
	}
	named := map[string]kernel.JobID{}
	var last kernel.Number
	for _, j := range after.Jobs() {
		if j.Ref() == "" || named[j.Ref()] != "" {
			t.Errorf("job %s is called %q, as is %q", j.ID, j.Ref(), named[j.Ref()])
		}
		named[j.Ref()], last = j.ID, max(last, j.Number)
	}
	if got := after.Job(job.ID).Number; got != last {
		t.Errorf("the new job has number %d, the last is %d", got, last)
	}
	for ref, id := range named {
		if _, found, err := open().Scheduler.Job(t.Context(), ref); err != nil || found != id {
			t.Errorf("%s is %s, %v; want %s", ref, found, err, id)
		}
	}
}

// openEmpty returns a repository without jobs.
func openEmpty(t *testing.T) *vizier.Repository {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	r, err := vizier.Open(dir, vizier.Options{Environ: vizier.Environment{"HOME=" + dir, "VIZIER_SCHEDULER_RESIDENT=false"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOneJobOfABatchIsReadAlone names one of many jobs with one number.
func TestOneJobOfABatchIsReadAlone(t *testing.T) {
	r := openEmpty(t)
	var batch []kernel.NewJob
	for i := range 20 {
		job, err := r.Builder(vizier.Asker{Name: func() string { return "ann" }}).One(t.Context(), enqueue.Request{Command: []string{"true"}, Approval: true})
		if err != nil {
			t.Fatal(err)
		}
		job.Part = fmt.Sprint("j", i)
		batch = append(batch, job)
	}
	if _, err := r.Scheduler.Submit(t.Context(), batch, "ann"); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]int{"1/j7": 1, "1": len(batch)} {
		s, targets, err := r.Scheduler.Targets(t.Context(), []string{ref})
		if err != nil || len(targets[0].Jobs) != want || len(s.Held()) != want {
			t.Errorf("%s is %d jobs of %d read, %v; want %d", ref, len(targets[0].Jobs), len(s.Held()), err, want)
		}
	}
}

// TestForesightReadsWhatItNeeds asks what an approval would lead to, with others
// open that have nothing to do with it.
func TestForesightReadsWhatItNeeds(t *testing.T) {
	r := openEmpty(t)
	var batch []kernel.NewJob
	for i := range 20 {
		job, err := r.Builder(vizier.Asker{Name: func() string { return "ann" }}).One(t.Context(), enqueue.Request{Command: []string{"true"}, Approval: true})
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			job.Spec.After = []kernel.JobID{batch[0].ID}
		}
		batch = append(batch, job)
	}
	if _, err := r.Scheduler.Submit(t.Context(), batch, "ann"); err != nil {
		t.Fatal(err)
	}
	f, err := r.Scheduler.Foresee(t.Context(), []foresight.Change{foresight.Reject{Job: batch[0].ID}})
	if err != nil {
		t.Fatal(err)
	}
	moved := f.Moved()
	if len(moved) != 2 || moved[1].Then.State.Status != kernel.BlockedByDependency {
		t.Errorf("moved: %+v", moved)
	}
	if n := len(f.Then.Held()); n > 3 {
		t.Errorf("%d jobs were read", n)
	}
}
