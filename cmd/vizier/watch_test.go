package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
	"github.com/vizier-scheduler/vizier/kernel"
)

func TestScheduleFormats(t *testing.T) {
	w := newFake(t)
	for format, want := range map[string]string{
		"summary": "Outcome: No scheduled jobs\n", "dag": "Outcome: No scheduled jobs\n",
		"json": `"ordering": "created_at_then_job_id",` + "\n" + `  "jobs": [],` + "\n" + `  "edges": []`,
	} {
		has(t, w.ok("jobs", "schedule", "--format", format), want)
	}
	a := w.submit("--name", "build")
	b := w.submit("--name", "test", "--after", string(a))
	done := w.submit("--name", "docs")
	w.settle(done, kernel.OutcomeSucceeded)

	want := "Schedule (Summary)\n" +
		"#  Slug  Name   Status           Wait              Job  Ends\n" +
		"1  -     build  running          -                 " + w.ref(a) + "    eta 0s (of 1 before)\n" + // as docs took
		"2  -     test   waiting_on_deps  waiting on job " + w.ref(a) + "  " + w.ref(b) + "    eta 0s (of 1 before)\n"
	if got := w.ok("jobs", "schedule"); got != want {
		t.Errorf("summary:\n%s\nwant:\n%s", got, want)
	}
	has(t, w.ok("jobs", "schedule", "--format", "dag"), "Schedule (DAG, verbose)\n", "`-- after:success -> "+w.ref(a)+" running")
	has(t, w.ok("jobs", "schedule", "--all"), "succeeded        -                 "+w.ref(done)+"\n")
	has(t, w.ok("jobs", "schedule", "--job", string(b)[:8], "--max-depth", "0"), "1  -     test")
	has(t, w.fails(1, "jobs", "schedule", "--job", "nope"), `no job "nope"`)
	has(t, w.ok("jobs", "schedule", "--format", "dot"), "digraph schedule {")
	has(t, w.ok("jobs", "schedule", "--format", "mermaid"), "flowchart LR")
}

// The live screen is for a terminal, and says what there is without one.
func TestTopNeedsATerminal(t *testing.T) {
	w := newFake(t)
	for _, args := range [][]string{{"top"}, {"top", "12"}, {"jobs", "schedule", "--watch"}} {
		has(t, w.fails(2, args...), "top needs a terminal: `vizier status` prints the same")
	}
	has(t, w.fails(2, "jobs", "schedule", "--watch", "--format", "dag"), "`--watch` is the live screen and has no format")
}

func TestTail(t *testing.T) {
	w := newFake(t)
	a := w.submit()
	if got := w.ok("jobs", "tail", string(a)); got != "" {
		t.Errorf("no logs yet: %q", got)
	}
	w.write(a, "stdout", "one\ntwo")
	w.write(a, "stderr", "oops\n")
	if got := w.ok("jobs", "tail", string(a)); got != "[stdout] one\n[stderr] oops\n[stdout] two\n" {
		t.Errorf("both: %q", got)
	}
	if got := w.ok("jobs", "tail", string(a), "--stream", "stdout"); got != "one\ntwo" {
		t.Errorf("one stream is not changed: %q", got)
	}
	has(t, w.fails(1, "jobs", "tail", "nope"), `no job "nope"`)
	has(t, w.fails(1, "jobs", "attach", "nope", "-q"), `no job "nope"`)
}

