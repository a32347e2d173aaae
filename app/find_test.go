package app_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// What no reference names is not read, unless one of them is a name, or a prefix of nothing.
func TestWhatIsNamedIsRead(t *testing.T) {
	id := func(first string) kernel.JobID { return kernel.JobID(first + strings.Repeat("0", 32-len(first))) }
	a, b, c, d := id("0123456a"), id("0123456b"), id("c"), id("d")
	jobs := []kernel.Job{{ID: a, Number: 1}, {ID: b, Number: 2}, {ID: c, Number: 3, Part: "x"}, {ID: d, Number: 4, Spec: kernel.Spec{Name: "deadbeef1"}}}
	run := kernel.RunID("run_" + strings.Repeat("1", 32))
	jobs[2].Spec.Origin.Run = run
	listed := &app.Scheduler{Store: listing{indexed{jobs: jobs}}, Now: time.Now}
	for refs, want := range map[string][]kernel.JobID{
		string(a):        {a},
		"0123456b":       {b},
		"0123456a 3":     {a, c},
		string(run):      {c},
		"@last":          {d},
		"4":              {d},
		"deadbeef1":      {a, b, c, d},
		"0123456a named": nil,
	} {
		snap, _, err := listed.Jobs(t.Context(), strings.Fields(refs))
		if (err != nil) != (want == nil) {
			t.Errorf("%s: %v", refs, err)
			continue
		}
		if want != nil && fmt.Sprint(ids(snap.Held())) != fmt.Sprint(want) {
			t.Errorf("%s: read are %v, want %v", refs, ids(snap.Held()), want)
		}
	}
}

// listing is a store that lists its jobs without reading them.
type listing struct{ indexed }

func (l listing) IDs() (all []kernel.JobID, err error) {
	for _, j := range l.jobs {
		all = append(all, j.ID)
	}
	return all, nil
}

func (l listing) Read(ctx context.Context, scope kernel.Scope) (kernel.Records, error) {
	if len(scope.Near) > 0 || scope.All || len(scope.Jobs) == 0 {
		return l.indexed.Read(ctx, scope)
	}
	rec := kernel.Records{Narrow: true}
	for _, j := range l.jobs {
		if slices.Contains(scope.Jobs, j.ID) {
			rec.Jobs = append(rec.Jobs, j)
		}
	}
	return rec, nil
}

func ids(jobs []*kernel.Job) (out []kernel.JobID) {
	for _, j := range jobs {
		out = append(out, j.ID)
	}
	return out
}

// What no job or run is called, and records that cannot be read, are errors of whoever looks for something.
func TestNothingIsFound(t *testing.T) {
	jobs, errDisk := []kernel.Job{{ID: "a", Number: 1}}, errors.New("disk on fire")
	for name, find := range map[string]func(*app.Scheduler, string) (bool, error){
		"targets": func(s *app.Scheduler, ref string) (bool, error) {
			snap, targets, err := s.Targets(t.Context(), []string{"1", ref})
			return snap != nil && len(targets) == 2, err
		},
		"jobs": func(s *app.Scheduler, ref string) (bool, error) {
			snap, ids, err := s.Jobs(t.Context(), []string{"1", ref})
			return snap != nil && len(ids) == 2, err
		},
		"members": func(s *app.Scheduler, ref string) (bool, error) {
			snap, ids, sleepers, err := s.Members(t.Context(), []string{"1", ref})
			return snap != nil && len(ids) == 1 && sleepers != nil, err
		},
		"a resolver": func(s *app.Scheduler, ref string) (bool, error) {
			resolve, err := s.Resolver(t.Context(), []string{"1", ref})
			if err != nil {
				return resolve != nil, err
			}
			id, err := resolve(ref)
			return id != "", err
		},
		"a job": func(s *app.Scheduler, ref string) (bool, error) {
			snap, id, err := s.Job(t.Context(), ref)
			return snap != nil && id != "", err
		},
	} {
		if there, err := find(&app.Scheduler{Store: indexed{jobs: jobs}, Now: time.Now}, "1"); !there || err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, ref := range []string{"2", "nothing"} {
			if there, err := find(&app.Scheduler{Store: indexed{jobs: jobs}, Now: time.Now}, ref); there || !errors.Is(err, kernel.ErrNotFound) {
				t.Errorf("%s called %s: %t, %v", name, ref, there, err)
			}
		}
		if there, err := find(&app.Scheduler{Store: indexed{jobs: jobs, fail: errDisk}, Now: time.Now}, "1"); there || !errors.Is(err, errDisk) {
			t.Errorf("%s that cannot be read: %t, %v", name, there, err)
		}
	}
}

