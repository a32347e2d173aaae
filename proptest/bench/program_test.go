package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// scratch is where everything is made. It is removed at the very end: on ext4,
// creating a file is many times slower for minutes after many were deleted.
var scratch string //nolint:gochecknoglobals // one directory per run

func TestMain(m *testing.M) {
	err := becomeSubreaper() // to see what runners cost
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if scratch, err = os.MkdirTemp("", "vizier-bench"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// program returns the path of vizier, built once as for users.
var program = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // one build per run
	exe := filepath.Join(scratch, "vizier")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", exe, "github.com/vizier-scheduler/vizier/cmd/vizier")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return exe, nil
})

// repository is a git repository with a store.
type repository struct {
	testing.TB
	dir, exe string
	cpu      time.Duration // processor time of what run ran, including runners and jobs
	waited   time.Duration // the part of cpu that waiting for the jobs cost
}

// cpu returns the processor time of all ended processes that this one started or
// inherited.
func cpu() time.Duration {
	for { // runners that end are this process's children (see TestMain)
		if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func newRepository(b testing.TB, config string) *repository {
	b.Helper()
	exe, err := program()
	if err != nil {
		b.Fatal(err)
	}
	dir, err := os.MkdirTemp(scratch, "repository")
	if err != nil {
		b.Fatal(err)
	}
	r := &repository{TB: b, dir: dir, exe: exe}
	if out, err := exec.Command("git", "init", "-q", r.dir).CombinedOutput(); err != nil {
		b.Fatalf("git init: %v\n%s", err, out)
	}
	if err := os.MkdirAll(filepath.Join(r.dir, ".vizier"), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, ".vizier/config.toml"), []byte(config), 0o644); err != nil {
		b.Fatal(err)
	}
	return r
}

// vizier runs the program and returns its output.
func (r *repository) vizier(stdin string, args ...string) string {
	r.Helper()
	cmd := exec.Command(r.exe, args...)
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(stdin)
	cmd.Env = r.env()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		r.Fatalf("vizier %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}

func (r *repository) env() []string {
	return append(os.Environ(), "XDG_CONFIG_HOME="+r.dir, "VIZIER_SCHEDULER_RESIDENT=false")
}

// batch returns n jobs of a command as JSON Lines. deps returns the earlier jobs
// that the i-th waits for.
func batch(n int, command []string, deps func(i int) []int) string {
	var b strings.Builder
	for i := range n {
		line := map[string]any{"ref": "j" + strconv.Itoa(i), "command": command}
		var after []string
		for _, d := range deps(i) {
			after = append(after, "j"+strconv.Itoa(d))
		}
		if len(after) > 0 {
			line["after"] = after
		}
		text, err := json.Marshal(line)
		if err != nil {
			panic(err)
		}
		b.Write(append(text, '\n'))
	}
	return b.String()
}

func none(int) []int { return nil }

func before(i int) []int {
	if i == 0 {
		return nil
	}
	return []int{i - 1}
}

// run submits a batch and waits for the end of all of it.
func (r *repository) run(lines string) time.Duration {
	r.Helper()
	spent := cpu()
	begun := time.Now()
	ids := strings.Fields(r.vizier(lines, "jobs", "submit", "--batch"))
	waited, _ := r.spentBy("", append([]string{"jobs", "wait"}, ids...)...)
	took := time.Since(begun)
	r.waited += waited
	r.idle() // the last runner is about to end
	r.cpu += cpu() - spent
	if left := r.vizier("", "jobs", "list", "--format", "json"); !strings.Contains(left, `"jobs": []`) {
		r.Fatalf("not everything succeeded:\n%.2000s", left)
	}
	return took
}

// floor returns how long n runs of true take, two at a time: fork, exec and wait
// alone, with no graph and no record.
func floor(b testing.TB, n int) time.Duration {
	b.Helper()
	begun := time.Now()
	var workers sync.WaitGroup
	for w := range 2 {
		workers.Go(func() {
			for i := w; i < n; i += 2 {
				cmd := exec.Command("true")
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				if err := cmd.Run(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	workers.Wait()
	return time.Since(begun)
}

const (
	full    = "[scheduler]\nmax_running = 2\n"
	relaxed = full + "[store]\ndurability = \"relaxed\"\n"
)

// A thousand independent jobs, against the fork and exec of as many programs. wait-%
// is the share of the processor time that waiting for all of them costs.
func BenchmarkFan(b *testing.B) {
	for _, c := range []struct{ name, config string }{{"full", full}, {"relaxed", relaxed}} {
		b.Run(c.name, func(b *testing.B) {
			const n = 1000
			var ours, least, spent, waited time.Duration
			for b.Loop() {
				least += floor(b, n)
				r := newRepository(b, c.config)
				ours += r.run(batch(n, []string{"true"}, none))
				spent, waited = spent+r.cpu, waited+r.waited
			}
			b.ReportMetric(100*float64(waited)/float64(spent), "wait-%")
			b.ReportMetric(spent.Seconds()*1000/float64(n*b.N), "cpu-ms/job")
			report(b, n, ours, least, "floor")
		})
	}
}

// A chain of 300 jobs, against a chain in task-spooler, if that is installed, and
// against the fork and exec of as many programs.
func BenchmarkChain(b *testing.B) {
	for _, c := range []struct{ name, config string }{{"full", full}, {"relaxed", relaxed}} {
		b.Run(c.name, func(b *testing.B) {
			const n = 300
			var ours, least, spooler, spent time.Duration
			for b.Loop() {
				least += floor(b, n)
				spooler += spool(b, n)
				r := newRepository(b, c.config)
				ours += r.run(batch(n, []string{"true"}, before))
				spent += r.cpu
			}
			b.ReportMetric(spent.Seconds()*1000/float64(n*b.N), "cpu-ms/job")
			report(b, n, ours, least, "floor")
			if spooler > 0 {
				b.ReportMetric(float64(ours)/float64(spooler), "x-tsp")
			}
		})
	}
}

func report(b *testing.B, n int, ours, other time.Duration, name string) {
	b.ReportMetric(float64(n*b.N)/ours.Seconds(), "jobs/s")
	b.ReportMetric(ours.Seconds()*1000/float64(n*b.N), "ms/job")
	b.ReportMetric(float64(ours)/float64(other), "x-"+name)
}

// spool returns how long a chain of n takes in task-spooler, or 0 if that is not
// installed.
func spool(b testing.TB, n int) time.Duration {
	tsp, err := exec.LookPath("tsp")
	if err != nil {
		return 0
	}
	env := append(os.Environ(), "TS_SOCKET="+filepath.Join(b.TempDir(), "socket"))
	call := func(args ...string) string {
		cmd := exec.Command(tsp, args...)
		cmd.Env = env
		out, err := cmd.Output()
		if err != nil {
			b.Fatalf("tsp %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	defer call("-K")
	begun := time.Now()
	last := call("true")
	for range n - 1 {
		last = call("-D", last, "true")
	}
	call("-w", last)
	return time.Since(begun)
}

// Reading commands on a store with 10,000 finished jobs, against one with 100.
func BenchmarkHistory(b *testing.B) {
	stores := map[int]*repository{}
	for _, n := range []int{100, 10_000} {
		r := newRepository(b, relaxed)
		for done := 0; done < n; done += 500 {
			r.run(batch(min(500, n-done), []string{"true"}, none))
		}
		stores[n] = r
	}
	for _, args := range [][]string{{"jobs", "list"}, {"jobs", "schedule"}, {"jobs", "status"}} {
		b.Run(args[1], func(b *testing.B) {
			took := map[int]time.Duration{}
			for b.Loop() {
				for n, r := range stores {
					call := args
					if args[1] == "status" {
						call = append(call[:2:2], anyID(r))
					}
					begun := time.Now()
					r.vizier("", call...)
					took[n] += time.Since(begun)
				}
			}
			b.ReportMetric(float64(took[100].Microseconds())/float64(b.N), "us/100")
			b.ReportMetric(float64(took[10_000].Microseconds())/float64(b.N), "us/10000")
			b.ReportMetric(float64(took[10_000])/float64(took[100]), "x-100")
		})
	}
}

// anyID returns the id of some job of the store.
func anyID(r *repository) string {
	entries, err := os.ReadDir(filepath.Join(r.dir, ".vizier/jobs"))
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range entries {
		if len(e.Name()) == 32 {
			return e.Name()
		}
	}
	r.Fatal("no job")
	return ""
}
