package page

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/app/wire"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// State is the data for a page: the state of a repository, or what has changed
// in it.
type State struct {
	Repository string // its name, for people
	Version    uint64
	Actions    bool // its server takes actions
	Snapshot   *wire.Snapshot
	Change     *Change
	Progress   map[kernel.JobID]view.Progress // of the running jobs that report it
}

// Change is the difference between a version of a repository and a later one.
type Change struct {
	From       uint64
	Now        time.Time
	Limits     kernel.Limits
	Jobs       []kernel.Job   // jobs that are new or have changed
	Gone       []kernel.JobID // jobs that no longer exist
	Unreadable map[kernel.JobID]string
	Asked      kernel.Probes // probes whose answers have changed
	Facts      kernel.Facts  // these answers; an absent one is no longer known
}

// Text encodes a state for a page.
func Text(s State) []byte { return bytes.TrimSpace(wire.Compact(s)) }

// Page answers questions about a state. The zero value has no state yet.
type Page struct {
	repository string
	version    uint64
	actions    bool
	snap       *kernel.Snapshot
	progress   map[kernel.JobID]view.Progress

	rows  map[kernel.JobID]row  // all rows as last returned; nil: none were
	runs  []view.Run            // as last returned
	moved map[kernel.JobID]bool // jobs that have changed since
	whole bool                  // any job may have changed
}

// errOther says that a change does not apply to the state that the page has.
var errOther = errors.New("the change is of another state")

// Read returns the page of an encoded state.
func Read(text []byte) (*Page, error) {
	p := &Page{}
	return p, p.Take(text)
}

// Take replaces the page's state, or applies a change to it.
func (p *Page) Take(text []byte) error {
	var s State
	if err := wire.Read(text, &s); err != nil {
		return fmt.Errorf("read the state: %w", err)
	}
	switch c := s.Change; {
	case s.Snapshot != nil:
		p.snap, p.whole = s.Snapshot.Kernel(), true
	case c == nil || p.snap == nil || c.From != p.version:
		return errOther
	default:
		var reshaped bool
		if p.snap, reshaped = c.After(p.snap); reshaped {
			p.whole = true
		}
		if p.moved == nil {
			p.moved = map[kernel.JobID]bool{}
		}
		for _, j := range c.Jobs {
			p.moved[j.ID] = true
		}
	}
	p.repository, p.version, p.actions, p.progress = s.Repository, s.Version, s.Actions, s.Progress
	return nil
}

// After returns the snapshot to which c leads from s. reshaped is true if more
// than the states of jobs has changed.
func (c *Change) After(s *kernel.Snapshot) (next *kernel.Snapshot, reshaped bool) {
	facts := replaced(s.Facts(), c.Asked, c.Facts)
	unreadable := map[kernel.JobID]string{}
	for _, id := range s.UnreadableIDs() {
		unreadable[id] = s.Unreadable(id)
	}
	reshaped = len(c.Gone) > 0 || !maps.Equal(unreadable, c.Unreadable)
	for i := range c.Jobs {
		j := &c.Jobs[i]
		was := s.Job(j.ID)
		reshaped = reshaped || was == nil || !was.Created.Equal(j.Created) || !reflect.DeepEqual(was.Spec, j.Spec)
	}
	if !reshaped {
		return s.Later(c.Now, c.Limits, facts, c.Jobs), false
	}
	o := kernel.Observation{Now: c.Now, Limits: c.Limits, Archived: s.Archived(), Facts: facts, Unreadable: c.Unreadable}
	other := map[kernel.JobID]bool{}
	for _, id := range c.Gone {
		other[id] = true
	}
	for i := range c.Jobs {
		other[c.Jobs[i].ID] = true
	}
	o.Jobs = make([]kernel.Job, 0, len(s.Jobs())+len(c.Jobs))
	for _, j := range s.Jobs() {
		if !other[j.ID] {
			o.Jobs = append(o.Jobs, *j)
		}
	}
	o.Jobs = append(o.Jobs, c.Jobs...)
	return kernel.TakeSnapshot(o), true
}

