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
	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
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

	// Builder makes jobs and runs for who asks; see call.builder.
	Builder func(vizier.Asker) *enqueue.Builder

	// Templates has what runs were made of.
	Templates interface {
		Manifest(kernel.RunID) ([]byte, error)
	}

	// Inbox is the repository's inbox.
	Inbox      func(vizier.Asker) (*app.Inbox, error)
	InboxFiles func() inbox.Tree

	// Neighbour is another repository that the inbox serves.
	Neighbour func(name string) (*repo, error)

	// Logs says where a job's files are: absolute paths, of files that need
	// not exist. The stream of LogFile is stdout or stderr.
	Logs interface {
		LogFile(id kernel.JobID, stream string) string
		OpenLog(id kernel.JobID, stream string) (*os.File, error)
		JobDir(kernel.JobID) string
		OutcomeFile(kernel.JobID) string

		// Packed is the file that a job's files are packed in; "": they are where
		// the others say.
		Packed(kernel.JobID) string
	}

	// Effects are a job's journalled side effects, and what is wrong with
	// those that cannot be read.
	Effects func(kernel.JobID) ([]effect.Record, error)

	// Attempts are the attempts of a job that left something on record.
	Attempts func(kernel.JobID) ([]kernel.Result, error)

	// Contained is the command line that starts a job's container; "": it has none.
	Contained func(*kernel.Job) string

	// Progress is what an attempt's command last said of how far it is.
	Progress func(kernel.AttemptID) view.Progress

	// Payloads has the data of artifacts.
	Payloads payloads

	// Changed are the jobs that changed since a place in the store's history, and
	// the place up to which that is so; false: all may have. nil: nobody can tell.
	Changed func(since fs.JournalOffset) ([]kernel.JobID, fs.JournalOffset, bool)

	// FollowRun keeps an ephemeral run until it is closed.
	FollowRun func(kernel.RunID) (io.Closer, error)

	// Git answers for branches.
	Git planBranches

	// Releases makes commits and tags of releases.
	Releases releaseGit

	// Doctor is what the doctor looks at.
	Doctor struct {
		files    inspection
		git      worktreeGit
		clusters map[string]*cluster.Cluster

		containers func() (problem, next string)
		traces     func() (problem, next string)
	}
	// Events reads the event log after an event's number, and tells when there
	// may be more.
	Events func(after uint64) eventLog

	// Past is the history of the store, and At the use cases as of a moment of it.
	Past storeHistory
	At   func(context.Context, fs.Moment) (*app.Scheduler, error)

	// Evidence is a file about jobs.
	Evidence func(ctx context.Context, about string, ids []kernel.JobID) ([]byte, error)

	// Resident is the process of the resident scheduler; 0: none is alive.
	Resident func() int

	// FewFiles is why that one may fail to start jobs; "": nothing is known against it.
	FewFiles func() string

	// Attended reports that there is one, or that one is just being started.
	Attended func() bool

	// Elsewhere reports that another host schedules, to which who only looks here leaves it.
	Elsewhere func() bool

	// AgentPrograms looks at the programs of agents; nil: nobody does.
	AgentPrograms app.AgentPrograms

	// Commands are what the repository's configuration would run, Untrusted what of
	// it nobody has said may. Trust says so.
	Commands  func() []config.Setting
	Untrusted func(context.Context) []config.Setting
	Trust     func(context.Context) error

	// Foreign says why the store is not acted on; nil: it is. Adopt has it count as
	// this user's.
	Foreign, Adopt func(context.Context) error

	// Outside is who goes on with what is asked for here, in words; "": this
	// process itself.
	Outside string
}

// open opens the repository that the working directory belongs to.
func open(ctx context.Context, env environment, g globals) (*repo, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	return openAt(ctx, env, g, dir)
}

// openAt opens the repository that dir belongs to.
func openAt(ctx context.Context, env environment, g globals, dir string) (*repo, error) {
	v, err := vizier.Open(dir, vizier.Options{Environ: env, ConfigFile: g.ConfigFile, NoResident: g.NoResident})
	if err != nil {
		return nil, err
	}
	if g.NoResident {
		if err := os.Setenv("VIZIER_SCHEDULER_RESIDENT", "false"); err != nil { // for the runners it starts
			return nil, err
		}
	}
	return newRepo(ctx, v), nil
}

// newRepo is an opened repository as commands see it.
func newRepo(ctx context.Context, v *vizier.Repository) *repo {
	r := &repo{
		Scheduler: v.Scheduler, Config: v.Config, Root: v.Root, Tree: v.Tree, Builder: v.Builder, Templates: v.Templates(), Logs: v.Store, Changed: v.Store.Changed,
		Effects: v.Store.Effects, Attempts: v.Store.Attempts, Progress: v.Store.Progress, Contained: v.ContainerLine, Payloads: v.Store, FollowRun: v.Store.FollowRun, Git: v.Git, Releases: v.Git,
		Events: func(after uint64) eventLog {
			return &followedLog{v.Store.Events(after), watch.NewFile(v.Store.EventsFile())}
		},
		Past: v.Store,
		At:   v.At, Evidence: v.Evidence,
		Resident: v.Resident,
		FewFiles: v.FewFiles,
		Attended: v.Attended, Elsewhere: v.Elsewhere,
		Outside: v.Outside, AgentPrograms: v.Agents,
		Inbox: v.Inbox, InboxFiles: v.InboxFiles,
		Neighbour: func(name string) (*repo, error) {
			other, err := v.Neighbour(name)
			if err != nil {
				return nil, err
			}
			return newRepo(ctx, other), nil
		},
	}
	r.Untrusted, r.Commands, r.Trust = v.Untrusted, v.Commands, v.Trust
	r.Foreign, r.Adopt = v.Store.Foreign, v.Store.Adopt
	r.Doctor.files, r.Doctor.git, r.Doctor.clusters, r.Doctor.containers = v.Store, v.Git, v.Clusters, v.CheckContainers
	r.Doctor.traces = v.CheckTraces
	return r
}
