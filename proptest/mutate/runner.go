package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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

// slow are the packages whose tests take longest, those that notice most first.
// The others come before.
var slow = []string{"proptest", "proptest/vector", "proptest/inbox", "proptest/sim", "cmd/vizier", "app/op", "adapters/fs", "adapters/proc", "adapters/git", "adapters/proc/agent",
	"adapters/proc/joblog", "adapters/fs/watch"}

// forking are the packages whose tests start programs of the module, which tell
// nobody what they come by.
var forking = []string{"cmd/vizier", "adapters/proc", "adapters/proc/sandbox"}

// never are the packages whose tests say nothing of a mutant, or take too long
// for what they say.
var never = []string{"", "app/storetest", "proptest/bench", "proptest/agents", "proptest/cluster", "proptest/mutate", "proptest/torture", "adapters/proc/cluster", "adapters/proc/cluster/slurm"}

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
	lines   cover             // of all functions
	covered map[string]cover  // what a package's tests come by
	took    map[string]time.Duration
}

// cover is a set of lines, as kernel/job.go:12.
type cover map[string]bool

var block = regexp.MustCompile(`(?m)^` + module + `/(.+):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)$`)

// readCover reads a profile: the lines of its blocks, and those of them that
// were run.
func readCover(profile []byte) (lines, run cover) {
	lines, run = cover{}, cover{}
	for _, m := range block.FindAllSubmatch(profile, -1) {
		from, _ := strconv.Atoi(string(m[2]))
		to, _ := strconv.Atoi(string(m[3]))
		for at := from; at <= to; at++ {
			place := fmt.Sprintf("%s:%d", m[1], at)
			lines[place] = true
			if string(m[4]) != "0" {
				run[place] = true
			}
		}
	}
	return lines, run
}

// comesBy reports that p's tests may come by a mutant's place, as far as is
// known: what is in no function is anybody's.
func (r *runner) comesBy(p goPackage, m mutant) bool {
	run := r.covered[p.ImportPath]
	return run == nil || run[m.place()] || !r.lines[m.place()]
}

var (
	failed     = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	failedPart = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
)

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

func (r *runner) profile() string { return filepath.Join(r.dir, "profile") }

// check looks what the tests come by, and which pass as they are: the others
// are skipped, and told.
func (r *runner) check(ctx context.Context, judges []goPackage) error {
	r.skip, r.lines, r.covered, r.took = map[string]string{}, cover{}, map[string]cover{}, map[string]time.Duration{}
	if err := os.Chmod(r.dir, 0o755); err != nil { // some tests are another user's
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
		r.took[p.ImportPath] = time.Since(begun)
		if b, failed := os.ReadFile(r.profile()); failed == nil && err == nil {
			lines, run := readCover(b)
			maps.Copy(r.lines, lines)
			r.covered[p.ImportPath] = run
		}
		_ = os.Remove(r.profile())
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
		if !r.comesBy(p, m) {
			continue
		}
		out, err := r.test(ctx, overlay, p)
		if err != nil && ctx.Err() == nil && slices.Contains(slow, p.rel()) { // a busy machine fails a test as well
			if which := failures(out); which != "" {
				_, err = r.test(ctx, overlay, p, "-run", which)
			}
		}
		if err != nil {
			return p.rel(), ctx.Err() == nil
		}
	}
	return "", ctx.Err() == nil
}

// failures is the pattern of the one test that failed; "": it is none, or more.
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

func (r *runner) test(ctx context.Context, overlay string, p goPackage, flags ...string) ([]byte, error) {
	timeout := r.timeout
	if took, known := r.took[p.ImportPath]; known { // a mutant that goes on for ever is no news after that
		timeout = min(timeout, time.Minute+5*took)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	args := append([]string{"go", "test", "-vet=off", "-failfast"}, flags...)
	if overlay == "" {
		args = append(args, "-count=1")
	}
	if overlay == "" && !slices.Contains(forking, p.rel()) {
		args = append(args, "-coverprofile="+r.profile(), "-coverpkg="+module+"/kernel/...,"+module+"/app/...,"+module+"/adapters/...")
	}
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
