package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// accounting is a fakeEngine whose cluster keeps accounts, or says why not.
type accounting struct {
	*fakeEngine
	accounts []Job
	err      error
	asked    [][]string // the ids, of each question
}

func (e *accounting) Accounts(_ context.Context, jobs []Job) ([]Job, error) {
	ids := []string{}
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	e.asked = append(e.asked, ids)
	return e.accounts, e.err
}

// newAccounting returns a cluster that had four jobs running, 10 to 13, each the first attempt of
// a job that a runner has claimed and that nobody runs. Its ends are kept in ends.
func newAccounting(t *testing.T) (f fakeCluster, e *accounting, all []kernel.AttemptID, ends map[kernel.AttemptID]kernel.Result) {
	t.Helper()
	f = newFakeCluster(t, takes("7"))
	e, ends = &accounting{fakeEngine: f.fake}, map[kernel.AttemptID]kernel.Result{}
	conclude := f.Conclude
	f.Engine, f.Conclude = e, func(r kernel.Result) error {
		ends[r.Attempt] = r
		return conclude(r)
	}
	all = f.start(4)
	for i, a := range all {
		for path, text := range map[string]string{f.Files.ClaimFile(a): `{"host": "n1", "began": "2026-01-01T00:00:00Z"}`, f.Files.BeatFile(a): ""} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f.fake.queue = append(f.fake.queue, Job{ID: fmt.Sprint(10 + i), Name: f.jobName(a), State: Running, Word: "RUNNING", Node: "n1"})
	}
	f.list()
	time.Sleep(2 * tick) // the cluster is asked after its runners were heard of
	return f, e, all, ends
}

// list has the cluster asked.
func (f fakeCluster) list() {
	f.t.Helper()
	if _, err := f.refresh(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// What an attempt used whose runner is lost is what the accounts say, which are asked once for
// all; of a job that the cluster has forgotten they say how it ended as well. They are asked about
// nothing else.
func TestAccountsOfLostRunners(t *testing.T) {
	f, e, all, ends := newAccounting(t)
	if len(e.asked) > 0 {
		t.Errorf("asked about %v, of which all run", e.asked)
	}
	if err := f.Conclude(kernel.Result{Attempt: all[2]}); err != nil {
		t.Fatal(err)
	}
	failed := func(j Job) Job { j.State, j.Word = Failed, "FAILED"; return j }
	queue := e.queue
	e.queue = []Job{failed(queue[0]), failed(queue[2]), queue[3], failed(Job{ID: "20", Name: f.pilotPrefix() + "1"}), failed(Job{ID: "21", Name: f.ownPrefix() + "probe-1"})}
	other := kernel.AttemptID{Job: all[3].Job, N: 2}
	for path, text := range map[string]string{f.Files.ClaimFile(other): `{"host": "n1"}`, f.Files.OrderFile(other): `{"cluster": "d"}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e.queue = append(e.queue, failed(Job{ID: "22", Name: f.jobName(other)})) // of another executor on the same cluster
	e.queue[2].State = Succeeded                                             // its outcome is on its way
	forgotten := queue[1]
	forgotten.State, forgotten.Word, forgotten.Figures = OutOfMemory, "OUT_OF_MEMORY", Figures{Seconds: 60, CPUSeconds: 1.031, PeakMemory: 1 << 30}
	lost := failed(queue[0])
	lost.Figures = Figures{Seconds: 2, PeakMemory: 1 << 20}
	e.accounts = []Job{lost, forgotten}
	f.list()
	f.list()
	if want := [][]string{{"10", "11"}}; fmt.Sprint(e.asked) != fmt.Sprint(want) {
		t.Errorf("asked about %v, want %v", e.asked, want)
	}
	f.Alive(t.Context(), all)
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, want := range []kernel.Result{
		{Class: kernel.WorkerLost, Place: kernel.Place{Host: "n1", Used: kernel.Used{Memory: 1 << 20}}, Started: began, Ended: began.Add(2 * time.Second)},
		{Class: kernel.OutOfMemory, Place: kernel.Place{Host: "n1", Used: kernel.Used{CPU: 1031 * time.Millisecond, Memory: 1 << 30}}, Started: began, Ended: began.Add(time.Minute)},
	} {
		if got := ends[all[i]]; got.Class != want.Class || got.Place != want.Place || !got.Started.Equal(want.Started) || !got.Ended.Equal(want.Ended) {
			t.Errorf("%d ended as %+v", i, got)
		}
	}
	if len(ends) != 4 || ends[all[3]].Place.Used != (kernel.Used{}) {
		t.Errorf("ended: %v", ends)
	}
	f.list()
	if len(e.asked) != 1 {
		t.Errorf("asked about %v once all is over", e.asked[1:])
	}
}

// Accounts that cannot be asked are not asked again for a while, by any process, and attempts
// end without them.
func TestNoAccounts(t *testing.T) {
	f, e, all, ends := newAccounting(t)
	e.err = errors.New("Slurm accounting storage is disabled")
	for i := range e.queue {
		e.queue[i].State = Failed
	}
	f.list()
	again := Cluster{Name: f.Name, Engine: e, Root: f.Root, Files: f.Files, Local: f.Local} // another process's
	if _, err := again.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(e.asked) != 1 {
		t.Errorf("asked %d times", len(e.asked))
	}
	f.Alive(t.Context(), all)
	if r := ends[all[0]]; len(ends) != 4 || r.Class != kernel.WorkerLost || r.Place.Used != (kernel.Used{}) || time.Since(r.Ended) > time.Hour {
		t.Errorf("ended: %+v", ends)
	}
}

// A pilot's figures are not those of the attempts that it ran, and an end that is still to come
// is now.
func TestWhoseFigures(t *testing.T) {
	job := &Job{ID: "7", State: Lost, Word: "NODE_FAIL", Figures: Figures{Seconds: 60, CPUSeconds: 1}}
	e := evidence{host: "n1", began: time.Now(), job: job, packed: true}
	if r := e.end("there"); r.Place.Used != (kernel.Used{}) || !r.Ended.IsZero() {
		t.Errorf("a pilot's: %+v", r)
	}
	e.packed, e.began = false, time.Time{}
	if r := e.end("there"); r.Place.Used.CPU != time.Second || !r.Ended.IsZero() {
		t.Errorf("one whose begin is not known: %+v", r)
	}
	f, _, all, ends := newAccounting(t)
	if err := f.record(all[0], judgement{lost: &kernel.Result{Ended: time.Now().Add(time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	if r := ends[all[0]]; time.Until(r.Ended) > time.Minute {
		t.Errorf("it ends at %v", r.Ended)
	}
}
