package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What is not connected is laid out side by side, on shelves that all begin at the left.
func TestShelvesBeginAtTheLeft(t *testing.T) {
	d := &diagram{index: map[string]int{}}
	for n := range 30 {
		d.node(fmt.Sprint(n), node{title: fmt.Sprint(n)})
	}
	l := layoutOf(d)
	begins := map[int]int{} // by height, where the first node is
	for _, p := range l.at {
		if x, there := begins[p.y]; !there || p.x < x {
			begins[p.y] = p.x
		}
	}
	first := l.at[0].x
	for y, x := range begins {
		if x != first {
			t.Errorf("the shelf at %d begins at %d, the first one at %d", y, x, first)
		}
	}
	if n := len(begins); n < 3 || n > 20 {
		t.Errorf("%d shelves", n)
	}
}

// The picture is as large as what is in it, nothing is on top of anything else, and what is highest comes first.
func TestPiecesOfAPicture(t *testing.T) {
	d := &diagram{index: map[string]int{}}
	for n := range 14 {
		d.node(fmt.Sprint(n), node{title: fmt.Sprint(n)})
	}
	for to := 2; to < 8; to++ { // a fan of six, a chain of three, and single nodes around them
		d.arrows = append(d.arrows, arrow{from: 1, to: to})
	}
	d.arrows = append(d.arrows, arrow{from: 9, to: 10}, arrow{from: 10, to: 11})
	l := layoutOf(d)
	var right, bottom int
	for n, p := range l.at {
		right, bottom = max(right, p.x+nodeWidth), max(bottom, p.y+nodeHeight)
		for m, q := range l.at[:n] {
			if p.x < q.x+nodeWidth && q.x < p.x+nodeWidth && p.y < q.y+nodeHeight && q.y < p.y+nodeHeight {
				t.Errorf("%d is on %d: %v, %v", n, m, p, q)
			}
		}
		if n != 1 && p.y < nodeHeight && p.x < l.at[1].x+nodeWidth {
			t.Errorf("%d, at %v, comes before the fan", n, p)
		}
	}
	if l.width != right || l.height != bottom {
		t.Errorf("%d × %d, and what is in it %d × %d", l.width, l.height, right, bottom)
	}
	if fan := l.at[1]; fan.x != 0 || fan.y != (l.at[2].y+l.at[7].y)/2 {
		t.Errorf("the fan begins at %v, and ends from %v to %v", fan, l.at[2], l.at[7])
	}
}

// Nodes of a component are in the order of the diagram, whichever way its arrows lead to them.
func TestComponents(t *testing.T) {
	d := &diagram{nodes: make([]node, 6), arrows: []arrow{{from: 0, to: 4}, {from: 4, to: 2}, {from: 3, to: 1}}}
	if got, want := fmt.Sprint(d.components()), "[[0 2 4] [1 3] [5]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The chain that takes longest counts what has ended by its time, what runs by its time so far, and what is to come by what the others
// took, or all alike as long as none has ended.
func TestTheChainThatTakesLongest(t *testing.T) {
	noon := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	at := func(id string, st kernel.Status, from, to int, after ...kernel.JobID) kernel.Job { // from and to are in minutes; -1: not begun, not ended
		j := kernel.Job{ID: kernel.JobID(id), Created: noon, Rev: 1, Spec: kernel.Spec{Name: id, After: after}, State: kernel.State{Status: st}}
		if from >= 0 {
			j.State.Started, j.State.Attempt = noon.Add(time.Duration(from)*time.Minute), 1
		}
		if to >= 0 {
			j.State.Finished = noon.Add(time.Duration(to) * time.Minute)
		}
		return j
	}
	const succeeded, running, queued = kernel.Succeeded, kernel.Running, kernel.Queued
	for name, c := range map[string]struct {
		jobs []kernel.Job
		want string
	}{
		"nothing":                        {nil, ""},
		"the longer time, not the chain": {[]kernel.Job{at("a", succeeded, 0, 2), at("b", succeeded, 2, 3, "a"), at("c", succeeded, 3, 4, "b"), at("d", succeeded, 2, 5, "a")}, "a d"},
		"one has ended":                  {[]kernel.Job{at("a", succeeded, 0, 30), at("b", running, 40, -1, "a"), at("c", queued, -1, -1, "a")}, "a c"},
		"two have":                       {[]kernel.Job{at("a", succeeded, 0, 30), at("b", running, 41, -1, "a"), at("c", queued, -1, -1, "a"), at("d", succeeded, 0, 8, "a")}, "a b"},
		"none has":                       {[]kernel.Job{at("a", running, 58, -1), at("b", queued, -1, -1), at("c", queued, -1, -1, "b"), at("d", queued, -1, -1, "c")}, "b c d"},
		"what never began takes no time": {[]kernel.Job{at("a", succeeded, 0, 9), at("b", kernel.Cancelled, -1, 9, "a"), at("c", succeeded, 9, 10, "a")}, "a c"},
		"an instant counts":              {[]kernel.Job{at("a", succeeded, 0, 9), at("b", succeeded, 9, 9, "a")}, "a b"},
		"again":                          {[]kernel.Job{at("a", running, 20, 10), at("b", succeeded, 0, 30)}, "a"},
		"in a circle":                    {[]kernel.Job{at("a", queued, -1, -1, "b"), at("b", queued, -1, -1, "a")}, "a b"},
		"the first of equals":            {[]kernel.Job{at("a", queued, -1, -1), at("b", queued, -1, -1)}, "a"},
	} {
		s := ScheduleOf(kernel.NewSnapshot(kernel.Observation{Now: noon.Add(time.Hour), Jobs: c.jobs}), ScheduleOptions{All: true})
		d := s.diagram()
		var got []string
		for _, n := range s.criticalPath(&d) {
			got = append(got, d.nodes[n].title)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

// What XML does not allow or would read as markup does not stand in a picture as it is.
func TestEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"<>&\"'": "&#60;&#62;&#38;&#34;&#39;", "a\nb": "a&#10;b", " ~\u00a0\ufffd\U00010000": " ~\u00a0\ufffd\U00010000",
		"\x00\t\x1f": "\ufffd\ufffd\ufffd", "\x7f\u0080\u009f": "\ufffd\ufffd\ufffd", "\ufffe\uffff": "\ufffd\ufffd",
	} {
		if got := escaped(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
