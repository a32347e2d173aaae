package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkForetoldEnd runs a graph of about three hundred tasks once, as training. Then it
// lets simulate predict the end of a second run of the same kinds of tasks, with other
// durations, and runs that too. off-% is the error in percent of the second run's time.
func BenchmarkForetoldEnd(b *testing.B) {
	for name, graph := range map[string]func() []task{"mosaic": mosaic, "lanes": lanes, "peoples": peoples} {
		b.Run(name, func(b *testing.B) {
			for i := range b.N {
				r := newRepository(b, "[scheduler]\nmax_running = 8\n")
				seed := uint64(2*i + 1)
				r.play(graph(), seed)
				next := sleeps(graph(), seed+1)
				var told struct {
					Now  time.Time `json:"now"`
					Ends []struct {
						P50, P90 time.Time
						From     int
					} `json:"ends"`
				}
				began := time.Now()
				if err := json.Unmarshal([]byte(r.vizier(next, "simulate", "--submit", "-", "--format", "json")), &told); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(time.Since(began).Seconds(), "s/simulate")
				took := r.play(graph(), seed+1)
				foretold := told.Ends[0].P50.Sub(told.Now)
				b.ReportMetric(100*math.Abs(foretold.Seconds()-took.Seconds())/took.Seconds(), "off-%")
				b.Logf("%d tasks: foretold %.1fs, of 9 in 10 %.1fs; it took %.1fs", len(graph()), foretold.Seconds(), told.Ends[0].P90.Sub(told.Now).Seconds(), took.Seconds())
			}
		})
	}
}

// play runs a graph and returns how long that took, according to its records.
func (r *repository) play(graph []task, seed uint64) time.Duration {
	r.Helper()
	refs := strings.Fields(r.vizier(sleeps(graph, seed), "submit", "--batch"))
	number, _, _ := strings.Cut(refs[0], "/")
	r.vizier("", "wait", number)
	var list struct {
		Jobs []struct {
			Created  time.Time `json:"created_at"`
			Finished time.Time `json:"finished_at"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal([]byte(r.vizier("", "jobs", "list", "--all", "--raw", "--run", number, "--format", "json")), &list); err != nil {
		r.Fatal(err)
	}
	var first, last time.Time
	for _, j := range list.Jobs {
		if first.IsZero() || j.Created.Before(first) {
			first = j.Created
		}
		if j.Finished.After(last) {
			last = j.Finished
		}
	}
	return last.Sub(first)
}

// task is a node of a graph: its kind, how long such tasks take relative to others, how
// much that varies, and which tasks must end before it.
type task struct {
	kind   string
	weight float64
	spread float64 // of the logarithm
	after  []int
}

// mosaic has the shape of workflows that make one picture from many: each is projected,
// neighbours are fitted, one model is made of all, each is corrected by it, all are added.
func mosaic() (g []task) {
	const wide = 56
	add := func(t task) int { g = append(g, t); return len(g) - 1 }
	var projected, fitted, corrected []int
	for range wide {
		projected = append(projected, add(task{kind: "project", weight: 3, spread: 0.2}))
	}
	for i := range wide {
		for d := 1; d <= 3; d++ {
			fitted = append(fitted, add(task{"fit", 1, 0.3, []int{projected[i], projected[(i+d)%wide]}}))
		}
	}
	model := add(task{"model", 10, 0.1, []int{add(task{"concat", 4, 0.1, fitted})}})
	for i := range wide {
		corrected = append(corrected, add(task{"correct", 1, 0.3, []int{model, projected[i]}}))
	}
	added := add(task{"add", 8, 0.1, []int{add(task{"table", 2, 0.1, corrected})}})
	add(task{"shrink", 3, 0.1, []int{added}})
	return g
}

// lanes has the shape of workflows that cut reads of a genome into pieces, process each piece
// in a chain, and merge the results by lane and then as a whole.
func lanes() (g []task) {
	add := func(t task) int { g = append(g, t); return len(g) - 1 }
	var merged []int
	for range 4 {
		split := add(task{kind: "split", weight: 3, spread: 0.2})
		var mapped []int
		for range 18 {
			at := split
			for _, t := range []task{{kind: "filter", weight: 1}, {kind: "convert", weight: 0.5}, {kind: "pack", weight: 0.5}, {kind: "map", weight: 8}} {
				t.spread, t.after = 0.35, []int{at}
				at = add(t)
			}
			mapped = append(mapped, at)
		}
		merged = append(merged, add(task{"merge", 4, 0.2, mapped}))
	}
	whole := add(task{"merge all", 5, 0.1, merged})
	index := add(task{"index", 3, 0.1, []int{whole}})
	add(task{"pileup", 4, 0.1, []int{index}})
	return g
}

// peoples has the shape of workflows that look for variants that peoples share: many pieces of
// each chromosome are read and merged, the chromosome is also sifted, and both results are
// compared for each people in two ways.
func peoples() (g []task) {
	add := func(t task) int { g = append(g, t); return len(g) - 1 }
	for range 7 {
		var pieces []int
		for range 30 {
			pieces = append(pieces, add(task{kind: "piece", weight: 3, spread: 0.4}))
		}
		both := []int{add(task{"merge", 4, 0.3, pieces}), add(task{kind: "sift", weight: 2, spread: 0.3})}
		for range 7 {
			add(task{"overlap", 2, 0.4, both})
			add(task{"frequency", 5, 0.4, both})
		}
	}
	return g
}

// sleeps returns a graph as a batch of jobs that sleep, for about four minutes in all.
func sleeps(g []task, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 0))
	sum := 0.0
	for _, t := range g {
		sum += t.weight
	}
	var b strings.Builder
	for i, t := range g {
		takes := 240 * t.weight / sum * math.Exp(t.spread*random.NormFloat64())
		var after []string
		for _, k := range t.after {
			after = append(after, "t"+strconv.Itoa(k))
		}
		line, _ := json.Marshal(map[string]any{"ref": "t" + strconv.Itoa(i), "name": t.kind, "after": after, "command": []string{"sleep", fmt.Sprintf("%.3f", takes)}})
		b.Write(append(line, '\n'))
	}
	return b.String()
}
