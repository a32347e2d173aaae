package git

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// BenchmarkHeads asks each engine for one branch, for a few and for a
// thousand, in a repository of a thousand.
func BenchmarkHeads(b *testing.B) {
	f := newFixture(b)
	tip := f.commit("file", "x")
	var names []string
	var refs strings.Builder
	for i := range 1000 {
		names = append(names, fmt.Sprintf("draft/n%04d", i))
		fmt.Fprintf(&refs, "create refs/heads/%s %s\n", names[i], tip)
	}
	f.feed(refs.String(), "update-ref", "--stdin")
	f.git("pack-refs", "--all")
	engines := map[string]engine{"cli": newCLI(f.root())}
	for name, open := range taggedEngines {
		engines[name] = open(f.root())
	}
	for _, name := range slices.Sorted(maps.Keys(engines)) {
		for _, n := range []int{1, 10, 1000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if heads, err := engines[name].Heads(b.Context(), names[:n]); err != nil || heads[names[0]] != tip {
						b.Fatal(heads[names[0]], err)
					}
				}
			})
		}
	}
}
