package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
)

// program is one run of the command line.
type program struct {
	args                  []string
	stdin                 io.Reader
	stdout, stderr        io.Writer
	env                   environment
	open                  func(context.Context, environment, globals) (*repo, error)
	listen                func()                                    // starts to handle signals; nil: signals are not handled
	become                func(program string, args []string) error // replaces this process by a program that is installed beside this one
	becomeResidentProgram func()                                    // replaces this process by the resident build, if there is one; may be nil
}

// environment is the variables that the program was started with.
type environment = vizier.Environment

// grammar is the command line. Its help is the manual's text.
type grammar struct {
	Globals globals `embed:"" group:"Global flags:"`

	Init        initCmd        `cmd:"" help:"Write the files of a repository that uses Vizier."`
	Run         runCmd         `cmd:"" help:"Enqueue a workflow template."`
	Submit      submitCmd      `cmd:"" aliases:"add" help:"Enqueue a command as a job, or many from standard input."`
	Status      statusCmd      `cmd:"" help:"Show what needs you, what runs, what waits and what failed."`
	Top         topCmd         `cmd:"" help:"Show the same on a live screen, with logs and keys to act."`
	Web         webCmd         `cmd:"" help:"Show everything on a page in the browser."`
	Ls          listCmd        `cmd:"" help:"List jobs, newest first."`
	Show        showCmd        `cmd:"" help:"Show everything on record about a job or a run."`
	Why         whyCmd         `cmd:"" help:"Explain why a job is not running and what would start it."`
	Tail        tailCmd        `cmd:"" aliases:"log,logs" help:"Print a job's output."`
	Attach      attachCmd      `cmd:"" aliases:"watch" help:"Follow a job's output until it ends."`
	Wait        waitCmd        `cmd:"" help:"Wait until jobs have ended."`
	Retry       retryCmd       `cmd:"" aliases:"rerun" help:"Run a job and everything that depends on it again."`
	Cancel      cancelCmd      `cmd:"" aliases:"kill" help:"End a job."`
	Trust       trustCmd       `cmd:"" help:"Allow the commands of the repository's configuration to run."`
	Clean       cleanCmd       `cmd:"" aliases:"rm" help:"Remove everything that was made for a job's run."`
	Runs        runsCmd        `cmd:"" help:"List the runs, newest first, with status and progress."`
	Plans       draftsCmd      `cmd:"" aliases:"list" help:"List the plans that are not merged yet."`
	Jobs        jobsCmd        `cmd:"" help:"Submit, watch and steer jobs; alone, the same as status."`
	Inbox       inboxCmd       `cmd:"" help:"Run the prompts that are dropped into a folder."`
	WhatIf      whatIfCmd      `cmd:"" name:"what-if" help:"Predict what would follow if something happened, and change nothing."`
	Simulate    simulateCmd    `cmd:"" help:"Predict when open jobs end and what they wait for, and change nothing."`
	MCP         mcpCmd         `cmd:"" name:"mcp" help:"Serve an assistant by the Model Context Protocol on standard input and output."`
	Metrics     metricsCmd     `cmd:"" help:"Print the state of the repository as metrics for Prometheus."`
	History     historyCmd     `cmd:"" help:"Show who did what, when, and what followed; check that it is true."`
	Audit       auditCmd       `cmd:"" help:"Show what a template produces, needs and locks."`
	Agents      agentsCmd      `cmd:"" help:"List the agents, their versions and the templates that ask them."`
	Doctor      doctorCmd      `cmd:"" help:"Look for leftovers of crashes and of manual edits, and repair them."`
	Release     releaseCmd     `cmd:"" help:"Tag the version that follows from the commits since the last one."`
	CD          cdCmd          `cmd:"" name:"cd" hidden:""`
	Config      configCmd      `cmd:"" help:"Show the configuration."`
	Completions completionsCmd `cmd:"" aliases:"completion" help:"Print the completion script of a shell."`
	Help        helpCmd        `cmd:"" help:"Explain a command or a topic."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

// globals are the flags that are accepted before and after any command.
type globals struct {
	Verbose    int    `short:"v" type:"counter" help:"Print more on standard error; twice for debugging."`
	Quiet      bool   `short:"q" help:"Print errors only, and numbers only for lists; overrides --verbose."`
	Debug      bool   `short:"d" help:"The same as -vv."`
	NoANSI     bool   `name:"no-ansi" help:"No colour and no cursor movement, even on a terminal."`
	NoPager    bool   `name:"no-pager" help:"Never page output."`
	JSON       bool   `name:"json" help:"The same as --format json."`
	UTC        bool   `name:"utc" help:"Print times in UTC instead of local time."`
	Via        string `placeholder:"NAME" help:"Record this front end as the origin, such as mcp:NAME."`
	NoResident bool   `name:"no-resident" help:"Start no resident scheduler, whatever the configuration says."`
	ConfigFile string `name:"config-file" short:"C" placeholder:"PATH" help:"Read only this configuration file."`
	Version    bool   `short:"V" help:"Print the version."`
}

type jobsCmd struct {
	Overview overviewCmd `cmd:"" hidden:"" default:"1" help:"Show what needs you, what runs, what waits and what failed."`
	Submit   submitCmd   `cmd:"" aliases:"add" help:"Enqueue a command as a job, or many from standard input."`
	List     listCmd     `cmd:"" aliases:"ls" help:"List jobs, newest first."`
	Schedule scheduleCmd `cmd:"" help:"Show jobs in schedule order and what they wait for."`
	Show     showCmd     `cmd:"" help:"Show everything on record about a job."`
	Status   statusCmd   `cmd:"" help:"Show a job's status on one line, or the status of everything."`
	Why      whyCmd      `cmd:"" help:"Explain why a job is not running and what would start it."`
	Payload  payloadCmd  `cmd:"" help:"Print the data of an artifact."`
	Effects  effectsCmd  `cmd:"" help:"Show the side effects that a job made or may have made."`
	Tail     tailCmd     `cmd:"" aliases:"log,logs" help:"Print a job's output."`
	Attach   attachCmd   `cmd:"" aliases:"watch" help:"Follow a job's output until it ends."`
	Wait     waitCmd     `cmd:"" help:"Wait until jobs have ended."`
	Events   eventsCmd   `cmd:"" help:"Print the events of jobs and runs, and follow them."`
	Approve  approveCmd  `cmd:"" help:"Grant a job's pending approval."`
	Reject   rejectCmd   `cmd:"" help:"Reject a job's pending approval."`
	Retry    retryCmd    `cmd:"" aliases:"rerun" help:"Run a job and everything that depends on it again."`
	Cancel   cancelCmd   `cmd:"" aliases:"kill" help:"End a job."`
	Validate validateCmd `cmd:"" help:"Check the record of every job against the published schema and the invariants."`
	GC       gcCmd       `cmd:"" name:"gc" help:"Remove old jobs that nothing refers to."`
}

// call is the context of a command.
type call struct {
	*program
	ctx     context.Context
	ui      *ui
	globals globals
	model   *kong.Application // see whole
	home    string            // the root of the repository that repo opened
	inPlace func() error      // see repo.InPlace; nil: repo opened none
	outside string            // see vizier.Repository.Outside
	past    *repo             // what repo opens instead; see goBack
	batch   enqueue.Batch     // the jobs that the command submits, for errors
	lost    int               // the exit code if the output cannot be written, unless the answer's is higher
	given   map[string]bool   // the names of the flags on the command line
}

// whole returns the model of every command. Building it takes a while, and most
// commands do not need it.
func (c *call) whole() (*kong.Application, error) {
	if c.model == nil {
		var exited bool
		parser, err := newParser(&grammar{}, io.Discard, &exited)
		if err != nil {
			return nil, err
		}
		c.model = parser.Model
	}
	return c.model, nil
}

// useResidentProgram replaces this process by the resident build, if there is one.
// A command that will run for long calls it before it does anything.
func (c *call) useResidentProgram() {
	if c.becomeResidentProgram != nil {
		c.becomeResidentProgram()
	}
}

// repo opens the repository.
func (c *call) repo() (*repo, error) {
	if c.past != nil {
		return c.past, nil
	}
	r, err := c.open(c.ctx, c.env, c.globals)
	if err == nil {
		c.outside, c.home, c.inPlace = r.Outside, r.Root, r.InPlace
		c.ui.refs.read, c.ui.now = c.reader(r.Scheduler), r.Scheduler.Now
		c.ui.root = r.Root
		if at, err := os.Stat("."); err == nil {
			if root, err := os.Stat(r.Root); err == nil && os.SameFile(at, root) {
				c.ui.root = ""
			}
		}
		if r.OnPark != nil {
			r.OnPark(func(p git.Parked) { c.ui.warn("%s", p) })
		}
	}
	return r, err
}

// ownRepo opens the repository for a command that changes files before it
// writes to the store. It refuses a foreign store first.
func (c *call) ownRepo() (*repo, error) {
	r, err := c.repo()
	if err == nil && r.Foreign != nil {
		err = r.Foreign(c.ctx)
	}
	return r, err
}

// newParser makes the parser of g. Output goes to out. exited is set if help
// was printed and nothing is left to do.
func newParser(g any, out io.Writer, exited *bool) (*kong.Kong, error) {
	return kong.New(g, append(valuesOfFlags(), kong.Name("vizier"),
		kong.Description("A scheduler that lives inside a git repository."),
		kong.Writers(out, out), kong.Exit(func(int) { *exited = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100}))...)
}

// run parses, executes and reports. It returns the exit code.
func (p *program) run() int {
	ctx, listen, stop := interruptible()
	defer stop()
	p.listen = listen
	return p.runWith(ctx)
}

// promptly is how long a command runs before it handles signals: most have
// ended by then, and installing a handler would cost a tenth of their time.
// Until then a signal ends the process at once, which the store tolerates at
// any moment.
const promptly = 20 * time.Millisecond

// interruptible returns a context that a signal cancels, and a function that starts
// to handle signals at once. A second interrupt ends the program immediately.
func interruptible() (ctx context.Context, listen func(), stop context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	listen = sync.OnceFunc(func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		go func() {
			<-signals
			signal.Stop(signals)
			cancel()
		}()
	})
	soon := time.AfterFunc(promptly, listen)
	return ctx, listen, func() {
		soon.Stop()
		cancel()
	}
}

// staysInFront makes an interrupt end only the waiting from now on. A command that
// is about to wait for jobs calls it.
func (c *call) staysInFront() {
	if c.listen != nil {
		c.listen()
	}
}

func (p *program) runWith(ctx context.Context) int {
	out := &checkedWriter{Writer: p.stdout}
	defer context.AfterFunc(ctx, func() { out.leaveWhenStuck(func() { os.Exit(classify(context.Canceled).exit) }) })()
	c := &call{program: p, ctx: ctx, ui: newUI(out, p.stderr, p.env), lost: 1}
	c.ui.wrapped = wrappedIn(p.args)
	err := c.gone(p.execute(c))
	if left := c.ui.close(); err == nil {
		err = left
	}
	answer, ok := errors.AsType[*failure](err)
	if answered := ok && answer.err == nil; out.err != nil && (err == nil || answered) {
		lost := class{"failed", c.lost, "only the output is lost, and what the command changes is done: before you repeat one that changes something, see `vizier status`"}
		if answered {
			lost.exit = max(lost.exit, answer.class.exit)
		}
		err = &failure{class: lost, err: out.err}
	}
	if own, ok := errors.AsType[*failure](err); ok && own.class == classUsage && own.hint == "" {
		own.hint = c.help()
	}
	return c.ui.fail(err, wantsJSON(p.args))
}

// gone returns err or, if that comes of a store that was moved or removed while the command ran,
// an error that says so.
func (c *call) gone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, kernel.ErrMoved) || errors.Is(err, kernel.ErrNotFound) {
		return cmp.Or(c.away(), err)
	}
	return err
}

// away returns an error if the store that the command opened was moved or removed since.
func (c *call) away() error {
	if c.inPlace == nil {
		return nil
	}
	if err := c.inPlace(); err != nil {
		return &failure{class: class{"failed", 1, ""}, err: err}
	}
	return nil
}

// help returns the command line that shows help on the command named by the
// arguments.
func (c *call) help() string {
	model, err := c.whole()
	if err != nil {
		return classUsage.hint
	}
	node := model.Node
	for _, word := range c.args {
		if next := child(node, word); next != nil {
			node = next
		} else if !strings.HasPrefix(word, "-") {
			break
		}
	}
	return commandPath(node) + " --help"
}

func (p *program) execute(c *call) error {
	switch {
	case len(p.args) > 0 && p.args[0] == "__complete":
		return c.complete(p.args[1:])
	case len(p.args) == 0:
		return c.page(curated())
	}
	for _, word := range p.args { // the parser and records replace bytes that are not UTF-8
		if !utf8.ValidString(word) {
			return usageError(fmt.Errorf("%+q is not UTF-8 text: hand over in a file what is not text", word))
		}
	}
	if n := narrowed(p.args); n != nil {
		if parsed, err := c.parse(n.grammar, io.Discard); err == nil && parsed != nil {
			if g, command := n.filled(); !g.Version {
				return c.execute(command, g)
			}
		}
	}
	var g grammar
	parsed, err := c.parse(&g, c.ui.out)
	switch {
	case parsed == nil && err == nil:
		return nil
	case g.Globals.Version || slices.Equal(p.args, []string{"-V"}) || slices.Equal(p.args, []string{"--version"}):
		return (&versionCmd{}).Run(c)
	case err != nil:
		return c.usage(err)
	}
	return c.execute(parsed.Selected().Target.Addr().Interface().(runnable), g.Globals)
}

// parse parses the arguments with a grammar. It returns nil if they only asked
// for help, which was written to out.
func (c *call) parse(g any, out io.Writer) (*kong.Context, error) {
	var exited bool
	parser, err := newParser(g, out, &exited)
	if err != nil {
		return nil, err
	}
	parsed, err := parseMany(parser, flagsFirst(parser.Model, flowArguments(parser.Model, c.args)))
	if exited {
		return nil, nil
	}
	if err == nil {
		c.given = map[string]bool{}
		for _, p := range parsed.Path {
			if p.Flag != nil {
				c.given[p.Flag.Name] = true
			}
		}
	}
	return parsed, err
}

func (c *call) execute(command runnable, g globals) error {
	c.globals = g
	c.ui.configure(g)
	if g.JSON && !formatJSON(command) {
		return usageError(errors.New("this command has no JSON: leave out --json"))
	}
	return command.Run(c)
}

// formatJSON makes a command print JSON. It returns false if the command does
// not support it.
func formatJSON(command runnable) bool {
	v := reflect.ValueOf(command).Elem()
	f, ok := v.Type().FieldByName("Format")
	if !ok || !slices.Contains(strings.Split(f.Tag.Get("enum"), ","), "json") {
		return false
	}
	v.FieldByName("Format").SetString("json")
	return true
}

// usage is the function usage, with a hint about templates: their names if one is
// missing, or how to run the one whose name is used as a command.
func (c *call) usage(err error) error {
	f := usage(err).(*failure) //nolint:errorlint,forcetypeassert // it is one
	missing, word := strings.HasPrefix(err.Error(), `expected "<flow>`), ""
	if text, is := strings.CutPrefix(err.Error(), "unexpected argument "); is && f.hint == "vizier --help" {
		word, _, _ = strings.Cut(text, ",")
	}
	if !missing && word == "" {
		return f
	}
	r, err := c.repo()
	if err != nil {
		return f // err is reported once a template is named
	}
	switch names := r.flows(); {
	case missing && len(names) > 0:
		f.hint = flowsHere(names)
	case slices.Contains(names, word):
		f.hint = kernel.CommandLine("vizier", "run", word)
	}
	return f
}

