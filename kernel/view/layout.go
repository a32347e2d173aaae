package view

import (
	"cmp"
	"math"
	"slices"
)

// layout places the nodes of a diagram in columns, each to the right of what it
// depends on, so that few arrows cross. It is a simple form of Sugiyama's
// layered graph drawing: longest paths give the columns, barycenters the order
// within them.
type layout struct {
	at            []point // upper left corner of each node
	bends         [][]point
	width, height int
}

type point struct{ x, y int }

// Measures of a picture, in pixels.
const (
	nodeWidth, nodeHeight = 200, 44
	columnGap, rowGap     = 72, 16
	sweeps                = 8
	mostDummies           = 20_000 // dummy nodes, where arrows pass a column; a diagram that needs more has straight arrows
)

// layoutOf lays d out. Each connected component is laid out by itself; the
// components are then arranged on shelves.
func layoutOf(d *diagram) layout {
	l := layout{at: make([]point, len(d.nodes)), bends: make([][]point, len(d.arrows))}
	var pieces []*piece
	total := 0
	for _, nodes := range d.components() {
		p := newPiece(d, nodes)
		p.place()
		total += (p.width + columnGap) * (p.height + rowGap)
		pieces = append(pieces, p)
	}
	slices.SortStableFunc(pieces, func(a, b *piece) int { return cmp.Compare(b.height, a.height) })
	most := int(math.Sqrt(float64(total) * 1.6))
	var x, y int
	for _, p := range pieces {
		if x > 0 && x+p.width > most { // a new shelf
			x, y = 0, l.height+rowGap
		}
		p.put(&l, point{x, y})
		l.width, l.height = max(l.width, x+p.width), max(l.height, y+p.height)
		x += p.width + columnGap
	}
	return l
}

// components returns the connected components of the diagram. Nodes keep their
// order.
func (d *diagram) components() (out [][]int) {
	near := make([][]int, len(d.nodes))
	for _, a := range d.arrows {
		near[a.from], near[a.to] = append(near[a.from], a.to), append(near[a.to], a.from)
	}
	seen := make([]bool, len(d.nodes))
	for first := range d.nodes {
		if seen[first] {
			continue
		}
		seen[first] = true
		nodes := []int{first}
		for k := 0; k < len(nodes); k++ {
			for _, n := range near[nodes[k]] {
				if !seen[n] {
					seen[n] = true
					nodes = append(nodes, n)
				}
			}
		}
		slices.Sort(nodes)
		out = append(out, nodes)
	}
	return out
}

// piece is a connected component, with dummy nodes in the columns that arrows
// pass through.
type piece struct {
	nodes         []int         // of the diagram; what follows is by place in this list, dummies behind
	column        []int         // of each node
	y             []float64     // the middle of each node
	before, after [][]int       // neighbours in the adjacent columns
	columns       [][]int       // from top to bottom
	paths         map[int][]int // the dummies that an arrow goes through
	width, height int
}

func newPiece(d *diagram, nodes []int) *piece {
	p := &piece{nodes: nodes, paths: map[int][]int{}}
	index := make(map[int]int, len(nodes))
	for k, n := range nodes {
		index[n] = k
	}
	p.before, p.after = make([][]int, len(nodes)), make([][]int, len(nodes))
	type edge struct{ arrow, from, to int }
	var edges []edge
	for i, a := range d.arrows {
		if from, here := index[a.from]; here {
			edges = append(edges, edge{i, from, index[a.to]})
			p.after[from] = append(p.after[from], index[a.to])
		}
	}
	p.column = longestPaths(p.after)
	dummies := 0
	for _, e := range edges {
		dummies += max(0, p.column[e.to]-p.column[e.from]-1)
	}
	p.after = make([][]int, len(nodes))
	join := func(a, b int) { p.after[a], p.before[b] = append(p.after[a], b), append(p.before[b], a) }
	for _, e := range edges {
		last := e.from
		if dummies <= mostDummies {
			for c := p.column[e.from] + 1; c < p.column[e.to]; c++ {
				p.column, p.before, p.after = append(p.column, c), append(p.before, nil), append(p.after, nil)
				k := len(p.column) - 1
				p.paths[e.arrow] = append(p.paths[e.arrow], k)
				join(last, k)
				last = k
			}
		}
		if p.column[e.to] > p.column[last] {
			join(last, e.to)
		}
	}
	return p
}

