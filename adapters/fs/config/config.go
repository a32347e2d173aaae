// Package config reads Vizier's configuration: TOML files and VIZIER_*
// variables over built-in defaults, each value with the place it came from.
// It is strict: every unknown key and every value of the wrong type is
// reported, with its file and line, and all of them at once.
package config

import (
	"path/filepath"
	"slices"
	"time"
)

// Config is the effective configuration. Load makes it.
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
	Commands   map[string]string // workflow alias to template
	Workflow   Workflow
	Release    Release
	Executors  map[string]Executor // besides this machine
	Containers Containers
	OTel       OTel
	Inbox      Inbox
	Flows      Flows

	own     bool              // it is the user's own file that is read
	origins map[string]string // by key: where a value that is not the default came from
}

// Scheduler bounds the scheduler itself.
type Scheduler struct {
	MaxRunning     int           // jobs that run at once; 0: the number of CPUs
	LockTimeout    time.Duration // how long a command waits for the scheduler lock
	Resident       bool          // whether a scheduler of its own looks after what waits for time or for the outside
	ResidentLinger time.Duration // how long that one stays when nothing waits
}

// Store says how records are kept.
type Store struct {
	Durability string // "full" or "relaxed"
}

// GC says what goes by itself.
type GC struct {
	Keep      Keep
	PackAfter time.Duration // after the end of a job its files are packed; 0: never
}

// Keep bounds what is kept of jobs that have ended. A bound of 0 is none.
type Keep struct {
	Age   time.Duration // since they ended
	Count int           // jobs
	Bytes int64         // of their files
}

// History bounds what is kept of the sealed history. A bound of 0 is none.
type History struct {
	MaxBytes int64
	Keep     time.Duration
}

// Leases says how long a runner is believed in that gives no sign of life.
type Leases struct {
	TTL       time.Duration // of a runner on another host
	Heartbeat time.Duration // between two signs of life
	Stalled   time.Duration // after this a runner of this host is shown as stalled
	Locks     bool          // locks of other hosts are seen on this one
}

// Jobs holds the defaults of every job.
type Jobs struct {
	Grace   time.Duration // between the polite and the final signal
	Timeout time.Duration // of one attempt; 0: none
	Cancel  Cancel

	Executor string // of jobs that name none; "": this machine

	Sandbox string   // "none", "best-effort" or "required": the least that a job gets
	Write   []string // paths that every sandbox opens
	Network string   // "all" or "none", of jobs in a sandbox
}

// OTel says where spans of jobs and runs go.
type OTel struct {
	Endpoint string // a collector's OTLP over HTTP; "": nowhere
}

// Containers says what runs jobs in containers.
type Containers struct {
	Engine      string   // "podman", "docker" or "apptainer"
	Run, Remove []string // command lines in place of the engine's usual ones; empty: those
}

// Cancel is what else a cancel does.
type Cancel struct{ CleanupWorktree bool }

// Logs bounds the output that is kept of a job.
type Logs struct {
	KeepAttempts int   // earlier attempts whose logs stay
	MaxBytes     int64 // of one log, the newest; 0: all
}

// Events bounds the event log.
type Events struct {
	MaxBytes int64 // of one file before the next is begun; 0: no bound
	Files    int   // kept, the one that is written to included
}

// Display holds how listings look when no flag says so.
type Display struct {
	Jobs JobsList
	Show []string // fields of `jobs show`; empty: the standard ones
}

// JobsList is how `jobs list` looks.
type JobsList struct {
	Format        string   // "list", "block", "table" or "json"
	Fields        []string // empty: the standard ones
	ShowSucceeded bool
}

// Approvals says who may decide approvals.
type Approvals struct {
	FromJobs     bool     // of the user's own file; see OwnAllows
	RequiredFrom []string // "not-submitter"
}

// Others reports that who submitted a job may not approve it.
func (a Approvals) Others() bool { return slices.Contains(a.RequiredFrom, NotSubmitter) }

// Workflow says where templates may come from.
type Workflow struct {
	GlobalEnabled bool
	GlobalDir     string // "": workflows beside the user's configuration file
}

// Global is the directory of the user's own templates; "": there are none.
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

// Inbox says where prompts are dropped and what becomes of them.
type Inbox struct {
	Home           string            // holds inbox, processed, finished and failed; relative to the root
	Layout         string            // "simple", "single_owner" or "multi_owner"
	Owner          string            // of every repository of the layout single_owner
	Flow           string            // template of a prompt that names none
	Debounce       time.Duration     // how long a file is still before it is claimed
	Visible        time.Duration     // how long a prompt that ended stays where it was dropped
	Poll           time.Duration     // between two looks of a watcher that hears of nothing
	Stalled        time.Duration     // without a sign of life, after which a run counts as stalled
	FailureArchive bool              // whether prompts whose runs failed are copied to failed
	Repositories   map[string]string // path by OWNER/REPOSITORY
}

// Release says how `vizier release` makes a release.
type Release struct {
	GateScript string // a shell command that must succeed, or the release is undone; "": none
}
