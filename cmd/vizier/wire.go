package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/fs/inbox"
	"github.com/vizier-scheduler/vizier/adapters/fs/template"
	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// repo is an opened repository.
type repo struct {
	Scheduler *app.Scheduler
	Config    config.Config
	Root      string // absolute
	Tree      string // the working tree that the command runs in; absolute

	// Builder returns the builder of jobs and runs for a requester; see
	// call.builder.
	Builder func(vizier.Asker) *enqueue.Builder

	// Named returns the templates that have a name besides those of the
	// configuration.
	Named func() []template.Named

	// Templates reads the manifests of runs.
	Templates interface {
		Manifest(kernel.RunID) ([]byte, error)
	}

	// Inbox returns the repository's inbox.
	Inbox      func(vizier.Asker) (*app.Inbox, error)
	InboxFiles func() inbox.Tree

	// Neighbour returns another repository that the inbox serves.
	Neighbour func(name string) (*repo, error)

	// Logs returns the absolute paths of a job's files, which need not exist.
	// The stream of LogFile is stdout or stderr.
	Logs interface {
		LogFile(id kernel.JobID, stream string) string
		OpenLog(id kernel.JobID, stream string) (*os.File, error)
		JobDir(kernel.JobID) string
		OutcomeFile(kernel.JobID) string

		// Packed returns the file that a job's files are packed in, or "" if
		// they are not packed.
		Packed(kernel.JobID) string
	}

	// Effects returns a job's journalled side effects, and an error about those
	// that cannot be read.
	Effects func(kernel.JobID) ([]effect.Record, error)

	// Attempts returns the attempts of a job that are on record.
	Attempts func(kernel.JobID) ([]kernel.Result, error)

	// Contained returns the command line that starts a job's container, as run in
	// [containers] has it, or "" if it has none.
	Contained func(*kernel.Job) string

	// Progress returns the last progress that an attempt's command reported.
	Progress func(kernel.AttemptID) view.Progress

	// Payloads reads the data of artifacts.
	Payloads payloads

	// Changed returns the jobs that changed since a place in the store's
	// history, and the place up to which it has looked. It returns false if any
	// job may have changed. nil: not supported.
	Changed func(since fs.JournalOffset) ([]kernel.JobID, fs.JournalOffset, bool)

	// FollowRun keeps an ephemeral run until the result is closed.
	FollowRun func(kernel.RunID) (io.Closer, error)

	// Git answers queries about branches.
	Git interface {
		planBranches
		indexed
	}

	// Steering returns the files below .vizier that a plan's branch changes; nil: not known.
	Steering func(ctx context.Context, branch, target string) ([]string, error)

	// Releases makes commits and tags of releases.
	Releases releaseGit

	// Doctor is what the doctor examines.
	Doctor struct {
		files    inspection
		git      worktreeGit
		clusters map[string]*cluster.Cluster

		containers func() (problem, next string)
		traces     func() (problem, next string)
	}
	// Events opens the event log after an event's number, and notifies of
	// further events.
	Events func(after uint64) eventLog

	// InPlace returns an error if the open store is not at its path any more.
	InPlace func() error

	// Past reads the history of the store; At returns the use cases as of a
	// moment in it.
	Past storeHistory
	At   func(context.Context, fs.Moment) (*app.Scheduler, error)

	// Evidence returns an evidence file about jobs.
	Evidence func(ctx context.Context, about string, ids []kernel.JobID) ([]byte, error)

	// Resident returns the pid of the resident scheduler, or 0 if none is
	// alive. Off says why none is started, if none is; "": one is started when it is needed.
	Resident func() int
	Off      string

	// Hindrance returns what keeps the resident scheduler from its work.
	Hindrance func() vizier.Hindrance

	// Obstacle returns, in words, that something is in the place of the resident scheduler's lock; "": nothing is.
	Obstacle func() string

	// Full reports whether the file system of the store is full.
	Full func() bool

	// Passed returns the scheduler lock that the last read did without, because its holder does not let go, or nil.
	Passed func() *fs.BusyError

	// HoldWait notes that a job waits for others until the result is closed, and WaitsOf returns these.
	HoldWait func(id kernel.JobID, others []kernel.JobID) (io.Closer, error)
	WaitsOf  func(id kernel.JobID) ([]kernel.JobID, error)

	// Held returns an error if there are changes that could not be written yet and cannot be read, or nil.
	Held func() error

	// Attended reports whether a resident scheduler is running or just being
	// started.
	Attended func() bool

	// Elsewhere reports whether another host schedules. Reading commands here
	// then leave it to that host to settle lost jobs.
	Elsewhere func() bool

	// AgentPrograms examines the programs of agents; nil: they are not
	// examined.
	AgentPrograms app.AgentPrograms

	// Commands returns what the repository's configuration would run, Untrusted
	// the part of it that somebody else may have written and the user has not trusted.
	// Trust records that it is trusted, and Trusted reports that.
	Commands  func() []config.Setting
	Trusted   func() bool
	Untrusted func(context.Context) []config.Setting
	Trust     func(context.Context) error

	// Foreign returns why the store must not be used because it may be another
	// user's, or nil. Adopt makes it count as this user's.
	Foreign, Adopt func(context.Context) error

	// OnPark sets the function that is told of work that is parked before its
	// worktree is removed; nil: nobody is told.
	OnPark func(tell func(git.Parked))

	// Parked returns the parked work of jobs, as lines for people; nil: not known.
	Parked func(context.Context, func() ([]kernel.JobID, error)) ([]string, error)

	// Outside describes the process that carries out what this one only puts on
	// record, because this one is in a sandbox; "": it is not.
	Outside string
}

