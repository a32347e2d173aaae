// Package proc runs attempts on this machine.
//
// Every attempt has a runner: this program, started again in a session of its
// own. The runner holds the job's lock for as long as it lives, so the lock's
// release is the exact signal of its death (semantics 3.3). It runs the job's
// command in a further session, the command's output going straight to the
// logs, and ends whatever the command leaves behind.
//
// What systems do in different ways is in files of its own: how a command dies
// with its runner (die_*), what it leaves (leftovers_*), the process table
// (table_*), the news of a runner's end (watch_exit_*) and the rest (system_*).
// docs/user/platforms.md tells what comes of it. The tag portable takes on
// Linux, but for the process table, what other systems take.
package proc

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// DefaultGrace is the time between TERM and KILL where nothing else is said.
const DefaultGrace = kernel.DefaultGrace

// Files says where an attempt's files are. Paths are absolute.
type Files interface {
	// LockFile is held by a job's runner. Its directory exists.
	LockFile(kernel.JobID) string

	// ClaimFile names the one runner of an attempt.
	ClaimFile(kernel.AttemptID) string

	// HeartbeatFile is what the runner of an attempt touches while it lives.
	HeartbeatFile(kernel.AttemptID) string

	// LogFile is the current log of a stream, "stdout" or "stderr", and with
	// "order" the record of the order in which they were written.
	LogFile(id kernel.JobID, stream string) string

	// ResultFile is where a command may leave an explicit result.
	ResultFile(kernel.AttemptID) string

	// CheckpointDir is what the attempts of a resumable job share.
	CheckpointDir(kernel.JobID) string

	// SubmissionsFile is where a command may leave jobs to be enqueued.
	SubmissionsFile(kernel.AttemptID) string

	// ReportFile is where a command may say how far it is.
	ReportFile(kernel.AttemptID) string
}

// Local is the executor and the workload of this machine. A process has one,
// and runs one command at a time with it.
type Local struct {
	Exe         string   // the program of runners; absolute
	ResidentExe string   // the program of the resident scheduler; "": Exe
	HooksExe    string   // the program that runs hooks; "": Exe
	Spans       bool     // there are spans of attempts, which commands are told of
	ExeArgs     []string // what precedes the arguments of a runner and of a builtin
	Root        string   // the repository's root; absolute
	Files       Files
	Grace       time.Duration // between TERM and KILL; 0: DefaultGrace
	MaxLog      int64         // bytes that are kept of each log; 0: all
	Lease       Lease
	Containers  Containers
	Now         func() time.Time // nil: time.Now

	provided provided // secrets of the attempt that is about to run, or runs

	mu   sync.Mutex
	own  map[int]bool // children this process started itself
	held map[kernel.JobID]*heldLock
}

func (l *Local) now() time.Time {
	if l.Now == nil {
		return kernel.Timestamp(time.Now())
	}
	return kernel.Timestamp(l.Now())
}

// start runs fork, which starts a child of this process, and remembers the
// child as one that is no leftover of a command.
func (l *Local) start(fork func() (int, error)) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keepDescriptors()
	pid, err := fork()
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

// ParseAttempt reads an attempt as runners and commands are told of it: JOB/N.
func ParseAttempt(s string) (kernel.AttemptID, error) {
	job, number, _ := strings.Cut(s, "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || !kernel.ValidJobID(job) {
		return kernel.AttemptID{}, fmt.Errorf("attempt %q: expected JOB/N, JOB 32 lowercase hex digits and N from 1: %w", s, kernel.ErrInvalid)
	}
	return kernel.AttemptID{Job: kernel.JobID(job), N: n}, nil
}

func label(a kernel.AttemptID) string { return string(a.Job) + "/" + strconv.Itoa(a.N) }
