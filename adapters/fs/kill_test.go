package fs

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// The writer's k-th plan changes jobs 1–5 to say "plan k", creates job 100+k,
// removes job 100+k-3, and in turn publishes and resets job 1's marker.
const (
	writerJobs   = 5
	writerBase   = 100
	writerKept   = 3
	writerNoDone = 3 // every third plan is left without Done
)

var writerMarker = custom("t", "parity")

func writerState(st *kernel.State, n, k int) {
	st.Reason = fmt.Sprintf("plan %d", k)
	if n == 2 { // so that checkpoints come often
		st.Reason += strings.Repeat(" padding", 4000)
	}
	st.Status = []kernel.Status{kernel.Queued, kernel.Running, kernel.Succeeded, kernel.Failed}[(n+k)%4]
	st.Attempt = k
}

func writerPlan(rec map[kernel.JobID]kernel.Job, k int) kernel.Plan {
	var p kernel.Plan
	add := func(a kernel.RecordAction) { p.Records = append(p.Records, a) }
	for n := 1; n <= writerJobs; n++ {
		j, ok := rec[id(n)]
		if !ok {
			j = plain(n)
			j.Spec.Produces = []kernel.Artifact{writerMarker}
			writerState(&j.State, n, k)
			add(kernel.Create(j))
			continue
		}
		add(put(j, func(st *kernel.State) { writerState(st, n, k) }))
	}
	if at := (kernel.AttemptID{Job: id(1), N: k}); k%2 == 1 {
		add(kernel.Publish{Attempt: at, Artifacts: []kernel.Artifact{writerMarker}})
	} else {
		add(kernel.Reset{Attempt: at, Produces: []kernel.Artifact{writerMarker}})
	}
	j := plain(writerBase + k)
	j.State.Reason = fmt.Sprintf("plan %d", k)
	add(kernel.Create(j))
	if old := id(writerBase + k - writerKept); rec[old].ID != "" {
		add(kernel.RemoveJob{Job: old})
	}
	p.World = append(p.World, kernel.Launch{Attempt: kernel.AttemptID{Job: id(1), N: k}})
	return p
}

func planOf(j kernel.Job) (k int) {
	_, _ = fmt.Sscanf(j.State.Reason, "plan %d", &k)
	return k
}

// playWriter commits one plan after another until it is killed, and prints which
// were committed and done.
func playWriter(dir string) error {
	o := options()
	o.Durable = os.Getpid()%8 == 0 // most of the time is for writing, not for the disk
	s := NewStore(dir, o)
	for {
		tx, err := s.Begin(context.Background())
		if err != nil {
			return err
		}
		rec, err := tx.Load(kernel.Scope{All: true})
		if err != nil {
			return err
		}
		jobs := map[kernel.JobID]kernel.Job{}
		for _, j := range rec.Jobs {
			jobs[j.ID] = j
		}
		k := planOf(jobs[id(1)]) + 1
		if err := tx.Commit(writerPlan(jobs, k)); err != nil {
			return err
		}
		fmt.Println("committed", k)
		if k%writerNoDone != 0 {
			if err := tx.Done(); err != nil {
				return err
			}
			fmt.Println("done", k)
		}
		if err := tx.Close(); err != nil {
			return err
		}
	}
}

// A writer is killed at random moments. Every plan that it reported lasts, and every
// plan is there whole or not at all.
func TestKillNine(t *testing.T) {
	oneGoroutine(t)
	r := drawtest.Of(t)
	kills := 40
	if long {
		kills = 1000
	}
	dir := t.TempDir()
	last := 0
	for n := range kills {
		w := cast(t, "write", dir)
		if n%4 != 0 { // the others may die before they begin
			w.hear()
		}
		time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond)
		if err := w.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(w.out)
		if err != nil {
			t.Fatal(err)
		}
		w.done = true
		_ = w.cmd.Wait()
		if strings.Contains(string(said), "failed") {
			t.Fatalf("the writer said %s", said)
		}
		last = verifyKilled(t, dir, string(said), last)
	}
	t.Logf("%d plans, killed %d times", last, kills)
}

// verifyKilled asserts that the store is whole and holds every plan that was reported.
// It returns the number of the last plan that it holds.
func verifyKilled(t *testing.T, dir, said string, last int) int {
	t.Helper()
	reported, done := last, 0
	for line := range strings.Lines(said) {
		var k int
		if n, _ := fmt.Sscanf(line, "committed %d\n", &k); n == 1 {
			reported = max(reported, k)
		} else if n, _ := fmt.Sscanf(line, "done %d\n", &k); n == 1 {
			done = k
		}
	}
	s := newStore(t, dir)
	tx := begin(t, s)
	rec := load(t, tx)
	left := tx.Unfinished()
	closeTx(t, tx)
	if len(rec.Jobs) == 0 && reported == 0 {
		return 0 // killed before its first plan
	}
	k := planOf(find(t, rec, id(1)))
	if k < reported {
		t.Fatalf("plan %d was reported, the store is at %d", reported, k)
	}
	want := slices.Collect(maps.Keys(expected(k)))
	var have []kernel.JobID
	for _, j := range rec.Jobs {
		have = append(have, j.ID)
		if planOf(j) != expected(k)[j.ID] {
			t.Fatalf("at plan %d job %s says %.20q", k, j.ID, j.State.Reason)
		}
		if word := contentOf(t, filepath.Join(s.JobDir(j.ID), "state")); word != j.State.Status.Coarse()+"\n" {
			t.Fatalf("job %s is %s, its state file says %q", j.ID, j.State.Status, word)
		}
		onDisk, _, err := s.readRecord(j.ID)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(onDisk, j); d != "" {
			t.Fatalf("the index and the record of %s differ:\n%s", j.ID, d)
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	if d := cmp.Diff(want, have); d != "" || len(rec.Unreadable) > 0 {
		t.Fatalf("at plan %d: %s unreadable %v", k, d, rec.Unreadable)
	}
	if marked := exists(file(dir, artifactFile(markersDir, writerMarker, id(1)))); marked != (k%2 == 1) {
		t.Fatalf("at plan %d the marker exists: %v", k, marked)
	}
	launch := []kernel.WorldAction{kernel.Launch{Attempt: kernel.AttemptID{Job: id(1), N: k}}}
	switch {
	case len(left) == 0 && k%writerNoDone == 0:
		t.Fatalf("plan %d was never done, and nothing is left to do", k)
	case len(left) > 0 && done == k:
		t.Fatalf("plan %d was done, and there is left %v", k, left)
	case len(left) > 0 && cmp.Diff(launch, left) != "":
		t.Fatalf("plan %d left %v", k, left)
	}
	return k
}

// expected returns the jobs after plan k, each with the plan that wrote it last.
func expected(k int) map[kernel.JobID]int {
	out := map[kernel.JobID]int{}
	for n := 1; n <= writerJobs; n++ {
		out[id(n)] = k
	}
	for n := max(1, k-writerKept+1); n <= k; n++ {
		out[id(writerBase+n)] = n
	}
	return out
}
