package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/tools/go/packages"

	"github.com/vizier-scheduler/vizier/proptest/mutate/switches"
)

const module = "github.com/vizier-scheduler/vizier"

// never are the packages whose tests are not run: they say nothing about a mutant,
// or take too long for what they say.
var never = []string{"", "app/storetest", "proptest/bench", "proptest/agents", "proptest/cluster", "proptest/mutate", "proptest/torture",
	"adapters/proc/cluster", "adapters/proc/cluster/slurm"}

// testPackage is a package with tests, and its test program.
type testPackage struct{ rel, dir, program string }

// runner runs the tests.
type runner struct {
	dir     string // the only directory that they may write to, besides the build cache
	only    string // what the place of a mutant has in it
	own     bool   // only the tests of its package
	guarded bool
	workers int
	mutants int    // how many there are
	overlay string // the file that makes the go command build them
	cache   string
	memory  string // the directory with the judges of earlier runs
	tests   map[string]testPackage
	judges  []*judge
}

// each calls f for the numbers below n, several at a time.
func (r *runner) each(n int, f func(worker, k int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for worker := range r.workers {
		wg.Go(func() {
			for k := range next {
				f(worker, k)
			}
		})
	}
	for k := range n {
		next <- k
	}
	close(next)
	wg.Wait()
}

// workDir returns the directory that the tests of a worker write to.
func (r *runner) workDir(worker int) string { return filepath.Join(r.dir, fmt.Sprint(worker)) }

// prepare makes sure that tests can run in namespaces of their own, builds them, and
// measures what they execute. It returns the mutants.
func (r *runner) prepare(ctx context.Context) ([]mutant, error) {
	if err := os.Chmod(r.dir, 0o755); err != nil { //nolint:gosec // some tests run as another user
		return nil, err
	}
	b, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	r.cache = strings.TrimSpace(string(b))
	r.memory = filepath.Join(r.cache, "vizier-mutate")
	if err := os.MkdirAll(r.memory, 0o755); err != nil { //nolint:gosec // as above
		return nil, err
	}
	for worker := range r.workers {
		if err := os.Mkdir(r.workDir(worker), 0o755); err != nil { //nolint:gosec // as above
			return nil, err
		}
	}
	if out, err := r.command(ctx, 0, "true").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("tests cannot be given processes of their own (-unguarded does without, and may kill and remove anything): %w\n%s", err, out)
	}
	all, err := r.switched(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return !strings.Contains(m.place(), r.only) })
	if len(all) == 0 {
		return nil, fmt.Errorf("no mutant is at a place with %q in it", r.only)
	}
	if err := r.build(ctx, all); err != nil {
		return nil, err
	}
	for _, rel := range slices.Sorted(maps.Keys(r.tests)) {
		p, begun := r.tests[rel], time.Now()
		j, err := r.judge(ctx, p)
		if err != nil {
			return nil, err
		}
		r.judges = append(r.judges, j)
		fmt.Printf("as it is %-40s %4d tests %5.0fs %s\n", p.rel, len(j.Tests), time.Since(begun).Seconds(), strings.Join(j.Fail, " "))
	}
	return all, ctx.Err()
}

// typed loads packages with syntax and types. What they import comes compiled.
const typed = packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedExportFile

// switched writes the files that have mutants with a switch for each, and the overlay
// that makes the go command take them. It returns the mutants.
func (r *runner) switched(ctx context.Context) (all []mutant, err error) {
	loaded, err := packages.Load(&packages.Config{Context: ctx, Env: append(os.Environ(), "CGO_ENABLED=0"),
		Mode: typed},
		module+"/kernel/...", module+"/app/...", module+"/adapters/...")
	if err != nil {
		return nil, err
	}
	replace := map[string]string{}
	for _, p := range loaded {
		for _, e := range p.Errors {
			return nil, e
		}
		rel := strings.TrimPrefix(p.PkgPath, module+"/")
		if slices.Contains(never, rel) {
			continue
		}
		for _, f := range p.Syntax {
			path := p.Fset.Position(f.FileStart).Filename
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			found, text := mutantsOf(source{dir: rel, path: path, text: string(b), fset: p.Fset, file: f, pkg: p.Types, info: p.TypesInfo}, len(all))
			if len(found) == 0 {
				continue
			}
			all = append(all, found...)
			replace[path] = filepath.Join(r.dir, fmt.Sprintf("%d.go", len(replace)))
			if err := os.WriteFile(replace[path], []byte(text), 0o644); err != nil { //nolint:gosec // as above
				return nil, err
			}
		}
	}
	r.mutants, r.overlay = len(all), filepath.Join(r.dir, "overlay.json")
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(r.overlay, b, 0o644) //nolint:gosec // as above
	}
	return all, err
}

