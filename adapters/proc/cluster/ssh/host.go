package ssh

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// question is a request to a host, on the standard input of Entry.
type question struct {
	Do  string `json:"do"`
	Dir string `json:"dir"` // of the host's jobs

	Job  record   `json:"job,omitzero"` // to start
	Argv []string `json:"argv,omitempty"`
	Cwd  string   `json:"cwd,omitempty"`
	Log  string   `json:"log,omitempty"`

	Prefix string   `json:"prefix,omitempty"` // of the names of jobs to list
	Names  []string `json:"names,omitempty"`  // of jobs to cancel
}

// The values of question.Do.
const (
	doStart  = "start"
	doList   = "list"
	doCancel = "cancel"
)

// reply is the answer of a host.
type reply struct {
	PID   int           `json:"pid,omitempty"`
	Jobs  []cluster.Job `json:"jobs,omitempty"`
	Error string        `json:"error,omitempty"`
}

// record is a job that was started here. Its file is made once, before the job is started:
// a record without a process is of a job that is just being started, or never was.
type record struct {
	Name    string        `json:"name"`
	Process proc.Identity `json:"process"`

	made time.Time
}

// kept is how long the record of an ended job is kept.
const kept = time.Hour

// starting is how long a job may be on record without a process.
const starting = time.Minute

// Serve is the hidden entry point on a host: it answers the question on the standard input.
func Serve(stdin io.Reader, stdout io.Writer) error {
	var q question
	if err := json.NewDecoder(stdin).Decode(&q); err != nil {
		return fmt.Errorf("expected a question: %w: %w", err, kernel.ErrInvalid)
	}
	a, err := q.answer()
	if err != nil {
		a.Error = err.Error()
	}
	return json.NewEncoder(stdout).Encode(a)
}

func (q question) answer() (a reply, err error) {
	switch q.Do {
	case doStart:
		a.PID, err = q.start()
	case doList:
		a.Jobs, err = q.list()
	case doCancel:
		err = q.cancel()
	default:
		err = fmt.Errorf("%q is nothing that this version can do: is it another one than the submitting host's?", q.Do)
	}
	return a, err
}

func recordFile(dir, name string) string { return filepath.Join(dir, name+".json") }

// start starts a job in a session of its own, so that it outlives the connection. If a job
// of that name was started before, it returns that one.
func (q question) start() (pid int, err error) {
	if err := os.MkdirAll(q.Dir, 0o700); err != nil {
		return 0, err
	}
	path := recordFile(q.Dir, q.Job.Name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		r, err := readRecord(path)
		return r.Process.PID, err
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(q.Argv[0], q.Argv[1:]...)
	cmd.Dir, cmd.SysProcAttr = q.Cwd, &syscall.SysProcAttr{Setsid: true}
	log, err := os.OpenFile(q.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
		err = cmd.Start()
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(path)) // it was not started; another host may start it
	}
	r := record{Name: q.Job.Name, Process: proc.Identify(cmd.Process.Pid)}
	b, _ := json.Marshal(r) // strings and numbers can always be encoded
	return r.Process.PID, sys.ReplaceFile(path, b)
}

// list returns the jobs with their states. It removes the records of jobs that ended long ago.
func (q question) list() (jobs []cluster.Job, err error) {
	records, err := readRecords(q.Dir, q.Prefix)
	for _, r := range records {
		j := cluster.Job{ID: strconv.Itoa(r.Process.PID), Name: r.Name, State: cluster.Running}
		switch {
		case r.Process.Running() || r.Process.PID == 0 && time.Since(r.made).Abs() < starting: // the clock may have been set back
		case r.Process.PID == 0:
			j.State, j.Reason = cluster.Lost, "who was to start it was cut off"
		case r.Process.Boot != proc.Boot():
			j.State, j.Reason = cluster.Lost, "its host was started anew"
		default:
			j.State, j.Word = cluster.Failed, "gone"
		}
		if j.State != cluster.Running && time.Since(r.made) > kept {
			_ = os.Remove(recordFile(q.Dir, r.Name))
			continue
		}
		jobs = append(jobs, j)
	}
	return jobs, err
}

// cancel asks jobs to end; their runners end the processes that they have started.
func (q question) cancel() error {
	for _, name := range q.Names {
		if r, err := readRecord(recordFile(q.Dir, name)); err == nil && r.Process.Running() {
			_ = syscall.Kill(r.Process.PID, syscall.SIGTERM) // it may have ended
		}
	}
	return nil
}

// readRecords returns the jobs on record whose names begin with prefix.
func readRecords(dir, prefix string) (all []record, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), ".json")
		if !is || !strings.HasPrefix(name, prefix) {
			continue
		}
		if r, err := readRecord(filepath.Join(dir, entry.Name())); err == nil { // else the record was just removed
			all = append(all, r)
		}
	}
	return all, err
}

func readRecord(path string) (record, error) {
	var r record
	b, err := sys.ReadRegular(path, 1<<16)
	if err != nil {
		return r, err
	}
	_ = json.Unmarshal(b, &r) // without a process it is empty
	r.Name = strings.TrimSuffix(filepath.Base(path), ".json")
	if info, err := os.Lstat(path); err == nil {
		r.made = info.ModTime()
	}
	return r, nil
}
