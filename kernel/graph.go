package kernel

import "slices"

// graph is the DAG of jobs over both kinds of edges, after and artifact. It
// depends only on specs, so snapshots that differ in states share it. Jobs are
// identified by their positions in schedule order.
//
// An artifact that a consumer's own run produces belongs to that run (semantics
// 3.8). Templates use the same keys in every run, so producers and consumers
// are indexed by run as well as by artifact, and no list grows with the
// history.
type graph struct {
	near      *partial // for a graph of only some jobs
	jobs      []*Job   // for their specs
	index     map[JobID]int32
	afterOf   [][]int32 // jobs that name this job in After
	producers map[Artifact][]int32
	inRun     map[scoped]ends
	outside   map[Artifact][]int32 // consumers whose run does not produce it

	transients []int32
	entangling []int32            // jobs that may become entangled
	prompts    []int32            // jobs that stand for prompts
	asking     []int32            // jobs whose gates read facts
	outward    []int32            // jobs whose gates read branches or the checkout
	routed     []int32            // jobs that a route wakes
	stopping   map[RunID][]int32  // jobs whose failure stops a run, by that run and by the runs of their handlers
	handlers   map[int32]bool     // jobs that may handle a failure that stops a run
	lockers    map[queue][]int32  // jobs that name a lock or pool
	onBranch   map[string]*branch // runs for a branch
	merges     bool               // some job's rewind depends on whether a merge is in progress
}

// branch has the runs for a branch, in the order of their first jobs.
type branch struct {
	runs []*branchRun
	at   map[RunID]*branchRun
}

// branchRun has the jobs of a run for a branch, and those of them that take the branch.
type branchRun struct {
	run         RunID
	jobs, takes []int32
}

// scoped is an artifact within a run.
type scoped struct {
	run RunID
	Artifact
}

// ends are the two ends of an artifact's edges within a run.
type ends struct{ producers, consumers []int32 }

func (g *graph) addToBranch(i int32, s *Spec) {
	b := g.onBranch[s.Origin.Branch]
	if b == nil {
		b = &branch{at: map[RunID]*branchRun{}}
		g.onBranch[s.Origin.Branch] = b
	}
	r := b.at[s.Origin.Run]
	if r == nil {
		r = &branchRun{run: s.Origin.Run}
		b.at[r.run] = r
		b.runs = append(b.runs, r)
	}
	r.jobs = append(r.jobs, i)
	if s.takesBranch() {
		r.takes = append(r.takes, i)
	}
}

func newGraph(jobs []*Job) *graph {
	g := &graph{
		jobs:      jobs,
		index:     make(map[JobID]int32, len(jobs)),
		afterOf:   make([][]int32, len(jobs)),
		producers: map[Artifact][]int32{},
		inRun:     map[scoped]ends{},
		outside:   map[Artifact][]int32{},
		lockers:   map[queue][]int32{},
		onBranch:  map[string]*branch{},
		stopping:  map[RunID][]int32{},
		handlers:  map[int32]bool{},
	}
	for i, j := range jobs {
		g.index[j.ID] = int32(i)
	}
	for i, j := range jobs {
		run := j.Spec.Origin.Run
		if j.Spec.Prompt != nil {
			g.prompts = append(g.prompts, int32(i))
		}
		for _, a := range j.Spec.Produces {
			g.producers[a] = add(g.producers[a], int32(i))
			if run != "" {
				e := g.inRun[scoped{run, a}]
				e.producers = add(e.producers, int32(i))
				g.inRun[scoped{run, a}] = e
			}
		}
		for _, p := range j.Spec.After {
			if k, ok := g.index[p]; ok {
				g.afterOf[k] = add(g.afterOf[k], int32(i))
			}
		}
	}
	for i, j := range jobs {
		if j.Spec.Routed {
			g.routed = append(g.routed, int32(i))
		}
		if j.Spec.Transient != NotTransient {
			g.transients = append(g.transients, int32(i))
		}
		if j.Spec.Transient != NotTransient || j.Spec.Origin.Ephemeral {
			g.entangling = append(g.entangling, int32(i))
		}
		asking, outward := readsFacts(&j.Spec)
		if outward {
			g.outward = append(g.outward, int32(i))
		}
		if asking {
			g.asking = append(g.asking, int32(i))
		}
		for _, l := range j.Spec.Locks {
			g.lockers[l.queue()] = add(g.lockers[l.queue()], int32(i))
		}
		if j.onBranch() {
			g.addToBranch(int32(i), &j.Spec)
		}
		if j.Spec.FailureMode == BlockDownstream {
			g.stopping[j.Spec.Origin.Run] = add(g.stopping[j.Spec.Origin.Run], int32(i))
			for _, r := range j.Spec.Routes {
				if k, ok := g.index[r.To]; ok {
					run := jobs[k].Spec.Origin.Run
					g.stopping[run] = add(g.stopping[run], int32(i))
					g.handlers[k] = g.handlers[k] || r.On == OutcomeFailed
				}
			}
		}
		g.merges = g.merges || len(j.mergeSlugs()) > 0
		for _, a := range j.Spec.Needs {
			if !g.ownProducers(int32(i), a) {
				g.outside[a] = add(g.outside[a], int32(i))
				continue
			}
			key := scoped{j.Spec.Origin.Run, a}
			e := g.inRun[key]
			e.consumers = add(e.consumers, int32(i))
			g.inRun[key] = e
		}
	}
	return g
}

