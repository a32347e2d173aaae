package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// judge is what is known of a package's tests without a mutant.
type judge struct {
	Tests []test
	Lines map[string][]int // by line of a function, such as kernel/job.go:12: the indices of the tests that execute it
	Fail  []string         // tests that fail without a mutant, and so prove nothing
}

type test struct {
	Name  string // may be a part's, such as TestScripts/init; "": all tests of the package
	Took  time.Duration
	Forks bool // starts programs: one that is killed or execs another does not say what it executed
	Blind bool // fails if it is measured what it executes
}

// round is a set of tests that are run together.
type round struct {
	pattern string
	took    time.Duration
}

// rounds returns the tests that may execute a mutant's place, quick ones first. For
// code outside of functions, that is not known: it returns all.
func (j judge) rounds(m mutant) []round {
	by, known := j.Lines[m.runsAt()]
	names := make([][]string, 3) // quick, slow, parts
	took := make([]time.Duration, 3)
	for i, t := range j.Tests {
		if known && !t.Blind && !slices.Contains(by, i) && !(t.Forks && strings.HasPrefix(m.pkg.rel(), "adapters/proc")) {
			continue
		}
		at := 0
		if strings.Contains(t.Name, "/") {
			at = 2
		} else if t.Took > 2*time.Second {
			at = 1
		}
		names[at], took[at] = append(names[at], t.Name), took[at]+t.Took
	}
	var out []round
	for i, these := range names {
		if len(these) > 0 {
			out = append(out, round{pattern: pattern(these), took: took[i]})
		}
	}
	return out
}

// pattern returns the pattern for -test.run of tests, or of parts of one test.
func pattern(names []string) string {
	if names[0] == "" {
		return ""
	}
	whole, _, parts := strings.Cut(names[0], "/")
	if !parts {
		return "^(" + strings.Join(names, "|") + ")$"
	}
	var rest []string
	for _, name := range names {
		rest = append(rest, strings.TrimPrefix(name, whole+"/"))
	}
	return "^" + whole + "$/^(" + strings.Join(rest, "|") + ")$"
}

// judge measures what p's tests execute, each by itself if they take long. It uses
// the result of an earlier run if the tests have not changed since.
func (r *runner) judge(ctx context.Context, p goPackage) (judge, error) {
	program := filepath.Join(r.dir, "covered")
	if err := r.build(ctx, "", program, p, "-coverpkg="+module+"/kernel/...,"+module+"/app/...,"+module+"/adapters/..."); err != nil {
		return judge{}, err
	}
	key, err := digest(program, filepath.Join(p.Dir, "testdata"))
	if err != nil {
		return judge{}, err
	}
	file, j := filepath.Join(r.memory, key), judge{Lines: map[string][]int{}}
	if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, &j) == nil {
		return j, nil
	}
	if !slices.Contains(slow, p.rel()) {
		r.look(ctx, &j, program, p, []string{""})
	}
	if len(j.Tests) == 0 { // they take long, or one of them fails
		names, err := r.names(ctx, program, p)
		if err != nil {
			return judge{}, err
		}
		j.Fail = nil
		r.look(ctx, &j, program, p, names)
	}
	b, err := json.Marshal(j)
	if err == nil && ctx.Err() == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	return j, err
}

// look measures what each of these tests executes.
func (r *runner) look(ctx context.Context, j *judge, program string, p goPackage, names []string) {
	plain := sync.OnceValues(func() (string, error) { return program + "-not", r.build(ctx, "", program+"-not", p) })
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan string)
	for range r.workers {
		wg.Go(func() {
			for name := range next {
				t, profiles, err := r.comesBy(ctx, program, plain, p, name)
				mu.Lock()
				if err != nil {
					j.Fail = append(j.Fail, name)
				} else {
					j.add(t, profiles)
				}
				mu.Unlock()
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	wg.Wait()
}

// names returns the names of p's tests, and of the parts of TestScripts.
func (r *runner) names(ctx context.Context, program string, p goPackage) ([]string, error) {
	out, err := r.test(ctx, "", program, p, "-test.list", "^(Test|Fuzz|Example)").Output()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range strings.Fields(string(out)) {
		if name != "TestScripts" {
			names = append(names, name)
			continue
		}
		scripts, err := filepath.Glob(filepath.Join(p.Dir, "testdata", "script", "*.txtar"))
		if err != nil {
			return nil, err
		}
		for _, script := range scripts {
			names = append(names, name+"/"+strings.TrimSuffix(filepath.Base(script), ".txtar"))
		}
	}
	return names, nil
}

// comesBy runs a test, and returns profiles of what it and the module's programs
// that it starts execute.
func (r *runner) comesBy(ctx context.Context, program string, plain func() (string, error), p goPackage, name string) (test, [][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	dir, err := os.MkdirTemp(r.dir, "covers-")
	if err == nil {
		err = os.Chmod(dir, 0o777) // some tests run as another user
	}
	if err != nil {
		return test{}, nil, err
	}
	defer os.RemoveAll(dir)
	flags := []string{"-test.run", pattern([]string{name})}
	profile, forked := filepath.Join(dir, "profile"), filepath.Join(dir, "forked")
	c := r.test(ctx, "", program, p, append(flags, "-test.coverprofile="+profile)...)
	c.Env = append(c.Env, "GOCOVERDIR="+dir)
	begun := time.Now()
	if c.Run() != nil { // perhaps because it checks what programs print, or prevents them from writing profiles
		program, err := plain()
		for try := 0; err == nil && try < 3; try++ {
			begun = time.Now()
			if err := r.test(ctx, "", program, p, flags...).Run(); err == nil {
				return test{Name: name, Took: time.Since(begun), Blind: true}, nil, nil
			}
		}
		return test{}, nil, cmp.Or(err, errors.New("it fails"))
	}
	t := test{Name: name, Took: time.Since(begun)}
	b, err := os.ReadFile(profile)
	profiles := [][]byte{b}
	if meta, _ := filepath.Glob(filepath.Join(dir, "covmeta.*")); err == nil && len(meta) > 0 {
		t.Forks = true
		if out, err := exec.CommandContext(ctx, "go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+forked).CombinedOutput(); err != nil {
			return t, nil, fmt.Errorf("go tool covdata: %w: %s", err, out)
		}
		b, err = os.ReadFile(forked)
		profiles = append(profiles, b)
	}
	return t, profiles, err
}

var block = regexp.MustCompile(`^` + module + `/(.+):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)$`)

// add adds a test that executes the lines in its profiles.
func (j *judge) add(t test, profiles [][]byte) {
	n := len(j.Tests)
	j.Tests = append(j.Tests, t)
	for _, profile := range profiles {
		for line := range bytes.Lines(profile) {
			m := block.FindSubmatch(bytes.TrimSpace(line))
			if m == nil {
				continue
			}
			from, _ := strconv.Atoi(string(m[2]))
			to, _ := strconv.Atoi(string(m[3]))
			for at := from; at <= to; at++ {
				place := fmt.Sprintf("%s:%d", m[1], at)
				by := j.Lines[place]
				if string(m[4]) != "0" && (len(by) == 0 || by[len(by)-1] != n) {
					by = append(by, n)
				}
				j.Lines[place] = by
			}
		}
	}
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
