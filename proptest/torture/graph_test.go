package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The limits that the jobs of a storm run under.
const (
	maxRunning = 3
	gpuUnits   = 2
	reclaims   = 2 // of a job that is idempotent

	stormConfig = "[scheduler]\nmax_running = 3\nresident_linger = \"300ms\"\n[pools]\ngpu = 2\n[jobs]\ngrace = \"1s\"\n[gc]\npack_after = \"1ms\"\n"
)

// node is a job of a storm's graph.
type node struct {
	name       string
	id         string
	before     []*node // that must succeed first, by after or by an artifact
	idempotent bool
	line       map[string]any // its line in a batch
}

// graph draws a layered graph. Names begin with prefix.
func graph(rng *rand.Rand, prefix string, layers, width int) [][]*node {
	var all [][]*node
	var earlier []*node
	for l := range layers {
		var layer []*node
		for k := range width {
			layer = append(layer, draw(rng, fmt.Sprintf("%s.%d.%d", prefix, l, k), earlier))
		}
		all = append(all, layer)
		earlier = append(earlier, layer...)
	}
	return all
}

func draw(rng *rand.Rand, name string, earlier []*node) *node {
	n := &node{name: name, idempotent: rng.IntN(4) > 0}
	n.line = map[string]any{"name": name, "ref": name, "produce": []string{"custom:tok:" + name}}
	if n.idempotent {
		n.line["idempotent"] = true
	}
	command := []string{os.Args[0], workWord, strconv.Itoa(rng.IntN(31)), fmt.Sprintf("running=%d", maxRunning)}
	var needs []string
	for range min(len(earlier), rng.IntN(4)) {
		p := earlier[rng.IntN(len(earlier))]
		n.before = append(n.before, p)
		if rng.IntN(3) == 0 {
			needs = append(needs, "custom:tok:"+p.name)
			n.before = n.before[:len(n.before):len(n.before)]
		}
	}
	if needs != nil {
		n.line["need"] = needs
	}
	switch rng.IntN(6) {
	case 0:
		n.line["lock"] = []string{"db"}
		command = append(command, "db=1")
	case 1:
		n.line["lock"] = []string{"db:shared"}
	case 2:
		n.line["pool"] = []string{"gpu"}
		command = append(command, fmt.Sprintf("gpu=%d", gpuUnits))
	case 3:
		n.line["pool"] = []string{"gpu=2"}
		command = append(command, fmt.Sprintf("gpu=%d", gpuUnits), fmt.Sprintf("gpu=%d", gpuUnits))
	}
	n.line["command"] = command
	return n
}

// batch returns the nodes as JSON Lines. A predecessor in the batch is named by its
// ref, one that exists already by its id, and one that is needed through an artifact
// not at all.
func batch(t testing.TB, nodes []*node) string {
	var b strings.Builder
	for _, n := range nodes {
		needs, _ := n.line["need"].([]string)
		var after []string
		for _, p := range n.before {
			switch {
			case contains(needs, "custom:tok:"+p.name):
			case p.id != "":
				after = append(after, p.id)
			default:
				after = append(after, p.name)
			}
		}
		if after != nil {
			n.line["after"] = after
		}
		line, err := json.Marshal(n.line)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func contains(all []string, s string) bool {
	for _, v := range all {
		if v == s {
			return true
		}
	}
	return false
}

// named returns the ids of the records whose names are in want, by name. It fails the
// test if two jobs have one name: they were enqueued twice.
func (r *repo) named(want map[string]bool) map[string]string {
	r.t.Helper()
	ids := map[string]string{}
	for _, rec := range r.records() {
		if !want[rec.Name] {
			continue
		}
		if ids[rec.Name] != "" {
			r.t.Fatalf("%s was enqueued twice: %s and %s", rec.Name, ids[rec.Name], rec.ID)
		}
		ids[rec.Name] = rec.ID
	}
	return ids
}

// enqueue submits the nodes as one batch, again whenever it is killed, and sets their
// ids. It checks that the batch is there as a whole or not at all.
func (s *storm) enqueue(rng *rand.Rand, nodes []*node) {
	s.r.t.Helper()
	want := map[string]bool{}
	for _, n := range nodes {
		want[n.name] = true
	}
	text := batch(s.r.t, nodes)
	for {
		cmd := s.r.command("jobs", "submit", "--batch")
		cmd.Stdin = strings.NewReader(text)
		if err := cmd.Start(); err != nil {
			s.r.t.Fatal(err)
		}
		if s.left.Load() > 0 && rng.IntN(3) > 0 {
			nap(rng, 25)
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
		switch code := cmd.ProcessState.ExitCode(); {
		case code < 0:
			s.killed("submit")
		case code > 0:
			s.r.t.Fatalf("submit of %d jobs: exit %d", len(nodes), code)
		}
		s.r.ok("jobs", "list") // completes what a killed command left
		ids := s.r.named(want)
		if len(ids) == 0 {
			continue
		}
		if len(ids) != len(nodes) {
			s.r.t.Fatalf("%d of %d jobs of one batch are there", len(ids), len(nodes))
		}
		for _, n := range nodes {
			n.id = ids[n.name]
		}
		return
	}
}
