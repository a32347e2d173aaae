package main

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"os/exec"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type submitCmd struct {
	Request submitFlags `embed:""`
	Batch   bool        `help:"Read JSON Lines from standard input: one job a line, with the same keys as the flags, command, and a ref that the after of other lines may name. All are enqueued or none."`
	Format  string      `enum:"text,json" default:"text" placeholder:"text|json" help:"text prints the references of the new jobs, one a line."`
}

func (*submitCmd) Help() string {
	return "Prints the reference of each new job, such as 12, one a line. The job runs as soon as nothing holds it up; " +
		"`vizier why` tells what does, and `vizier help gates` what may."
}

// submitFlags are the flags of an enqueue.Request.
type submitFlags struct {
	Name            string   `placeholder:"NAME" help:"What people call the job."`
	Tag             []string `sep:"none" placeholder:"KEY=VALUE" help:"A label to select jobs by, as in ls --tag; repeatable."`
	After           []string `sep:"none" placeholder:"JOB[:any]" help:"Start after this job has succeeded; with :any, once it has ended, whatever became of it; repeatable."`
	Need            []string `sep:"none" placeholder:"ARTIFACT" help:"Start once this artifact exists, such as custom:TYPE:KEY; repeatable."`
	Produce         []string `sep:"none" placeholder:"ARTIFACT" help:"An artifact that the job's success makes exist; repeatable."`
	Lock            []string `sep:"none" placeholder:"KEY[:shared]" help:"Hold this lock while running; repeatable."`
	Pool            []string `sep:"none" placeholder:"NAME[=UNITS]" help:"Hold units of this counted pool while running; repeatable."`
	MissingProducer string   `enum:"block,wait" default:"block" placeholder:"block|wait" help:"Whether a needed artifact that no job produces blocks the job (block) or may still appear (wait)."`
	Pinned          string   `placeholder:"BRANCH[@COMMIT]" help:"Start only while the branch is at this commit; without one, where it is now."`
	Require         []string `sep:"none" placeholder:"CONDITION" help:"Start only while this holds: clean_worktree, branch_exists or branch_exists=BRANCH; repeatable."`
	Approval        bool     `help:"Start only after a person has approved it."`
	ApprovalTimeout string   `placeholder:"DURATION" help:"With --approval, or --in-doubt ask: how long the job waits for it, such as 4h, before it is blocked."`
	Timeout         string   `placeholder:"DURATION" help:"End an attempt that takes longer, such as 90s or 2h."`
	Estimate        string   `placeholder:"DURATION" help:"How long an attempt is expected to take, such as 10m: vizier simulate and the ETAs reckon with it, and nothing is decided by it."`
	Retries         int      `placeholder:"N" help:"Try a failed job again up to N times."`
	RetryOn         []string `sep:"none" placeholder:"CLASS|CODE" help:"With --retries: only after this failure, a class such as timeout or rate_limited, or an exit code; repeatable."`
	MaxResumes      *int     `placeholder:"N" help:"With --resumable: go on after a time-out up to N times; 3 by default."`
	MaxReclaims     *int     `placeholder:"N" help:"With --idempotent, or --in-doubt rerun: run it again when its runner is lost up to N times; 2 by default."`
	Idempotent      bool     `help:"Running it twice does no harm: run it again when its runner is lost."`
	InDoubt         string   `enum:",fail,ask,rerun" default:"" placeholder:"fail|ask|rerun" help:"What becomes of the job when its runner is lost, and with it whether the command did its work: it fails (the default), it waits for a person's approval to run again, or it runs again."`
	Resumable       bool     `help:"It goes on where it stopped: run it again after a time-out."`
	IdempotencyKey  string   `placeholder:"KEY" help:"The same job as every other one with this key: it is not enqueued a second time."`
	Transient       string   `enum:"none,transient,remove" default:"none" placeholder:"none|transient|remove" help:"Run only if a job that is not transient needs it; remove: its files go once nobody does any more."`
	Cwd             string   `placeholder:"DIR" help:"Directory to run in: of the working tree where this command runs, or of any other of the repository."`
	Env             []string `sep:"none" placeholder:"NAME[=VALUE]" help:"A variable to set, or the name of one that has to be set where the job is started; repeatable."`
	Secret          []string `sep:"none" placeholder:"NAME=@FILE|COMMAND" help:"A value that goes on no record: read when the job starts, from a file, or from what a command prints; $VIZIER_SECRET_NAME names the file that has it; repeatable."`
	Executor        string   `placeholder:"NAME" help:"Who runs the job: local, or an executor of the configuration."`
	Option          []string `sep:"none" name:"option" placeholder:"KEY=VALUE" help:"What to ask of the executor, such as memory=4G or --constraint=gpu of a cluster; repeatable."`
	Sandbox         string   `enum:",none,best-effort,required" default:"" placeholder:"none|best-effort|required" help:"Keep the command to its working tree and what it is handed: as far as the host can, or wholly, or it does not start."`
	Write           []string `sep:"none" placeholder:"PATH" help:"With --sandbox: it may write there besides; repeatable."`
	Network         string   `enum:",all,none" default:"" placeholder:"all|none" help:"With --sandbox: which network it reaches."`
	Container       string   `placeholder:"IMAGE" help:"Run the command in a container of that image, which has to be where the job runs."`
	Command         []string `arg:"" optional:"" name:"command" help:"The command and its arguments, after --."`
}