// replaced returns facts with the answers to asked replaced.
func replaced(facts kernel.Facts, asked kernel.Probes, answers kernel.Facts) kernel.Facts {
	facts.Present = swapped(facts.Present, asked.Artifacts, answers.Present)
	facts.Markers = swapped(facts.Markers, asked.Markers, answers.Markers)
	facts.Heads = swapped(facts.Heads, asked.Branches, answers.Heads)
	facts.Runners = swapped(facts.Runners, asked.Attempts, answers.Runners)
	facts.Results = swapped(facts.Results, asked.Attempts, answers.Results)
	facts.Head, facts.Clean, facts.Merging, facts.Sandbox = answers.Head, answers.Clean, answers.Merging, answers.Sandbox
	return facts
}

func swapped[K comparable, V any](have map[K]kernel.Fact[V], asked []K, answers map[K]kernel.Fact[V]) map[K]kernel.Fact[V] {
	if len(asked) == 0 {
		return have
	}
	out := maps.Clone(have)
	if out == nil {
		out = map[K]kernel.Fact[V]{}
	}
	for _, k := range asked {
		if f, known := answers[k]; known {
			out[k] = f
		} else {
			delete(out, k)
		}
	}
	return out
}

// Differing returns the probes whose answers differ between two facts,
// including those that only one of them answers.
func Differing(was, now kernel.Facts) kernel.Probes {
	return kernel.Probes{Artifacts: differing(was.Present, now.Present), Markers: differing(was.Markers, now.Markers), Branches: differing(was.Heads, now.Heads),
		Attempts: append(differing(was.Runners, now.Runners), differing(was.Results, now.Results)...)}
}

func differing[K comparable, V any](was, now map[K]kernel.Fact[V]) (out []K) {
	for k, f := range now {
		if have, known := was[k]; !known || !reflect.DeepEqual(have, f) {
			out = append(out, k)
		}
	}
	for k := range was {
		if _, known := now[k]; !known {
			out = append(out, k)
		}
	}
	return out
}

// Answers returns the part of facts that answers asked, and the facts that do
// not belong to a single probe.
func Answers(facts kernel.Facts, asked kernel.Probes) kernel.Facts {
	return kernel.Facts{Present: picked(facts.Present, asked.Artifacts), Markers: picked(facts.Markers, asked.Markers), Heads: picked(facts.Heads, asked.Branches),
		Runners: picked(facts.Runners, asked.Attempts), Results: picked(facts.Results, asked.Attempts),
		Head: facts.Head, Clean: facts.Clean, Merging: facts.Merging, Sandbox: facts.Sandbox}
}

func picked[K comparable, V any](have map[K]kernel.Fact[V], keys []K) map[K]kernel.Fact[V] {
	out := map[K]kernel.Fact[V]{}
	for _, k := range keys {
		if f, known := have[k]; known {
			out[k] = f
		}
	}
	return out
}

// Asked returns all probes that facts answer.
func Asked(facts kernel.Facts) kernel.Probes {
	p := Differing(kernel.Facts{}, facts)
	p.Head, p.Clean, p.Merging, p.Sandbox = asked(facts.Head), asked(facts.Clean), asked(facts.Merging), asked(facts.Sandbox)
	return p
}

func asked[V any](f kernel.Fact[V]) bool { return f.Known || f.Err != "" }

// Both returns the union of two sets of probes.
func Both(a, b kernel.Probes) kernel.Probes {
	return kernel.Probes{Artifacts: slices.Concat(a.Artifacts, b.Artifacts), Markers: slices.Concat(a.Markers, b.Markers),
		Branches: slices.Concat(a.Branches, b.Branches), Attempts: slices.Concat(a.Attempts, b.Attempts)}
}
