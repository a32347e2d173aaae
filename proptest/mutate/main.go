// Command mutate breaks the program in small ways, one at a time, and reports
// which changes no test notices.
//
//	go run ./proptest/mutate -n 100 -seed 7
//
// It draws mutants of kernel, app and adapters, except for the client of Slurm,
// whose tests need a cluster. In a mutant, a condition is negated, a comparison
// changed, a call, an assignment or a defer left out, a boolean swapped, an error
// dropped, or a constant off by one. Capacities in calls of make stay, since only
// time depends on them. The working tree stays unchanged: each mutant is an overlay
// of the go command. A mutant that does not compile is replaced by another one. Each
// runs the tests that execute its line, those of its own package first, until one
// fails or takes too long. A test that fails runs again, since that may be chance.
// Before, the command measures what each test executes, and keeps the result.
//
// A mutant of code that kills processes or removes files may do so anywhere. So
// tests run in a process namespace of their own, and can write only to a temporary
// directory and the build cache.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	n := flag.Int("n", 100, "mutants")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the draw")
	only := flag.String("only", "", "mutants whose place, as in kernel/job.go:12, has this in it")
	quick := flag.Bool("quick", false, "without the packages whose tests take longest, which may notice what survives")
	parallel := flag.Int("p", runtime.NumCPU(), "mutants at a time")
	timeout := flag.Duration("timeout", 5*time.Minute, "of one package's tests")
	unguarded := flag.Bool("unguarded", false, "run tests without namespaces of their own")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *n, *seed, *only, *parallel, runner{timeout: *timeout, guarded: !*unguarded, quick: *quick, workers: *parallel}); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// tested tells which package's tests noticed a mutant, if any did.
type tested struct {
	mutant
	by string // the package whose tests noticed; "": none did
}

func run(ctx context.Context, n int, seed uint64, only string, parallel int, r runner) error {
	packages, err := listPackages(ctx)
	if err != nil {
		return err
	}
	var all []mutant
	for _, p := range packages {
		if room, _, _ := strings.Cut(p.rel(), "/"); room != "kernel" && room != "app" && room != "adapters" || slices.Contains(never, p.rel()) {
			continue
		}
		for _, name := range p.GoFiles {
			found, err := mutantsOf(filepath.Join(p.Dir, name))
			if err != nil {
				return err
			}
			for _, m := range found {
				if m.pkg = p; strings.Contains(m.place(), only) {
					all = append(all, m)
				}
			}
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("no mutant is at a place with %q in it", only)
	}
	fmt.Printf("mutate: seed %d, %d of %d mutants\n", seed, n, len(all))
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if r.dir, err = os.MkdirTemp("", "vizier-mutate-"); err != nil { // of this run alone: two runs would write the same profile
		return err
	}
	defer os.RemoveAll(r.dir)
	if err := r.check(ctx, r.judging(all, packages)); err != nil {
		return err
	}
	report(drawn(ctx, all, n, parallel, r, packages), seed)
	return ctx.Err()
}

// drawn tries mutants in their order until n of them compiled.
func drawn(ctx context.Context, all []mutant, n, parallel int, r runner, packages []goPackage) (out []tested) {
	var mu sync.Mutex
	next, sure := 0, 0 // sure: compiled, or being tried
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for {
				mu.Lock()
				if next == len(all) || sure == n || ctx.Err() != nil {
					mu.Unlock()
					return
				}
				at := next
				next, sure = next+1, sure+1
				mu.Unlock()
				begun := time.Now()
				by, ok := r.try(ctx, at, all[at], packages)
				mu.Lock()
				if !ok {
					sure--
				} else {
					out = append(out, tested{all[at], by})
					fmt.Printf("%3d %-50s %5.0fs %s\n", len(out), all[at].place(), time.Since(begun).Seconds(), noticed(all[at], by))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return out
}

func noticed(m mutant, by string) string {
	if by == "" {
		return "SURVIVED: " + m.kind + "\n" + m.diff()
	}
	return by
}

func report(out []tested, seed uint64) {
	killed := 0
	for _, v := range out {
		if v.by != "" {
			killed++
			continue
		}
		fmt.Printf("\n%s: %s\n%s", v.place(), v.kind, v.diff())
	}
	fmt.Printf("\nseed %d: %d of %d mutants were noticed\n", seed, killed, len(out))
}
