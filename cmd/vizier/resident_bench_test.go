package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// benchGround returns a repository in which the program as people install it
// runs, without cgo.
func benchGround(b *testing.B, config string) *ground {
	b.Helper()
	bin := b.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(bin, "vizier"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	b.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return newGround(b, config)
}

// batch submits jobs and returns the id of the last.
func (g *ground) batch(lines []string) kernel.JobID {
	g.t.Helper()
	cmd := exec.Command("vizier", "jobs", "submit", "--batch", "--format", "json")
	cmd.Dir, cmd.Env, cmd.Stdin = g.dir, g.env, strings.NewReader(strings.Join(lines, "\n"))
	out, err := cmd.Output()
	if err != nil {
		g.t.Fatal(err)
	}
	var doc submission
	decode(g.t, string(out), &doc)
	return doc.Jobs[len(doc.Jobs)-1].Job
}

// BenchmarkResidentDeath is the time from the death of a runner to the next
// status of its job and to the start of one that waited for its lock.
func BenchmarkResidentDeath(b *testing.B) {
	g := benchGround(b, "")
	for b.Loop() {
		b.StopTimer()
		a := g.submit("--lock", "k", "--", "sleep", "600")
		next := g.submit("--lock", "k", "--", "true")
		pid := g.runner(a, 1)
		g.looksAfter()
		b.StartTimer()
		g.kill(pid)
		g.eventually("the end", func() bool { s, _ := g.seen(a); return s == "failed" })
		b.StopTimer()
		g.becomes(next, "succeeded")
		b.StartTimer()
	}
}

// BenchmarkHop is the time from the start of one job of a chain to the start of
// the next with a resident scheduler, x-alone that against the time without, and
// resident-cpu-ms/hop what the resident scheduler itself takes of the processor.
func BenchmarkHop(b *testing.B) {
	const length = 200
	lines := []string{`{"ref": "j0", "command": ["true"]}`}
	for i := 1; i < length; i++ {
		lines = append(lines, fmt.Sprintf(`{"ref": "j%d", "after": ["j%d"], "command": ["true"]}`, i, i-1))
	}
	grounds := []*ground{benchGround(b, "resident = false\n"), benchGround(b, "")}
	var took [2]time.Duration
	var ticks float64
	for b.Loop() {
		for i, g := range grounds {
			begun := time.Now()
			g.becomes(g.batch(lines), "succeeded")
			took[i] += time.Since(begun)
			if pid := g.resident(); pid != 0 { // it began with the batch and lingers
				cpu, _ := used(b, pid)
				ticks += cpu
			}
		}
	}
	hops := float64(length * b.N)
	b.ReportMetric(took[1].Seconds()*1000/hops, "ms/hop")
	b.ReportMetric(float64(took[1])/float64(took[0]), "x-alone")
	b.ReportMetric(ticks*10/hops, "resident-cpu-ms/hop")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkResidentIdle is what a resident scheduler costs while nothing
// happens, over a minute: with one job that waits for a branch and the given
// number that wait for another.
func BenchmarkResidentIdle(b *testing.B) {
	for _, jobs := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			g := benchGround(b, "")
			g.raze = true
			lines := []string{`{"ref": "j0", "require": ["branch_exists=x"], "command": ["true"]}`}
			for i := 1; i < jobs; i++ {
				lines = append(lines, fmt.Sprintf(`{"ref": "j%d", "after": ["j0"], "command": ["true"]}`, i))
			}
			g.batch(lines)
			pid := g.looksAfter()
			var cpu, switches, minutes float64
			for b.Loop() {
				c, s := used(b, pid)
				time.Sleep(time.Minute)
				c2, s2 := used(b, pid)
				cpu, switches, minutes = cpu+c2-c, switches+s2-s, minutes+1
			}
			b.ReportMetric(cpu/minutes*10, "cpu-ms/min") // a clock tick is 10 ms
			b.ReportMetric(switches/minutes, "wake-ups/min")
			b.ReportMetric(float64(procStatus(b, pid, "VmRSS"))/1024, "MiB")
			b.ReportMetric(float64(procStatus(b, pid, "VmHWM"))/1024, "MiB-peak")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// used returns the processor time in clock ticks and the context switches of a
// process so far.
func used(b *testing.B, pid int) (cpu, switches float64) {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, n := range f[11:13] {
		v, _ := strconv.ParseFloat(n, 64)
		cpu += v
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, t := range threads {
		tid, _ := strconv.Atoi(filepath.Base(t))
		switches += float64(procStatus(b, tid, "voluntary_ctxt_switches"))
	}
	return cpu, switches
}

func procStatus(b *testing.B, pid int, key string) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, key+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(v)[0])
			return n
		}
	}
	return 0
}