// A store that reads narrowly is read again only for what is not known yet, and one that cannot is read in whole.
func TestWhatIsReadToFindAJob(t *testing.T) {
	id := func(first string) kernel.JobID { return kernel.JobID(first + strings.Repeat("0", 32-len(first))) }
	run := kernel.RunID("run_" + strings.Repeat("1", 32))
	jobs := []kernel.Job{{ID: id("a"), Number: 1}, {ID: id("b"), Number: 1, Part: "b", Spec: kernel.Spec{Name: "c"}}, {ID: id("c"), Number: 2, Spec: kernel.Spec{Name: "run_x"}}, {ID: id("d"), Number: 3}}
	jobs[0].Spec.Origin.Run, jobs[1].Spec.Origin.Run = run, run
	jobs[2].Spec.Prompt, jobs[2].Spec.Origin.Run = &kernel.Prompt{}, "run_2"
	all := []kernel.JobID{id("a"), id("b"), id("c"), id("d")}
	for _, c := range []struct {
		ref    string
		held   []kernel.JobID
		narrow bool
		reads  int
	}{
		{string(id("d")), []kernel.JobID{id("d")}, true, 1},
		{string(run), all[:2], true, 1},
		{"1", all[:2], true, 2},
		{"c", all, false, 1},
		{"run_x", all, false, 1},
	} {
		reads := 0
		s := &app.Scheduler{Store: tally{indexed{jobs: jobs}, &reads, 0}, Now: time.Now}
		snap, _, err := s.Targets(t.Context(), []string{c.ref})
		if err != nil || fmt.Sprint(ids(snap.Held())) != fmt.Sprint(c.held) || snap.Narrow() != c.narrow || reads != c.reads {
			t.Errorf("%s: %v, %d reads", c.ref, err, reads)
		}
	}
	reads := 0
	s := &app.Scheduler{Store: tally{indexed{jobs: jobs}, &reads, 0}, Now: time.Now}
	if snap, _, err := s.Job(t.Context(), "run_x"); err != nil || snap.Narrow() || len(snap.Held()) != 4 || reads != 1 {
		t.Errorf("a prompt by name: %v, %d reads", err, reads)
	}
	s.Store = tally{indexed{jobs: jobs}, new(int), 2}
	if _, _, err := s.Job(t.Context(), "2"); err == nil {
		t.Error("the run of a prompt cannot be read, and it is found")
	}
}

// tally is a store that counts its reads, one of which fails.
type tally struct {
	indexed
	reads *int
	fail  int // which, from 1; 0: none
}

func (s tally) Read(ctx context.Context, scope kernel.Scope) (kernel.Records, error) {
	if *s.reads++; *s.reads == s.fail {
		return kernel.Records{}, errors.New("disk on fire")
	}
	return s.indexed.Read(ctx, scope)
}

// Members are the jobs that references name, each of them once. Those of a run are told from those that are named.
func TestMembers(t *testing.T) {
	jobs := []kernel.Job{{ID: "a", Number: 1, Part: "a"}, {ID: "b", Number: 1, Part: "b"}, {ID: "c", Number: 2}}
	jobs[0].Spec.Origin.Run, jobs[1].Spec.Origin.Run = "run_1", "run_1"
	for refs, want := range map[string]string{
		"1":     "[a b] map[a:true b:true]",
		"1/b 1": "[b a] map[a:true b:false]",
		"1 1/b": "[a b] map[a:true b:false]",
		"2 2":   "[c] map[c:false]",
		"1/a 2": "[a c] map[a:false c:false]",
		"1 1 2": "[a b c] map[a:true b:true c:false]",
	} {
		s := &app.Scheduler{Store: indexed{jobs: jobs}, Now: time.Now}
		snap, found, sleepers, err := s.Members(t.Context(), strings.Fields(refs))
		if got := fmt.Sprint(found, sleepers); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", refs, got, err, want)
			continue
		}
		for _, id := range found {
			if snap.Job(id) == nil {
				t.Errorf("%s: job %s is not in the snapshot", refs, id)
			}
		}
	}
}

// The state of a job that stands for a prompt depends on its run, which is read with it.
func TestAPromptIsFoundWithItsRun(t *testing.T) {
	jobs := []kernel.Job{{ID: "a", Number: 1}, {ID: "b", Number: 2}, {ID: "c", Number: 3}, {ID: "d", Number: 4}}
	jobs[0].Spec.Prompt, jobs[0].Spec.Origin.Run, jobs[1].Spec.Origin.Run = &kernel.Prompt{}, "run_1", "run_1"
	jobs[2].Spec.Prompt = &kernel.Prompt{}
	s := &app.Scheduler{Store: indexed{jobs: jobs}, Now: time.Now}
	for ref, want := range map[string]string{"1": "[a b]", "2": "[b]", "3": "[c]", "4": "[d]"} {
		snap, _, err := s.Jobs(t.Context(), []string{ref})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(ids(snap.Held())); got != want {
			t.Errorf("%s is found with %s, want %s", ref, got, want)
		}
	}
}
