package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const module = "github.com/vizier-scheduler/vizier"

// goPackage is a package as go list prints it.
type goPackage struct {
	ImportPath, Dir                             string
	GoFiles, TestGoFiles, XTestGoFiles, Imports []string
	TestImports, XTestImports                   []string
}

// rel returns the package's path in the module.
func (p goPackage) rel() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

func listPackages(ctx context.Context) ([]goPackage, error) {
	b, err := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", module+"/...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// slow are the packages whose tests take longest, those that notice most first. All
// others come before them.
var slow = []string{"proptest", "proptest/vector", "proptest/inbox", "proptest/sim", "cmd/vizier", "app/op", "adapters/fs", "adapters/proc", "adapters/git", "adapters/proc/agent",
	"adapters/proc/joblog", "adapters/fs/watch"}

// never are the packages whose tests are not run: they say nothing about a mutant,
// or take too long for what they say.
var never = []string{"", "app/storetest", "proptest/bench", "proptest/agents", "proptest/cluster", "proptest/mutate", "proptest/torture", "cmd/vizier-otel", "cmd/vizier-top", "cmd/vizier-web",
	"adapters/proc/cluster", "adapters/proc/cluster/slurm"}

// testsOf returns the packages whose tests may notice a mutant of p: p itself, and
// then those that use it, quickest first.
func testsOf(p goPackage, all []goPackage) []goPackage {
	users := map[string]bool{p.ImportPath: true}
	for grown := true; grown; {
		grown = false
		for _, q := range all {
			if !users[q.ImportPath] && slices.ContainsFunc(q.Imports, func(i string) bool { return users[i] }) {
				users[q.ImportPath], grown = true, true
			}
		}
	}
	var out []goPackage
	for _, q := range all {
		imports := slices.Concat(q.TestImports, q.XTestImports)
		tested := users[q.ImportPath] || slices.ContainsFunc(imports, func(i string) bool { return users[i] })
		if q.ImportPath != p.ImportPath && (!tested || slices.Contains(never, q.rel()) || len(q.TestGoFiles)+len(q.XTestGoFiles) == 0) {
			continue
		}
		out = append(out, q)
	}
	rank := func(q goPackage) int {
		if q.ImportPath == p.ImportPath {
			return -2
		}
		return slices.Index(slow, q.rel())
	}
	slices.SortStableFunc(out, func(a, b goPackage) int { return rank(a) - rank(b) })
	return out
}

// runner runs the tests.
type runner struct {
	dir     string // the only directory that they may write to, besides the build cache
	timeout time.Duration
	guarded bool
	quick   bool // without slow packages, except for a mutant's own
	workers int
	cache   string
	memory  string           // the directory with the judges of earlier runs
	judges  map[string]judge // by import path
}

var failedPart = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)

// judging returns the packages whose tests may notice one of these mutants.
func (r *runner) judging(mutants []mutant, all []goPackage) []goPackage {
	wanted, seen := map[string]bool{}, map[string]bool{}
	for _, m := range mutants {
		if seen[m.pkg.ImportPath] {
			continue
		}
		seen[m.pkg.ImportPath] = true
		for _, p := range r.testsOf(m.pkg, all) {
			wanted[p.ImportPath] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p goPackage) bool {
		return !wanted[p.ImportPath] || len(p.TestGoFiles)+len(p.XTestGoFiles) == 0
	})
}

// testsOf returns the packages whose tests r runs for a mutant of p.
func (r *runner) testsOf(p goPackage, all []goPackage) []goPackage {
	return slices.DeleteFunc(testsOf(p, all), func(q goPackage) bool {
		return r.quick && q.ImportPath != p.ImportPath && slices.Contains(slow, q.rel())
	})
}

// check makes sure that tests can run in namespaces of their own, and measures what
// they execute.
func (r *runner) check(ctx context.Context, packages []goPackage) error {
	if err := os.Chmod(r.dir, 0o755); err != nil { // some tests run as another user
		return err
	}
	b, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	r.cache = strings.TrimSpace(string(b))
	r.memory = filepath.Join(r.cache, "vizier-mutate")
	if err := os.MkdirAll(r.memory, 0o755); err != nil {
		return err
	}
	if out, err := r.command(ctx, "", "true").CombinedOutput(); err != nil {
		return fmt.Errorf("tests cannot be given processes of their own (-unguarded does without, and may kill and remove anything): %w\n%s", err, out)
	}
	r.judges = map[string]judge{}
	for _, p := range packages {
		begun := time.Now()
		j, err := r.judge(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.rel(), err)
		}
		r.judges[p.ImportPath] = j
		fmt.Printf("as it is %-45s %5.0fs %s\n", p.rel(), time.Since(begun).Seconds(), strings.Join(j.Fail, " "))
	}
	return ctx.Err()
}

