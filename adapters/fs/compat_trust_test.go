package fs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// writeTrust writes a store with approvals of all kinds, an attempt in a sandbox and
// a job with secrets, which was adopted where it was copied to.
func writeTrust(t *testing.T, to string) {
	t.Helper()
	from := t.TempDir()
	git := Options{Boot: "boot-1", Who: "test", Now: options().Now, Tracking: &tracking{stamp: "1"}}
	s := newStoreWith(t, from, git)
	approved := func(n int, name string, change func(*kernel.Job)) kernel.CreateJob {
		j := plain(n)
		j.Spec.Name = name
		j.Spec.Task.Env = []string{"MODE=fast"}
		j.Spec.Task.Sandbox = kernel.Sandbox{Mode: kernel.BestEffortSandbox, Write: []string{"out"}, Network: kernel.NoNetwork}
		a := kernel.Require(t0, "ann")
		statement := j.Spec.Statement()
		a.State, a.DecidedAt, a.DecidedBy = kernel.Approved, t0, "ben"
		a.Grant = &kernel.Grant{How: "terminal", Digest: kernel.DigestOf(statement), Statement: statement}
		j.State.Approval = a
		change(&j)
		return kernel.Create(j)
	}
	confined := plain(5)
	confined.Spec.Name, confined.Spec.Task.Sandbox = "confined", kernel.Sandbox{Mode: kernel.RequiredSandbox, ReadOnly: true}
	confined.State.Status, confined.State.Attempt, confined.State.Outcome, confined.State.Exit = kernel.Succeeded, 1, kernel.OutcomeSucceeded, kernel.Exited(0)
	confined.State.Place = kernel.Place{Host: "host", PID: 7, Sandbox: "files, signals, abstract sockets (Landlock 6)"}
	secret := plain(6)
	secret.Spec.Name, secret.Spec.Task.Secrets = "with secrets", []kernel.Secret{{Name: "TOKEN", Source: "@~/token"}, {Name: "DB", Source: "pass show db"}}
	commit(t, s,
		approved(1, "sealed", func(*kernel.Job) {}),
		approved(2, "changed", func(j *kernel.Job) { j.Spec.Task.Args = []string{"false"} }),
		approved(3, "of before digests", func(j *kernel.Job) { j.State.Approval.Grant = nil }),
		approved(4, "without a statement", func(j *kernel.Job) {
			j.State.Approval.Grant = &kernel.Grant{Digest: j.Spec.Digest()}
		}),
		kernel.Create(confined), kernel.Create(secret))
	path := s.RecordFile(id(3))
	writeAt(t, path, strings.Replace(contentOf(t, path), `"version": 1,`, `"version": 1, "x_future": "kept",`, 1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := errors.Join(os.CopyFS(dir, os.DirFS(from)), os.Chmod(filepath.Join(dir, vizierDir, jobsDir), dirMode)); err != nil {
		t.Fatal(err)
	}
	copied := newStoreWith(t, dir, git)
	if err := errors.Join(copied.Adopt(t.Context()), copied.Close()); err != nil {
		t.Fatal(err)
	}
	freeze(t, dir, to)
}

// A store that was adopted elsewhere is refused here until it is adopted once more.
// Then the jobs that were sealed are still sealed, and no others are.
func TestAStoreOfBeforeIsAdopted(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.CopyFS(filepath.Join(dir, vizierDir), os.DirFS(compat+"/trust/store")), os.Chmod(filepath.Join(dir, vizierDir, jobsDir), dirMode)); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Tracking = &tracking{stamp: "2"}
	s := newStoreWith(t, dir, o)
	if err := s.Foreign(t.Context()); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "it was made at ") {
		t.Fatalf("it counts as ours: %v", err)
	}
	if _, err := s.Begin(t.Context()); !errors.Is(err, ErrForeign) {
		t.Fatalf("it is acted on: %v", err)
	}
	if err := s.Adopt(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, s)
	rec := load(t, tx)
	plan := kernel.Decide(kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: rec.Jobs}))
	if err := tx.Commit(plan); err != nil {
		t.Fatal(err)
	}
	closeTx(t, tx)
	var got strings.Builder
	jobs := read(t, newStoreWith(t, dir, o)).Jobs
	slices.SortFunc(jobs, func(a, b kernel.Job) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for _, j := range jobs {
		got.WriteString(j.Spec.Name + ": " + j.State.Status.String() + ", " + j.Seal().String() + " " + j.Unsealed() + j.State.Place.Sandbox + "\n")
	}
	want := `sealed: running, sealed 
changed: waiting_on_approval, broken changed since it was approved: command
of before digests: waiting_on_approval, unsealed approved without saying what: approve it again
without a statement: running, sealed 
confined: succeeded, sealed files, signals, abstract sockets (Landlock 6)
with secrets: running, sealed 
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}
