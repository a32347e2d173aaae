package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel/view"
)

type statusInput struct{}

func statusTool(statusInput) (asked, error) { return asked{args: []string{"status"}}, nil }

type listInput struct {
	Status []string  `json:"status,omitempty" jsonschema:"only these statuses, such as running, waiting, failed, or open for all that have not ended"`
	Run    reference `json:"run,omitempty" jsonschema:"only the jobs of this run"`
	Name   string    `json:"name,omitempty" jsonschema:"only jobs whose name contains this, or matches it as a pattern with * or ?"`
	Tag    []string  `json:"tag,omitempty" jsonschema:"only jobs with these tags, each KEY=VALUE"`
	Since  string    `json:"since,omitempty" jsonschema:"only jobs enqueued since then, such as 2h, 2026-11-22, or a time"`
	Limit  int       `json:"limit,omitempty" jsonschema:"how many, the newest; 50 by default, at most 500"`
}

// listFields are the fields of a job in the list, whatever [display.lists] shows people.
const listFields = "number,ref,name,status,created,wait,remark,progress,failed,exit_code,reason,command"

func listTool(in listInput) (asked, error) {
	const most = 500
	if in.Limit < 0 || in.Limit > most {
		return asked{}, fmt.Errorf("limit is %d: expected 1 to %d", in.Limit, most)
	}
	args := []string{"list", "--all", "--fields=" + listFields, "--most=" + strconv.Itoa(cmp.Or(in.Limit, 50))}
	args = append(args, flags("status", in.Status...)...)
	args = append(args, flags("run", string(in.Run))...)
	args = append(args, flags("name", in.Name)...)
	args = append(args, flags("tag", in.Tag...)...)
	return asked{args: append(append([]string{"jobs"}, args...), flags("since", in.Since)...)}, nil
}

type jobInput struct {
	Job reference `json:"job" jsonschema:"its number, such as 12 or 14/NODE, or 14 for the whole run; its name, its id, or @last"`
}

func showTool(in jobInput) (asked, error) {
	job, err := refs(in.Job)
	var all []string // whatever [display.lists] shows people
	for _, f := range view.ShowFields() {
		all = append(all, f.Key)
	}
	return asked{args: append([]string{"show", "--fields=" + strings.Join(all, ",")}, job...)}, err
}

func whyTool(in jobInput) (asked, error) {
	job, err := refs(in.Job)
	return asked{args: append([]string{"why"}, job...)}, err
}

type logsInput struct {
	Job    reference `json:"job" jsonschema:"the job, such as 12 or 14/NODE, or the run"`
	Stream string    `json:"stream,omitempty" jsonschema:"stdout, stderr or both, which is the default"`
	Lines  int       `json:"lines,omitempty" jsonschema:"how many of the last lines; 200 by default, at most 5000"`
	Grep   string    `json:"grep,omitempty" jsonschema:"only lines that match this regular expression"`
	Failed bool      `json:"failed,omitempty" jsonschema:"for a run: only failed jobs"`
}

func logsTool(in logsInput) (asked, error) {
	const most = 5000
	job, err := refs(in.Job)
	if in.Lines < 0 || in.Lines > most {
		err = fmt.Errorf("lines is %d: expected 1 to %d", in.Lines, most)
	}
	lines := cmp.Or(in.Lines, 200)
	args := []string{"tail", "--lines=" + strconv.Itoa(lines+1), "--stream=" + cmp.Or(in.Stream, "both")}
	if in.Failed {
		args = append(args, "--failed")
	}
	return asked{args: append(append(args, flags("grep", in.Grep)...), job...), text: true, lines: lines}, err
}

type whatIfInput struct {
	Approve []reference      `json:"approve,omitempty" jsonschema:"the pending approvals of these jobs are granted"`
	Reject  []reference      `json:"reject,omitempty" jsonschema:"the pending approvals of these jobs are refused"`
	Succeed []reference      `json:"succeed,omitempty" jsonschema:"these jobs succeed and make their declared artifacts"`
	Fail    []reference      `json:"fail,omitempty" jsonschema:"these jobs fail, each JOB or JOB:EXITCODE"`
	Cancel  []reference      `json:"cancel,omitempty" jsonschema:"these jobs are cancelled"`
	Retry   []reference      `json:"retry,omitempty" jsonschema:"these jobs are retried"`
	Release []reference      `json:"release,omitempty" jsonschema:"the holders release these locks or pools"`
	Pool    map[string]int   `json:"pool,omitempty" jsonschema:"these pools have this many units"`
	Merge   []reference      `json:"merge,omitempty" jsonschema:"the open merges of these branches succeed"`
	Submit  []map[string]any `json:"submit,omitempty" jsonschema:"these jobs are enqueued; see the tool submit for their keys"`
	After   string           `json:"after,omitempty" jsonschema:"this much time passes, such as 2h, in which nothing ends"`
	Limit   int              `json:"limit,omitempty" jsonschema:"how many of the jobs that would change, the first; 50 by default, at most 500"`
}

func whatIfTool(in whatIfInput) (a asked, err error) {
	const most = 500
	if in.Limit < 0 || in.Limit > most {
		return a, fmt.Errorf("limit is %d: expected 1 to %d", in.Limit, most)
	}
	a.args = append([]string{"what-if", "--most=" + strconv.Itoa(cmp.Or(in.Limit, 50))}, pools(in.Pool)...)
	for _, named := range []struct {
		flag   string
		values []reference
	}{
		{"release", in.Release}, {"retry", in.Retry}, {"cancel", in.Cancel}, {"reject", in.Reject}, {"approve", in.Approve},
		{"merge", in.Merge}, {"fail", in.Fail}, {"succeed", in.Succeed},
	} {
		values, err := refs(named.values...)
		if err != nil {
			return a, fmt.Errorf("%s: %w", named.flag, err)
		}
		a.args = append(a.args, flags(named.flag, values...)...)
	}
	if len(in.Submit) > 0 {
		a.args = append(a.args, "--submit=-")
		if a.stdin, err = lines(in.Submit); err != nil {
			return a, err
		}
	}
	a.args = append(a.args, flags("after", in.After)...)
	return a, nil
}

