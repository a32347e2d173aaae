package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/vizier-scheduler/vizier/adapters/git"
)

// program is one run of the command line.
type program struct {
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	env            environment
	open           func(context.Context, environment, globals) (*repo, error)
}

// environment is the environment as NAME=VALUE.
type environment []string

// get is the value of a variable, "" when it is unset. The last setting wins,
// as in the system.
func (e environment) get(name string) string {
	for _, kv := range slices.Backward(e) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// grammar is the command line. Its help is the manual's text.
type grammar struct {
	Globals globals `embed:"" group:"Global flags:"`

	Init        initCmd        `cmd:"" help:"Write the files of a repository that uses Vizier."`
	Run         runCmd         `cmd:"" help:"Enqueue a workflow template."`
	Audit       auditCmd       `cmd:"" help:"Tell what a template produces, needs and locks."`
	List        draftsCmd      `cmd:"" help:"List the plans that are not merged yet."`
	Jobs        jobsCmd        `cmd:"" help:"Submit, watch and steer jobs."`
	Inbox       inboxCmd       `cmd:"" help:"Run the prompts that are dropped into a folder."`
	Doctor      doctorCmd      `cmd:"" help:"Look for what crashes left, and repair it."`
	Clean       cleanCmd       `cmd:"" help:"Remove all that was made for a job's run."`
	Release     releaseCmd     `cmd:"" help:"Tag a version that the commits since the last one ask for."`
	CD          cdCmd          `cmd:"" name:"cd" hidden:""`
	Config      configCmd      `cmd:"" help:"Look at the configuration."`
	Completions completionsCmd `cmd:"" help:"Print the completion script of a shell."`
	Help        helpCmd        `cmd:"" help:"Explain a command or a topic."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

// globals are accepted before and after any command.
type globals struct {
	Verbose    int    `short:"v" type:"counter" help:"Say more on standard error; twice for debugging."`
	Quiet      bool   `short:"q" help:"Say nothing but errors; wins over --verbose."`
	Debug      bool   `short:"d" help:"The same as -vv."`
	NoANSI     bool   `name:"no-ansi" help:"No colour and no cursor movement, even on a terminal."`
	NoPager    bool   `name:"no-pager" help:"Never page help."`
	NoResident bool   `name:"no-resident" help:"Start no resident scheduler, whatever the configuration says."`
	ConfigFile string `short:"C" placeholder:"PATH" help:"Read only this configuration file."`
	Version    bool   `short:"V" help:"Print the version."`
}

type jobsCmd struct {
	Submit   submitCmd   `cmd:"" help:"Enqueue a command as a job, or many from standard input."`
	List     listCmd     `cmd:"" help:"List jobs, newest first."`
	Schedule scheduleCmd `cmd:"" help:"Show what is due, what it waits for and in which order."`
	Show     showCmd     `cmd:"" help:"Show everything on record about a job."`
	Status   statusCmd   `cmd:"" help:"Show a job's status on one line."`
	Why      whyCmd      `cmd:"" help:"Explain why a job is not running and what would start it."`
	Effects  effectsCmd  `cmd:"" help:"Show what a job did to the world, or may have done."`
	Tail     tailCmd     `cmd:"" help:"Print a job's output."`
	Attach   attachCmd   `cmd:"" help:"Follow a job's output until it ends."`
	Wait     waitCmd     `cmd:"" help:"Wait until jobs have ended."`
	Events   eventsCmd   `cmd:"" help:"Print what has happened to jobs and runs, and follow it."`
	Approve  approveCmd  `cmd:"" help:"Grant a job's pending approval."`
	Reject   rejectCmd   `cmd:"" help:"Refuse a job's pending approval."`
	Retry    retryCmd    `cmd:"" help:"Run a job and everything that depends on it again."`
	Cancel   cancelCmd   `cmd:"" help:"End a job."`
	Validate validateCmd `cmd:"" help:"Hold every record to the published schema and to what must hold."`
	GC       gcCmd       `cmd:"" name:"gc" help:"Remove old jobs that nothing refers to."`
}

// call is what a command has at hand.
type call struct {
	*program
	ctx     context.Context
	ui      *ui
	globals globals
	model   *kong.Application
}

// repo opens the repository.
func (c *call) repo() (*repo, error) { return c.open(c.ctx, c.env, c.globals) }

// newParser makes the parser of g. Output goes to out; exited tells that help
// was printed and nothing is left to do.
func newParser(g *grammar, out io.Writer, exited *bool) (*kong.Kong, error) {
	return kong.New(g, kong.Name("vizier"),
		kong.Description("A scheduler that lives inside a git repository."),
		kong.Writers(out, out), kong.Exit(func(int) { *exited = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100}))
}

// run parses, executes and reports. Its result is the exit code.
func (p *program) run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	return p.runWith(ctx)
}

func (p *program) runWith(ctx context.Context) int {
	out := &checkedWriter{Writer: p.stdout}
	c := &call{program: p, ctx: ctx, ui: newUI(out, p.stderr, p.env)}
	err := p.execute(c)
	if err == nil && out.err != nil {
		err = out.err
	}
	return c.ui.fail(err, wantsJSON(p.args))
}

func (p *program) execute(c *call) error {
	var g grammar
	var exited bool
	parser, err := newParser(&g, c.ui.out, &exited)
	if err != nil {
		return err
	}
	c.model = parser.Model
	if len(p.args) > 0 && p.args[0] == "__complete" {
		return c.complete(p.args[1:])
	}
	if len(p.args) == 0 {
		return c.page(curated())
	}
	parsed, err := parser.Parse(flowArguments(parser.Model, p.args))
	if exited {
		return nil
	}
	if g.Globals.Version || slices.Equal(p.args, []string{"-V"}) || slices.Equal(p.args, []string{"--version"}) {
		return (&versionCmd{}).Run(c)
	}
	if err != nil {
		return usage(err)
	}
	c.globals = g.Globals
	c.ui.configure(g.Globals)
	return parsed.Run(c)
}

// usage makes an error of the parser one that exits 2 and names the help to
// read.
func usage(err error) error {
	hint := "vizier --help"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			hint = node.FullPath() + " --help"
		}
	}
	return &failure{class: classUsage, err: err, hint: hint}
}

// wantsJSON reports whether the arguments ask for JSON, whether or not they
// make sense.
func wantsJSON(args []string) bool {
	for i, a := range args {
		switch {
		case a == "--":
			return false
		case a == "--format=json", a == "--format" && i+1 < len(args) && args[i+1] == "json":
			return true
		}
	}
	return false
}

// actor is who asks, and who decides an approval.
func (c *call) actor() string {
	for _, name := range []string{"VIZIER_APPROVAL_ACTOR", "GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "USER", "USERNAME"} {
		if who := strings.TrimSpace(c.env.get(name)); who != "" {
			return who
		}
	}
	return cmp.Or(git.UserName(c.ctx), "unknown")
}
