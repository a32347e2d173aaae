package collector

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// stand is a collector of a repository's state. No label contains the name of a
// job, a run or a lock: label values are words of the program and names in the
// configuration.
type stand struct {
	snap     *kernel.Snapshot // without successful jobs, which it only counts
	lost     int              // jobs on record as running whose runner is gone
	ended    map[string]int   // attempts that ended in the last hour, by result
	prompts  []view.RefusedPrompt
	tick     time.Duration
	resident bool
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("vizier_"+name, help, labels, nil)
}

var (
	jobs       = desc("jobs", "Jobs on record by status.", "status")
	unreadable = desc("jobs_unreadable", "Jobs whose record makes no sense.")
	waiting    = desc("jobs_waiting", "Open jobs that are held up, by what they wait for.", "reason")
	oldestWait = desc("jobs_waiting_oldest_timestamp_seconds", "Since when the job has been held up that has waited longest for that reason; absent where none does.", "reason")
	latest     = desc("jobs_latest_attempt", "Jobs on record by how their latest attempt ended.", "result")
	ended      = desc("attempts_ended_last_hour", "Attempts that ended in the hour before, by how, as the event log tells.", "result")
	running    = desc("jobs_running", "Jobs that run, by executor.", "executor")
	limit      = desc("jobs_running_limit", "How many jobs may run at once, by executor; absent where there is no limit.", "executor")
	lost       = desc("jobs_lost", "Jobs on record as running whose runner on this machine is gone, and that nobody has settled yet.")
	locks      = desc("locks_held", "Locks that running jobs hold, by mode; pools are counted by their units.", "mode")
	poolUsed   = desc("pool_units_used", "Units of a configured pool that running jobs hold.", "pool")
	poolSize   = desc("pool_units", "Units that a configured pool has.", "pool")
	attention  = desc("attention", "Jobs that need a person, by what for.", "kind")
	oldestNeed = desc("attention_oldest_timestamp_seconds", "Since when the job has needed a person that has longest, by what for; absent where none does.", "kind")
	tick       = desc("tick_seconds", "How long it took just now to read what is open and to decide on it, as a tick does, without what a tick asks the world and writes.")
	resident   = desc("resident_scheduler_up", "Whether the resident scheduler runs. It need not, while nothing waits for time or the outside world.")
	observed   = desc("observed_timestamp_seconds", "When all this was so.")
)

// Describe implements prometheus.Collector.
func (stand) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{jobs, unreadable, waiting, oldestWait, latest, ended, running, limit, lost, locks, poolUsed, poolSize, attention, oldestNeed, tick, resident, observed} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s stand) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	c := count(s.snap, s.prompts)
	for d, byLabel := range map[*prometheus.Desc]map[string]int{jobs: c.jobs, waiting: c.waiting, latest: c.latest, ended: s.ended, running: c.running, locks: c.locks, poolUsed: c.pools, attention: c.attention} {
		for label, n := range byLabel {
			send(d, float64(n), label)
		}
	}
	for d, byLabel := range map[*prometheus.Desc]map[string]time.Time{oldestWait: c.waitingSince, oldestNeed: c.attentionSince} {
		for label, at := range byLabel {
			send(d, seconds(at), label)
		}
	}
	limits := s.snap.Limits()
	for name, n := range limits.Pools {
		send(poolSize, float64(n), name)
	}
	for name := range c.running {
		n := limits.Executors[name]
		if name == kernel.LocalExecutor {
			n = limits.MaxRunning
		}
		if n > 0 {
			send(limit, float64(n), name)
		}
	}
	send(unreadable, float64(len(s.snap.UnreadableIDs())))
	send(lost, float64(s.lost))
	send(tick, s.tick.Seconds())
	send(resident, map[bool]float64{true: 1}[s.resident])
	send(observed, seconds(s.snap.Now()))
}

// seconds returns t in seconds since 1970, as Prometheus requires.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// counts are numbers of jobs and the like, by label.
type counts struct {
	jobs, waiting, latest, running, locks, pools, attention map[string]int
	waitingSince, attentionSince                            map[string]time.Time
}

// Label values that are not words of the kernel.
const (
	forRetry     = "retry"        // waits until its next attempt is due
	otherFailure = "other"        // no failure class is on record
	unconfigured = "unconfigured" // an executor that is not configured
)