// open opens the repository that contains the working directory.
func open(ctx context.Context, env environment, g globals) (*repo, error) {
	dir, err := presentDir()
	if err != nil {
		return nil, err
	}
	return openAt(ctx, env, g, dir)
}

// presentDir returns the working directory. If it is gone, the error says what to do.
func presentDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", &failure{class: class{"failed", 1, "change to a directory that exists, such as `cd ~`"}, err: fmt.Errorf("find the working directory: %w", err)}
	}
	return dir, nil
}

// openAt opens the repository that contains dir.
func openAt(ctx context.Context, env environment, g globals, dir string) (*repo, error) {
	proc.RaiseFileSize()
	v, err := vizier.Open(dir, vizier.Options{Environ: env, ConfigFile: g.ConfigFile, NoResident: g.NoResident})
	if err != nil {
		return nil, err
	}
	if g.NoResident {
		if err := os.Setenv("VIZIER_SCHEDULER_RESIDENT", "false"); err != nil { // also for the runners that this process starts
			return nil, err
		}
	}
	return newRepo(ctx, v, g.NoResident), nil
}

// newRepo wraps an opened repository for the commands. noResident is the flag.
func newRepo(ctx context.Context, v *vizier.Repository, noResident bool) *repo {
	r := &repo{
		Scheduler: v.Scheduler, Config: v.Config, Root: v.Root, Tree: v.Tree, Builder: v.Builder, Named: v.Templates().Named, Templates: v.Templates(), Logs: v.Store, Changed: v.Store.Changed,
		Effects: v.Store.Effects, Attempts: v.Store.Attempts, Progress: v.Store.Progress, Contained: v.ContainerLine, Payloads: v.Store, FollowRun: v.Store.FollowRun, Git: v.Git, Releases: v.Git,
		Events: func(after uint64) eventLog {
			return &followedLog{v.Store.Events(after), watch.NewFile(v.Store.EventsFile())}
		},
		InPlace: v.Store.InPlace,
		Past:    v.Store,
		At:      v.At, Evidence: v.Evidence,
		Resident:  v.Resident,
		Hindrance: v.Hindrance, Obstacle: v.Store.InPlaceOfResidentFile, Full: v.Store.Full, Passed: v.Store.Passed, Held: v.Store.Held, HoldWait: v.Store.HoldWait, WaitsOf: v.Store.WaitsOf,
		Attended: v.Attended, Elsewhere: v.Elsewhere,
		Outside: v.Outside, AgentPrograms: v.Agents,
		Inbox: v.Inbox, InboxFiles: v.InboxFiles,
		Neighbour: func(name string) (*repo, error) {
			other, err := v.Neighbour(name)
			if err != nil {
				return nil, err
			}
			return newRepo(ctx, other, noResident), nil
		},
	}
	switch {
	case noResident:
		r.Off = "--no-resident starts none"
	case !v.Config.Scheduler.Resident:
		r.Off = "[scheduler] resident is off"
	}
	r.Parked, r.Steering = v.Git.ParkedOf, v.Git.Steering
	r.OnPark = func(tell func(git.Parked)) { v.Git.OnPark = tell }
	r.Untrusted, r.Commands, r.Trusted, r.Trust = v.Untrusted, v.Commands, v.Trusted, v.Trust
	r.Foreign, r.Adopt = v.Store.Foreign, v.Store.Adopt
	r.Doctor.files, r.Doctor.git, r.Doctor.clusters, r.Doctor.containers = v.Store, v.Git, v.Clusters, v.CheckContainers
	r.Doctor.traces = v.CheckTraces
	return r
}
