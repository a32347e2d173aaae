package fs

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A transaction that reads only a few jobs also checks some of the others in turn, except
// those that succeeded, if the process has not done so for a moment. So an edit by hand is
// found in the time of one round.
func TestEditsAreFoundInTurn(t *testing.T) {
	const jobs = 3*maxPatrol + 10
	dir := t.TempDir()
	s := newStore(t, dir)
	var actions []kernel.Action
	for n := 1; n <= jobs+40; n++ {
		j := plain(n)
		if n > jobs {
			j.State.Status = kernel.Succeeded
		}
		j.State.Reason = strings.Repeat("long ", 100)
		actions = append(actions, kernel.Create(j))
	}
	commit(t, s, actions...)
	edited := func(n int) {
		t.Helper()
		path := s.RecordFile(id(n))
		writeAt(t, path+".new", strings.Replace(contentOf(t, path), `"long `, `"edited `, 1))
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	// look runs one transaction about job 1, and returns the jobs that it found edited.
	look := func() (dirty []kernel.JobID) {
		t.Helper()
		tx := begin(t, s)
		rec, err := tx.Load(kernel.Scope{Near: []kernel.Near{{Kind: kernel.Itself, Job: id(1)}}})
		if err != nil {
			t.Fatal(err)
		}
		if !rec.Narrow {
			t.Fatal("it looked at all")
		}
		if err := tx.Commit(kernel.Plan{Judged: "x"}); err != nil {
			t.Fatal(err)
		}
		closeTx(t, tx)
		return rec.Dirty
	}
	for range 6 { // all jobs are checked once before the first edit
		look()
	}
	for _, n := range []int{2, maxPatrol, maxPatrol + 1, 2 * maxPatrol, jobs - 1, jobs} {
		edited(n)
		found := 0
		for range 5 {
			if slices.Contains(look(), id(n)) {
				found++
			}
		}
		if found == 0 {
			t.Errorf("an edit of job %d is not found in five looks", n)
		}
	}
	edited(jobs + 1)
	for range 5 {
		if len(look()) > 0 {
			t.Error("it looks at what has succeeded")
		}
	}
	s.pause = time.Hour
	edited(3)
	for range 5 {
		if len(look()) > 0 {
			t.Error("it looks again before the pause is over")
		}
	}
}

// Succeeded jobs cost a transaction nothing, however many there are.
func TestPatrolPassesOverWhatSucceeded(t *testing.T) {
	s := newStore(t, t.TempDir())
	var actions []kernel.Action
	for n := range 1000 {
		j := plain(n + 1)
		j.State.Status = kernel.Succeeded
		actions = append(actions, kernel.Create(j))
	}
	commit(t, s, append(actions, kernel.Create(plain(4000)))...)
	tx := begin(t, s)
	if _, err := tx.Load(kernel.Scope{Near: []kernel.Near{{Kind: kernel.Itself, Job: id(4000)}}}); err != nil {
		t.Fatal(err)
	}
	closeTx(t, tx) // the cache is in tables now
	s = newStore(t, s.Layout.root)
	tx = begin(t, s)
	defer closeTx(t, tx)
	if err := s.catchUp(tx.pos); err != nil {
		t.Fatal(err)
	}
	allocated := testing.AllocsPerRun(3, func() {
		if err := s.patrol(); err != nil {
			t.Fatal(err)
		}
	})
	if s.cache.due() || len(s.cache.unlogged) > 0 {
		t.Errorf("what found nothing is to be written to the cache: %q", s.cache.unlogged)
	}
	if allocated > 500 { // each key that is read is one
		t.Errorf("a patrol past 1,000 jobs that succeeded allocates %.0f times", allocated)
	}
}

// A read of the first jobs in line, or of those that are due, finds them all, also if it notices
// edits on the way.
func TestTheFirstInLineWereEdited(t *testing.T) {
	const jobs, most = 58, 53                                                  // their keys nearly fill a chunk of the memtable
	due := kernel.Near{Kind: kernel.Due, At: t0.Add((most - 1) * time.Second)} // and the next one
	for _, near := range []kernel.Near{{Kind: kernel.Waiters, Most: most}, due} {
		s := newStore(t, t.TempDir())
		commit(t, s, kernel.Create(endedJob(jobs+1))) // makes a table, so that what comes stays in memory
		var actions []kernel.Action
		var want []kernel.JobID
		for n := 1; n <= jobs; n++ {
			j := plain(n)
			if j.State.Status = kernel.WaitingOnLocks; near.Kind == kernel.Due {
				j.State.Status, j.State.RetryAt = kernel.FailedRetryable, t0.Add(time.Duration(n)*time.Second)
			}
			j.Spec.Origin.Run, j.Spec.Needs = "run_1", []kernel.Artifact{custom("t", "aaaa")}
			actions = append(actions, kernel.Create(j))
			if n <= most {
				want = append(want, j.ID)
			}
		}
		commit(t, s, actions...)
		tx := begin(t, s)
		if err := tx.Commit(kernel.Plan{Judged: "x"}); err != nil {
			t.Fatal(err)
		}
		closeTx(t, tx)
		for n := 1; n <= jobs; n++ {
			path := s.RecordFile(id(n))
			writeAt(t, path+".new", strings.ReplaceAll(contentOf(t, path), `"aaaa"`, `"bbbb"`))
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}
		s.pause, s.patrolled = time.Hour, time.Now() // it notices nothing before
		tx = begin(t, s)
		rec, err := tx.Load(kernel.Scope{Near: []kernel.Near{near}})
		closeTx(t, tx)
		if err != nil {
			t.Fatal(err)
		}
		if got := idsOf(rec.Jobs); !slices.Equal(got, want) {
			t.Errorf("%v: it finds %q", near.Kind, got)
		}
	}
}
