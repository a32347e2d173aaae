package kernel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// An option grows after a failure for lack of that resource only, up to its
// last step. A person's retry keeps the current step.
func TestGrowth(t *testing.T) {
	t.Parallel()
	j := job("q", running(1))
	j.Spec.Task.Executor, j.Spec.Task.Options = "lab", []string{"partition=a,b", "memory=4G,8G,16G", "time=10m,1h", "cpus=2"}
	j.Spec.Budget, j.Spec.Resumable = kernel.Budget{Retries: 9, Resumes: 9, Reclaims: 9}, true
	for _, class := range []kernel.FailureClass{kernel.ExitFailure, kernel.OutOfMemory, kernel.Signal} {
		j.Spec.Retry = j.Spec.Retry.On(class)
	}
	steps := func() string {
		text := strings.Join(j.Asks(), " ") + ":"
		for _, s := range j.Steps() {
			text += fmt.Sprintf(" %s %s %d/%d %s", s.Key, s.Value, s.N, s.Of, s.Next)
		}
		return text
	}
	for n, c := range []struct {
		class        kernel.FailureClass
		failed, asks string
	}{
		{kernel.ExitFailure, "memory 4G 1/3  time 10m 1/2 ", "memory=4G time=10m"},
		{kernel.OutOfMemory, "memory 4G 1/3 8G time 10m 1/2 ", "memory=8G time=10m"},
		{kernel.WorkerLost, "memory 8G 2/3  time 10m 1/2 ", "memory=8G time=10m"},
		{kernel.Timeout, "memory 8G 2/3  time 10m 1/2 1h", "memory=8G time=1h"},
		{kernel.OutOfMemory, "memory 8G 2/3 16G time 1h 2/2 ", "memory=16G time=1h"},
		{kernel.Timeout, "memory 16G 3/3  time 1h 2/2 ", "memory=16G time=1h"},
		{kernel.OutOfMemory, "memory 16G 3/3  time 1h 2/2 ", "memory=16G time=1h"},
		{kernel.Signal, "memory 16G 3/3  time 1h 2/2 ", "memory=16G time=1h"},
	} {
		before := strings.Join(j.Asks(), " ")
		s := snapshot(facts(), j)
		p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Class: c.class})
		if err != nil {
			t.Fatal(err)
		}
		j = *s.Apply(p).Job("q")
		if got, want := steps(), before+": "+c.failed; got != want {
			t.Errorf("%d: failed with %s\n%s, want\n%s", n, c.class, got, want)
		}
		due := kernel.NewSnapshot(kernel.Observation{Now: j.State.RetryAt, Jobs: []kernel.Job{j}, Facts: facts()})
		j = *due.Apply(kernel.Decide(due)).Job("q")
		if got, want := strings.Join(j.Asks(), " "), "partition=a,b "+c.asks+" cpus=2"; got != want || j.State.Status != kernel.Running {
			t.Fatalf("%d: after %s it is %s and asks for %s, want %s", n, c.class, j.State.Status, got, want)
		}
	}
	j.State.Status = kernel.Failed
	s := snapshot(facts(), j)
	p, err := kernel.Retry(s, "q", "ann")
	if err != nil {
		t.Fatal(err)
	}
	if j = *s.Apply(p).Job("q"); j.State.Grown != (kernel.Grown{Memory: 2, Time: 1}) {
		t.Errorf("after a retry: %+v", j.State.Grown)
	}
}

func TestGrowthIsChecked(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]string{
		"":                              "[]",
		"memory=4G":                     "[memory=4G]",
		"partition=a,b":                 "[partition=a,b]",
		"memory=lots":                   "[memory=lots]",
		"memory=900,1G,1T time=5,0-1":   "[memory=900 time=5] [memory=1G time=0-1] [memory=1T time=0-1]",
		"time=59,1:00:00,61m":           "[time=59] [time=1:00:00] [time=61m]",
		"time=1:30,2,1-0:0:1,2-1":       "[time=1:30] [time=2] [time=1-0:0:1] [time=2-1]",
		"memory=4G,4096M":               "not more than",
		"memory=1025,1G":                "not more than",
		"memory=4G,":                    "as memory",
		"memory=0,1G":                   "as memory",
		"memory=4GB,8GB":                "as memory",
		"memory=-1,1G":                  "as memory",
		"memory=G,2G":                   "as memory",
		"memory=99999999999G,2G":        "as memory",
		"time=1h,60":                    "not more than",
		"time=1h,soon":                  "as time",
		"time=1h,16000000:0:0":          "as time",
		"time=1h,32767-999999:59:59":    "[time=1h] [time=32767-999999:59:59]",
		"time=0s,1h":                    "as time",
		"time=1:2:3:4,9-0":              "as time",
		"memory=1G,2G memory=4G":        "twice",
		"memory=1G memory=2G,4G":        "twice",
		"memory=1G memory=2G":           "[memory=1G memory=2G]",
		"partition=a,b partition=c,d,e": "[partition=a,b partition=c,d,e]",
	} {
		at, err := kernel.CheckGrowth(strings.Fields(options))
		got := strings.Trim(fmt.Sprint(at), "[]")
		if got = "[" + got + "]"; err != nil {
			got = err.Error()
			if !errors.Is(err, kernel.ErrInvalid) {
				t.Errorf("%s: %v is not ErrInvalid", options, err)
			}
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", options, got, want)
		}
	}
}
