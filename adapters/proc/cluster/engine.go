package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Engine is what a kind of cluster has of its own: how jobs are handed over, listed and
// taken away. Its calls end with their context. An error that is a *Refusal is the cluster's
// answer; any other one says why the cluster cannot be asked.
type Engine interface {
	// Accepts says what is wrong with what a job asks for, as far as that is known
	// without asking the cluster.
	Accepts(options []string) error

	// Submit hands a job over and returns its id there.
	Submit(context.Context, Request) (id string, err error)

	// List has the jobs whose names begin with prefix: all that wait or run, and those
	// that have ended as far as the cluster still knows them.
	List(ctx context.Context, prefix string) ([]Job, error)

	// Cancel takes jobs away, whether they wait or run. One that has ended is no error.
	Cancel(context.Context, []Job) error

	// Missing is what this host lacks to ask the cluster at all; nil: nothing.
	Missing() *Finding

	// Mend is what a person can see to when the cluster cannot be asked.
	Mend() string
}

// nudger is an Engine that can have the runners of jobs look at the record at once. They
// look by themselves within a second or so.
type nudger interface {
	Nudge(context.Context, []Job) error
}

// rehearser is an Engine that can tell whether it would take a job that asks for nothing
// besides the configuration.
type rehearser interface {
	Rehearse(context.Context) error
}

// scattered is an Engine whose nodes are tried one by one: by jobs with these options.
type scattered interface {
	Each() [][]string
}

// bounded is an Engine that has no queue: it runs so many jobs at once.
type bounded interface {
	Slots() int
}

// accountant is an Engine whose cluster may keep accounts of what jobs used.
type accountant interface {
	// Accounts has what the accounts say of jobs, with what those used that have ended. An
	// error says that there are no accounts, or that they cannot be asked.
	Accounts(ctx context.Context, jobs []Job) ([]Job, error)
}

// Request is a job that a cluster is to run.
type Request struct {
	Name    string   // of the job; a second one of that name may be refused
	Argv    []string // what it runs, on any node
	Dir     string   // where; absolute
	Log     string   // the file that takes what the job prints, by appending; absolute
	Options []string // what it asks for besides the configuration
}

// Job is what a cluster says of one of its jobs.
type Job struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	State  State  `json:"state"`
	Word   string `json:"word,omitempty"`   // the cluster's own for the state
	Reason string `json:"reason,omitempty"` // why it waits, or ended, in the cluster's words
	Node   string `json:"node,omitempty"`   // where it runs or ran; "": nowhere yet
	Figures
}

// Figures are what a job used that has ended, as its cluster tells. The zero value of each
// means unknown.
type Figures struct {
	Seconds    float64 `json:"seconds,omitempty"`           // from its begin to its end
	CPUSeconds float64 `json:"cpu_seconds,omitempty"`       // user and system time over all processors
	PeakMemory int64   `json:"peak_memory_bytes,omitempty"` // the peak resident size of its largest process
}

// Valid reports that they can be true: none is negative, and no time is longer than the
// kernel can say.
func (f Figures) Valid() bool {
	const most = 1e9 // seconds; 30 years
	return f.Seconds >= 0 && f.Seconds <= most && f.CPUSeconds >= 0 && f.CPUSeconds <= most && f.PeakMemory >= 0
}

// took is how long the job took, and used what it used.
func (f Figures) took() time.Duration { return seconds(f.Seconds) }

func (f Figures) used() kernel.Used {
	return kernel.Used{CPU: seconds(f.CPUSeconds), Memory: f.PeakMemory}
}

func seconds(n float64) time.Duration { return time.Duration(math.Round(n * float64(time.Second))) }

// State is how a job stands.
type State string

// The states of a job.
const (
	Pending     State = "pending"
	Stuck       State = "stuck" // it waits for what does not come by itself
	Running     State = "running"
	Unseen      State = "unseen" // the part of the cluster that has it cannot be asked: Reason says why
	Succeeded   State = "succeeded"
	Failed      State = "failed"
	Cancelled   State = "cancelled"
	Timeout     State = "timeout"
	OutOfMemory State = "out_of_memory"
	Preempted   State = "preempted" // it was ended to make room for another
	Lost        State = "lost"      // its node died, or the cluster gave it up
)

// States are all of them.
var States = []State{Pending, Stuck, Running, Unseen, Succeeded, Failed, Cancelled, Timeout, OutOfMemory, Preempted, Lost}

// waits reports that the cluster has not begun with the job.
func (j Job) waits() bool { return j.State == Pending || j.State == Stuck }

// ended reports that the cluster is done with the job.
func (j Job) ended() bool { return !j.waits() && j.State != Running && j.State != Unseen }

// called is the job's state in the cluster's words.
func (j Job) called() string {
	if j.Word != "" {
		return j.Word
	}
	return string(j.State)
}

// because is the reason, if there is one, behind a separator.
func (j Job) because(separator string) string {
	if j.Reason == "" {
		return ""
	}
	return separator + j.Reason
}

// Verdict is what a refusal means for the next try.
type Verdict int

// The verdicts.
const (
	Unclear Verdict = iota // nobody knows: it is tried a few times
	Never                  // it will be refused however often it is asked for
	Later                  // the cluster takes no more jobs for now
	NotThis                // it cannot take this one for now, and may take others
)

// Refusal is a request that the cluster answered, and did not fulfil.
type Refusal struct {
	Verdict Verdict
	Said    string // in the cluster's words
}

