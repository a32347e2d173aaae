package torture

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// ids returns the ids of nodes.
func ids(nodes []*node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.id)
	}
	return all
}

// Whatever commands are killed, every job runs exactly once and succeeds: jobs
// belong to their runners, and commands leave nothing half done.
func TestKilledCommandsCostNothing(t *testing.T) {
	t.Parallel()
	s := seed(t)
	r := newRepo(t, plainBin, stormConfig)
	r.resident = true
	st := newStorm(r, s, kills(40, 1000))
	rng := rand.New(rand.NewPCG(s, 0))
	var all []*node
	for round := 0; round == 0 || st.left.Load() > 0; round++ {
		var nodes []*node
		st.rage(st.schedulers, st.schedulers)
		for _, layer := range graph(rng, fmt.Sprintf("a%d", round), 5, 12) {
			st.enqueue(rng, layer)
			nodes = append(nodes, layer...)
		}
		if code := r.wait(ids(nodes)...); code != 0 {
			t.Errorf("jobs wait: exit %d", code)
		}
		st.rest()
		all = append(all, nodes...)
		for _, n := range nodes {
			if rec := r.record(n.id); rec.Attempt != 1 {
				t.Errorf("%s succeeded with attempt %d", n.name, rec.Attempt)
			}
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("killed: %v", st.counts())
	r.complete(all)
	r.lawful(all)
	if starts := len(r.events()) / 2; starts != len(all) {
		t.Errorf("%d jobs, %d starts", len(all), starts)
	}
	r.coherent()
}

// Whatever is killed, no job is lost, none runs twice in one attempt, none
// starts too early, nothing dead holds a lock, and a rewind heals what failed.
func TestNothingIsLostWhateverIsKilled(t *testing.T) {
	t.Parallel()
	s := seed(t)
	r := newRepo(t, pairBin, stormConfig)
	r.resident = true
	st := newStorm(r, s, kills(50, 1000))
	rng := rand.New(rand.NewPCG(s, 0))
	var all []*node
	for round := 0; round == 0 || st.left.Load() > 0; round++ {
		st.rage(st.schedulers, st.jobs)
		var nodes []*node
		layers := graph(rng, fmt.Sprintf("b%d", round), 8, 10)
		for two := range slices.Chunk(layers, 2) {
			chunk := slices.Concat(two...)
			st.enqueue(rng, chunk)
			nodes = append(nodes, chunk...)
		}
		r.wait(ids(nodes)...)
		st.rest()
		all = append(all, nodes...)
		st.heal(rng, nodes)
		r.noneLeft()
		if t.Failed() {
			break
		}
	}
	t.Logf("killed: %v", st.counts())
	r.complete(all)
	r.lawful(all)
	r.coherent()
	id := r.submit("--lock", "db", "--pool", "gpu=2", "--", "true")
	if r.wait(id); r.record(id).Status != "succeeded" {
		t.Errorf("a job with the locks of the dead is %s", r.record(id).Status)
	}
}

// heal rewinds failed nodes until all have succeeded. During the first rewinds, the
// storm goes on.
func (s *storm) heal(rng *rand.Rand, nodes []*node) {
	s.r.t.Helper()
	for round := 0; ; round++ {
		s.r.wait(ids(nodes)...)
		failed := s.r.ended(nodes, s.counts())
		if len(failed) == 0 || s.r.t.Failed() {
			return
		}
		if round < 3 { // later rewinds have no storm, or this might never end
			s.rage(s.schedulers, s.jobs)
		}
		for _, n := range failed {
			if rng.IntN(2) == 0 && s.left.Load() > 0 {
				s.kill(rng, "retry", 30, "jobs", "retry", n.id)
			}
			s.retry(n)
		}
		s.r.wait(ids(nodes)...)
		if round < 3 {
			s.rest()
		}
	}
}

// retry rewinds n. It tries again while that is refused because a job that depends on
// n runs, perhaps because of a retry that was killed.
func (s *storm) retry(n *node) {
	s.r.t.Helper()
	until(s.r.t, "retry of "+n.name, func() bool {
		res := s.r.run("jobs", "retry", n.id)
		if res.code != 0 && !strings.Contains(res.err, "run") {
			s.r.t.Fatalf("retry %s: exit %d\n%s", n.name, res.code, res.err)
		}
		return res.code == 0 || s.r.record(n.id).Status == "running"
	})
}
