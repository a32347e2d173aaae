package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type submitCmd struct {
	Request submitFlags `embed:""`
	Batch   bool        `help:"Read JSON Lines from standard input: one job per line, with the names of the flags as keys (options for --option), command, and a ref that the after of other lines can name; flags that describe a job are refused beside it. All are enqueued or none."`
	Format  string      `enum:"text,json" default:"text" placeholder:"text|json" help:"text prints the new jobs' references, one per line."`
}

func (*submitCmd) Help() string {
	return "Prints the reference of each new job, such as 12, one per line. A job runs as soon as nothing holds it up; " +
		"`vizier why` says what holds it up, and `vizier help gates` lists what can."
}

// submitFlags are the flags of an enqueue.Request.
type submitFlags struct {
	Name            string   `placeholder:"NAME" help:"The job's name, for people."`
	Tag             []string `sep:"none" placeholder:"KEY=VALUE" help:"A label to select jobs by, as in ls --tag; repeatable."`
	After           []string `sep:"none" placeholder:"JOB|run:RUN" help:"Start after this job, or the last jobs of this run, have succeeded; with :any, once they have ended in any way; repeatable."`
	Need            []string `sep:"none" placeholder:"ARTIFACT" help:"Start once this artifact exists, such as custom:TYPE:KEY; repeatable."`
	Produce         []string `sep:"none" placeholder:"ARTIFACT" help:"An artifact that exists once the job has succeeded; repeatable."`
	Lock            []string `sep:"none" placeholder:"KEY[:shared]" help:"Hold this lock while running; repeatable."`
	Pool            []string `sep:"none" placeholder:"NAME[=UNITS]" help:"Hold units of this pool while running; repeatable."`
	MissingProducer string   `enum:"block,wait" default:"block" placeholder:"block|wait" help:"If no job produces a needed artifact: block the job (block), or wait for a producer (wait)."`
	Pinned          string   `placeholder:"BRANCH[@COMMIT]" help:"Start only while the branch is at this commit; by default, where it is now."`
	Require         []string `sep:"none" placeholder:"CONDITION" help:"Start only while this holds: clean_worktree, branch_exists or branch_exists=BRANCH; repeatable."`
	Approval        bool     `help:"Start only after a person has approved it."`
	ApprovalTimeout string   `type:"duration" placeholder:"DURATION" help:"With --approval, or --in-doubt ask: how long the job waits for approval, such as 4h, before it is blocked."`
	Timeout         string   `type:"duration" placeholder:"DURATION" help:"End an attempt that takes longer, such as 90s or 2h."`
	Estimate        string   `type:"duration" placeholder:"DURATION" help:"How long an attempt should take, such as 10m; only vizier simulate and the ETAs use it."`
	Retries         int      `placeholder:"N" help:"Try a failed job again up to N times."`
	RetryOn         []string `sep:"none" placeholder:"CLASS|CODE" help:"With --retries: only after this failure, a class such as timeout or rate_limited, or an exit code; repeatable."`
	MaxResumes      *int     `placeholder:"N" help:"With --resumable: run again after a time-out up to N times; 3 by default."`
	MaxReclaims     *int     `placeholder:"N" help:"With --idempotent, or --in-doubt rerun: run again after the runner was lost up to N times; 2 by default."`
	Idempotent      bool     `help:"Running the job twice does no harm: run it again after its runner was lost."`
	InDoubt         string   `enum:",fail,ask,rerun" default:"" placeholder:"fail|ask|rerun" help:"What to do if the runner was lost and nobody knows whether the command did its work: fail (the default), ask a person for approval to run again, or rerun."`
	Resumable       bool     `help:"The job continues where it stopped: run it again after a time-out."`
	IdempotencyKey  *string  `placeholder:"KEY" help:"Submissions with the same key are one job: the second one enqueues nothing."`
	Transient       string   `enum:"none,transient,remove" default:"none" placeholder:"none|transient|remove" help:"Run only if a job that is not transient needs it; remove: also remove its files once no job needs them."`
	Cwd             string   `placeholder:"DIR" help:"Directory to run in, from where you are, in any working tree of the repository."`
	Env             []string `sep:"none" placeholder:"NAME[=VALUE]" help:"A variable to set, or the name of one that must be set where the job starts; repeatable."`
	Secret          []string `sep:"none" placeholder:"NAME=@FILE|COMMAND" help:"A value that appears in no record: read when the job starts, from a file or from a command's output; $VIZIER_SECRET_NAME names the file with the value; repeatable."`
	Executor        string   `placeholder:"NAME" help:"Who runs the job: local, or an executor of the configuration."`
	Option          []string `sep:"none" name:"option" placeholder:"KEY=VALUE" help:"What to ask of the executor, such as memory=4G or --constraint=gpu of a cluster; repeatable."`
	Sandbox         string   `enum:",none,best-effort,required" default:"" placeholder:"none|best-effort|required" help:"Confine the command to its working tree and the files it gets: as far as the host can, or completely, or it does not start."`
	Write           []string `sep:"none" placeholder:"PATH" help:"With --sandbox: another path that the command may write to; repeatable."`
	Network         string   `enum:",all,none" default:"" placeholder:"all|none" help:"With --sandbox: the network that the command can reach."`
	Container       string   `placeholder:"IMAGE" help:"Run the command in a container of this image, which must exist where the job runs."`
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
	Part   string `json:"part,omitempty"` // what distinguishes it from other jobs of its number, such as the ref of its line
	Name   string `json:"name,omitempty"`
	Status string `json:"status"`
	Wait   string `json:"wait,omitempty"`
	Merged bool   `json:"merged,omitempty"` // it existed already, with this idempotency key
	Note   string `json:"note,omitempty"`   // why an existing job is not going to run
}

