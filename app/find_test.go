package app_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/storetest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// indexed is a store that reads only the jobs that it is asked for.
type indexed struct {
	app.Store
	jobs []kernel.Job
	fail error
}

func (s indexed) Read(_ context.Context, scope kernel.Scope) (kernel.Records, error) {
	if len(scope.Near) == 0 {
		return kernel.Records{Jobs: s.jobs}, s.fail
	}
	return kernel.Records{Jobs: storetest.Pick(s.jobs, scope.Near), Narrow: true}, s.fail
}

// A reference to a job of a run is resolved in a snapshot of the whole run and nothing else.
func TestAJobIsFoundWithItsRun(t *testing.T) {
	jobs := []kernel.Job{{ID: "a", Number: 1, Part: "a"}, {ID: "b", Number: 1, Part: "b"}, {ID: "c", Number: 2}, {ID: "d", Number: 3}}
	jobs[0].Spec.Origin.Run, jobs[1].Spec.Origin.Run, jobs[2].Spec.Origin.Run = "run_1", "run_1", "run_1"
	s := &app.Scheduler{Store: indexed{jobs: jobs}, Now: time.Now}
	for ref, want := range map[string]string{"1/b": "[a b c] [b]", "3": "[d] [d]"} {
		snap, targets, err := s.Targets(t.Context(), []string{ref})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(ids(snap.Held()), " ", ids(targets[0].Jobs)); got != want {
			t.Errorf("%s: %s, want %s", ref, got, want)
		}
	}
}

// A run is found by a reference to all of it. Whatever else the reference names, or the store fails with, is an error.
func TestARunIsFound(t *testing.T) {
	jobs := []kernel.Job{{ID: "a", Number: 1, Part: "a"}, {ID: "b", Number: 1, Part: "b"}, {ID: "c", Number: 3}}
	jobs[0].Spec.Origin.Run, jobs[1].Spec.Origin.Run = "run_1", "run_1"
	broken := errors.New("disk on fire")
	for _, c := range []struct {
		ref  string
		fail error
		want kernel.RunID
		err  error
	}{
		{ref: "1", want: "run_1"},
		{ref: "1/b", err: kernel.ErrInvalid},
		{ref: "3", err: kernel.ErrInvalid},
		{ref: "4", err: kernel.ErrNotFound},
		{ref: "1", fail: broken, err: broken},
	} {
		s := &app.Scheduler{Store: indexed{jobs: jobs, fail: c.fail}, Now: time.Now}
		if run, err := s.Run(t.Context(), c.ref); run != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v, want %q, %v", c.ref, run, err, c.want, c.err)
		}
	}
}

func ids(jobs []*kernel.Job) (out []kernel.JobID) {
	for _, j := range jobs {
		out = append(out, j.ID)
	}
	return out
}
