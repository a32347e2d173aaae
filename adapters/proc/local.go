// Package proc runs attempts on this machine.
//
// Every attempt has a runner: this program, started again in a session of its
// own. The runner holds the job's lock for as long as it lives, so the release
// of the lock signals its death exactly (semantics 3.3). It runs the job's
// command in a further session, the command's output going straight to the
// logs, and ends whatever the command leaves behind.
//
// Code that differs between systems is in files of its own: how a command dies
// with its runner (die_*), what it leaves behind (leftovers_*), the process
// table (table_*), watching for a runner's end (watch_exit_*) and the rest
// (system_*). docs/user/platforms.md describes the consequences. With the tag
// portable, Linux uses what other systems use, except for the process table.
package proc

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// DefaultGrace is the default time between TERM and KILL.
const DefaultGrace = kernel.DefaultGrace

// Files returns the paths of an attempt's files. They are absolute.
type Files interface {
	// LockFile returns the lock file that a job's runner holds. Its directory
	// exists.
	LockFile(kernel.JobID) string

	// ClaimFile returns the file that identifies the one runner of an attempt.
	ClaimFile(kernel.AttemptID) string

	// HeartbeatFile returns the file that the runner of an attempt touches
	// while it lives.
	HeartbeatFile(kernel.AttemptID) string

	// LogFile returns the current log of a stream, "stdout" or "stderr", or
	// with "order" the record of the order in which the two were written.
	LogFile(id kernel.JobID, stream string) string

	// ResultFile returns the file in which a command may leave an explicit
	// result.
	ResultFile(kernel.AttemptID) string

	// CheckpointDir returns the directory that the attempts of a resumable job
	// share.
	CheckpointDir(kernel.JobID) string

	// SubmissionsFile returns the file in which a command may leave jobs to be
	// enqueued.
	SubmissionsFile(kernel.AttemptID) string

	// LostFile returns the file that notes lost runners. Its directory exists.
	LostFile() string

	// ReportFile returns the file in which a command may report its progress.
	ReportFile(kernel.AttemptID) string
}

// Local is the executor and the workload of this machine. A process has only
// one, and runs one command at a time with it.
type Local struct {
	Exe         string   // the program of runners; absolute
	ResidentExe string   // the program of the resident scheduler; "": Exe
	HooksExe    string   // the program that runs hooks; "": Exe
	Spans       bool     // there are spans of attempts, so commands get a trace context
	ExeArgs     []string // precede the arguments of a runner and of a builtin
	Root        string   // the repository's root; absolute
	Closed      []string // besides the repository's and Vizier's own, directories that no sandbox opens; absolute
	Files       Files
	Grace       time.Duration // between TERM and KILL; 0: DefaultGrace
	MaxLog      int64         // how many bytes of each log are kept; 0: all
	Lease       Lease
	Containers  Containers
	Now         func() time.Time // nil: time.Now

	provided provided // what the attempt that runs, or is about to, was given
	began    struct { // the last attempt that was claimed here, and when
		attempt kernel.AttemptID
		at      time.Time
	}

	mu   sync.Mutex
	own  map[int]bool // children that this process started itself
	held map[kernel.JobID]*heldLock
}

func (l *Local) now() time.Time {
	if l.Now == nil {
		return kernel.Timestamp(time.Now())
	}
	return kernel.Timestamp(l.Now())
}

// start calls fork, which must start a child of this process, and remembers
// that the child is not a leftover of a command.
func (l *Local) start(fork func() (int, error)) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keepDescriptors()
	pid, err := withOwnFileSize(fork)
	if err != nil {
		return 0, err
	}
	if l.own == nil {
		l.own = map[int]bool{}
	}
	l.own[pid] = true
	return pid, nil
}

func (l *Local) forget(pid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.own, pid)
}

// ParseAttempt parses an attempt in the form that runners and commands are
// given: JOB/N.
func ParseAttempt(s string) (kernel.AttemptID, error) {
	job, number, _ := strings.Cut(s, "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || !kernel.ValidJobID(job) {
		return kernel.AttemptID{}, fmt.Errorf("attempt %q: expected JOB/N, JOB 32 lowercase hex digits and N from 1: %w", s, kernel.ErrInvalid)
	}
	return kernel.AttemptID{Job: kernel.JobID(job), N: n}, nil
}

func label(a kernel.AttemptID) string { return string(a.Job) + "/" + strconv.Itoa(a.N) }