// Run enqueues the jobs and prints their references.
func (s *submitCmd) Run(c *call) error {
	if err := s.fits(c); err != nil {
		return usageError(err)
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
		in := &counted{ctx: c.ctx, from: c.stdin}
		if c.batch, err = c.builder(r).Batch(c.ctx, in); err == nil {
			limitMemory(len(c.batch.Jobs), in.bytes)
		}
		if c.ctx.Err() != nil { // the rest of the input is not known
			return c.ctx.Err()
		}
		news, c.batch.Jobs = c.batch.Jobs, nil
	} else {
		s.Request.Cwd = r.fromHere(s.Request.Cwd)
		news = make([]kernel.NewJob, 1)
		news[0], err = c.builder(r).One(c.ctx, enqueue.Request(s.Request))
	}
	if err != nil {
		return err
	}
	if len(news) == 0 {
		return usageError(errors.New("standard input has no jobs: expected one JSON object per line"))
	}
	c.warnOfSecrets(news)
	by := "" // only needed for jobs that may exist already, and may require a query to git
	if slices.ContainsFunc(news, func(n kernel.NewJob) bool { return n.Spec.IdempotencyKey != "" }) {
		by = c.actor()
	}
	asked := namesOf(news) // the answer needs only this, so the memory of news can be freed
	rep, err := r.Scheduler.Submit(c.ctx, news, by)
	if err != nil {
		return c.barred(c.batch.Locate(err))
	}
	c.report(rep)
	doc := submitted(rep, asked)
	for _, j := range doc.Jobs {
		switch {
		case j.Note != "":
			c.ui.warn("job %s exists already: %s", j.Job, j.Note)
		case j.Merged:
			c.ui.info("job %s exists already: it is %s", j.Job, j.Status)
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

// fits returns an error for what describes a job on a command line that reads the jobs from standard input: it would
// hold for none of them.
func (s *submitCmd) fits(c *call) error {
	if !s.Batch {
		return nil
	}
	var flags, keys []string
	typed, lines := reflect.TypeFor[submitFlags](), reflect.TypeFor[enqueue.Request]()
	for i := range typed.NumField() {
		key := lines.Field(i).Tag.Get("json")
		flag := cmp.Or(typed.Field(i).Tag.Get("name"), strings.ReplaceAll(key, "_", "-"))
		if c.given[flag] {
			flags, keys = append(flags, "--"+flag), append(keys, key)
		}
	}
	switch {
	case len(s.Request.Command) > 0:
		return errors.New("--batch reads the commands from standard input: leave out the command")
	case len(flags) > 0:
		return fmt.Errorf("--batch reads what describes a job from its line: leave out %s, and write %s into the lines instead", strings.Join(flags, ", "), strings.Join(keys, ", "))
	}
	return nil
}

// fromHere converts a path that is relative to the working directory into one that is relative to
// the root of the working tree. It leaves other paths alone.
func (r *repo) fromHere(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(r.Tree, here); err == nil && filepath.IsLocal(rel) {
		return filepath.Join(rel, path)
	}
	return path
}

// limitMemory bounds the memory of a batch's transaction to about what it needs
// at its peak, which garbage would double: 4.6 KB per job, and six copies of
// the text. There is a minimum, since even a small batch may have to look at a
// large store.
func limitMemory(jobs int, text int64) {
	const room = 54 << 20
	debug.SetMemoryLimit(max(room, 8<<20+int64(jobs)*4600+6*text))
}

// counted counts the bytes that it reads. Once ctx has ended, reading fails, even
// while it waits for input.
type counted struct {
	ctx   context.Context
	from  io.Reader
	bytes int64
}

func (c *counted) Read(b []byte) (int, error) {
	type result struct {
		b   []byte
		err error
	}
	read := make(chan result, 1)
	go func() {
		own := make([]byte, len(b)) // a read that is given up may still write to it
		n, err := c.from.Read(own)
		read <- result{own[:n], err}
	}()
	select {
	case <-c.ctx.Done():
		return 0, c.ctx.Err()
	case r := <-read:
		c.bytes += int64(len(r.b))
		return copy(b, r.b), r.err
	}
}

// secretive matches the names that variables with secrets usually have.
var secretive = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(^|_)(SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)(_|$)`)
})

// warnOfSecrets warns of variables that go on record although their names
// suggest secrets.
func (c *call) warnOfSecrets(news []kernel.NewJob) {
	told := map[string]bool{}
	for _, n := range news {
		for _, v := range n.Spec.Task.Env {
			name, _, _ := strings.Cut(v, "=")
			if secretive().MatchString(name) && !told[name] {
				told[name] = true
				c.ui.warn("the value of %s is now in the job's record, as long as that is kept: `--secret %s=@FILE` keeps it out of the record and the logs; `--env %s` takes it from the process that starts the job", name, name, name)
			}
		}
	}
}

// oneWord refuses a whole shell command line that is given as a single
// argument.
func (s *submitCmd) oneWord() error {
	if len(s.Request.Command) != 1 || !strings.ContainsAny(s.Request.Command[0], " \t\n") || s.Request.Executor != "" {
		return nil
	}
	line := s.Request.Command[0]
	if _, err := exec.LookPath(line); err == nil {
		return nil
	}
	return &failure{class: classUsage, err: fmt.Errorf("no program is named %q: a line of several words needs a shell", line),
		hint: "vizier submit -- " + kernel.CommandLine("sh", "-c", line)}
}

// askedJob is what the answer needs of a submitted job itself.
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

// report prints what a transaction did besides what was asked for: attempts
// that could not be started, those that were, and every change of a status.
func (c *call) report(rep app.Report) {
	c.ui.refs.named(rep.Snapshot) // for this report and for the answer after it
	if c.outside != "" && len(rep.Applied) > 0 {
		c.ui.warn("this is a sandbox, where Vizier starts and ends no process; the request is on record: %s", c.outside)
	}
	if rep.Late != nil {
		next := ""
		if fs.NoRoom(rep.Late) {
			next = ": " + makeRoom(rep.Late)
		}
		c.ui.warn("%v%s", rep.Late, next)
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

// barred adds a hint to an error: what to do in a sandbox that prevents this
// command from writing records.
func (c *call) barred(err error) error {
	if c.env.Get("VIZIER_SUBMISSIONS") != "" && (errors.Is(err, syscall.EROFS) || errors.Is(err, iofs.ErrPermission)) {
		return &failure{class: class{"failed", 1, ""}, err: err,
			hint: "append the job to $VIZIER_SUBMISSIONS as a line of JSON, in the format of `vizier submit --batch`: it is enqueued once the surrounding job has succeeded"}
	}
	return err
}
