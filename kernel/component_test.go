package kernel

import (
	"testing"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
)

// Two nodes are in one component exactly if each is reached from the other, in whatever order they are asked about.
func TestComponents(t *testing.T) {
	r := drawtest.Of(t)
	for range 300 {
		n := 1 + r.IntN(12)
		var edges [12][12]bool
		for range r.IntN(2 * n) {
			edges[r.IntN(n)][r.IntN(n)] = true
		}
		reaches := edges
		for k := range n {
			reaches[k][k] = true
		}
		for k := range n {
			for a := range n {
				for b := range n {
					reaches[a][b] = reaches[a][b] || reaches[a][k] && reaches[k][b]
				}
			}
		}
		c := newComponents(func(a int32, f func(int32)) {
			for b := range n {
				if edges[a][b] {
					f(int32(b))
				}
			}
		})
		for range 3 * n {
			a, b := r.IntN(n), r.IntN(n)
			if got, want := c.same(int32(a), int32(b)), reaches[a][b] && reaches[b][a]; got != want {
				t.Fatalf("%d and %d are in one component: %t, edges %v", a, b, got, edges)
			}
			others := 0
			for k := range n {
				if k != a && reaches[a][k] && reaches[k][a] {
					others++
				}
			}
			if got := c.cyclic(int32(a)); got != (others > 0) {
				t.Fatalf("%d is in a cycle: %t, edges %v", a, got, edges)
			}
		}
	}
}