type simulateInput struct {
	Jobs       []reference    `json:"jobs,omitempty" jsonschema:"runs or jobs to predict the end of; by default all open ones"`
	Pool       map[string]int `json:"pool,omitempty" jsonschema:"these pools have this many units"`
	MaxRunning *int           `json:"max_running,omitempty" jsonschema:"this many jobs may run at once on this machine; 0: no limit"`
	Draws      int            `json:"draws,omitempty" jsonschema:"how often to draw the future if it is left to chance; 30 by default, at most 200"`
}

func simulateTool(in simulateInput) (asked, error) {
	const most = 200
	if in.Draws < 0 || in.Draws > most {
		return asked{}, fmt.Errorf("draws is %d: expected 1 to %d", in.Draws, most)
	}
	args := append([]string{"simulate", "--draws=" + strconv.Itoa(cmp.Or(in.Draws, 30))}, pools(in.Pool)...)
	if in.MaxRunning != nil {
		args = append(args, flags("max-running", strconv.Itoa(*in.MaxRunning))...)
	}
	jobs, err := refs(in.Jobs...)
	return asked{args: append(args, jobs...)}, err
}

type historyInput struct {
	Job   reference `json:"job,omitempty" jsonschema:"only entries about this job or run"`
	Limit int       `json:"limit,omitempty" jsonschema:"how many of the last entries; 30 by default, at most 500"`
}

func historyTool(in historyInput) (asked, error) {
	const most = 500
	if in.Limit < 0 || in.Limit > most {
		return asked{}, fmt.Errorf("limit is %d: expected 1 to %d", in.Limit, most)
	}
	args := []string{"history", "list", "--last=" + strconv.Itoa(cmp.Or(in.Limit, 30))}
	if in.Job == "" {
		return asked{args: args}, nil
	}
	job, err := refs(in.Job)
	return asked{args: append(args, job...)}, err
}

// pools returns the flags that set the sizes of pools.
func pools(sizes map[string]int) (out []string) {
	for _, pool := range slices.Sorted(maps.Keys(sizes)) {
		out = append(out, flags("pool", pool+"="+strconv.Itoa(sizes[pool]))...)
	}
	return out
}

type submitInput struct {
	Jobs   []map[string]any `json:"jobs" jsonschema:"each has command (an array of words) and, as it needs them, the keys of the flags of vizier submit: name, after, need, produce, lock, pool, approval, timeout, retries, cwd, env, sandbox and so on; ref is a name that after of other jobs in this call can use"`
	DryRun bool             `json:"dry_run,omitempty" jsonschema:"only say what would follow"`
}

func submitTool(in submitInput) (a asked, err error) {
	if len(in.Jobs) == 0 {
		return a, errors.New("jobs is empty: expected at least one, such as {\"command\": [\"make\", \"test\"]}")
	}
	if in.DryRun {
		return whatIfTool(whatIfInput{Submit: in.Jobs})
	}
	a.args, a.changes = []string{"submit", "--batch"}, true
	a.stdin, err = lines(in.Jobs)
	return a, err
}

type runInput struct {
	Flow   string            `json:"flow" jsonschema:"the template: a name in .vizier/workflows or [commands], or ID@VERSION"`
	Set    map[string]string `json:"set,omitempty" jsonschema:"its parameters"`
	After  []reference       `json:"after,omitempty" jsonschema:"start after these jobs, or the last jobs of these runs, have succeeded"`
	DryRun bool              `json:"dry_run,omitempty" jsonschema:"only check the template and its input"`
}

func runTool(in runInput) (asked, error) {
	args := []string{"run"}
	for _, key := range slices.Sorted(maps.Keys(in.Set)) {
		args = append(args, flags("set", key+"="+in.Set[key])...)
	}
	after, err := refs(in.After...)
	if err == nil {
		_, err = refs(reference(in.Flow))
	}
	if err != nil {
		return asked{}, err
	}
	args = append(args, flags("after", after...)...)
	if in.DryRun {
		args = append(args, "--check")
	}
	return asked{args: append(args, in.Flow), changes: !in.DryRun}, nil
}

type jobsInput struct {
	Jobs   []reference `json:"jobs" jsonschema:"their numbers, such as 12 or 14/NODE, or 14 for the whole run; names or ids"`
	DryRun bool        `json:"dry_run,omitempty" jsonschema:"only say what would follow"`
}

func (in jobsInput) refs() ([]string, error) {
	if len(in.Jobs) == 0 {
		return nil, errors.New("jobs is empty: name at least one")
	}
	return refs(in.Jobs...)
}

func cancelTool(in jobsInput) (asked, error) {
	jobs, err := in.refs()
	if err == nil && in.DryRun {
		return whatIfTool(whatIfInput{Cancel: in.Jobs})
	}
	return asked{args: append([]string{"cancel"}, jobs...), changes: true}, err
}

func retryTool(in jobsInput) (asked, error) {
	jobs, err := in.refs()
	args := []string{"retry"}
	if in.DryRun {
		args = append(args, "--dry-run")
	}
	return asked{args: append(args, jobs...), changes: !in.DryRun}, err
}