// submission is what `jobs submit --format json` prints.
type submission struct {
	Outcome string         `json:"outcome"` // jobs_submitted
	Jobs    []submittedJob `json:"jobs"`
}

type submittedJob struct {
	Job kernel.JobID `json:"job"`
	view.Reference
	Part   string `json:"part,omitempty"` // what tells it from others of its number, such as the ref of its line
	Name   string `json:"name,omitempty"`
	Status string `json:"status"`
	Wait   string `json:"wait,omitempty"`
	Merged bool   `json:"merged,omitempty"` // it was there already, with this idempotency key
	Note   string `json:"note,omitempty"`   // why such a job is not going to run
}

// Run enqueues the jobs and prints their ids.
func (s *submitCmd) Run(c *call) error {
	if s.Batch && len(s.Request.Command) > 0 {
		return usageError(errors.New("--batch reads the commands from standard input: leave out the command"))
	}
	if err := s.oneWord(); err != nil {
		return err
	}
	if err := c.mayEnqueue(); err != nil {
		return err
	}
	r, err := c.repo()
	if err != nil {
		return err
	}
	var news []kernel.NewJob
	if s.Batch {
		in := &counted{from: c.stdin}
		if news, err = c.builder(r).Batch(c.ctx, in); err == nil {
			limitMemory(len(news), in.bytes)
		}
	} else {
		news = make([]kernel.NewJob, 1)
		news[0], err = c.builder(r).One(c.ctx, enqueue.Request(s.Request))
	}
	if err != nil {
		return err
	}
	if len(news) == 0 {
		return usageError(errors.New("standard input has no jobs: expected one JSON object a line"))
	}
	c.warnOfSecrets(news)
	by := "" // it counts for jobs that may be there already, and may take a question to git
	if slices.ContainsFunc(news, func(n kernel.NewJob) bool { return n.Spec.IdempotencyKey != "" }) {
		by = c.actor()
	}
	asked := namesOf(news) // the jobs themselves make room for what becomes of them
	rep, err := r.Scheduler.Submit(c.ctx, news, by)
	if err != nil {
		return c.barred(err)
	}
	c.ui.refs.named(rep.Snapshot)
	c.report(rep)
	doc := submitted(rep, asked)
	for _, j := range doc.Jobs {
		switch {
		case j.Note != "":
			c.ui.warn("job %s was there already: %s", j.Job, j.Note)
		case j.Merged:
			c.ui.info("job %s was there already: it is %s", j.Job, j.Status)
		}
	}
	if s.Format == "json" {
		return c.ui.json(doc)
	}
	for _, j := range doc.Jobs {
		c.ui.print(c.ui.refs.short(string(j.Job)))
	}
	return nil
}

// limitMemory has the transaction of a batch take about what it needs at its peak, where
// garbage would double that: 4.6 KB a job, and six copies of the text. A small one may
// have to look at a large store, for which there is room.
func limitMemory(jobs int, text int64) {
	const room = 54 << 20
	debug.SetMemoryLimit(max(room, 8<<20+int64(jobs)*4600+6*text))
}