// build builds the programs of the tests that may notice these mutants.
func (r *runner) build(ctx context.Context, all []mutant) error {
	dirs := map[string]bool{}
	for _, m := range all {
		dirs[m.dir] = true
	}
	loaded, err := packages.Load(&packages.Config{Context: ctx, Tests: true, Mode: packages.NeedName | packages.NeedFiles | packages.NeedForTest}, module+"/...")
	if err != nil {
		return err
	}
	r.tests = map[string]testPackage{}
	for _, p := range loaded {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ForTest, module), "/")
		if p.ForTest == "" || slices.Contains(never, rel) || r.own && !dirs[rel] {
			continue
		}
		r.tests[rel] = testPackage{rel: rel, dir: filepath.Dir(p.GoFiles[0]), program: filepath.Join(r.dir, strings.ReplaceAll(rel, "/", "-")+".test")}
	}
	for _, p := range r.tests {
		if out, err := r.command(ctx, 0, "go", "test", "-vet=off", "-c", "-o", p.program, "-ldflags=-s -w", module+"/"+p.rel).CombinedOutput(); err != nil {
			return fmt.Errorf("build the tests of %s: %w\n%s", p.rel, err, out)
		}
	}
	return nil
}

// try runs the tests for a mutant. It returns the test that noticed it, or "".
func (r *runner) try(ctx context.Context, worker int, m mutant) string {
	for _, x := range rounds(r.judges, m) {
		if by, ok := r.passes(ctx, worker, x, fmt.Sprint(m.n)); !ok {
			return x.judge.Package + " " + by
		}
	}
	return ""
}

// passes reports whether tests pass, and otherwise which fails. If a single test
// failed and then passes by itself, it runs all again: a test may fail because the
// machine is busy.
func (r *runner) passes(ctx context.Context, worker int, x round, mutant string) (by string, ok bool) {
	limit := 20*time.Second + 6*x.took // after that, the mutant probably never ends
	for range 3 {
		out, err := r.runs(ctx, worker, r.tests[x.judge.Package], mutant+" ", limit, "-test.run", x.pattern)
		if err == nil {
			return "", true
		}
		which := failures(out)
		if which == "" {
			return "panic or time", false
		}
		if _, err := r.runs(ctx, worker, r.tests[x.judge.Package], mutant+" ", limit, "-test.run", pattern([]string{which})); err != nil {
			return which, false
		}
	}
	return "chance", false
}

var failedPart = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)

// failures returns the name of the one test that failed, or "" if it is not one.
func failures(out []byte) (deepest string) {
	for _, m := range failedPart.FindAllSubmatch(out, -1) {
		if deepest != "" && !strings.HasPrefix(string(m[1]), deepest+"/") {
			return ""
		}
		deepest = string(m[1])
	}
	return deepest
}

// runs runs a test program with a mutant on, in a directory of its own, and returns what it prints.
func (r *runner) runs(ctx context.Context, worker int, p testPackage, mutant string, limit time.Duration, flags ...string) (out []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	temporary := filepath.Join(r.workDir(worker), "t")
	if err := errors.Join(os.MkdirAll(temporary, 0o700), os.Chmod(temporary, 0o1777)); err != nil { //nolint:gosec // some tests run as another user
		return nil, err
	}
	defer os.RemoveAll(temporary)
	c := r.command(ctx, worker, append([]string{p.program, "-test.paniconexit0", "-test.failfast"}, flags...)...)
	c.Dir = p.dir
	c.Env = append(c.Env, switches.Variable+"="+mutant, "TMPDIR="+temporary)
	return c.CombinedOutput()
}

// guard makes everything read-only except for two directories, and then runs a
// command. The shell stays: as process 1 it reaps orphans, and some tests wait until
// an orphan is gone.
const guard = `mount --make-rprivate / && for d in "$1" "$2"; do mount --bind "$d" "$d" || exit 1; done &&
mount -o remount,bind,ro / && cd . && shift 2 || exit 1
"$@"
exit $?`

// command returns a command that builds with all mutants.
func (r *runner) command(ctx context.Context, worker int, args ...string) *exec.Cmd {
	if r.guarded {
		args = append([]string{"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", guard, "sh", r.dir, r.cache}, args...)
		if os.Getuid() != 0 {
			args = slices.Insert(args, 1, "--map-root-user")
		}
	}
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.WaitDelay = 10 * time.Second
	c.Env = append([]string{"RAPID_SEED=1"}, os.Environ()...)
	c.Env = append(c.Env, "CGO_ENABLED=0", "TMPDIR="+r.workDir(worker))
	if r.overlay != "" {
		c.Env = append(c.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+r.overlay)
	}
	return c
}
