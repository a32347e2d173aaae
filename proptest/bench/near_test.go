package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The cost of a hop in a chain while unrelated jobs wait for something that no job makes,
// against the cost of a hop without such jobs.
func BenchmarkBesideWhatWaitsOutside(b *testing.B) {
	const hops, others = 100, 500
	for _, kind := range []struct{ name, wants string }{
		{"token", `"need":["custom:t:k%d"],"missing_producer":"wait"`},
		{"document", `"need":["plan_branch:p%d"],"missing_producer":"wait"`},
		{"branch", `"require":["branch_exists=b%d"]`},
		{"one-branch", `"require":["branch_exists=b"]`},
		{"clean", `"require":["clean_worktree"]`},
	} {
		b.Run(kind.name, func(b *testing.B) {
			var spent [2]time.Duration
			for b.Loop() {
				for i, n := range []int{0, others} {
					r := newRepository(b, relaxed)
					var lines strings.Builder
					for k := range n {
						wants := kind.wants
						if strings.Contains(wants, "%d") {
							wants = fmt.Sprintf(wants, k)
						}
						fmt.Fprintf(&lines, `{"command":["true"],%s}`+"\n", wants)
					}
					if n > 0 {
						r.vizier(lines.String(), "jobs", "submit", "--batch")
					}
					begun := cpu()
					ids := strings.Fields(r.vizier(batch(hops, []string{"true"}, before), "jobs", "submit", "--batch"))
					r.vizier("", append([]string{"jobs", "wait"}, ids...)...)
					time.Sleep(100 * time.Millisecond) // the last runner is about to end: its time counts for little
					spent[i] += cpu() - begun
				}
			}
			b.ReportMetric(spent[0].Seconds()*1000/float64(hops*b.N), "cpu-ms/hop-of-none")
			b.ReportMetric(spent[1].Seconds()*1000/float64(hops*b.N), "cpu-ms/hop")
			b.ReportMetric(float64(spent[1])/float64(spent[0]), "x-none")
			b.ReportMetric(0, "ns/op")
		})
	}
}
