package proc

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// BenchmarkRun compares Run with the least that os/exec can do for a command
// with its own log and session; the two take turns, so that their ratio holds
// whatever else the machine does.
func BenchmarkRun(b *testing.B) {
	w := setup(b, "/bin/true")
	if err := w.Claim(w.job.Attempt()); err != nil {
		b.Fatal(err)
	}
	var ours, floor time.Duration
	for b.Loop() {
		begin := time.Now()
		plainExec(b, w.root, "/bin/true")
		middle := time.Now()
		if r := w.Run(bg, &w.job); r.Outcome != kernel.OutcomeSucceeded {
			b.Fatal(r.Reason)
		}
		floor += middle.Sub(begin)
		ours += time.Since(middle)
	}
	b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "µs/run")
	b.ReportMetric(float64(floor.Microseconds())/float64(b.N), "µs/exec")
	b.ReportMetric(float64(ours)/float64(floor), "run/exec")
}

// BenchmarkAttempt is a whole attempt, from Start to the runner's end, against
// running this program, which does nothing, and then the command.
func BenchmarkAttempt(b *testing.B) {
	w := setup(b, "/bin/true")
	self := as("nothing")
	var ours, floor time.Duration
	for b.Loop() {
		begin := time.Now()
		plainExec(b, w.root, self...)
		plainExec(b, w.root, "/bin/true")
		middle := time.Now()
		a := w.job.Attempt()
		if err := writeGob(jobFile(w.root, a.Job), w.job.Spec.Task); err != nil {
			b.Fatal(err)
		}
		if err := w.Start(bg, a); err != nil {
			b.Fatal(err)
		}
		for w.liveness(a) == kernel.Alive {
			time.Sleep(20 * time.Microsecond)
		}
		floor += middle.Sub(begin)
		ours += time.Since(middle)
		if _, err := os.Stat(outcomeFile(w.root, a)); err != nil {
			b.Fatal(err)
		}
		w.job.State.Attempt++
	}
	b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "µs/attempt")
	b.ReportMetric(float64(floor.Microseconds())/float64(b.N), "µs/exec+exec")
	b.ReportMetric(float64(ours)/float64(floor), "attempt/exec+exec")
}

func BenchmarkAlive(b *testing.B) {
	w := setup(b)
	attempts := []kernel.AttemptID{w.job.Attempt()}
	lock, err := w.Acquire(attempts[0])
	if err != nil {
		b.Fatal(err)
	}
	defer lock.Close()
	if err := w.Claim(attempts[0]); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		w.Alive(bg, attempts)
	}
}

func plainExec(b *testing.B, dir string, args ...string) {
	log, err := os.OpenFile(dir+"/plain.log", os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
}
