// Package command runs jobs on any cluster by three programs of the user: one submits
// a job, one lists jobs and one cancels them. Each reads a JSON document on its standard
// input and prints one. docs/user/executors.md is the contract.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Kind is what the configuration calls this engine.
const Kind = "command"

// Version is the version of the documents.
const Version = 1

// Settings are the settings of the engine.
type Settings struct {
	Submit, List, Cancel []string // command lines
	Options              []string // what every job asks for, before its own

	Dir string // where they run; absolute
}

// SubmitRequest is what Submit reads.
type SubmitRequest struct {
	Version int      `json:"version"`
	Name    string   `json:"name"`
	Argv    []string `json:"argv"`
	Dir     string   `json:"dir"`
	Log     string   `json:"log"`
	Options []string `json:"options"`
}

// ListRequest is what List reads.
type ListRequest struct {
	Version int    `json:"version"`
	Prefix  string `json:"prefix"`
}

// CancelRequest is what Cancel reads.
type CancelRequest struct {
	Version int        `json:"version"`
	Jobs    []NamedJob `json:"jobs"`
}

// NamedJob is a job to cancel.
type NamedJob struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Answer is what each program prints: what was asked for, or why it could not do it.
type Answer struct {
	ID   string        `json:"id"`   // of a job that was submitted
	Jobs []cluster.Job `json:"jobs"` // of a list

	Refused string `json:"refused"` // the job will never be taken: why
	Full    string `json:"full"`    // no more jobs are taken for now: why
	Away    string `json:"away"`    // the cluster cannot be asked: why
}

// Engine implements cluster.Engine with Settings, which is a type of its own because
// methods cannot have the names of fields.
type Engine struct{ Settings Settings }

// Accepts implements cluster.Engine. It checks only the form of options: only the user's
// programs know what they mean.
func (Engine) Accepts(options []string) error {
	for _, o := range options {
		if o == "" || strings.ContainsAny(o, "\x00\n") {
			return fmt.Errorf("option %q: expected a text on one line that is not empty: %w", o, kernel.ErrInvalid)
		}
	}
	return nil
}

// Missing implements cluster.Engine.
func (e Engine) Missing() *cluster.Finding {
	for _, one := range []struct {
		key  string
		argv []string
	}{{"submit", e.Settings.Submit}, {"list", e.Settings.List}, {"cancel", e.Settings.Cancel}} {
		path := one.argv[0]
		if strings.Contains(path, "/") && !strings.HasPrefix(path, "/") {
			path = e.Settings.Dir + "/" + path
		}
		if _, err := exec.LookPath(path); err != nil {
			return &cluster.Finding{Problem: "the program of " + one.key + " cannot be run: " + err.Error(), Next: "mend its path or its mode"}
		}
	}
	return nil
}

// Mend implements cluster.Engine.
func (e Engine) Mend(q cluster.Question) string {
	asked := map[cluster.Question][]string{cluster.Listing: e.Settings.List, cluster.Submitting: e.Settings.Submit, cluster.Cancelling: e.Settings.Cancel}[q]
	return "see what `" + kernel.CommandLine(asked...) + "` says, and docs/user/executors.md"
}

// Submit implements cluster.Engine.
func (e Engine) Submit(ctx context.Context, r cluster.Request) (string, error) {
	own := slices.Concat(e.Settings.Options, r.Options)
	if own == nil {
		own = []string{}
	}
	a, err := e.call(ctx, e.Settings.Submit, SubmitRequest{Version, r.Name, r.Argv, r.Dir, r.Log, own})
	if failed, ran := errors.AsType[*cluster.ProgramError](err); ran && ctx.Err() == nil {
		return "", &cluster.Refusal{Kind: cluster.Unclear, Said: failed.Error()}
	}
	if bad, is := errors.AsType[*badAnswer](err); is {
		return "", &cluster.Refusal{Kind: cluster.Unclear, Said: bad.Error()}
	}
	if err == nil && a.ID == "" {
		err = &cluster.Refusal{Kind: cluster.Unclear, Said: e.Settings.Submit[0] + " printed no id"}
	}
	return a.ID, err
}

// List implements cluster.Engine.
func (e Engine) List(ctx context.Context, prefix string) ([]cluster.Job, error) {
	a, err := e.call(ctx, e.Settings.List, ListRequest{Version, prefix})
	if err != nil {
		return nil, err
	}
	if a.Jobs == nil {
		return nil, fmt.Errorf("%s printed no jobs: expected {\"jobs\": [...]}", e.Settings.List[0])
	}
	for i, j := range a.Jobs {
		a.Jobs[i].Word, a.Jobs[i].Reason = cluster.Words(j.Word), cluster.Words(j.Reason)
		if j.ID == "" || j.Name == "" || !slices.Contains(cluster.States, j.State) {
			return nil, fmt.Errorf("%s printed the job %s: expected an id, a name and a state of %v", e.Settings.List[0], cluster.Words(fmt.Sprintf("%+v", j)), cluster.States)
		}
		if !j.Valid() {
			return nil, fmt.Errorf("%s printed %+v of the job %s: expected seconds, cpu_seconds and peak_memory_bytes from 0 to 30 years", e.Settings.List[0], j.Figures, cluster.Words(j.Name))
		}
	}
	return slices.DeleteFunc(a.Jobs, func(j cluster.Job) bool { return !strings.HasPrefix(j.Name, prefix) }), nil
}

// Cancel implements cluster.Engine.
func (e Engine) Cancel(ctx context.Context, jobs []cluster.Job) error {
	r := CancelRequest{Version: Version}
	for _, j := range jobs {
		r.Jobs = append(r.Jobs, NamedJob{j.ID, j.Name})
	}
	_, err := e.call(ctx, e.Settings.Cancel, r)
	return err
}

// badAnswer says that a program printed something that is no answer.
type badAnswer struct {
	program string
	err     error
}

func (e *badAnswer) Error() string { return e.program + " printed what is no answer: " + e.err.Error() }
func (e *badAnswer) Unwrap() error { return e.err }

// call runs one of the programs. A program that prints why it did not do what was asked
// may also exit with an error.
func (e Engine) call(ctx context.Context, argv []string, request any) (a Answer, err error) {
	in, _ := json.Marshal(request) // strings and numbers can always be encoded
	out, failed := cluster.Program{Argv: argv, Dir: e.Settings.Dir, Stdin: string(in) + "\n"}.Run(ctx)
	if strings.TrimSpace(out) != "" {
		if err := json.Unmarshal([]byte(out), &a); err != nil && failed == nil {
			return a, &badAnswer{argv[0], err}
		}
	}
	switch {
	case a.Away != "":
		return a, errors.New(cluster.Words(a.Away))
	case a.Refused != "":
		return a, &cluster.Refusal{Kind: cluster.Never, Said: cluster.Words(a.Refused)}
	case a.Full != "":
		return a, &cluster.Refusal{Kind: cluster.Later, Said: cluster.Words(a.Full)}
	default:
		return a, failed
	}
}