// elsewhere are the commands for what other schedulers call otherwise.
var elsewhere = map[string]string{ //nolint:gochecknoglobals // a table
	"stop": "cancel", "abort": "cancel", "restart": "retry", "resume": "retry",
	"ps": "ls", "queue": "ls", "delete": "clean", "remove": "clean", "enqueue": "submit",
}

// usage turns an error of the parser into one with exit code 2 that names the
// help to read.
func usage(err error) error {
	hint, missing := "vizier --help", error(nil)
	if strings.HasPrefix(err.Error(), `expected "<job>`) {
		missing = errors.New("expected a job or a run, by its number, its name or @last")
	}
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			hint = commandPath(node) + " --help"
			for _, p := range node.Positional {
				if missing == nil && strings.HasPrefix(err.Error(), `expected "<`+p.Name+`>`) {
					missing = errors.New("expected " + strings.ToUpper(p.Name) + ": " + strings.ToLower(p.Help[:1]) + strings.TrimSuffix(p.Help[1:], "."))
				}
			}
		} else if word, _, _ := strings.Cut(strings.TrimPrefix(parse.Error(), "unexpected argument "), ", did you mean "); elsewhere[word] != "" {
			err, hint = errors.New("unexpected argument "+word), "vizier "+elsewhere[word]
		} else if child(child(parse.Context.Model.Node, "jobs"), word) != nil {
			err, hint = errors.New("unexpected argument "+word), "vizier jobs "+word
		}
	}
	if text := asTyped(parse, plainly(err.Error())); missing == nil && text != err.Error() {
		missing = errors.New(text)
	}
	return &failure{class: classUsage, err: cmp.Or(missing, err), hint: hint}
}

// commandPath returns a command as it is typed.
func commandPath(n *kong.Node) string {
	if n.Parent == nil {
		return n.Name
	}
	return commandPath(n.Parent) + " " + n.Name
}

// wantsJSON reports whether the arguments ask for JSON, even if they are
// invalid.
func wantsJSON(args []string) bool {
	for i, a := range args {
		switch {
		case a == "--":
			return false
		case a == "--json", a == "--format=json", a == "--format" && i+1 < len(args) && args[i+1] == "json":
			return true
		}
	}
	return false
}

// actor returns the name of the person or program that asks, and that decides
// an approval.
func (c *call) actor() string { return c.env.Who(c.ctx) }