// TestAttachSurvivesRotation writes between two reads: a rotation while the
// old log has lines that were not read yet, then a log that is cut.
func TestAttachSurvivesRotation(t *testing.T) {
	w := newFake(t)
	a := w.submit()
	path := logs(w.dir).LogFile(a, "stdout")
	steps := []func(){
		func() { w.write(a, "stdout", "first\npart") },
		func() {
			w.write(a, "stdout", "ial\n")
			if err := os.Rename(path, path+".1"); err != nil {
				t.Error(err)
			}
			w.write(a, "stdout", "second attempt\n")
		},
		func() {
			if err := os.Truncate(path, 0); err != nil {
				t.Error(err)
			}
			w.write(a, "stdout", "cut\n")
		},
		func() { w.write(a, "stdout", "last"); w.end(a, kernel.OutcomeSucceeded) },
	}
	var got bytes.Buffer
	s := joblog.NewLines(func(name string) (*os.File, error) { return logs(w.dir).OpenLog(a, name) })
	print := func(l joblog.Line) error {
		_, err := fmt.Fprintf(&got, "> %s\n", l.Text)
		return err
	}
	for _, step := range steps {
		step()
		if more, err := s.Read(t.Context(), true, print); !more || err != nil {
			t.Fatalf("more %v: %v", more, err)
		}
	}
	if more, err := s.Read(t.Context(), true, print); more || err != nil {
		t.Errorf("at the end: more %v: %v", more, err)
	}
	if err := s.End(print); err != nil {
		t.Error(err)
	}
	if want := "> first\n> partial\n> second attempt\n> cut\n> last\n"; got.String() != want {
		t.Errorf("%q, want %q", got.String(), want)
	}
	has(t, w.ok("jobs", "attach", string(a)), "[stdout] cut\n[stdout] last\n")
	status(t, w, a, kernel.Succeeded)
}

func TestFollowDetaches(t *testing.T) {
	w := newFake(t)
	a := w.submit()
	w.write(a, "stdout", "hello\n")
	ctx, cancel := context.WithCancel(t.Context())
	var out, err bytes.Buffer
	p := program{args: []string{"jobs", "attach", string(a)}, stdout: writerFunc(func(b []byte) { out.Write(b); cancel() }),
		stderr: &err, env: w.env, open: w.open}
	if code := p.runWith(ctx); code != 130 {
		t.Errorf("exit %d", code)
	}
	has(t, err.String(), "vizier: detached: job "+w.ref(a)+" continues: interrupted\n")
	status(t, w, a, kernel.Running)
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

func TestWaitAnswersWithItsExitCode(t *testing.T) {
	w := newFake(t)
	good, bad := w.submit(), w.submit()
	blocked := w.submit("--after", string(bad))
	w.end(good, kernel.OutcomeSucceeded)
	w.end(bad, kernel.OutcomeFailed)
	code, out, _ := w.run("jobs", "wait", string(good))
	if code != 0 || out != w.ref(good)+" succeeded\n" {
		t.Errorf("exit %d: %q", code, out)
	}
	w.fails(10, "jobs", "wait", string(good), string(blocked))
	w.fails(1, "jobs", "wait", string(blocked), string(bad), string(blocked))
	open := w.submit()
	has(t, w.fails(124, "jobs", "wait", "--timeout", "50ms", string(good), string(open)),
		"not all jobs have ended after 50ms", "hint: vizier why "+w.ref(open))
	code, out, _ = w.run("jobs", "wait", "--format", "json", string(blocked))
	var doc waited
	decode(t, out, &doc)
	if code != 10 || doc.Outcome != "blocked" || doc.ExitCode != 10 || doc.Jobs[0].Status != "blocked_by_dependency" {
		t.Errorf("exit %d: %+v", code, doc)
	}
}

// A command in a job that waits for that job, or for one after it, never ends. A hook has the same variable, of the job
// that it is told of, which does not wait for it.
func TestOnlyWhatIsInAJobCannotWaitForIt(t *testing.T) {
	w := newFake(t)
	own := w.submit()
	after := w.submit("--after", string(own))
	w.env = append(w.env, "VIZIER_JOB_ID="+string(own))
	for _, args := range [][]string{{"wait", "--timeout", "50ms"}, {"attach"}} {
		has(t, w.fails(1, append(args, string(own))...), "job "+w.ref(own)+" is this one: it never ends if it waits for itself")
		has(t, w.fails(1, append(args, string(after))...), "job "+w.ref(after)+" waits for job "+w.ref(own)+", which is this one")
	}
	w.env = append(w.env, "VIZIER_EVENT=approval.granted")
	for _, id := range []kernel.JobID{own, after} {
		has(t, w.fails(124, "wait", "--timeout", "50ms", string(id)), "not all jobs have ended after 50ms")
	}
}
