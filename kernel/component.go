package kernel

// components tells which nodes of a graph reach each other. It looks only at what those asked about reach, and
// at each node once (Tarjan: Depth-first search and linear graph algorithms, 1972).
type components struct {
	each  func(int32, func(int32)) // calls a function with the nodes that edges of a node lead to
	order map[int32]int            // in which nodes were found
	of    map[int32]int32          // a node of their component, the same for all of it
	size  map[int32]int            // of the component, by that node
	open  []int32                  // found, and in no component yet
}

func newComponents(each func(int32, func(int32))) *components {
	return &components{each: each, order: map[int32]int{}, of: map[int32]int32{}, size: map[int32]int{}}
}

// same reports whether a and b reach each other.
func (c *components) same(a, b int32) bool {
	c.explore(a)
	of, found := c.of[b]
	return found && c.of[a] == of
}

// cyclic reports whether a and another node reach each other.
func (c *components) cyclic(a int32) bool {
	c.explore(a)
	return c.size[c.of[a]] > 1
}

func (c *components) explore(start int32) {
	type visit struct {
		node int32
		next []int32 // edges to follow
		low  int     // the first node in no component yet that it is known to reach, by order
	}
	var path []visit
	find := func(node int32) {
		var next []int32
		c.each(node, func(k int32) { next = append(next, k) })
		path = append(path, visit{node, next, len(c.order)})
		c.order[node] = len(c.order)
		c.open = append(c.open, node)
	}
	if _, found := c.order[start]; !found {
		find(start)
	}
	for len(path) > 0 {
		v := &path[len(path)-1]
		if len(v.next) > 0 {
			k := v.next[0]
			v.next = v.next[1:]
			if at, found := c.order[k]; !found {
				find(k)
			} else if _, closed := c.of[k]; !closed {
				v.low = min(v.low, at)
			}
			continue
		}
		node, low := v.node, v.low
		path = path[:len(path)-1]
		if low < c.order[node] {
			before := &path[len(path)-1]
			before.low = min(before.low, low)
			continue
		}
		for closed := false; !closed; {
			last := c.open[len(c.open)-1]
			c.open = c.open[:len(c.open)-1]
			c.of[last] = node
			c.size[node]++
			closed = last == node
		}
	}
}
