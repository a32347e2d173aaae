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

// goPackage is a package as go list has it.
type goPackage struct {
	ImportPath, Dir                             string
	GoFiles, TestGoFiles, XTestGoFiles, Imports []string
	TestImports, XTestImports                   []string
}

// rel is where the package is in the module.
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

// slow are the packages whose tests take longest, quickest first, and those
// that few mutants get to. The others come before.
var slow = []string{"adapters/proc/joblog", "adapters/fs/watch", "proptest", "proptest/inbox", "proptest/sim", "adapters/proc/agent", "adapters/proc", "adapters/git", "app/op", "adapters/fs", "cmd/vizier", ""}

// never are the packages whose tests say nothing of a mutant, or take too long
// for what they say.
var never = []string{"app/storetest", "proptest/bench", "proptest/cluster", "proptest/mutate", "proptest/torture", "adapters/proc/slurm"}

// testsOf are the packages whose tests may notice a mutant of p: its own, and
// then those that are built of it, quickest first.
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
	dir     string // all that they may write to, besides the build cache
	timeout time.Duration
	guarded bool
	quick   bool // without slow packages, but for a mutant's own
	cache   string
	skip    map[string]string // tests of a package that fail as they are, and say nothing
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// judges are the packages whose tests may notice one of these mutants.
func (r *runner) judges(mutants []mutant, all []goPackage) []goPackage {
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
	return slices.DeleteFunc(slices.Clone(all), func(p goPackage) bool { return !wanted[p.ImportPath] })
}

// testsOf are the packages whose tests a mutant of p has to get past.
func (r *runner) testsOf(p goPackage, all []goPackage) []goPackage {
	return slices.DeleteFunc(testsOf(p, all), func(q goPackage) bool {
		return r.quick && q.ImportPath != p.ImportPath && slices.Contains(slow, q.rel())
	})
}

// check looks which tests pass as they are: the others are skipped, and told.
func (r *runner) check(ctx context.Context, judges []goPackage) error {
	r.skip = map[string]string{}
	if err := os.MkdirAll(r.dir, 0o755); err != nil { // some tests are another user's
		return err
	}
	b, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	r.cache = strings.TrimSpace(string(b))
	if out, err := r.command(ctx, "", "true").CombinedOutput(); err != nil {
		return fmt.Errorf("tests cannot be given processes of their own (-unguarded does without, and may kill and remove anything): %w\n%s", err, out)
	}
	for _, p := range judges {
		begun := time.Now()
		out, err := r.test(ctx, "", p)
		for tries := 0; err != nil && tries < 10; tries++ { // it stops at the first that fails
			for _, m := range failed.FindAllSubmatch(out, -1) {
				r.skip[p.ImportPath] = strings.TrimPrefix(r.skip[p.ImportPath]+"|^"+string(m[1])+"$", "|")
			}
			out, err = r.test(ctx, "", p)
		}
		fmt.Printf("as it is %-45s %5.0fs %s\n", p.rel(), time.Since(begun).Seconds(), r.skip[p.ImportPath])
		if err != nil {
			return fmt.Errorf("%s fails without any mutant: %w\n%s", p.rel(), err, out[max(0, len(out)-2000):])
		}
	}
	return ctx.Err()
}

// try tries a mutant: who noticed it, and whether it compiles.
func (r *runner) try(ctx context.Context, n int, m mutant, all []goPackage) (by string, ok bool) {
	dir := filepath.Join(r.dir, fmt.Sprintf("mutant-%d", n))
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		return "", false
	}
	if r.command(ctx, overlay, "go", "build", m.pkg.ImportPath).Run() != nil {
		return "", false
	}
	for _, p := range r.testsOf(m.pkg, all) {
		if _, err := r.test(ctx, overlay, p); err != nil {
			return p.rel(), ctx.Err() == nil
		}
	}
	return "", ctx.Err() == nil
}

func (r *runner) test(ctx context.Context, overlay string, p goPackage) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	args := []string{"go", "test", "-vet=off", "-failfast"}
	if skip := r.skip[p.ImportPath]; skip != "" {
		args = append(args, "-skip", skip)
	}
	return r.command(ctx, overlay, append(args, p.ImportPath)...).CombinedOutput()
}

// guard makes all read-only but two directories, and then runs a command.
const guard = `mount --make-rprivate / && for d in "$1" "$2"; do mount --bind "$d" "$d" || exit 1; done &&
mount -o remount,bind,ro / && cd . && shift 2 && exec "$@"`

// command is a command as it is for a mutant: what it builds has it.
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

// overlay writes the file that has the go command see the mutant.
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
