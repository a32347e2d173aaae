package kernel

// Probes lists the observations that are needed before a snapshot can be
// decided.
type Probes struct {
	Artifacts []Artifact // every kind but custom
	Markers   []Artifact // custom
	Types     []string   // types of custom artifacts of which a marker may appear: in Wakes only
	Branches  []string
	Head      bool // which branch is checked out
	Clean     bool // whether the main checkout is clean
	Merging   bool // whether a merge is in progress there
	Attempts  []AttemptID
	Sandbox   bool // what this host enforces of sandboxes
}

// Empty reports whether nothing has to be observed.
func (p Probes) Empty() bool {
	return len(p.Artifacts)+len(p.Markers)+len(p.Types)+len(p.Branches)+len(p.Attempts) == 0 && !p.Head && !p.Clean && !p.Merging && !p.Sandbox
}

// Probes returns what some open job's gates will read and the snapshot does not
// know yet. For terminal jobs it asks only for what their rewind depends on.
// For running jobs it asks whether their runner lives, and for what their gates
// read only if it does not. So it does for jobs whose approval has expired. also are artifacts that a verb is going to ask
// about.
func (s *Snapshot) Probes(also ...Artifact) Probes {
	b := prober{s: s, seen: map[Artifact]bool{}, branches: map[string]bool{}}
	for _, a := range also {
		b.artifact(a.Canonical())
	}
	b.p.Merging = s.near == nil && s.graph.merges && !s.facts.Merging.asked()
	for _, i := range s.graph.asking {
		if s.near != nil && !s.near.asking[s.jobs[i].ID] {
			continue
		}
		if j := s.jobs[i]; s.near != nil || j.Open() && (j.State.Status != Running || s.gone(j)) {
			b.gates(j)
		}
	}
	for _, i := range s.running {
		b.attempt(s.jobs[i].Attempt())
		if s.gone(s.jobs[i]) {
			b.routes(s.jobs[i])
		}
	}
	for _, i := range s.deferred {
		if s.jobs[i].State.Deferred {
			b.routes(s.jobs[i])
		}
	}
	for _, i := range s.timed {
		if s.jobs[i].lapsed(s.now) {
			b.routes(s.jobs[i])
		}
	}
	return b.p
}

// gone reports whether the runner of j's attempt is known to be gone.
func (s *Snapshot) gone(j *Job) bool { return s.facts.Runners[j.Attempt()].Value.Gone() }

// ProbesOf returns what Probes does, and in addition what explaining the jobs
// ids reads: their gates and those of the jobs that block them, even if these
// have ended.
func (s *Snapshot) ProbesOf(ids ...JobID) Probes {
	b := prober{s: s, p: s.Probes(), seen: map[Artifact]bool{}, branches: map[string]bool{}}
	for _, a := range b.p.Artifacts {
		b.seen[a] = true
	}
	for _, a := range b.p.Markers {
		b.seen[a] = true
	}
	for _, name := range b.p.Branches {
		b.branches[name] = true
	}
	var from []int32
	for _, id := range ids {
		if i, ok := s.find(id); ok {
			from = append(from, i)
		}
	}
	for _, k := range s.graph.closure(from, s.graph.eachPredecessor) {
		if st := s.jobs[k].State.Status; st.Terminal() && st != Succeeded {
			b.gates(s.jobs[k])
		}
		b.conflict(s.jobs[k])
		b.branch(s.jobs[k].branchToApprove())
		if s.jobs[k].Spec.takesBranch() && s.jobs[k].Open() {
			s.eachRival(k, OnBranch, func(r int32) { b.conflict(s.jobs[r]) })
		}
	}
	return b.p
}

type prober struct {
	s        *Snapshot
	p        Probes
	seen     map[Artifact]bool
	branches map[string]bool
}

func (b *prober) artifact(a Artifact) {
	if b.seen[a] {
		return
	}
	b.seen[a] = true
	switch {
	case a.Kind == Custom:
		if !b.s.facts.Markers[a].asked() {
			b.p.Markers = append(b.p.Markers, a)
		}
	case !b.s.facts.Present[a].asked():
		b.p.Artifacts = append(b.p.Artifacts, a)
	}
}

// conflict adds whether the merge conflict of j is open, if j is a blocked merge.
func (b *prober) conflict(j *Job) {
	if plan := j.Spec.Integrates(); plan != "" && j.State.Status == BlockedByDependency {
		b.artifact(Artifact{Kind: MergeSentinel, Name: plan})
	}
}

func (b *prober) branch(name string) {
	if name != "" && !b.branches[name] && !b.s.facts.Heads[name].asked() {
		b.branches[name] = true
		b.p.Branches = append(b.p.Branches, name)
	}
}

func (b *prober) attempt(a AttemptID) {
	if !b.s.facts.Runners[a].asked() {
		b.p.Attempts = append(b.p.Attempts, a)
	}
}

// routes adds what the gates of jobs that a route of j may rewind read: the
// tick that settles j, or takes its deferred routes, judges them.
func (b *prober) routes(j *Job) {
	for _, r := range j.Spec.Routes {
		for _, id := range b.s.Downstream(r.To) {
			b.gates(b.s.Job(id))
		}
	}
}

func (b *prober) gates(j *Job) {
	for i := range gates {
		if gates[i].reads != nil {
			gates[i].reads(b, j)
		}
	}
}

func (b *prober) needs(j *Job) {
	for _, a := range j.Spec.Needs {
		b.artifact(a)
	}
}

func (b *prober) pinnedHead(j *Job) { b.branch(j.Spec.Pinned.Branch) }

func (b *prober) approval(j *Job) { b.branch(j.branchAskedFor()) }

func (b *prober) preconditions(j *Job) {
	for _, p := range j.Spec.Preconditions {
		switch p.canonical().Kind {
		case CleanWorktree:
			b.p.Clean = b.p.Clean || !b.s.facts.Clean.asked()
		case BranchExists:
			if name := j.branchFor(p); name != "" {
				b.branch(name)
				continue
			}
			b.p.Head = b.p.Head || !b.s.facts.Head.asked()
			b.branch(b.s.facts.Head.Value)
		case CustomPrecondition: // not supported: its job is blocked
		}
	}
}
