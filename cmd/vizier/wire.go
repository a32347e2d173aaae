package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/adapters/proc/agent"
	"github.com/vizier-scheduler/vizier/adapters/proc/slurm"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// repo is an opened repository.
type repo struct {
	Scheduler *app.Scheduler
	Config    config.Config
	Root      string // absolute
	Tree      string // the working tree that the command runs in; absolute

	// Logs says where a job's files are: absolute paths, of files that need
	// not exist. The stream of LogFile is stdout or stderr.
	Logs interface {
		LogFile(id kernel.JobID, stream string) string
		JobDir(kernel.JobID) string
		OutcomeFile(kernel.JobID) string
	}

	// Effects are a job's journalled side effects, and what is wrong with
	// those that cannot be read.
	Effects func(kernel.JobID) ([]kernel.Effect, error)

	// Attempts are the attempts of a job that left something on record.
	Attempts func(kernel.JobID) ([]kernel.Result, error)

	// IDs are the ids of all jobs, without their records; nil: only the records
	// tell.
	IDs func() ([]kernel.JobID, error)

	// Changed are the jobs that changed since a place in the store's history, and
	// the place up to which that is so; false: all may have. nil: nobody can tell.
	Changed func(since fs.Place) ([]kernel.JobID, fs.Place, bool)

	// Manifest is the manifest of a run; kernel.ErrNotFound if there is none.
	Manifest func(kernel.RunID) ([]byte, error)

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
		clusters map[string]*slurm.Cluster
	}
	// Events reads the event log after an event's number, and tells when there
	// may be more.
	Events func(after uint64) eventLog

	// Resident is the process of the resident scheduler; 0: none is alive.
	Resident func() int

	// Attended reports that there is one, or that one is just being started.
	Attended func() bool

	// AgentPrograms looks at the programs of agents; nil: nobody does.
	AgentPrograms app.AgentPrograms

	// Outside is who goes on with what is asked for here, in words; "": this
	// process itself.
	Outside string

	// InsideJob is the job that this command runs in, if it does.
	InsideJob func() (kernel.JobID, bool)
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
	root, err := git.FindRoot(dir)
	if err != nil {
		return nil, err
	}
	keep := fs.NewLayout(root.Dir).KeptConfigFile()
	if g.ConfigFile != "" {
		keep = "" // what this process starts reads other files
	}
	live, err := config.Open(config.Sources{Root: root.Dir, File: g.ConfigFile, Env: env.get}, keep)
	if err != nil {
		return nil, err
	}
	if g.NoResident {
		if err := os.Setenv("VIZIER_SCHEDULER_RESIDENT", "false"); err != nil { // for the runners it starts
			return nil, err
		}
	}
	w, err := connect(root, live, env, func(c *config.Config) { c.Scheduler.Resident = c.Scheduler.Resident && !g.NoResident })
	if err != nil {
		return nil, err
	}
	r := &repo{
		Scheduler: w.scheduler, Config: w.config(), Root: root.Dir, Tree: root.Tree, Logs: w.store, IDs: w.store.IDs, Changed: w.store.Changed, Effects: w.store.Effects, Attempts: w.store.Attempts, Manifest: w.store.Run, FollowRun: w.store.FollowRun, Git: w.git, Releases: w.git,
		Events: func(after uint64) eventLog {
			return &followedLog{w.store.Events(after), watch.NewFile(w.store.EventsFile())}
		},
		Resident:  func() int { return watch.PID(w.store.ResidentFile()) },
		Attended:  func() bool { return watch.Taken(w.store.ResidentFile()) },
		InsideJob: func() (kernel.JobID, bool) { return w.insideJob(ctx) },
		Outside:   w.confine(),

		AgentPrograms: programsOf{agent.Agents{Root: root.Dir, Shims: shimDirs(env)}},
	}
	r.Doctor.files, r.Doctor.git, r.Doctor.clusters = w.store, w.git, w.clusters
	return r, nil
}

// internalCommand runs the hidden entry points.
func internalCommand(args []string, _ io.Reader, stdout, stderr io.Writer, environ []string) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	switch args[0] {
	case "__shim":
		return serveAttempt(args[1:], stderr, environ), true
	case "__node":
		return serveOnNode(args[1:], stderr, environ), true
	case "__probe":
		return serveProbe(args[1:], stderr), true
	case "__workflow-node":
		return serveNode(args[1:], stdout, stderr, environ), true
	case "__prompt-end": // what a run ends in that ends in several jobs: they have succeeded
		return 0, true
	case "__hooks":
		return serveHooks(stderr, environ), true
	case "__resident":
		return serveResident(stderr, environ), true
	default:
		return 0, false
	}
}
