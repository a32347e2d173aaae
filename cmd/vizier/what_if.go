package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
)

type whatIfCmd struct {
	Pool     []string      `sep:"none" placeholder:"NAME=N" help:"Assume that the pool has N units."`
	Release  []string      `sep:"none" placeholder:"LOCK" help:"Assume that the holders release the lock or the pool."`
	Submit   string        `type:"path" placeholder:"FILE" help:"Enqueue the jobs of this file, in the format of submit --batch; - is standard input."`
	Retry    []string      `sep:"none" placeholder:"JOB" help:"Retry the job, or the failed jobs of the run."`
	Cancel   []string      `sep:"none" placeholder:"JOB" help:"Cancel the job, or the whole run."`
	Reject   []string      `sep:"none" placeholder:"JOB" help:"Reject the pending approval of the job or the run."`
	Approve  []string      `sep:"none" placeholder:"JOB" help:"Grant the pending approval of the job or the run."`
	Merge    []string      `sep:"none" placeholder:"BRANCH" help:"Assume that the open merge of the branch succeeds."`
	Fail     []string      `sep:"none" placeholder:"JOB[:CODE]" help:"Assume that the job fails, with exit code 1 or CODE."`
	Succeed  []string      `sep:"none" placeholder:"JOB" help:"Assume that the job succeeds and makes its declared artifacts."`
	After    time.Duration `placeholder:"DURATION" help:"Assume that this much time passes, in which nothing ends."`
	ToTheEnd bool          `help:"Continue until nothing more happens by itself; jobs end as they usually did, and people decide nothing."`
	Most     int           `name:"most" short:"n" placeholder:"COUNT" help:"Show only the first COUNT jobs; 0: all."`
	Format   string        `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

func (*whatIfCmd) Help() string {
	return "Says which jobs would start, end, be blocked or change their wait, by the code that makes the real decisions. It changes nothing. " +
		"Several assumptions apply one after the other, in the order of the flags above. The exit code is 0 if nothing would change, 1 if something would, and 2 for an error, also if there is no such job."
}

// Run prints what would follow.
func (x *whatIfCmd) Run(c *call) error {
	c.lost = 2 // 1 is an answer
	doc, err := x.foreseen(c)
	if err != nil {
		known := classify(err)
		return &failure{class: class{known.code, 2, known.hint}, err: err}
	}
	if doc.First(x.Most); x.Format == "json" {
		err = c.ui.json(doc)
	} else {
		c.ui.text(c.ui.foreseen(doc, x.ToTheEnd))
	}
	if err == nil && len(doc.Jobs) > 0 {
		err = exits(1)
	}
	return err
}

func (x *whatIfCmd) foreseen(c *call) (doc answer.Foreseen, err error) {
	jobs := slices.Concat(x.Retry, x.Cancel, x.Reject, x.Approve, x.Succeed)
	for _, text := range x.Fail {
		ref, _, _ := strings.Cut(text, ":")
		jobs = append(jobs, ref)
	}
	r, err := c.repoOf(jobs)
	if err != nil {
		return doc, err
	}
	changes, err := x.changes(c, r)
	switch {
	case err != nil:
		return doc, err
	case x.ToTheEnd:
		habits, forecast, story, err := r.Scheduler.ForeseeToTheEnd(c.ctx, changes)
		if err != nil {
			return doc, c.batch.Locate(err)
		}
		c.knows(r, forecast.Then)
		doc = answer.ForeseenOf(forecast, story, true)
		doc.Assumed = answer.AssumedOf(story, habits)
		return doc, nil
	case len(changes)+len(x.Retry)+len(x.Cancel) == 0: // a run given to these may have no jobs left
		return doc, usageError(errors.New("name at least one change, such as --approve JOB, or --to-the-end"))
	}
	forecast, err := r.Scheduler.Foresee(c.ctx, changes)
	if err != nil {
		return doc, c.batch.Locate(err)
	}
	c.knows(r, forecast.Then) // which has jobs that are not on record too
	return answer.ForeseenOf(forecast, foresight.Story{}, false), nil
}

// changes returns the changes that the flags name, in the order in which they
// happen.
func (x *whatIfCmd) changes(c *call, r *repo) (out []foresight.Change, err error) {
	var news []kernel.NewJob
	if x.Submit != "" {
		if news, err = c.batchOf(r, x.Submit); err != nil {
			return nil, err
		}
	}
	if out, err = pools(x.Pool, news); err != nil {
		return nil, err
	}
	for _, lock := range x.Release {
		out = append(out, foresight.Release{Lock: lock})
	}
	if x.Submit != "" {
		out = append(out, foresight.Submit{Jobs: news})
	}
	if len(x.Retry) > 0 {
		_, ids, _, err := (&retryCmd{Jobs: x.Retry}).chosen(c)
		if err != nil {
			return nil, err
		}
		if len(ids) > 0 {
			out = append(out, foresight.Retry{Jobs: ids})
		}
	}
	if len(x.Cancel) > 0 {
		those, err := (&cancelCmd{Jobs: x.Cancel}).chosen(c)
		if err != nil {
			return nil, err
		}
		if len(those.jobs) > 0 {
			out = append(out, foresight.Cancel{Jobs: idsOf(those.jobs), Runs: those.runs})
		}
	}
	for _, ref := range x.Reject {
		_, j, err := c.pendingIn(ref)
		if err != nil {
			return nil, err
		}
		out = append(out, foresight.Reject{Job: j.ID})
	}
	for _, ref := range x.Approve {
		_, j, err := c.pendingIn(ref)
		if err != nil {
			return nil, err
		}
		out = append(out, foresight.Approve{Job: j.ID})
	}
	for _, branch := range x.Merge {
		out = append(out, foresight.Merge{Branch: branch})
	}
	for _, text := range x.Fail {
		ref, code, given := strings.Cut(text, ":")
		n := 1
		if given {
			if n, err = strconv.Atoi(code); err != nil {
				return nil, usageError(fmt.Errorf("--fail %s: the exit code is not a number", text))
			}
		}
		id, err := c.named(r, ref)
		if err != nil {
			return nil, err
		}
		out = append(out, foresight.Fail{Job: id, Code: n})
	}
	for _, ref := range x.Succeed {
		id, err := c.named(r, ref)
		if err != nil {
			return nil, err
		}
		out = append(out, foresight.Succeed{Job: id})
	}
	if x.After != 0 {
		out = append(out, foresight.Pass{Time: x.After})
	}
	return out, nil
}

// named returns the one job that ref names.
func (c *call) named(r *repo, ref string) (kernel.JobID, error) {
	_, id, err := r.Scheduler.Job(c.ctx, ref)
	return id, err
}

func (u *ui) foreseen(doc answer.Foreseen, toTheEnd bool) string {
	if len(doc.Jobs) == 0 {
		return answer.NothingForeseen + "\n"
	}
	text := u.table(doc.Cells(toTheEnd), -1)
	if doc.More > 0 {
		text += fmt.Sprintf("and %d more\n", doc.More)
	}
	return text + answer.AssumedText(doc.Assumed)
}
