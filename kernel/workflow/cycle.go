package workflow

import "slices"

// cycle returns a cycle over parents and over extra, along which a node waits
// for itself, or nil. The first node is repeated at the end.
func (g *graph) cycle(extra func(i int) []int) []int {
	const (
		unseen = iota
		open
		done
	)
	mark := make([]uint8, len(g.after))
	var path []int
	var visit func(i int) []int
	visit = func(i int) []int {
		switch mark[i] {
		case open:
			return append(slices.Clone(path[slices.Index(path, i):]), i)
		case done:
			return nil
		}
		mark[i] = open
		path = append(path, i)
		for _, p := range slices.Concat(g.parents(i), extra(i)) {
			if c := visit(p); c != nil {
				return c
			}
		}
		path = path[:len(path)-1]
		mark[i] = done
		return nil
	}
	for i := range g.after {
		if c := visit(i); c != nil {
			slices.Reverse(c) // from the first node to the one that waits for it
			return c
		}
	}
	return nil
}
