package foresight

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Habits are statistics of ended jobs: how long attempts took, how they ended,
// and how long people took to decide.
type Habits struct {
	of       map[string]*habit
	waits    []time.Duration // durations of decisions, sorted
	rejected int
}

// habit holds the statistics of the attempts at one kind of job.
type habit struct {
	took   []time.Duration // of those that succeeded, in order
	failed []failure
}

// failure is how an attempt failed. took is 0 if nothing on record tells: only the
// last attempt of a job has its times there, and its earlier ones are taken to be as long.
type failure struct {
	took  time.Duration
	class kernel.FailureClass
	exit  int
}

// HabitsOf computes the habits of jobs. Cancelled jobs are ignored.
func HabitsOf(jobs []*kernel.Job) *Habits {
	h := &Habits{of: map[string]*habit{}}
	ended := make(map[kernel.JobID]time.Time, len(jobs))
	for _, j := range jobs {
		ended[j.ID] = j.State.Finished
	}
	for _, j := range jobs {
		h.learn(j)
		a := j.State.Approval
		if a.DecidedAt.IsZero() || a.State != kernel.Approved && a.State != kernel.Rejected {
			continue
		}
		since := a.RequestedAt // or later: before a job can start, nobody needs to decide
		for _, id := range j.Spec.After {
			if at := ended[id]; at.After(since) && at.Before(a.DecidedAt) {
				since = at
			}
		}
		h.waits = append(h.waits, max(0, a.DecidedAt.Sub(since)))
		if a.State == kernel.Rejected {
			h.rejected++
		}
	}
	for _, k := range h.of {
		slices.Sort(k.took)
	}
	slices.Sort(h.waits)
	return h
}

func (h *Habits) learn(j *kernel.Job) {
	st := &j.State
	failed := failedBefore(j)
	took := st.Finished.Sub(st.Started)
	if by := st.Status; (by == kernel.Succeeded || by == kernel.Failed) && !st.Started.IsZero() && took >= 0 { // else its latest attempt has not ended, or did not end by itself
		for i := range failed {
			if failed[i].class != kernel.Timeout {
				failed[i].took = took
			}
		}
		if by == kernel.Failed {
			failed = append(failed, failure{took, st.Failure, st.Exit.Code})
		} else {
			for _, key := range keys(j) {
				h.at(key).took = append(h.at(key).took, took)
			}
		}
	}
	if len(failed) > 0 {
		for _, key := range keys(j) {
			h.at(key).failed = append(h.at(key).failed, failed...)
		}
	}
}

func (h *Habits) at(key string) *habit {
	if h.of[key] == nil {
		h.of[key] = &habit{}
	}
	return h.of[key]
}

// failedBefore returns the failed attempts of j that were followed by another
// one. The record only says from which budget each of them was paid.
func failedBefore(j *kernel.Job) (out []failure) {
	st := &j.State
	for range st.Spent.Resumes {
		out = append(out, failure{class: kernel.Timeout, exit: 124})
	}
	for range st.Spent.Reclaims {
		out = append(out, failure{class: kernel.WorkerLost, exit: 1})
	}
	for range st.Spent.Retries {
		out = append(out, retried(j.Retry()))
	}
	return out
}

// retried returns a failure that p retries.
func retried(p kernel.RetryPolicy) failure {
	if _, exits := p.Names(); len(exits) > 0 {
		return failure{class: kernel.ExitFailure, exit: exits[0]}
	}
	for class := kernel.ExitFailure; class <= kernel.Preempted; class++ {
		if p.Covers(class, 1) {
			return failure{class: class, exit: 1}
		}
	}
	return failure{class: kernel.ExitFailure, exit: 1}
}

// keys returns the keys under which attempts like j's are recorded, the most
// specific first: the node of the template, the name, the command.
func keys(j *kernel.Job) (out []string) {
	o := &j.Spec.Origin
	if o.Template.ID != "" && o.Node != "" {
		out = append(out, "node\x00"+o.Template.ID+"\x00"+o.Node)
	}
	if j.Spec.Name != "" && !j.Spec.Task.Builtin {
		out = append(out, "name\x00"+j.Spec.Name)
	}
	if !j.Spec.Task.Builtin {
		out = append(out, "command\x00"+strings.Join(j.Spec.Task.Args, "\x00"))
	}
	return out
}

// known returns the statistics of attempts like j's, or nil if there are none.
func (h *Habits) known(j *kernel.Job) *habit {
	for _, key := range keys(j) {
		if k := h.of[key]; k != nil {
			if k = k.within(j.Spec.Task.Timeout); len(k.took)+len(k.failed) > 0 {
				return k
			}
		}
	}
	return nil
}

// within returns k without the attempts that a time limit shorter than limit ended: they say nothing of a job with that
// limit. limit 0: the job has none.
func (k *habit) within(limit time.Duration) *habit {
	sooner := func(f failure) bool { return f.class == kernel.Timeout && f.took > 0 && (limit == 0 || f.took < limit) }
	if !slices.ContainsFunc(k.failed, sooner) {
		return k
	}
	return &habit{took: k.took, failed: slices.DeleteFunc(slices.Clone(k.failed), sooner)}
}

