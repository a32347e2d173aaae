package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A tick over 100,000 open jobs that finds nothing to do, against a build by
// ninja of as many edges that finds nothing to do: the same graph, in chains of
// ten. Ninja's time includes reading its rules and looking at its files, but the
// tick begins with a snapshot. So there is also a figure that includes making the
// snapshot.
func BenchmarkDecideAgainstNinja(b *testing.B) {
	ninja, err := exec.LookPath("ninja")
	if err != nil {
		b.Skip("ninja is not installed (Debian: apt-get install ninja-build): there is nothing to compare with")
	}
	const n = 100_000
	dir := edges(b, n)
	o := jobs(n)
	if left := kernel.Decide(kernel.NewSnapshot(o)); len(left.Actions()) > 0 {
		b.Fatalf("the tick finds %d things to do", len(left.Actions()))
	}
	var build, tick, whole cost
	for b.Loop() {
		cmd := exec.Command(ninja)
		cmd.Dir = dir
		var out []byte
		build.add(b, syscall.RUSAGE_CHILDREN, func() { out, err = cmd.CombinedOutput() })
		if err != nil || !bytes.Contains(out, []byte("no work to do")) {
			b.Fatalf("ninja: %v\n%.1000s", err, out)
		}
		var s *kernel.Snapshot
		runtime.GC()
		whole.add(b, syscall.RUSAGE_SELF, func() {
			s = kernel.NewSnapshot(o)
			tick.add(b, syscall.RUSAGE_SELF, func() { kernel.Decide(s) })
		})
	}
	b.ReportMetric(float64(build.took.Milliseconds())/float64(b.N), "ninja-ms")
	b.ReportMetric(float64(tick.took.Milliseconds())/float64(b.N), "tick-ms")
	b.ReportMetric(float64(tick.took)/float64(build.took), "x-ninja")
	b.ReportMetric(float64(tick.cpu)/float64(build.cpu), "x-ninja-cpu")
	b.ReportMetric(float64(whole.cpu)/float64(build.cpu), "x-ninja-cpu-with-snapshot")
}

// cost is what something took, by the clock and in processor time.
type cost struct{ took, cpu time.Duration }

func (c *cost) add(b testing.TB, who int, do func()) {
	b.Helper()
	spent := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	cpu, begun := spent(), time.Now()
	do()
	c.took += time.Since(begun)
	c.cpu += spent() - cpu
}

// edges returns a directory with the rules of n edges and their outputs, written
// in the order in which they depend on each other, so all are up to date. Their
// rule is a generator's, so ninja needs no log of having run its command.
func edges(b testing.TB, n int) string {
	b.Helper()
	dir, err := os.MkdirTemp(scratch, "ninja")
	if err != nil {
		b.Fatal(err)
	}
	var rules strings.Builder
	rules.WriteString("rule touch\n  command = touch $out\n  generator = 1\n")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	write("source", "")
	for i := range n {
		in := "source"
		if i%10 > 0 {
			in = fmt.Sprint("o", i-1)
		}
		fmt.Fprintf(&rules, "build o%d: touch %s\n", i, in)
		write(fmt.Sprint("o", i), "")
	}
	write("build.ninja", rules.String())
	return dir
}

// jobs returns a world of n jobs in chains of ten, as a tick left them. Each job
// runs after the one before it; the first of a chain waits for an approval.
func jobs(n int) kernel.Observation {
	o := kernel.Observation{Now: time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC), Facts: kernel.NewFacts()}
	for i := range n {
		j := kernel.Job{ID: kernel.JobID(fmt.Sprintf("%032x", i)), Created: o.Now.Add(time.Duration(i-n) * time.Second), Rev: 1}
		j.Spec.Task.Args = []string{"true"}
		if i%10 > 0 {
			j.Spec.After = []kernel.JobID{o.Jobs[i-1].ID}
		} else {
			j.State.Approval = kernel.Require(j.Created, "ann")
		}
		o.Jobs = append(o.Jobs, j)
	}
	s := kernel.NewSnapshot(o)
	for i, j := range s.Apply(kernel.Decide(s)).Jobs() {
		o.Jobs[i] = *j
	}
	return o
}
