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

// program returns the path of vizier, built and installed once as for users, with vizier-top beside it.
var program = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // one build per run
	const commands = "github.com/vizier-scheduler/vizier/cmd/"
	return filepath.Join(scratch, "vizier"), install(commands+"vizier", commands+"vizier-top")
})

// install builds programs and copies them to scratch, as make install does. The pages of a file
// that the linker wrote are small ones until it is read from the disk again, and each start of
// it takes a fifth longer.
func install(packages ...string) error {
	built := filepath.Join(scratch, "built") + string(filepath.Separator)
	build := exec.Command("go", append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", built}, packages...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	for _, p := range packages {
		name := filepath.Base(p)
		b, err := os.ReadFile(filepath.Join(built, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(scratch, name), b, 0o755)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

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
	r.waited += waited.cpu
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

// A thousand independent jobs: with full durability against peers that keep records
// of what they did, relaxed against task-spooler.
func BenchmarkFan(b *testing.B) {
	b.Run("full", func(b *testing.B) { compare(b, 1000, none, full, doit, goTask) })
	b.Run("relaxed", func(b *testing.B) { compare(b, 1000, none, relaxed, spooler) })
}

// A chain of 300 jobs, against the same chain in its peers.
func BenchmarkChain(b *testing.B) {
	for _, c := range []struct{ name, config string }{{"full", full}, {"relaxed", relaxed}} {
		b.Run(c.name, func(b *testing.B) { compare(b, 300, before, c.config, spoolerChain, nqChain, ninjaChain) })
	}
}

// compare runs n jobs, and the same in peers and as programs alone. x-floor and the
// others are the time of the jobs as a multiple of that; wait-% is the share of their
// processor time that waiting for all of them costs.
func compare(b *testing.B, n int, deps func(int) []int, config string, peers ...peer) {
	var ours, least, spent, waited time.Duration
	theirs := make([]time.Duration, len(peers))
	for b.Loop() {
		least += floor(b, n)
		for i, p := range peers {
			theirs[i] += p.run(b, n)
		}
		r := newRepository(b, config)
		ours += r.run(batch(n, []string{"true"}, deps))
		spent, waited = spent+r.cpu, waited+r.waited
	}
	jobs := float64(n * b.N)
	b.ReportMetric(jobs/ours.Seconds(), "jobs/s")
	b.ReportMetric(ours.Seconds()*1000/jobs, "ms/job")
	b.ReportMetric(spent.Seconds()*1000/jobs, "cpu-ms/job")
	b.ReportMetric(100*float64(waited)/float64(spent), "wait-%")
	b.ReportMetric(float64(ours)/float64(least), "x-floor")
	for i, p := range peers {
		if theirs[i] > 0 {
			b.ReportMetric(float64(ours)/float64(theirs[i]), "x-"+p.tool)
		}
	}
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
