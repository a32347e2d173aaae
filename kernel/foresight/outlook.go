package foresight

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Options are the parameters of Foretell.
type Options struct {
	Habits *Habits
	Seed   uint64
	Draws  int            // how many futures are drawn; at least 1
	Only   []kernel.JobID // the jobs whose ends are asked for; nil: all open jobs
	Double int            // for how many resources the effect of doubling them is estimated
	Nobody bool           // no person decides anything
}

// Outlook is how everything open goes on, over several drawn futures.
type Outlook struct {
	Now       time.Time
	Draws     int // 1 if nothing depends on chance
	Ends      []End
	Story     Story // the future whose end is the median
	Path      []int // the indices of the spans of Story that the last end waited for, in order
	Resources []Usage
}

// End is the expected end of a run, a batch or a single job.
type End struct {
	Jobs      []kernel.JobID // in schedule order, those that had ended before included
	P50, P90  time.Time      // over the futures in which it ends; zero: it ends in none
	Ends      int            // in how many futures it ends
	Succeeded int            // in how many of these every job succeeds that is needed
	Waits     kernel.JobID   // if it does not end: the job that waits for something that does not come by itself
	For       string         // what that job waits for
	Basis     Basis          // the weakest basis of the durations it depends on
	From      int            // with Recorded: from how many attempts, at the weakest place
}

// Usage is the demand for a resource.
type Usage struct {
	Resource
	Has     int           // how many units there are; 0: no limit
	Waited  time.Duration // how long jobs wait for it in total, in the median future
	Busy    float64       // the share of the time until the end in which it is in use, from 0 to 1
	Doubled time.Duration // how much sooner the last end comes with twice as many units
	Freed   int           // how many jobs end only with twice as many units
	Tried   bool          // Doubled and Freed were computed
}

// Foretell draws futures of s. The Probes of its story's last snapshot have the
// same meaning as with Tell.
func Foretell(s *kernel.Snapshot, o Options) Outlook {
	f := &foreteller{s: s, o: o, asked: map[kernel.JobID]bool{}}
	for _, id := range o.Only {
		f.asked[id] = true
	}
	out := Outlook{Now: s.Now()}
	stories := f.draw(s, 1, o.Draws)
	out.Draws = len(stories)
	slices.SortStableFunc(stories, func(a, b Story) int { return f.last(a).Compare(f.last(b)) })
	out.Story = stories[(len(stories)-1)/2]
	out.Path = f.path(out.Story)
	out.Ends = f.ends(stories)
	out.Resources = f.usage(out.Story)
	before := f.last(out.Story)
	for i := range out.Resources {
		if u := &out.Resources[i]; i < o.Double && u.Waited > 0 {
			more, people := doubled(s, u.Resource)
			again := f.draw(more, people, min(len(stories), 15))
			slices.SortStableFunc(again, func(a, b Story) int { return f.last(a).Compare(f.last(b)) })
			with := again[(len(again)-1)/2]
			u.Doubled, u.Freed, u.Tried = before.Sub(f.last(with)), f.ended(with)-f.ended(out.Story), true
		}
	}
	return out
}

type foreteller struct {
	s     *kernel.Snapshot
	o     Options
	asked map[kernel.JobID]bool
}

// draw returns the given number of futures of s, or a single one if nothing
// depends on chance.
func (f *foreteller) draw(s *kernel.Snapshot, people float64, times int) []Story {
	if f.o.Nobody {
		people = 0
	}
	var out []Story
	for n := 1; n <= max(1, times); n++ {
		d := &drawn{h: f.o.Habits, seed: f.o.Seed, n: n, people: people}
		if times <= 1 {
			d.n = 0
		}
		out = append(out, Tell(s, d))
		if !d.chance {
			break
		}
	}
	return out
}

// wanted reports whether the end of job id is asked for.
func (f *foreteller) wanted(id kernel.JobID) bool { return len(f.asked) == 0 || f.asked[id] }

// last returns when the last of the wanted jobs ends, or now if none does.
func (f *foreteller) last(t Story) time.Time {
	at := f.s.Now()
	for id, end := range t.Ended {
		if f.wanted(id) && end.After(at) {
			at = end
		}
	}
	return at
}

// ended returns how many of the wanted jobs end.
func (f *foreteller) ended(t Story) (n int) {
	for id := range t.Ended {
		if f.wanted(id) {
			n++
		}
	}
	return n
}

// path returns the spans that the last end waited for.
func (f *foreteller) path(t Story) (out []int) {
	last := -1
	for i, s := range t.Spans {
		if f.wanted(s.Job) && !s.End.IsZero() && (last < 0 || s.End.After(t.Spans[last].End)) {
			last = i
		}
	}
	for ; last >= 0; last = t.Spans[last].After {
		out = append(out, last)
	}
	slices.Reverse(out)
	return out
}

// groups returns the wanted open jobs with those that share their number.
func (f *foreteller) groups(then *kernel.Snapshot) (out [][]*kernel.Job) {
	at := map[kernel.Number]int{}
	for _, j := range then.Jobs() {
		k, known := at[j.Number]
		if !known || j.Number == 0 {
			k = len(out)
			at[j.Number], out = k, append(out, nil)
		}
		out[k] = append(out[k], j)
	}
	return slices.DeleteFunc(out, func(g []*kernel.Job) bool {
		return !slices.ContainsFunc(g, func(j *kernel.Job) bool {
			now := f.s.Job(j.ID)
			return f.wanted(j.ID) && (now == nil || now.State.Status.Active())
		})
	})
}

