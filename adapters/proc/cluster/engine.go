package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Engine is the part that differs between kinds of clusters: how jobs are submitted, listed
// and cancelled. Its calls end with their context. An error that is a *Refusal is the
// cluster's answer; any other one says why the cluster cannot be asked.
type Engine interface {
	// Accepts returns an error if something is wrong with a job's options, as far as
	// that is known without asking the cluster.
	Accepts(options []string) error

	// Submit submits a job and returns the cluster's id for it.
	Submit(context.Context, Request) (id string, err error)

	// List returns the jobs whose names begin with prefix: all that wait or run, and those
	// that have ended and that the cluster still knows.
	List(ctx context.Context, prefix string) ([]Job, error)

	// Cancel cancels jobs, whether they wait or run. One that has ended is no error.
	Cancel(context.Context, []Job) error

	// Missing returns what this host lacks to ask the cluster at all; nil: nothing.
	Missing() *Finding

	// Mend returns what a person can do when the cluster cannot be asked, or answers a
	// question wrongly.
	Mend(Question) string
}

// Question is what a cluster is asked.
type Question int

// What an Engine is asked.
const (
	Listing    Question = iota // for its jobs
	Submitting                 // to take a job
	Cancelling                 // to end jobs
)

// nudger is an Engine that can make the runners of jobs look at the record at once. They
// look by themselves within a second or so.
type nudger interface {
	Nudge(context.Context, []Job) error
}

// rehearser is an Engine that can tell whether it would take a job with no options but the
// configuration's.
type rehearser interface {
	Rehearse(context.Context) error
}

// scattered is an Engine whose nodes are checked one by one, by jobs with the options that
// Each returns.
type scattered interface {
	Each() [][]string
}

// bounded is an Engine without a queue: it runs at most Slots jobs at once.
type bounded interface {
	Slots() int
}

// accountant is an Engine whose cluster may keep accounts of what jobs used.
type accountant interface {
	// Accounts returns what the accounts say of jobs, with the resources that ended ones
	// used. An error says that there are no accounts, or that they cannot be asked.
	Accounts(ctx context.Context, jobs []Job) ([]Job, error)
}

// Request is a job to submit to a cluster.
type Request struct {
	Name    string   // of the job; a second one of that name may be refused
	Argv    []string // what it runs, on any node
	Dir     string   // where; absolute
	Log     string   // the file that takes what the job prints, by appending; absolute
	Options []string // its options, besides the configuration's
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

// Figures are the resources that an ended job used, by its cluster. The zero value of each
// means unknown.
type Figures struct {
	Seconds    float64 `json:"seconds,omitempty"`           // from its begin to its end
	CPUSeconds float64 `json:"cpu_seconds,omitempty"`       // user and system time over all processors
	PeakMemory int64   `json:"peak_memory_bytes,omitempty"` // the peak resident size of its largest process
}

// Valid reports that the figures are plausible: none is negative, and no time is longer than
// a time.Duration can be.
func (f Figures) Valid() bool {
	const most = 1e9 // seconds; 30 years
	return f.Seconds >= 0 && f.Seconds <= most && f.CPUSeconds >= 0 && f.CPUSeconds <= most && f.PeakMemory >= 0
}

// took returns how long the job took; used returns its resources.
func (f Figures) took() time.Duration { return seconds(f.Seconds) }

func (f Figures) used() kernel.Used {
	return kernel.Used{CPU: seconds(f.CPUSeconds), Memory: f.PeakMemory}
}

func seconds(n float64) time.Duration { return time.Duration(math.Round(n * float64(time.Second))) }

// State is the state of a job.
type State string

// The states of a job.
const (
	Pending     State = "pending"
	Stuck       State = "stuck" // it will not begin unless somebody changes something
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

// States lists all states.
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

// because returns a separator and the reason, "" if there is none.
func (j Job) because(separator string) string {
	if j.Reason == "" {
		return ""
	}
	return separator + j.Reason
}

// RefusalKind is what a refusal means for the next try.
type RefusalKind int

// The kinds of refusals.
const (
	Unclear RefusalKind = iota // nobody knows: it is tried a few times
	Never                      // it will always be refused
	Later                      // the cluster takes no more jobs for now
	NotThis                    // it cannot take this one for now, and may take others
)

// Refusal is the answer of a cluster that did not fulfil a request.
type Refusal struct {
	Kind RefusalKind
	Said string // in the cluster's words
}

func (r *Refusal) Error() string { return r.Said }

// ErrNoAnswer is the cause of a context's end when a question took longer than its own
// limit. Any other cause comes from the caller, and says nothing about the cluster.
var ErrNoAnswer = errors.New("no answer in time")

// errAway says that a cluster cannot be asked.
var errAway = errors.New("it cannot be asked")

// recess is how long the cluster is not asked after it did not answer: each
// question takes until its deadline, and people may be waiting.
const recess = 5 * time.Second

// away is the record that a cluster did not answer.
type away struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// away reports that the cluster did not answer any process a moment ago, and
// returns the error.
func (c *Cluster) away() (reason string, is bool) { return awayFor(c.awayFile(), recess) }

// awayFor reports that the file at path notes a missing answer less than most ago, and returns the
// reason.
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
	case ctx.Err() != nil: // the caller gave up, which says nothing about the cluster
		return fmt.Errorf("cluster %s: %w: %w", c.Name, errAway, ctx.Err())
	case within.Err() != nil:
		reason = fmt.Sprintf("no answer within %s: %s", limit, reason)
	}
	_ = writeJSON(c.awayFile(), away{time.Now(), reason})
	return fmt.Errorf("cluster %s: %w: %s", c.Name, errAway, reason)
}

// submit submits a job that runs this program with these arguments.
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

// nudge makes the runners of jobs look at the record, if the engine can.
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
	jobs  map[string]Job // by name; of several jobs, one that has not ended
}

// answer is a listing as a file.
type answer struct {
	Asked time.Time `json:"asked"`
	Jobs  []Job     `json:"jobs"`
}

// listFile returns the file with the cluster's latest answer.
func (c *Cluster) listFile() string { return filepath.Join(c.Files.ClusterDir(), c.Name+".list") }

// refresh asks for every job of this repository, by whatever path hosts have it, and writes the answer to a file,
// for all processes. The caller must not hold the scheduler lock.
func (c *Cluster) refresh(ctx context.Context) (listing, error) {
	if err := os.Mkdir(c.Files.ClusterDir(), 0o700); err != nil && !errors.Is(err, os.ErrExist) { // if the repository was removed, it stays so
		return listing{}, err
	}
	got := answer{Asked: c.clock()}
	err := c.ask(ctx, func(ctx context.Context) (err error) {
		got.Jobs, err = c.Engine.List(ctx, jobPrefix)
		return err
	})
	got.Jobs = slices.DeleteFunc(got.Jobs, func(j Job) bool { return !c.ours(j.Name) && !pilotName().MatchString(j.Name) })
	if err == nil {
		got.Jobs, err = c.account(ctx, got.Jobs)
	}
	if err != nil {
		return listing{}, err
	}
	return got.listing(), writeJSON(c.listFile(), got)
}

// Refresh asks the cluster for the states of its jobs, which Alive uses, unless it was
// asked a moment ago. The caller must not hold the scheduler lock.
func (c *Cluster) Refresh(ctx context.Context) error {
	const moment = time.Second
	if l := c.recorded(); l.jobs != nil && c.clock().Sub(l.asked).Abs() < moment {
		return nil
	}
	_, err := c.refresh(ctx)
	return err
}

// recorded returns the latest answer. It does not ask the cluster.
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