// try runs the tests for a mutant. It returns the package whose tests noticed it, or
// "", and whether it compiles.
func (r *runner) try(ctx context.Context, n int, m mutant, all []goPackage) (by string, ok bool) {
	dir := filepath.Join(r.dir, fmt.Sprintf("mutant-%d", n))
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		return "", false
	}
	for _, p := range r.testsOf(m.pkg, all) { // its own come first
		own, rounds := p.ImportPath == m.pkg.ImportPath, r.judges[p.ImportPath].rounds(m)
		if own && len(rounds) == 0 && r.command(ctx, overlay, "go", "build", p.ImportPath).Run() != nil {
			return "", false
		} else if len(rounds) == 0 {
			continue
		}
		program := filepath.Join(dir, "test")
		if r.build(ctx, overlay, program, p, "-ldflags=-s -w") != nil {
			return p.rel(), !own && ctx.Err() == nil
		}
		for _, round := range rounds {
			if !r.passes(ctx, overlay, program, p, round) {
				return p.rel(), ctx.Err() == nil
			}
		}
	}
	return "", ctx.Err() == nil
}

// passes reports whether tests pass. If a single test failed and then passes by
// itself, it runs all again: a test may fail because the machine is busy.
func (r *runner) passes(ctx context.Context, overlay, program string, p goPackage, x round) bool {
	run := func(pattern string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, min(r.timeout, time.Minute+5*x.took)) // after that, the mutant probably never ends
		defer cancel()
		return r.test(ctx, overlay, program, p, "-test.run", pattern).CombinedOutput()
	}
	for range 3 {
		out, err := run(x.pattern)
		if err == nil {
			return true
		}
		which := failures(out)
		if which == "" {
			return false
		}
		if _, err := run(which); err != nil {
			return false
		}
	}
	return false
}

// failures returns the pattern of the one test that failed, or "" if it is not one.
func failures(out []byte) string {
	found := failedPart.FindAllSubmatch(out, -1)
	if len(found) == 0 {
		return ""
	}
	deepest := string(found[0][1])
	for _, m := range found[1:] {
		if !strings.HasPrefix(string(m[1]), deepest+"/") {
			return ""
		}
		deepest = string(m[1])
	}
	var parts []string
	for part := range strings.SplitSeq(deepest, "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	return strings.Join(parts, "/")
}

// build builds the test program of p.
func (r *runner) build(ctx context.Context, overlay, program string, p goPackage, flags ...string) error {
	args := slices.Concat([]string{"go", "test", "-vet=off", "-c", "-o", program}, flags, []string{p.ImportPath})
	if out, err := r.command(ctx, overlay, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// test returns the command that runs a test program of p.
func (r *runner) test(ctx context.Context, overlay, program string, p goPackage, flags ...string) *exec.Cmd {
	c := r.command(ctx, overlay, append([]string{program, "-test.paniconexit0", "-test.failfast"}, flags...)...)
	c.Dir = p.Dir
	return c
}

// guard makes everything read-only except for two directories, and then runs a
// command. The shell stays: as process 1 it reaps orphans, and some tests wait until
// an orphan is gone.
const guard = `mount --make-rprivate / && for d in "$1" "$2"; do mount --bind "$d" "$d" || exit 1; done &&
mount -o remount,bind,ro / && cd . && shift 2 || exit 1
"$@"
exit $?`

// command returns a command that builds with the mutant of overlay; "": without one.
func (r *runner) command(ctx context.Context, overlay string, args ...string) *exec.Cmd {
	if r.guarded {
		args = append([]string{"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", guard, "sh", r.dir, r.cache}, args...)
		if os.Getuid() != 0 {
			args = slices.Insert(args, 1, "--map-root-user")
		}
	}
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.WaitDelay = 10 * time.Second
	c.Env = append([]string{"RAPID_SEED=1"}, os.Environ()...)
	c.Env = append(c.Env, "TMPDIR="+r.dir)
	if overlay != "" {
		c.Env = append(c.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	}
	return c
}

// overlay writes the mutant and the file that makes the go command use it, and
// returns that file's path.
func (m mutant) overlay(dir string) (string, error) {
	file, list := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]map[string]string{"Replace": {m.file: file}})
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(file, []byte(m.mutated()), 0o600)
	}
	if err == nil {
		err = os.WriteFile(list, b, 0o600)
	}
	return list, err
}