// regraph rebuilds the graph and the lists after jobs were added or removed.
func (s *Snapshot) regraph() {
	s.graph = newGraph(s.jobs)
	s.graph.near = s.near
	s.index()
}

// add appends i to a list in ascending order unless it is already there.
func add(list []int32, i int32) []int32 {
	if n := len(list); n > 0 && list[n-1] == i {
		return list
	}
	return append(list, i)
}

// ownProducers reports whether the consumer's run declares a producer of a
// other than the consumer; then only that run's producers count.
func (g *graph) ownProducers(consumer int32, a Artifact) bool {
	run := g.jobs[consumer].Spec.Origin.Run
	if run == "" {
		return false
	}
	g.near.require(Near{Kind: RunProducers, Run: run, Artifact: a})
	own := g.inRun[scoped{run, a}].producers
	return len(own) > 1 || len(own) == 1 && own[0] != consumer
}

// producersFor returns the producers of a that count for consumer, in schedule order. The
// list includes consumer if it is one of them. own: only producers of its run count.
func (g *graph) producersFor(consumer int32, a Artifact) (list []int32, own bool) {
	if g.ownProducers(consumer, a) {
		return g.inRun[scoped{g.jobs[consumer].Spec.Origin.Run, a}].producers, true
	}
	g.near.require(Near{Kind: Producers, Artifact: a})
	return g.producers[a], false
}

// eachProducer calls f with every producer of a that counts for consumer, in
// schedule order.
func (g *graph) eachProducer(consumer int32, a Artifact, f func(int32)) {
	list, _ := g.producersFor(consumer, a)
	for _, p := range list {
		if p != consumer {
			f(p)
		}
	}
}

// eachSuccessor calls f with the direct dependents of i over both kinds of
// edges, possibly more than once for one job.
func (g *graph) eachSuccessor(i int32, f func(int32)) {
	g.near.require(Near{Kind: Dependents, Job: g.jobs[i].ID})
	for _, a := range g.jobs[i].Spec.Produces {
		g.near.require(Near{Kind: RunConsumers, Run: g.jobs[i].Spec.Origin.Run, Artifact: a})
	}
	g.eachSuccessorHere(i, f)
}

// eachSuccessorHere is eachSuccessor among the loaded jobs.
func (g *graph) eachSuccessorHere(i int32, f func(int32)) {
	for _, k := range g.afterOf[i] {
		f(k)
	}
	run := g.jobs[i].Spec.Origin.Run
	for _, a := range g.jobs[i].Spec.Produces {
		for _, list := range [][]int32{g.inRun[scoped{run, a}].consumers, g.outside[a]} {
			for _, c := range list {
				if c != i {
					f(c)
				}
			}
		}
	}
}

// hasSuccessor reports whether such holds for a direct dependent of i. On a
// partial graph it requires only the first dependents that are not running, not
// all of them.
func (g *graph) hasSuccessor(i int32, such func(int32) bool) bool {
	yes, here := false, 1
	g.eachSuccessorHere(i, func(k int32) { yes, here = yes || such(k), here+1 })
	if !yes {
		g.near.require(Near{Kind: Dependents, Job: g.jobs[i].ID, Most: here})
		for _, a := range g.jobs[i].Spec.Produces {
			g.near.require(Near{Kind: RunConsumers, Run: g.jobs[i].Spec.Origin.Run, Artifact: a, Most: here})
		}
	}
	return yes
}

