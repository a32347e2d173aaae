package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// BenchmarkForetellingAsShapesGrow is BenchmarkCommandsAsStoresGrow for the shapes of work
// for which predictions cost most, each in a store of its own.
func BenchmarkForetellingAsShapesGrow(b *testing.B) {
	const small, times = 100, 4
	foretell := []string{"simulate --draws 3", "what-if --succeed 1 --to-the-end"}
	for _, shape := range []struct {
		name, config string
		first        []string
		job          func(i int) string
		commands     []string
	}{
		{"a chain of needs", "", []string{"--approval", "--produce", "custom:t:k0", "--", "true"},
			func(i int) string { return fmt.Sprintf(`"need":["custom:t:k%d"],"produce":["custom:t:k%d"]`, i, i+1) },
			append(foretell, "cancel 2/j3")},
		{"one artifact of many producers", "", []string{"--approval", "--", "true"},
			func(i int) string {
				return []string{`"produce":["custom:t:k"],"after":["1"]`, `"need":["custom:t:k"]`}[i%2]
			}, foretell},
		{"locks shared with the next", "[scheduler]\nmax_running = 1\n", []string{"--", "sleep", "3600"},
			func(i int) string { return fmt.Sprintf(`"lock":["k%d","k%d"]`, i, i+1) }, foretell},
		{"pools", "[pools]\ngpu = 3\n", []string{"--pool", "gpu=3", "--", "sleep", "3600"},
			func(i int) string { return fmt.Sprintf(`"pool":["gpu=%d","p%d"]`, 1+i%3, i%7) }, foretell},
	} {
		b.Run(shape.name, func(b *testing.B) {
			for b.Loop() {
				took := map[string][2]time.Duration{}
				for k, n := range []int{small, times * small} {
					r := newRepository(b, shape.config)
					r.vizier("", append([]string{"submit"}, shape.first...)...)
					var lines strings.Builder
					for i := range n {
						fmt.Fprintf(&lines, `{"ref":"j%d","command":["true"],%s}`+"\n", i, shape.job(i))
					}
					r.vizier(lines.String(), "submit", "-q", "--batch")
					for _, c := range shape.commands {
						both := took[c]
						both[k] = r.any(strings.Fields(c)...)
						took[c] = both
					}
					r.any("cancel", "--all", "--yes")
				}
				for _, c := range shape.commands {
					b.ReportMetric(float64(took[c][1])/float64(took[c][0]), strings.ReplaceAll(c, " ", "_")+":times")
				}
			}
		})
	}
}
