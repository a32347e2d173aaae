// Package config reads Vizier's configuration: TOML files and VIZIER_*
// variables over built-in defaults. It knows the origin of each value. It is
// strict: it reports all unknown keys and all values of the wrong type at once,
// each with its file and line.
package config

import (
	"path/filepath"
	"slices"
	"time"
)

// Config is the effective configuration, made by Open.
type Config struct {
	Scheduler  Scheduler
	Pools      map[string]int // capacity of each counted lock, in units
	Store      Store
	GC         GC
	History    History
	Leases     Leases
	Jobs       Jobs
	Logs       Logs
	Events     Events
	Hooks      map[string]Hook // by name
	Display    Display
	Approvals  Approvals
	Agents     Agents
	Commands   map[string]string // template by workflow alias
	Workflow   Workflow
	Release    Release
	Executors  map[string]Executor // by name; the local one is not among them
	Containers Containers
	OTel       OTel
	Inbox      Inbox
	Flows      Flows

	own     bool              // while loading: the file being read is the user's own
	origins map[string]string // origin of each value that is not the default, by key
}

// Scheduler configures the scheduler itself.
type Scheduler struct {
	MaxRunning     int           // jobs that run at once; 0: the number of CPUs
	LockTimeout    time.Duration // how long a command waits for the scheduler lock
	Resident       bool          // whether a resident scheduler looks after jobs that wait for time or for the outside world
	ResidentLinger time.Duration // how long the resident scheduler stays when no job waits
}

// Store configures how records are kept.
type Store struct {
	Durability string // "full" or "relaxed"
}

// GC configures what is deleted or packed automatically.
type GC struct {
	Keep      Keep
	PackAfter time.Duration // time after a job's end at which its files are packed; 0: never
}

// Keep bounds the ended jobs that are kept. A bound of 0 means none.
type Keep struct {
	Age   time.Duration // time since their end
	Count int           // number of jobs
	Bytes int64         // total size of their files
}

// History bounds the sealed history that is kept. A bound of 0 means none.
type History struct {
	MaxBytes int64
	Keep     time.Duration
}

// Leases configures how long a runner counts as alive without a sign of life.
type Leases struct {
	TTL       time.Duration // for runners on other hosts
	Heartbeat time.Duration // interval between signs of life
	Stalled   time.Duration // time without one after which a runner of this host is shown as stalled
	Locks     bool          // whether file locks of other hosts are visible on this one
}

// Jobs holds the defaults of jobs.
type Jobs struct {
	Grace   time.Duration // time between TERM and KILL
	Timeout time.Duration // time limit of one attempt; 0: none
	Cancel  Cancel

	Executor string // executor of jobs that name none; "": this machine

	Sandbox string   // minimum for every job: "none", "best-effort" or "required"
	Write   []string // paths that are writable in every sandbox
	Network string   // "all" or "none", for jobs in a sandbox
}

// OTel configures where spans of jobs and runs are sent.
type OTel struct {
	Endpoint string // address of a collector that takes OTLP over HTTP; "": nowhere
}

// Containers configures the engine that runs jobs in containers.
type Containers struct {
	Engine      string   // "podman", "docker" or "apptainer"
	Run, Remove []string // command lines that replace the engine's usual ones; empty: the usual ones
}

// Cancel configures what a cancel does in addition to ending the job.
type Cancel struct{ CleanupWorktree bool }

// Logs bounds the output that is kept for a job.
type Logs struct {
	KeepAttempts int   // number of earlier attempts whose logs are kept
	MaxBytes     int64 // size of one log, of which the newest part is kept; 0: no bound
}

// Events bounds the event log.
type Events struct {
	MaxBytes int64 // size at which a file is full and the next is begun; 0: no bound
	Files    int   // number of files kept, including the current one
}

// Display configures listings for which no flags are given.
type Display struct {
	Jobs JobsList
	Show []string // fields of `jobs show`; empty: the standard ones
}

// JobsList configures `jobs list`.
type JobsList struct {
	Format        string   // "list", "block", "table" or "json"
	Fields        []string // empty: the standard ones
	ShowSucceeded bool
}

// Approvals configures who may decide approvals.
type Approvals struct {
	FromJobs     bool     // from the user's own file only; see OwnAllows
	RequiredFrom []string // "not-submitter"
}

// Others reports whether the submitter of a job may not approve it.
func (a Approvals) Others() bool { return slices.Contains(a.RequiredFrom, NotSubmitter) }

// Workflow configures where templates may come from.
type Workflow struct {
	GlobalEnabled bool
	GlobalDir     string // "": the directory workflows beside the user's configuration file
}

// Global returns the directory of the user's own templates, or "" if there is
// none.
func (w Workflow) Global(env func(string) string) string {
	switch dir := UserDir(env); {
	case !w.GlobalEnabled:
		return ""
	case w.GlobalDir == "" && dir != "":
		return filepath.Join(dir, "workflows")
	default:
		return w.GlobalDir
	}
}

// Inbox configures where prompts are dropped and what happens to them.
type Inbox struct {
	Home           string            // directory that holds inbox, processed, finished and failed; relative to the root
	Layout         string            // "simple", "single_owner" or "multi_owner"
	Owner          string            // owner of all repositories in the layout single_owner
	Flow           string            // template of prompts that name none
	Debounce       time.Duration     // time without a change after which a file is claimed
	Visible        time.Duration     // how long a prompt stays where it was dropped after its run has ended
	Poll           time.Duration     // polling interval of a watcher that gets no notifications
	Stalled        time.Duration     // time without a sign of life after which a run counts as stalled
	FailureArchive bool              // whether to copy prompts whose runs failed to failed
	Repositories   map[string]string // path by OWNER/REPOSITORY
}

// Release says how `vizier release` makes a release.
type Release struct {
	GateScript string // a shell command that must succeed, or the release is undone; "": none
}