func (r *Refusal) Error() string { return r.Said }

// ErrNoAnswer is the cause of a context's end when a question took longer than its own
// limit. Any other cause is the asker's, and says nothing of who was asked.
var ErrNoAnswer = errors.New("no answer in time")

// errAway is a cluster that cannot be asked.
var errAway = errors.New("it cannot be asked")

// recess is how long nothing is asked after a question that went unanswered:
// each one costs its deadline, and people may wait.
const recess = 5 * time.Second

// away is that a cluster did not answer.
type away struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// away reports that the cluster did not answer a moment ago, whoever asked,
// and what was said instead.
func (c *Cluster) away() (reason string, is bool) { return awayFor(c.awayFile(), recess) }

// awayFor reports that the file says of somebody who did not answer, less than so long ago.
func awayFor(path string, most time.Duration) (reason string, is bool) {
	var a away
	err := readJSON(path, &a)
	passed := time.Since(a.Since)
	return a.Reason, err == nil && passed >= 0 && passed < most
}

func (c *Cluster) awayFile() string { return filepath.Join(c.Files.ClusterDir(), c.Name+".away") }

// ask asks the engine within a deadline of its own.
func (c *Cluster) ask(ctx context.Context, question func(context.Context) error) error {
	if reason, is := c.away(); is {
		return fmt.Errorf("cluster %s: %w: %s", c.Name, errAway, reason)
	}
	limit := orDefault(c.Settings.Timeout, DefaultTimeout)
	within, stop := context.WithTimeoutCause(ctx, limit, ErrNoAnswer)
	defer stop()
	err := question(within)
	if err == nil {
		return nil
	}
	reason := err.Error()
	switch {
	case errors.As(err, new(*Refusal)):
		return fmt.Errorf("cluster %s: %w", c.Name, err)
	case ctx.Err() != nil: // who asked has no more patience, which says nothing of the cluster
		return fmt.Errorf("cluster %s: %w: %w", c.Name, errAway, ctx.Err())
	case within.Err() != nil:
		reason = fmt.Sprintf("no answer within %s: %s", limit, reason)
	}
	_ = writeJSON(c.awayFile(), away{time.Now(), reason})
	return fmt.Errorf("cluster %s: %w: %s", c.Name, errAway, reason)
}

// submit has the cluster run this program with these arguments.
func (c *Cluster) submit(ctx context.Context, name, log string, options []string, args ...string) (id string, err error) {
	err = c.ask(ctx, func(ctx context.Context) (err error) {
		id, err = c.Engine.Submit(ctx, Request{Name: name, Argv: append([]string{c.program()}, args...), Dir: c.Root, Log: log, Options: options})
		return err
	})
	return id, err
}

func (c *Cluster) cancel(ctx context.Context, jobs []Job) error {
	return c.ask(ctx, func(ctx context.Context) error { return c.Engine.Cancel(ctx, jobs) })
}

// nudge has the runners of jobs look, where the engine can.
func (c *Cluster) nudge(ctx context.Context, jobs []Job) error {
	n, can := c.Engine.(nudger)
	if !can {
		return nil
	}
	return c.ask(ctx, func(ctx context.Context) error { return n.Nudge(ctx, jobs) })
}

func (c *Cluster) program() string {
	if c.Settings.Program != "" {
		return c.Settings.Program
	}
	return c.Local.Exe
}

// listing is one answer about all jobs of this repository.
type listing struct {
	asked time.Time      // by the clock of the file server
	jobs  map[string]Job // by name; of several, the one that matters most
}

// answer is a listing as it is kept.
type answer struct {
	Asked time.Time `json:"asked"`
	Jobs  []Job     `json:"jobs"`
}

// listFile is the cluster's latest answer.
func (c *Cluster) listFile() string { return filepath.Join(c.Files.ClusterDir(), c.Name+".list") }

// refresh asks for every job of this repository and puts the answer where every process
// finds it. No lock of the scheduler's may be held.
func (c *Cluster) refresh(ctx context.Context) (listing, error) {
	if err := os.MkdirAll(c.Files.ClusterDir(), 0o700); err != nil {
		return listing{}, err
	}
	got := answer{Asked: c.clock()}
	err := c.ask(ctx, func(ctx context.Context) (err error) {
		got.Jobs, err = c.Engine.List(ctx, c.ownPrefix())
		return err
	})
	if err == nil {
		got.Jobs, err = c.account(ctx, got.Jobs)
	}
	if err != nil {
		return listing{}, err
	}
	return got.listing(), writeJSON(c.listFile(), got)
}

// Refresh asks the cluster how its jobs stand, unless it was asked a moment ago: Alive
// goes by the answer. No lock of the scheduler's may be held.
func (c *Cluster) Refresh(ctx context.Context) error {
	const moment = time.Second
	if l := c.recorded(); l.jobs != nil && c.clock().Sub(l.asked).Abs() < moment {
		return nil
	}
	_, err := c.refresh(ctx)
	return err
}

// recorded is the latest answer. It asks nobody.
func (c *Cluster) recorded() listing {
	var a answer
	if err := readJSON(c.listFile(), &a); err != nil {
		return listing{}
	}
	return a.listing()
}

func (a answer) listing() listing {
	l := listing{a.Asked, make(map[string]Job, len(a.Jobs))}
	for _, j := range a.Jobs {
		if have, twice := l.jobs[j.Name]; !twice || have.ended() && !j.ended() {
			l.jobs[j.Name] = j
		}
	}
	return l
}
