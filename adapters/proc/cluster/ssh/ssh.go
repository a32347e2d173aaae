// Package ssh runs jobs on hosts that share the file system and have no batch system.
// This program, started there through ssh, starts, lists and ends them. The shared
// directory has a file for each job that a host has started.
package ssh

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Kind is what the configuration calls this engine.
const Kind = "ssh"

// Entry is the hidden command that answers questions on a host.
const Entry = "__host"

// Host is a host that runs jobs.
type Host struct {
	Name  string // as ssh knows it
	Slots int    // jobs that it runs at once
}

// Engine runs jobs on hosts.
type Engine struct {
	Hosts   []Host
	Client  []string // the command line of ssh, before its own options
	Program string   // this program as the hosts find it; absolute
	Dir     string   // where jobs are on record, on the shared file system; absolute

	mu   sync.Mutex
	load map[string]int    // jobs that each host has, as of the last list; nil: there was no list yet
	down map[string]string // hosts that cannot be asked, and why
}

// recess is how long a host is not asked after it did not answer.
const recess = 30 * time.Second

// Accepts implements cluster.Engine.
func (e *Engine) Accepts(options []string) error {
	_, err := e.wanted(options)
	return err
}

// wanted returns the host that options ask for; "": any.
func (e *Engine) wanted(options []string) (name string, err error) {
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		if key != "host" {
			return "", fmt.Errorf("option %q of hosts: expected host=NAME: %w", o, kernel.ErrInvalid)
		}
		if !slices.ContainsFunc(e.Hosts, func(h Host) bool { return h.Name == value }) {
			return "", fmt.Errorf("option %q: hosts are %s: %w", o, strings.Join(e.names(), ", "), kernel.ErrInvalid)
		}
		name = value
	}
	return name, nil
}

func (e *Engine) names() (all []string) {
	for _, h := range e.Hosts {
		all = append(all, h.Name)
	}
	return all
}

// Missing implements cluster.Engine.
func (e *Engine) Missing() *cluster.Finding {
	if _, err := exec.LookPath(e.Client[0]); err != nil {
		return &cluster.Finding{Problem: e.Client[0] + " is not on PATH here", Next: "install an ssh client on this host"}
	}
	return nil
}

// Mend implements cluster.Engine.
func (e *Engine) Mend(cluster.Question) string {
	return "see that `" + kernel.CommandLine(append(slices.Clone(e.Client), "-o", "BatchMode=yes", e.Hosts[0].Name, e.Program, "version")...) + "` answers without asking for anything"
}

// Each returns, for each host, the options of a job that runs there.
func (e *Engine) Each() (options [][]string) {
	for _, h := range e.Hosts {
		options = append(options, []string{"host=" + h.Name})
	}
	return options
}

// Slots returns how many jobs all hosts run at once.
func (e *Engine) Slots() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, h := range e.Hosts {
		if e.down[h.Name] != "" {
			n += e.load[h.Name] // its jobs keep their slots
		} else {
			n += h.Slots
		}
	}
	return n
}

// Submit implements cluster.Engine: on the host with the most room.
func (e *Engine) Submit(ctx context.Context, r cluster.Request) (string, error) {
	want, err := e.wanted(r.Options)
	if err != nil {
		return "", &cluster.Refusal{Kind: cluster.Never, Said: kernel.Said(err)}
	}
	if e.unasked() {
		if _, err := e.List(ctx, ""); err != nil {
			return "", err
		}
	}
	h, err := e.choose(want)
	if err != nil {
		return "", err
	}
	a, err := e.ask(ctx, h.Name, question{Do: doStart, Job: record{Name: r.Name}, Argv: r.Argv, Cwd: r.Dir, Log: r.Log})
	if err != nil {
		return "", err
	}
	return h.Name + ":" + strconv.Itoa(a.PID), nil
}

// unasked reports that it is not known how many jobs each host has.
func (e *Engine) unasked() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.load == nil
}

// choose returns the host for a job, and reserves a slot for it there.
func (e *Engine) choose(want string) (best Host, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	free := func(h Host) int { return h.Slots - e.load[h.Name] }
	for _, h := range e.Hosts {
		if (want == "" || h.Name == want) && e.down[h.Name] == "" && free(h) > max(free(best), 0) {
			best = h
		}
	}
	switch {
	case best.Name != "":
		e.load[best.Name]++
		return best, nil
	case e.down[want] != "":
		return best, &cluster.Refusal{Kind: cluster.NotThis, Said: e.down[want]}
	default:
		return best, &cluster.Refusal{Kind: cluster.NotThis, Said: "no slot is free on " + cmp.Or(want, "any host that answers")}
	}
}

