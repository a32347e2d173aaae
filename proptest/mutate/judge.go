package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// judge is what is known of a package's tests without a mutant.
type judge struct {
	Package string // its path in the module
	Tests   []test
	Fail    []string // tests that fail without a mutant, and so prove nothing
}

type test struct {
	Name     string // may be a part's, such as TestScripts/init
	Took     time.Duration
	Executes []int // numbers of mutants, ascending
}

// round is a set of tests that are run together.
type round struct {
	judge   *judge
	pattern string
	took    time.Duration
}

// together is how long the tests of a round take, if there is more than one.
const together = 2 * time.Second

// rounds returns the tests that execute a mutant: those of its own package, and then
// the others, quick ones first.
func rounds(judges []*judge, m mutant) (out []round) {
	for _, j := range judges {
		var names []string
		var took time.Duration
		end := func() {
			if len(names) > 0 {
				out = append(out, round{j, pattern(names), took})
			}
			names, took = nil, 0
		}
		for _, t := range j.Tests { // quick ones first
			if _, found := slices.BinarySearch(t.Executes, m.n); !found {
				continue
			}
			if part := strings.Contains(t.Name, "/"); part || took+t.Took > together {
				end()
			}
			names, took = append(names, t.Name), took+t.Took
		}
		end()
	}
	slices.SortStableFunc(out, func(a, b round) int {
		if own := a.judge.Package == m.dir; own != (b.judge.Package == m.dir) {
			return map[bool]int{true: -1, false: 1}[own]
		}
		return cmp.Compare(a.took, b.took)
	})
	return out
}

// pattern returns the pattern for -test.run of tests, or of one part of a test.
func pattern(names []string) string {
	if len(names) > 1 {
		return "^(" + strings.Join(names, "|") + ")$"
	}
	var parts []string
	for part := range strings.SplitSeq(names[0], "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	return strings.Join(parts, "/")
}

// judge measures what each of a package's tests executes. It uses the result of an
// earlier run if the tests and the program have not changed since.
func (r *runner) judge(ctx context.Context, p testPackage) (*judge, error) {
	key, err := digest(p.program, filepath.Join(p.dir, "testdata"))
	if err != nil {
		return nil, err
	}
	file, j := filepath.Join(r.memory, key), &judge{Package: p.rel}
	if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, j) == nil {
		return j, nil
	}
	names, err := r.names(ctx, p)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	r.each(len(names), func(worker, k int) {
		t, err := r.measure(ctx, worker, p, names[k])
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			j.Fail = append(j.Fail, t.Name)
		} else {
			j.Tests = append(j.Tests, t)
		}
	})
	slices.SortFunc(j.Tests, func(a, b test) int { return cmp.Compare(a.Took, b.Took) })
	b, err := json.Marshal(j)
	if err == nil && ctx.Err() == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	return j, err
}

// names returns the names of p's tests, and of the parts of TestScripts.
func (r *runner) names(ctx context.Context, p testPackage) ([]string, error) {
	out, err := r.runs(ctx, 0, p, "", time.Minute, "-test.list", "^(Test|Fuzz|Example)")
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w\n%s", p.rel, err, out)
	}
	var names []string
	for _, name := range strings.Fields(string(out)) {
		if name != "TestScripts" {
			names = append(names, name)
			continue
		}
		scripts, err := filepath.Glob(filepath.Join(p.dir, "testdata", "script", "*.txtar"))
		if err != nil {
			return nil, err
		}
		for _, script := range scripts {
			names = append(names, name+"/"+strings.TrimSuffix(filepath.Base(script), ".txtar"))
		}
	}
	return names, nil
}

// measure runs a test, up to three times until it passes, and returns what it and the
// programs that it starts execute.
func (r *runner) measure(ctx context.Context, worker int, p testPackage, name string) (t test, err error) {
	t.Name = name
	seen := filepath.Join(r.workDir(worker), "seen")
	for range 3 {
		if err = errors.Join(os.WriteFile(seen, make([]byte, r.mutants), 0o600), os.Chmod(seen, 0o666)); err != nil { //nolint:gosec // some tests run as another user
			return t, err
		}
		begun := time.Now()
		if _, err = r.runs(ctx, worker, p, " "+seen, 5*time.Minute, "-test.run", pattern([]string{name})); err == nil {
			t.Took = time.Since(begun)
			break
		}
	}
	if err != nil {
		return t, err
	}
	b, err := os.ReadFile(seen)
	for n, executed := range b {
		if executed != 0 {
			t.Executes = append(t.Executes, n)
		}
	}
	return t, err
}

// digest returns the digest of a program and of the files in a directory, which need
// not exist.
func digest(program, dir string) (string, error) {
	h := sha256.New()
	files := []string{program}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