// ends returns the ends of the groups, over all stories.
func (f *foreteller) ends(stories []Story) (out []End) {
	known := f.basis(stories[0])
	for _, g := range f.groups(stories[0].Then) {
		var e End
		var at []time.Time
		weakest := known[g[0].ID]
		for _, j := range g {
			e.Jobs, weakest = append(e.Jobs, j.ID), lesser(weakest, known[j.ID])
		}
		e.Basis, e.From = weakest.basis, weakest.from
		for _, t := range stories {
			var end time.Time
			ended, well := true, true
			for _, id := range e.Jobs {
				j := t.Then.Job(id)
				if end = later(end, t.Ended[id]); j.State.Status.Active() {
					if e.Waits == "" {
						e.Waits, e.For = id, j.State.Wait.Detail
					}
					ended = false
				}
				well = well && (j.State.Status == kernel.Succeeded || j.State.Status == kernel.Unscheduled)
			}
			if ended {
				at, e.Ends = append(at, end), e.Ends+1
				if well {
					e.Succeeded++
				}
			}
		}
		if slices.SortFunc(at, time.Time.Compare); len(at) > 0 {
			e.P50, e.P90 = at[(len(at)-1)/2], at[(len(at)*9+9)/10-1]
		}
		out = append(out, e)
	}
	return out
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

type sureness struct {
	basis Basis
	from  int
}

// basis returns for each job the weakest basis among its own attempts and
// everything that it had to wait for.
func (f *foreteller) basis(t Story) map[kernel.JobID]sureness {
	of := make([]sureness, len(t.Spans))
	out := map[kernel.JobID]sureness{}
	for i, s := range t.Spans {
		var own sureness
		if own.basis, own.from = f.o.Habits.Basis(t.Then.Job(s.Job)); s.Attempt == 0 {
			if own = (sureness{Recorded, f.o.Habits.Decisions()}); own.from == 0 {
				own.basis = Guess
			}
		}
		if s.After >= 0 {
			own = lesser(own, of[s.After])
		}
		of[i] = own
		if before, again := out[s.Job]; again {
			own = lesser(own, before)
		}
		out[s.Job] = own
	}
	for _, j := range t.Then.Jobs() {
		own, began := out[j.ID]
		if !began { // it ends without an attempt, or never ends
			own = sureness{Declared, 0}
		}
		if by, caused := t.By[j.ID]; caused {
			own = lesser(own, of[by])
		}
		out[j.ID] = own
	}
	return out
}

func lesser(a, b sureness) sureness {
	if b.basis < a.basis || b.basis == a.basis && b.from < a.from {
		return b
	}
	return a
}

// usage returns the demand for each resource, the one with the longest waits
// first.
func (f *foreteller) usage(t Story) []Usage {
	limits, end := t.Then.Limits(), f.last(t)
	all := end.Sub(f.s.Now()).Seconds()
	busy := map[Resource]float64{}
	for _, s := range t.Spans {
		j := t.Then.Job(s.Job)
		from, to := later(s.Start, f.s.Now()), s.End
		if to.IsZero() { // nobody decided, or it was stopped
			to = t.Ended[s.Job]
		}
		if to.IsZero() || to.After(end) {
			to = end
		}
		elapsed := max(0, to.Sub(from).Seconds())
		if s.Attempt == 0 {
			busy[Resource{Kind: Person}] += elapsed
			continue
		}
		busy[Resource{Slot, j.Spec.Task.On()}] += elapsed
		for _, l := range j.Spec.Locks {
			if l.Pool() {
				busy[Resource{Pool, l.Key}] += elapsed * float64(l.Units)
			} else {
				busy[Resource{Lock, l.Key}] += elapsed
			}
		}
	}
	for r := range t.Waits {
		busy[r] += 0
	}
	var out []Usage
	for r, sum := range busy {
		u := Usage{Resource: r, Waited: t.Waits[r], Has: 1}
		switch r.Kind {
		case Slot:
			u.Has = limits.Executors[r.Name]
			if r.Name == kernel.LocalExecutor {
				u.Has = limits.MaxRunning
			}
		case Pool:
			u.Has = capacity(limits, r.Name)
		case Lock, Person:
		}
		if u.Has > 0 && all > 0 {
			u.Busy = min(1, sum/all/float64(u.Has))
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(b.Waited, a.Waited), cmp.Compare(b.Busy, a.Busy), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// doubled returns s with twice as much of a resource, and the number of people.
// A lock becomes a pool of two units: an exclusive holder takes one, a shared
// holder none.
func doubled(s *kernel.Snapshot, r Resource) (*kernel.Snapshot, float64) {
	f := &future{s: s}
	o := f.observation()
	l := &o.Limits
	l.Pools, l.Executors = maps.Collect(maps.All(l.Pools)), maps.Clone(l.Executors)
	switch r.Kind {
	case Person:
		return s, 2
	case Slot:
		if r.Name == kernel.LocalExecutor {
			l.MaxRunning *= 2
		} else if n, limited := l.Executors[r.Name]; limited {
			l.Executors[r.Name] = 2 * n
		}
	case Pool:
		l.Pools[r.Name] = 2 * capacity(*l, r.Name)
	case Lock:
		l.Pools[r.Name] = 2
		for i := range o.Jobs {
			var locks []kernel.Lock
			for _, k := range o.Jobs[i].Spec.Locks {
				switch {
				case k.Pool() || k.Key != r.Name:
					locks = append(locks, k)
				case k.Mode == kernel.Exclusive:
					locks = append(locks, kernel.Lock{Key: k.Key, Mode: kernel.Shared, Units: 1})
				}
			}
			o.Jobs[i].Spec.Locks = locks
		}
	}
	return kernel.TakeSnapshot(o), 1
}