// List implements cluster.Engine. Jobs of a host that does not answer are unseen.
func (e *Engine) List(ctx context.Context, prefix string) ([]cluster.Job, error) {
	each := make([][]cluster.Job, len(e.Hosts))
	failed := make([]error, len(e.Hosts))
	var all sync.WaitGroup
	for i, h := range e.Hosts {
		all.Go(func() { each[i], failed[i] = e.listHost(ctx, h.Name, prefix) })
	}
	all.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, cluster.ErrNoAnswer) { // it is not known which hosts would have answered
		return nil, cause
	}
	if !slices.Contains(failed, nil) {
		return nil, errors.Join(failed...)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.load, e.down = map[string]int{}, map[string]string{}
	for i, h := range e.Hosts {
		if failed[i] != nil {
			e.down[h.Name] = failed[i].Error()
		}
		for _, j := range each[i] {
			if j.State == cluster.Running || j.State == cluster.Unseen {
				e.load[h.Name]++
			}
		}
	}
	return slices.Concat(slices.Concat(each...), e.elsewhere(prefix)), nil
}

// listHost returns the jobs of a host, or those on record if it does not answer.
func (e *Engine) listHost(ctx context.Context, host, prefix string) ([]cluster.Job, error) {
	a, err := e.ask(ctx, host, question{Do: doList, Prefix: prefix})
	if err != nil {
		return e.known(host, prefix, cluster.Unseen, err.Error()), err
	}
	for i := range a.Jobs {
		a.Jobs[i].ID, a.Jobs[i].Node = host+":"+a.Jobs[i].ID, host
	}
	return a.Jobs, nil
}

// elsewhere returns the jobs of hosts that are not in the configuration any more.
func (e *Engine) elsewhere(prefix string) (jobs []cluster.Job) {
	entries, _ := os.ReadDir(e.Dir) // it may not exist yet
	for _, entry := range entries {
		if !slices.Contains(e.names(), entry.Name()) {
			jobs = append(jobs, e.known(entry.Name(), prefix, cluster.Lost, "its host is not in the configuration any more")...)
		}
	}
	return jobs
}

// known returns the jobs that are on record for a host.
func (e *Engine) known(host, prefix string, as cluster.State, why string) (jobs []cluster.Job) {
	records, _ := readRecords(filepath.Join(e.Dir, host), prefix) // records that cannot be read are left out
	for _, r := range records {
		jobs = append(jobs, cluster.Job{ID: host + ":" + strconv.Itoa(r.Process.PID), Name: r.Name, State: as, Reason: why, Node: host})
	}
	return jobs
}

// Cancel implements cluster.Engine.
func (e *Engine) Cancel(ctx context.Context, jobs []cluster.Job) error {
	by := map[string][]string{}
	for _, j := range jobs {
		host, _, _ := strings.Cut(j.ID, ":")
		by[host] = append(by[host], j.Name)
	}
	var failed []error
	for host, names := range by {
		if !slices.Contains(e.names(), host) {
			continue
		}
		if _, err := e.ask(ctx, host, question{Do: doCancel, Names: names}); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// resting is the record that a host did not answer.
type resting struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

func (e *Engine) restFile(host string) string { return filepath.Join(e.Dir, host, "away") }

// ask asks a question of this program on a host. The error names the host.
func (e *Engine) ask(ctx context.Context, host string, q question) (a reply, err error) {
	if b, err := os.ReadFile(e.restFile(host)); err == nil {
		var r resting
		if json.Unmarshal(b, &r) == nil && time.Since(r.Since).Abs() < recess {
			return a, errors.New(r.Reason)
		}
	}
	q.Dir = filepath.Join(e.Dir, host)
	in, _ := json.Marshal(q) // strings and numbers can always be encoded
	argv := append(slices.Clone(e.Client), "-o", "BatchMode=yes", "-T", host, "exec "+cluster.Quote([]string{e.Program, Entry}))
	out, err := cluster.Program{Argv: argv, Dir: "/", Stdin: string(in)}.Run(ctx)
	if err == nil {
		err = json.Unmarshal([]byte(out), &a)
	}
	if err == nil {
		if a.Error != "" { // the host can be asked, and refused the request
			err = &cluster.Refusal{Said: "host " + host + ": " + a.Error}
		}
		return a, err
	}
	if failed, ran := errors.AsType[*cluster.ProgramError](err); ran {
		err = failed.Err
		if said := strings.Join(strings.Fields(failed.Stderr), " "); said != "" {
			err = errors.New(said)
		}
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, cluster.ErrNoAnswer):
		err = cause
	case cause != nil: // the caller gave up
		return a, fmt.Errorf("host %s: %w", host, cause)
	}
	err = fmt.Errorf("host %s cannot be asked: %w", host, err)
	if b, failed := json.Marshal(resting{time.Now(), err.Error()}); failed == nil && os.MkdirAll(q.Dir, 0o700) == nil {
		_ = sys.ReplaceFile(e.restFile(host), b)
	}
	return a, err
}