// counted is how much was read.
type counted struct {
	from  io.Reader
	bytes int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.bytes += int64(n)
	return n, err
}

// secretive are the names that variables with secrets usually have.
var secretive = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(^|_)(SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)(_|$)`)
})

// warnOfSecrets tells whose value goes on record, and by its name should not.
func (c *call) warnOfSecrets(news []kernel.NewJob) {
	told := map[string]bool{}
	for _, n := range news {
		for _, v := range n.Spec.Task.Env {
			name, _, _ := strings.Cut(v, "=")
			if secretive().MatchString(name) && !told[name] {
				told[name] = true
				c.ui.warn("the value of %s is now in the job's record, for as long as that is kept: `--secret %s=@FILE` keeps it out of there, and out of the logs; `--env %s` takes it from where the job is started", name, name, name)
			}
		}
	}
}

// oneWord refuses a line for a shell that is given as the name of a program.
func (s *submitCmd) oneWord() error {
	if len(s.Request.Command) != 1 || !strings.ContainsAny(s.Request.Command[0], " \t\n") || s.Request.Executor != "" {
		return nil
	}
	line := s.Request.Command[0]
	if _, err := exec.LookPath(line); err == nil {
		return nil
	}
	return &failure{class: classUsage, err: fmt.Errorf("no program is called %q: a line with several words is for a shell", line),
		hint: "vizier submit -- " + typed([]string{"sh", "-c", line})}
}

// askedJob is what is told of a job that is submitted, whatever becomes of it.
type askedJob struct {
	id   kernel.JobID
	name string
}

func namesOf(news []kernel.NewJob) []askedJob {
	out := make([]askedJob, len(news))
	for i, n := range news {
		out[i] = askedJob{n.ID, n.Spec.Name}
	}
	return out
}

func submitted(rep app.Report, asked []askedJob) submission {
	out := submission{Outcome: "jobs_submitted", Jobs: make([]submittedJob, len(asked))}
	for i, n := range asked {
		id, merged := rep.Same[n.id]
		if !merged {
			id = n.id
		}
		out.Jobs[i] = submittedJob{Job: id, Name: n.name, Merged: merged}
		if n, ended := rep.Note[id]; ended {
			out.Jobs[i].Note = view.NotRun(id, n)
		}
		if j := rep.Snapshot.Job(id); j != nil {
			out.Jobs[i].Status, out.Jobs[i].Wait = j.State.Status.String(), j.State.Wait.Detail
			out.Jobs[i].Reference, out.Jobs[i].Part = view.ReferenceOf(j), j.Part
		}
	}
	return out
}

// report tells what a transaction did besides what was asked for: attempts
// that could not be started, those that were, and every change of a status.
func (c *call) report(rep app.Report) {
	if c.outside != "" && len(rep.Applied) > 0 {
		c.ui.warn("this is a sandbox, in which nothing is started or ended; what was asked for is on record: %s", c.outside)
	}
	if rep.Late != nil {
		c.ui.warn("%v", rep.Late)
	}
	for _, id := range slices.Sorted(maps.Keys(rep.Refused)) {
		c.ui.warn("job %s: %s", id, rep.Refused[id])
	}
	for _, id := range rep.Started() {
		c.ui.info("job %s started", id)
	}
	for _, d := range rep.Decisions {
		if d.From != d.Next {
			c.ui.debug("job %s: %s, was %s %s", d.Job, d.Next, d.From, d.Reason.Detail)
		}
	}
}

// barred adds the way that is left where a sandbox lets this command write no
// record.
func (c *call) barred(err error) error {
	if c.env.Get("VIZIER_SUBMISSIONS") != "" && (errors.Is(err, syscall.EROFS) || errors.Is(err, iofs.ErrPermission)) {
		return &failure{class: class{"failed", 1, ""}, err: err,
			hint: "append the job to $VIZIER_SUBMISSIONS, a line of JSON as `vizier submit --batch` reads it: it is enqueued once the job that this runs in has succeeded"}
	}
	return err
}
