// Command mutate breaks the program in small ways, one at a time, and reports
// which changes no test notices.
//
//	go run ./proptest/mutate -n 100 -seed 7
//
// It draws mutants of kernel, app and adapters, except for the client of Slurm,
// whose tests need a cluster. In a mutant, a condition is negated, a comparison
// changed, a call, an assignment or a defer left out, a boolean swapped, an error
// dropped, or a constant off by one. Capacities in calls of make stay, since only
// time depends on them, and so do constants that the compiler must know.
//
// The test programs are built once, with a switch for each mutant (package switches).
// Each test runs once by itself to see which mutants it executes; this is kept for the
// next time. Then each drawn mutant is on for the tests that execute it, those of its
// own package first, until one fails or takes too long. A test that fails runs again,
// since that may be chance. The working tree stays unchanged.
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
	"runtime"
	"sync"
	"time"
)

func main() {
	n := flag.Int("n", 100, "mutants")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the draw")
	only := flag.String("only", "", "mutants whose place, as in kernel/job.go:12, has this in it")
	own := flag.Bool("own", false, "run only the tests of a mutant's own package; others may notice what survives")
	workers := flag.Int("p", runtime.NumCPU(), "tests at a time")
	unguarded := flag.Bool("unguarded", false, "run tests without namespaces of their own")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *n, *seed, runner{only: *only, own: *own, guarded: !*unguarded, workers: *workers}); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, n int, seed uint64, r runner) (err error) {
	if r.dir, err = os.MkdirTemp("", "vizier-mutate-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	all, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	n = min(n, len(all))
	fmt.Printf("mutate: seed %d, %d of %d mutants\n", seed, n, len(all))
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var mu sync.Mutex
	tried, survived := 0, []mutant(nil)
	r.each(n, func(worker, k int) {
		m, begun := all[k], time.Now()
		by := r.try(ctx, worker, m)
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return // the tests were interrupted
		}
		tried++
		if by == "" {
			survived = append(survived, m)
			by = "SURVIVED"
		}
		fmt.Printf("%3d %-50s %5.0fs %s\n", tried, m.place(), time.Since(begun).Seconds(), by)
	})
	for _, m := range survived {
		fmt.Printf("\n%s: %s\n%s", m.place(), m.kind, m.diff())
	}
	fmt.Printf("\nseed %d: %d of %d mutants were noticed\n", seed, tried-len(survived), tried)
	return ctx.Err()
}