// eachConsumerIn calls f with the consumers of a for which a producer in run
// counts.
func (g *graph) eachConsumerIn(run RunID, a Artifact, f func(int32)) {
	g.near.require(Near{Kind: RunConsumers, Run: run, Artifact: a})
	for _, c := range slices.Concat(g.inRun[scoped{run, a}].consumers, g.outside[a]) {
		f(c)
	}
}

// eachConsumer calls f with every consumer of a, possibly more than once for
// one job.
func (g *graph) eachConsumer(a Artifact, f func(int32)) {
	g.near.require(Near{Kind: Consumers, Artifact: a})
	for _, c := range g.outside[a] {
		f(c)
	}
	for _, p := range g.producers[a] {
		for _, c := range g.inRun[scoped{g.jobs[p].Spec.Origin.Run, a}].consumers {
			f(c)
		}
	}
}

// eachPredecessor calls f with the direct predecessors of i over both kinds of
// edges.
func (g *graph) eachPredecessor(i int32, f func(int32)) {
	for _, id := range g.jobs[i].Spec.After {
		if k, ok := g.index[id]; ok {
			f(k)
		} else {
			g.near.require(Near{Kind: Itself, Job: id})
		}
	}
	for _, a := range g.jobs[i].Spec.Needs {
		g.eachProducer(i, a, f)
	}
}

// closure returns roots and everything reachable from them by step, in schedule
// order.
func (g *graph) closure(roots []int32, step func(int32, func(int32))) []int32 {
	seen := make(map[int32]bool, len(roots))
	queue := slices.Clone(roots)
	for _, r := range roots {
		seen[r] = true
	}
	for at := 0; at < len(queue); at++ {
		step(queue[at], func(k int32) {
			if !seen[k] {
				seen[k] = true
				queue = append(queue, k)
			}
		})
	}
	slices.Sort(queue)
	return slices.Compact(queue)
}

func (s *Snapshot) ids(at []int32) []JobID {
	out := make([]JobID, len(at))
	for i, k := range at {
		out[i] = s.jobs[k].ID
	}
	return out
}

// Downstream returns root, everything that depends on it over both kinds of
// edges, and what a failure among them holds back, with its dependents. Root
// comes first, the rest is in schedule order. It returns nil if there is no
// such job.
func (s *Snapshot) Downstream(root JobID) []JobID { return s.downstream(root, s.eachHeldBack) }

// downstream is Downstream with what held tells for what a failure holds back.
func (s *Snapshot) downstream(root JobID, held func(int32, func(int32))) []JobID {
	s.requireAll()
	i, ok := s.find(root)
	if !ok {
		return nil
	}
	out, cycles := []JobID{root}, s.planCycles()
	for _, id := range s.ids(s.graph.closure([]int32{i}, func(k int32, f func(int32)) {
		s.graph.eachSuccessor(k, func(c int32) {
			if !cycles.differ(s.jobs[k], s.jobs[c]) && !s.onlyAfter(k, c) && !s.unused(k, c) {
				f(c)
			}
		})
		held(k, f)
	})) {
		if id != root {
			out = append(out, id)
		}
	}
	return out
}

// Successors returns the direct dependents of id, in schedule order.
func (s *Snapshot) Successors(id JobID) []JobID { return s.neighbours(id, s.graph.eachSuccessor) }

// Predecessors returns the jobs that id depends on directly, in schedule order.
func (s *Snapshot) Predecessors(id JobID) []JobID { return s.neighbours(id, s.graph.eachPredecessor) }

func (s *Snapshot) neighbours(id JobID, step func(int32, func(int32))) []JobID {
	i, ok := s.find(id)
	if !ok {
		return nil
	}
	var at []int32
	step(i, func(k int32) { at = append(at, k) })
	slices.Sort(at)
	return s.ids(slices.Compact(at))
}

// Producers returns the producers of a that count for consumer, in schedule
// order.
func (s *Snapshot) Producers(consumer JobID, a Artifact) []JobID {
	i, ok := s.find(consumer)
	if !ok {
		return nil
	}
	var at []int32
	s.graph.eachProducer(i, a, func(k int32) { at = append(at, k) })
	return s.ids(at)
}
