package kernel_test

import (
	"fmt"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A job after many waits as long as one of them has not ended, wherever in its list that one is. Its reason names the last
// of these before the first that failed (docs/adr/0063).
func TestAJobAfterMany(t *testing.T) {
	const many = 40
	for name, c := range map[string]struct {
		is   map[int]kernel.Status // of the others: succeeded
		want string
	}{
		"all succeeded":         {nil, "running"},
		"the first runs":        {map[int]kernel.Status{0: kernel.Running}, "waiting_on_deps dependencies: waiting on job p00"},
		"the last runs":         {map[int]kernel.Status{39: kernel.Running}, "waiting_on_deps dependencies: waiting on job p39"},
		"several run":           {map[int]kernel.Status{0: kernel.Running, 7: kernel.Running, 20: kernel.Running}, "waiting_on_deps dependencies: waiting on job p20"},
		"the first failed":      {map[int]kernel.Status{0: kernel.Failed, 7: kernel.Running}, "blocked_by_dependency dependencies: dependency failed for job p00 (failed)"},
		"the last failed":       {map[int]kernel.Status{39: kernel.Failed}, "blocked_by_dependency dependencies: dependency failed for job p39 (failed)"},
		"runs, before a failed": {map[int]kernel.Status{0: kernel.Running, 7: kernel.Failed, 20: kernel.Running}, "waiting_on_deps dependencies: waiting on job p00"},
	} {
		t.Run(name, func(t *testing.T) {
			var jobs []kernel.Job
			var ids []kernel.JobID
			for i := range many {
				ids = append(ids, kernel.JobID(fmt.Sprintf("p%02d", i)))
				st, ok := c.is[i]
				if !ok {
					st = kernel.Succeeded
				}
				jobs = append(jobs, job(ids[i], is(st)))
			}
			expect(t, snapshot(facts(), append(jobs, job("q", after(ids...)))...), "q", c.want)
		})
	}
}

// The same holds for many tokens.
func TestAJobThatNeedsManyTokens(t *testing.T) {
	const many = 40
	for name, c := range map[string]struct {
		is   map[int]kernel.Status
		want string
	}{
		"all are there":        {nil, "running"},
		"the first is made":    {map[int]kernel.Status{0: kernel.Running}, "waiting_on_deps dependencies: waiting on custom:t:00"},
		"the last is made":     {map[int]kernel.Status{39: kernel.Running}, "waiting_on_deps dependencies: waiting on custom:t:39"},
		"several are made":     {map[int]kernel.Status{0: kernel.Running, 7: kernel.Running, 20: kernel.Running}, "waiting_on_deps dependencies: waiting on custom:t:20"},
		"the first is missing": {map[int]kernel.Status{0: kernel.Failed, 7: kernel.Running}, "blocked_by_dependency dependencies: dependency failed for custom:t:00"},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts()
			var jobs []kernel.Job
			var tokens []string
			for i := range many {
				id, token := kernel.JobID(fmt.Sprintf("p%02d", i)), fmt.Sprintf("custom:t:%02d", i)
				tokens = append(tokens, token)
				st, ok := c.is[i]
				if !ok {
					st = kernel.Succeeded
					f = marked(f, token, id)
				} else {
					f = marked(f, token)
				}
				jobs = append(jobs, job(id, is(st), produces(token)))
			}
			expect(t, snapshot(f, append(jobs, job("q", needs(tokens...)))...), "q", c.want)
		})
	}
}

// A tick that judges such a job again, since one of the others changed, asks for the maker of the token that it waits for, and not
// for all of them.
func TestAJobThatNeedsManyTokensAsksForOne(t *testing.T) {
	const many = 400
	f := facts()
	var tokens []string
	for i := range many {
		token := fmt.Sprintf("custom:t:%03d", i)
		if tokens = append(tokens, token); i == 150 || i == 200 {
			f = marked(f, token)
		} else {
			f = marked(f, token, kernel.JobID(fmt.Sprintf("p%03d", i)))
		}
	}
	q := job("q", needs(tokens...), is(kernel.WaitingOnDeps))
	q.State.Wait = kernel.WaitReason{Kind: kernel.OnDependencies, Cause: kernel.TokenProducing, Artifact: artifact("custom:t:200")}
	o := kernel.Observation{Now: t0, Facts: f, Jobs: []kernel.Job{q, job("p150", running(1), produces("custom:t:150")), job("p200", running(1), produces("custom:t:200"))},
		Dirty: []kernel.JobID{"p150"}, Near: []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Due}, {Kind: kernel.Itself, Job: "p150"}, {Kind: kernel.Itself, Job: "q"}}}
	asked := 0
	for range 9 {
		s := kernel.NewSnapshot(o)
		kernel.Decide(s)
		lacks, _ := s.Lacks()
		asked += len(lacks)
		o.Near = append(o.Near, lacks...)
	}
	if asked > 20 {
		t.Errorf("it asks for %d things", asked)
	}
}