// Basis returns what the estimated duration of an attempt of j is based on and,
// for Recorded, on how many attempts.
func (h *Habits) Basis(j *kernel.Job) (Basis, int) {
	if j.Spec.Estimate > 0 {
		return Declared, 0
	}
	if k := h.known(j); k != nil && (len(k.took) > 0 || slices.ContainsFunc(k.failed, func(f failure) bool { return f.took > 0 })) {
		return Recorded, len(k.took) + len(k.failed)
	}
	return Guess, 0
}

// Decisions returns how many decisions of people are on record.
func (h *Habits) Decisions() int { return len(h.waits) }

// Course returns the n-th course drawn from h with a seed. Course 0 is the
// usual one: every duration is the median, and every attempt succeeds, unless
// none ever did. With the same seed and n, the same attempt of a job always
// turns out the same.
func (h *Habits) Course(seed uint64, n int) Course { return &drawn{h: h, seed: seed, n: n, people: 1} }

type drawn struct {
	h      *Habits
	seed   uint64
	n      int
	people float64 // with two, decisions take half as long; 0: nobody decides
	chance bool    // something could have turned out otherwise
}

// at returns a pseudo-random number from 0 to 1 that depends only on the seed,
// n and its arguments.
func (d *drawn) at(what string, j *kernel.Job) float64 {
	if d.n == 0 {
		return 0.5
	}
	name := j.Ref()
	if name == "" {
		name = string(j.ID)
	}
	x := d.seed ^ uint64(d.n)*0x9e3779b97f4a7c15
	for _, c := range []byte(what + " " + name + " " + strconv.Itoa(j.State.Attempt) + " " + strconv.Itoa(j.State.Generation)) {
		x = mixed(x ^ uint64(c))
	}
	return float64(mixed(x)>>11) / (1 << 53)
}

// mixed spreads the bits of x; it is the finalizer of splitmix64.
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Attempt uses the declared estimate or else the record; see Course.
func (d *drawn) Attempt(j *kernel.Job, ran time.Duration) (kernel.Result, time.Duration) {
	succeeds := kernel.Result{Outcome: kernel.OutcomeSucceeded}
	if j.Spec.Estimate > 0 {
		return succeeds, overrun(j.Spec.Estimate, ran)
	}
	k := d.h.known(j)
	if k == nil {
		return succeeds, guessed(j, ran)
	}
	took := guessed(j, ran)
	d.chance = d.chance || len(k.took)+len(k.failed) > 1
	if late := longer(k.took, ran); len(late) > 0 {
		took = quantile(late, d.at("time", j))
	} else if len(k.took) > 0 {
		took = overrun(0, ran)
	}
	all := len(k.took) + len(k.failed)
	at := int(d.at("end", j) * float64(all))
	if d.n == 0 && len(k.took) > 0 || at >= len(k.failed) {
		return succeeds, took
	}
	f := k.failed[at%len(k.failed)]
	if f.took > 0 {
		took = overrun(f.took, ran)
	}
	return kernel.Result{Outcome: kernel.OutcomeFailed, Class: f.class, Exit: max(1, f.exit), Reason: "as earlier attempts"}, took
}

// Decision draws from the decisions on record; see Course.
func (d *drawn) Decision(j *kernel.Job) (grants bool, takes time.Duration) {
	if d.people == 0 {
		return false, Never
	}
	takes = DefaultDecision
	if n := len(d.h.waits); n > 0 {
		d.chance = d.chance || n > 1
		takes = quantile(d.h.waits, d.at("decision", j))
		grants = d.n == 0 && d.h.rejected < n || d.at("consent", j)*float64(n) >= float64(d.h.rejected)
	} else {
		grants = true
	}
	return grants, time.Duration(float64(takes) / d.people)
}

// guessed returns the duration of an attempt of j of which nothing is known. It is no reason to expect that a time limit ends it.
func guessed(j *kernel.Job, ran time.Duration) time.Duration {
	takes := overrun(DefaultDuration, ran)
	if limit := j.Spec.Task.Timeout; limit > 0 {
		takes = min(takes, max(limit, ran))
	}
	return takes
}

// overrun returns the expected duration of something that usually takes usual
// and has already run for ran. If it is late, that is a tenth more than ran.
func overrun(usual, ran time.Duration) time.Duration { return max(usual, ran+ran/10) }

// longer returns the durations of took, which must be sorted, that are longer
// than ran.
func longer(took []time.Duration, ran time.Duration) []time.Duration {
	at, _ := slices.BinarySearch(took, ran+1)
	return took[at:]
}

// quantile returns the q-th quantile of sorted durations, of which there is at
// least one, interpolated between the two nearest.
func quantile(of []time.Duration, q float64) time.Duration {
	at := q * float64(len(of)-1)
	low, part := math.Modf(at)
	i := int(low)
	if i+1 >= len(of) {
		return of[len(of)-1]
	}
	return of[i] + time.Duration(part*float64(of[i+1]-of[i]))
}