// count counts the contents of s. Every possible label is present, even with 0.
func count(s *kernel.Snapshot, prompts []view.RefusedPrompt) counts {
	c := counts{jobs: map[string]int{}, waiting: map[string]int{forRetry: 0}, latest: results(), running: map[string]int{kernel.LocalExecutor: 0, unconfigured: 0},
		locks: map[string]int{kernel.Exclusive.String(): 0, kernel.Shared.String(): 0}, pools: map[string]int{}, attention: map[string]int{},
		waitingSince: map[string]time.Time{}, attentionSince: map[string]time.Time{}}
	for _, st := range kernel.Statuses() {
		c.jobs[st.String()] = 0
	}
	zero(c.waiting, kernel.OnDependencies)
	for name := range s.Limits().Executors {
		c.running[name] = 0
	}
	for name := range s.Limits().Pools {
		c.pools[name] = 0
	}
	for _, kind := range []kernel.Attention{kernel.NeedsApproval, kernel.NeedsDecision, kernel.NeedsResolution, kernel.NeedsUnblocking, kernel.NeedsRunner, kernel.NeedsPool, kernel.NeedsSecret, kernel.NeedsCorrection} {
		c.attention[string(kind)] = 0
	}
	held := map[kernel.Lock]bool{}
	for _, j := range s.Jobs() {
		c.job(j, held)
	}
	for k := range held {
		c.locks[k.Mode.String()]++
	}
	c.jobs[kernel.Succeeded.String()] += s.Archived()
	c.latest[kernel.OutcomeSucceeded.String()] += s.Archived()
	for _, item := range view.OverviewOf(s, view.OverviewOptions{FailedSince: s.Now(), Prompts: prompts}).Attention {
		c.attention[string(item.Kind)]++
		if item.Since != nil {
			earliest(c.attentionSince, string(item.Kind), *item.Since)
		}
	}
	return c
}

// job counts one job.
func (c counts) job(j *kernel.Job, held map[kernel.Lock]bool) {
	st := &j.State
	c.jobs[st.Status.String()]++
	switch {
	case st.Status == kernel.FailedRetryable:
		c.waiting[forRetry]++
		earliest(c.waitingSince, forRetry, st.Finished)
	case st.Status.Waiting():
		c.waiting[st.Wait.Kind.String()]++
		earliest(c.waitingSince, st.Wait.Kind.String(), st.WaitSince)
	case st.Status == kernel.Running:
		name := j.Spec.Task.On()
		if _, known := c.running[name]; !known {
			name = unconfigured
		}
		c.running[name]++
		for _, k := range j.Spec.Locks {
			if _, known := c.pools[k.Key]; k.Pool() && known {
				c.pools[k.Key] += k.Units
			} else if !k.Pool() {
				held[kernel.Lock{Key: k.Key, Mode: k.Mode}] = true
			}
		}
	}
	if st.Attempt > 0 && st.Exit.Known {
		c.latest[resultOf(st)]++
	}
}

// results returns a map with 0 for each way in which an attempt may end.
func results() map[string]int {
	m := map[string]int{otherFailure: 0}
	zero(m, kernel.ExitFailure)
	for _, o := range []kernel.Outcome{kernel.OutcomeSucceeded, kernel.OutcomeBlocked, kernel.OutcomeCancelled} {
		m[o.String()] = 0
	}
	return m
}

// resultOf returns how the latest attempt ended.
func resultOf(st *kernel.State) string {
	switch {
	case st.Outcome == kernel.OutcomeSucceeded, st.Outcome == kernel.OutcomeCancelled, st.Outcome == kernel.OutcomeBlocked:
		return st.Outcome.String()
	case st.Failure != kernel.NoFailure:
		return st.Failure.String()
	default:
		return otherFailure
	}
}

// earliest sets the time of a label in m if at is earlier.
func earliest(m map[string]time.Time, label string, at time.Time) {
	if have, known := m[label]; !at.IsZero() && (!known || at.Before(have)) {
		m[label] = at
	}
}

// zero sets m to 0 for each value of an enumeration from first on.
func zero[T interface {
	~uint8
	String() string
}](m map[string]int, first T) {
	for v := first; !strings.Contains(v.String(), "("); v++ { // String of a value past the last one contains its number
		m[v.String()] = 0
	}
}