// longestPaths returns the column of each node: one more than the last column
// of the nodes it comes after. Arrows that close a cycle do not count.
func longestPaths(after [][]int) []int {
	const unseen, open, done = 0, 1, 2
	state, column := make([]int, len(after)), make([]int, len(after))
	var order []int
	back := map[[2]int]bool{}
	for first := range after {
		for stack := []int{first}; len(stack) > 0; {
			n := stack[len(stack)-1]
			if state[n] == unseen {
				state[n] = open
				for _, k := range after[n] {
					if state[k] == unseen {
						stack = append(stack, k)
					} else if state[k] == open {
						back[[2]int{n, k}] = true
					}
				}
				continue
			}
			stack = stack[:len(stack)-1]
			if state[n] == open {
				state[n] = done
				order = append(order, n)
			}
		}
	}
	for _, n := range slices.Backward(order) {
		for _, k := range after[n] {
			if !back[[2]int{n, k}] {
				column[k] = max(column[k], column[n]+1)
			}
		}
	}
	return column
}

// place assigns positions to all nodes of the piece.
func (p *piece) place() {
	for k, c := range p.column {
		for len(p.columns) <= c {
			p.columns = append(p.columns, nil)
		}
		p.columns[c] = append(p.columns[c], k)
	}
	p.y = make([]float64, len(p.column))
	for sweep := range sweeps {
		if sweep%2 == 0 {
			for _, column := range p.columns {
				p.align(column, p.before)
			}
		} else {
			for _, column := range slices.Backward(p.columns) {
				p.align(column, p.after)
			}
		}
	}
	top, bottom := math.Inf(1), math.Inf(-1)
	for k, y := range p.y {
		top, bottom = min(top, y-p.half(k)), max(bottom, y+p.half(k))
	}
	for k := range p.y {
		p.y[k] -= top
	}
	p.width, p.height = len(p.columns)*(nodeWidth+columnGap)-columnGap, int(bottom-top)
}

func (p *piece) half(k int) float64 {
	if k >= len(p.nodes) {
		return 2
	}
	return nodeHeight / 2
}

// align orders a column by the mean position of its nodes' neighbours, and
// moves each node as close to that mean as the others in the column allow.
func (p *piece) align(column []int, neighbours [][]int) {
	want := make(map[int]float64, len(column))
	for _, k := range column {
		want[k] = p.y[k]
		if near := neighbours[k]; len(near) > 0 {
			sum := 0.0
			for _, n := range near {
				sum += p.y[n]
			}
			want[k] = sum / float64(len(near))
		}
	}
	slices.SortStableFunc(column, func(a, b int) int { return cmp.Compare(want[a], want[b]) })
	shift, end := 0.0, math.Inf(-1)
	for _, k := range column {
		p.y[k] = max(want[k], end+p.half(k))
		shift += want[k] - p.y[k]
		end = p.y[k] + p.half(k) + rowGap
	}
	shift /= float64(len(column)) // nodes were only pushed down; move the column back up
	for _, k := range column {
		p.y[k] += shift
	}
}

// put writes the piece into l with its upper left corner at o.
func (p *piece) put(l *layout, o point) {
	x := func(c int) int { return o.x + c*(nodeWidth+columnGap) }
	for k, n := range p.nodes {
		l.at[n] = point{x(p.column[k]), o.y + int(p.y[k]) - nodeHeight/2}
	}
	for arrow, path := range p.paths {
		for _, k := range path {
			y := o.y + int(p.y[k])
			l.bends[arrow] = append(l.bends[arrow], point{x(p.column[k]), y}, point{x(p.column[k]) + nodeWidth, y})
		}
	}
}
