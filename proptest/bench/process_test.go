package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The cost of a process: commands on a store of ten jobs, from start to exit,
// against git --version, in turns. The goal is three times that. x-go is the peak
// memory against that of a program in Go that does nothing.
func BenchmarkCommand(b *testing.B) {
	r := newRepository(b, relaxed)
	for range 10 {
		r.vizier("", "jobs", "submit", "--approval", "--", "true")
	}
	id := anyID(r)
	for _, args := range [][]string{{"jobs", "status", id}, {"jobs", "show", id}, {"jobs", "why", id}, {"jobs", "list"},
		{"jobs", "schedule"}, {"jobs", "tail", id}} {
		b.Run(args[1], func(b *testing.B) {
			ours, git := turns(b, 50,
				func() *exec.Cmd { return r.command(args...) },
				func() *exec.Cmd { return exec.Command("git", "--version") })
			b.ReportMetric(float64(ours.Microseconds()), "us")
			b.ReportMetric(float64(ours)/float64(git), "x-git")
			memory(b, peak(b, r.command(args...)))
			b.ReportMetric(0, "ns/op")
		})
	}
}

// A submit of a job that runs at once, from start to exit, against task-spooler's,
// in turns. The job ends before the next turn.
func BenchmarkSubmit(b *testing.B) {
	tsp, err := exec.LookPath("tsp")
	if err != nil {
		b.Skip("task-spooler is not installed")
	}
	for _, c := range []struct{ name, config string }{{"full", full}, {"relaxed", relaxed}} {
		b.Run(c.name, func(b *testing.B) {
			r := newRepository(b, c.config)
			env := append(os.Environ(), "TS_SOCKET="+filepath.Join(b.TempDir(), "socket"))
			spool := func(args ...string) *exec.Cmd {
				cmd := exec.Command(tsp, args...)
				cmd.Env = env
				return cmd
			}
			if err := spool("true").Run(); err != nil { // which starts the server
				b.Fatal(err)
			}
			defer func() { _ = spool("-K").Run() }()
			n := 0
			ours, theirs := turns(b, 30,
				func() *exec.Cmd {
					if n++; n > 1 {
						r.idle()
					}
					return r.command("jobs", "submit", "--", "true")
				},
				func() *exec.Cmd { return spool("true") })
			b.ReportMetric(float64(ours.Microseconds()), "us")
			b.ReportMetric(float64(ours)/float64(theirs), "x-tsp")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// The peak memory of a runner, after chains of different lengths, and with 10,000 other
// jobs open; against that of a program in Go that does nothing.
func BenchmarkRunnerMemory(b *testing.B) {
	for _, c := range []struct{ chain, others int }{{1, 0}, {100, 0}, {1000, 0}, {100, 10_000}} {
		b.Run(fmt.Sprintf("chain=%d/open=%d", c.chain, c.others), func(b *testing.B) {
			var most float64
			for b.Loop() {
				r := newRepository(b, relaxed)
				if c.others > 0 {
					r.vizier(held(c.others), "jobs", "submit", "--batch")
				}
				lines := batch(c.chain, []string{"true"}, before) +
					fmt.Sprintf(`{"ref": "last", "after": ["j%d"], "command": ["sh", "-c", "grep VmHWM /proc/$PPID/status"]}`+"\n", c.chain-1)
				ids := strings.Fields(r.vizier(lines, "jobs", "submit", "--batch"))
				r.vizier("", "jobs", "wait", ids[c.chain])
				text := r.vizier("", "jobs", "tail", "--stream", "stdout", ids[c.chain])
				kib, err := strconv.ParseFloat(strings.Fields(text)[1], 64)
				if err != nil {
					b.Fatal(err)
				}
				most = max(most, kib/1024)
			}
			memory(b, most)
			b.ReportMetric(0, "ns/op")
		})
	}
}

// nothing returns the path of a program in Go that does nothing, built as vizier is.
var nothing = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // one build per run
	exe := filepath.Join(scratch, "nothing")
	if err := os.WriteFile(exe+".go", []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", exe, exe+".go")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return exe, nil
})

// memory reports a peak of memory, also against that of a program that does nothing.
func memory(b *testing.B, most float64) {
	b.Helper()
	exe, err := nothing()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(most, "MiB")
	if least := peak(b, exec.Command(exe)); least > 0 {
		b.ReportMetric(most/least, "x-go")
	}
}

// turns runs two commands n times each for every turn of b, one after the
// other, and returns the median of what each took.
func turns(b *testing.B, n int, one, other func() *exec.Cmd) (median, otherMedian time.Duration) {
	b.Helper()
	took := map[bool][]time.Duration{}
	for b.Loop() {
		for range n {
			for which, make := range map[bool]func() *exec.Cmd{true: one, false: other} {
				cmd := make()
				begun := time.Now()
				if err := cmd.Run(); err != nil {
					b.Fatalf("%v: %v", cmd.Args, err)
				}
				took[which] = append(took[which], time.Since(begun))
			}
		}
	}
	for _, all := range took {
		slices.Sort(all)
	}
	return took[true][len(took[true])/2], took[false][len(took[false])/2]
}

// command is a call of the program whose output nobody reads.
func (r *repository) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.exe, args...)
	cmd.Dir, cmd.Env = r.dir, r.env()
	return cmd
}

// idle waits until all jobs have succeeded.
func (r *repository) idle() {
	r.Helper()
	for {
		states, err := filepath.Glob(filepath.Join(r.dir, ".vizier/jobs/*/state"))
		if err != nil {
			r.Fatal(err)
		}
		over := func(path string) bool {
			text, err := os.ReadFile(path)
			return err == nil && strings.TrimSpace(string(text)) == "succeeded"
		}
		if !slices.ContainsFunc(states, func(path string) bool { return !over(path) }) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// peak returns the peak memory of a command in MiB, or 0 if time(1) is not
// installed. The system's own figure for a child includes this process, from
// before the exec.
func peak(b *testing.B, cmd *exec.Cmd) float64 {
	b.Helper()
	clock, err := exec.LookPath("time")
	if err != nil {
		return 0
	}
	timed := exec.Command(clock, append([]string{"-f", "%M"}, cmd.Args...)...)
	timed.Dir, timed.Env = cmd.Dir, cmd.Env
	var text strings.Builder
	timed.Stderr = &text
	if err := timed.Run(); err != nil {
		b.Fatalf("%v: %v: %s", timed.Args, err, &text)
	}
	kib, err := strconv.ParseFloat(strings.TrimSpace(text.String()), 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}
