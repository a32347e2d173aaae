package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Settings say which agent to run, and how.
type Settings struct {
	Label   string   // of a known program, a name below a directory of shims, or Builtin
	Command []string // used instead of Label: reads a prompt from standard input and writes its answer to standard output
	Filter  []string // turns the command's output into the answer; may be empty

	Model       string        // "": the program's own choice
	Flags       []string      // additional flags
	Permissions Permissions   // "": MayEdit
	Timeout     time.Duration // of one answer; 0: no limit
	Silence     time.Duration // maximum time without a line of output; 0: no limit
}

// The default limits. Only known programs are known not to be silent for long.
const (
	DefaultTimeout = 2 * time.Hour
	DefaultSilence = 15 * time.Minute
)

// Limited returns s with the default limits filled in.
func (s Settings) Limited() Settings {
	s.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	if _, known := programOf(s.Label); known && len(s.Command) == 0 {
		s.Silence = cmp.Or(s.Silence, DefaultSilence)
	}
	return s
}

// Builtin is the label of the agent that is part of this program.
const Builtin = "builtin"

// Agents runs the agents that a configuration names.
type Agents struct {
	Shell

	// Select returns the agent of a job.
	Select func(*kernel.Job) (Settings, error)
	Root   string   // commands with a relative path are relative to this directory
	Shims  []string // directories of shims, NAME/agent.sh and NAME/filter.sh; the first one that has the shim counts
	Self   string   // this program; "": agents are not told how to start it

	// Unconfigured is the path of the repository's configuration if there is no such file; "": there is one.
	Unconfigured string
}

// exitTimeout is the exit code for a command that exceeded a time limit,
// exitNotFound that of a shell that does not find a program.
const (
	exitTimeout  = 124
	exitNotFound = 127
)

// errTooLong and errSilent say which limit ended an agent.
var (
	errTooLong = errors.New("it took too long")
	errSilent  = errors.New("it was silent for too long")
)

// Run asks the agent of q's job. The answer, or that of the agent's filter, is
// written to Stdout and the agent's progress to Stderr, as they arrive; known
// programs write their answer at the end. It is an error if there is no agent,
// or if it cannot be started.
func (a Agents) Run(ctx context.Context, q kernel.AgentRequest) (kernel.AgentAnswer, error) {
	s, err := a.Select(q.Job)
	if err != nil {
		return kernel.AgentAnswer{}, err
	}
	if s, err = a.complete(s); err != nil {
		return kernel.AgentAnswer{}, err
	}
	if last := q.Job.State.Agent; last != nil && last.Last.Agent != s.Label {
		q.Session = "" // the session is another agent's
	}
	scratch, err := os.MkdirTemp("", "vizier-agent-")
	if err != nil {
		return kernel.AgentAnswer{}, err
	}
	defer func() { _ = sys.RemoveTree(scratch) }()
	limits, stop := s.limits(ctx)
	defer stop()
	k := &conversation{Agents: a, Settings: s, q: q, scratch: scratch, limits: limits, out: &capture{limit: q.Limit, to: a.Stdout}}
	if s.Silence > 0 {
		k.Stderr = &activityWriter{k.limits, k.Stderr}
	}
	r, err := k.ask(limits.ctx)
	if err != nil {
		return kernel.AgentAnswer{}, fmt.Errorf("agent %s: %w", s.Label, err)
	}
	r.Text = k.captured(k.out)
	if ctx.Err() != nil {
		return r, nil
	}
	switch cause := context.Cause(limits.ctx); {
	case errors.Is(cause, errTooLong):
		r.Exit, r.Class = exitTimeout, kernel.Timeout
		r.Reason = fmt.Sprintf("agent %s did not answer within %s", s.Label, s.Timeout)
	case errors.Is(cause, errSilent):
		r.Exit, r.Class = exitTimeout, kernel.Timeout
		r.Reason = fmt.Sprintf("agent %s said nothing for %s, as long as the key silence allows", s.Label, s.Silence)
	}
	return r, nil
}

// limits ends an agent that takes too long, or is silent for too long.
type limits struct {
	ctx    context.Context
	silent *time.Timer // nil: silence is not limited
	of     time.Duration
}

func (s Settings) limits(ctx context.Context) (*limits, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := &limits{ctx: ctx, of: s.Silence}
	var timers []*time.Timer
	if s.Timeout > 0 {
		timers = append(timers, time.AfterFunc(s.Timeout, func() { cancel(errTooLong) }))
	}
	if s.Silence > 0 {
		l.silent = time.AfterFunc(s.Silence, func() { cancel(errSilent) })
		timers = append(timers, l.silent)
	}
	return l, func() {
		for _, t := range timers {
			t.Stop()
		}
		cancel(nil)
	}
}

// heard restarts the limit on silence.
func (l *limits) heard() {
	if l.silent != nil && l.ctx.Err() == nil {
		l.silent.Reset(l.of)
	}
}

// activityWriter calls heard for each write.
type activityWriter struct {
	*limits
	to io.Writer
}

func (p *activityWriter) Write(b []byte) (int, error) {
	p.heard()
	return p.to.Write(b)
}

// conversation is one request to an agent.
type conversation struct {
	Agents
	Settings
	q       kernel.AgentRequest
	scratch string // a directory that is removed at the end
	limits  *limits
	out     *capture
	homes   []string // the directories of the agent's own files
}

func (k *conversation) ask(ctx context.Context) (kernel.AgentAnswer, error) {
	p, known := programOf(k.Label)
	if known = known && len(k.Settings.Command) == 0; known && len(k.Filter) == 0 {
		r, gone, err := k.askKnown(ctx, p)
		if gone && k.q.Session != "" && err == nil {
			fmt.Fprintf(k.Stderr, "%s does not have session %s any more, and begins anew\n", p.Name, k.q.Session)
			k.q.Session = ""
			r, _, err = k.askKnown(ctx, p)
		}
		return r, err
	}
	r := kernel.AgentAnswer{Run: kernel.AgentRun{Agent: k.Label}}
	file := filepath.Join(k.scratch, "report.json")
	env := append(k.commonEnv(), reportVariable+"="+file, "VIZIER_AGENT_SESSION="+k.q.Session, "VIZIER_AGENT_MODEL="+k.Model,
		"VIZIER_AGENT_PERMISSIONS="+string(cmp.Or(k.Permissions, MayEdit)))
	if known { // with a filter of the user's own
		more, err := k.start(p)
		if err != nil {
			return r, err
		}
		env = append(env, more...)
	}
	out := io.Writer(k.out)
	if k.Silence > 0 {
		out = &activityWriter{k.limits, out}
	}
	own := k.Label == Builtin && len(k.Settings.Command) == 0
	var err error
	switch {
	case own:
		r.Exit, err = k.builtin(ctx, k.q.Dir, env, k.q.Prompt, k.out)
	case len(k.Filter) == 0:
		cmd := k.command(ctx, k.q.Dir, k.Settings.Command, env, k.homes...)
		cmd.Stdin, cmd.Stdout = bytes.NewReader(k.q.Prompt), out
		r.Exit, err = k.finish(cmd, cmd.Run())
	default:
		r.Exit, err = k.filtered(ctx, env, out)
	}
	if err != nil {
		return r, err
	}
	if r.Exit != 0 {
		r.Class, r.Reason = kernel.ExitFailure, exitReason(r.Exit, string(k.out.text), own)
	}
	if err := readReport(file, &r); err != nil {
		fmt.Fprintf(k.Stderr, "warning: what agent %s told in $%s is not taken: %v\n", k.Label, reportVariable, err)
	}
	return r, nil
}

// commonEnv returns the environment for every agent: it makes sure that the
// agent can start this program even if PATH does not contain it.
func (k *conversation) commonEnv() []string {
	if k.Self == "" {
		return nil
	}
	env := []string{"VIZIER=" + k.Self}
	if _, err := exec.LookPath("vizier"); err != nil {
		env = append(env, "PATH="+os.Getenv("PATH")+string(filepath.ListSeparator)+filepath.Dir(k.Self))
	}
	return env
}

// start makes a known program the command, and returns the additional
// environment that it needs.
func (k *conversation) start(p program) (env []string, err error) {
	k.homes = p.homes()
	if k.Confine != nil && p.sandboxed != nil && p.sandboxed(k.Settings) && k.q.Job.Spec.Task.Sandbox.Mode != kernel.RequiredSandbox {
		k.Confine = nil // the program's own sandbox takes mounts, which Landlock forbids
		if k.Apart != nil {
			k.Apart(p.Name)
		}
		fmt.Fprintf(k.Stderr, "%s keeps its commands to a sandbox of its own, and is in no other\n", p.Name)
	}
	k.Settings.Command = append([]string{p.Name}, p.flags(k.Settings, k.q, k.scratch)...)
	if p.env != nil {
		env, err = p.env(k.scratch)
	}
	return env, err
}

// askKnown asks an agent with a known program. gone is true if the agent does not
// have the session that it was to continue.
func (k *conversation) askKnown(ctx context.Context, p program) (r kernel.AgentAnswer, gone bool, err error) {
	env, err := k.start(p)
	if err != nil {
		return r, false, err
	}
	env = append(env, k.commonEnv()...)
	jobs := filepath.Join(k.scratch, "submissions.jsonl")
	sandboxed := p.sandboxed != nil && p.sandboxed(k.Settings)
	if sandboxed {
		env = append(env, submissionsVariable+"="+jobs)
	}
	version := p.askVersion(ctx)
	s := &stream{progress: k.Stderr, limit: k.q.Limit, now: time.Now, noSession: p.noSession, began: k.q.Began,
		run: kernel.AgentRun{Agent: k.Label, Session: k.q.Session, Model: k.Model}}
	parser := p.parser(s)
	out, errs := s.stdout(parser), s.stderr(parser)
	cmd := k.command(ctx, k.q.Dir, k.Settings.Command, env, k.homes...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(k.q.Prompt), out, errs
	if k.Silence > 0 {
		cmd.Stdout, cmd.Stderr = &activityWriter{k.limits, out}, &activityWriter{k.limits, errs}
	}
	err = cmd.Run()
	if cmd.ProcessState == nil && errors.Is(err, exec.ErrNotFound) {
		why := ""
		if k.Unconfigured != "" {
			why = ", which is not there: " + k.Unconfigured + "; if a branch has it, check that out and retry"
		}
		return r, false, fmt.Errorf("%s is not installed: npm install -g %s, or set another agent in .vizier/config.toml%s", p.Name, p.Package, why)
	}
	if r.Exit, err = k.finish(cmd, err); err != nil {
		return r, false, err
	}
	out.close()
	errs.close()
	parser.end(r.Exit)
	if s.run.Version == "" {
		s.run.Version = <-version
	}
	if s.run.Version != "" && older(s.run.Version, p.Made) {
		s.show(fmt.Sprintf("warning: %s %s is older than %s, which this vizier was made for", p.Name, s.run.Version, p.Made))
	}
	r.Class, r.Reason = p.classify(s, r.Exit, k.Settings)
	gone = s.sessionLost || strings.Contains(s.fault.words, p.noSession)
	if r.Run = credible(s.run); r.Class != kernel.NoFailure {
		r.Exit = max(r.Exit, 1)
		return r, gone, nil
	}
	if !bytes.HasSuffix(s.said, []byte("\n")) {
		s.said = append(s.said, '\n')
	}
	if _, err := k.out.Write(s.said); err != nil {
		return r, false, err
	}
	if sandboxed {
		err = forwardSubmissions(jobs)
	}
	return r, false, err
}

// exitReason describes the failure of an agent that reported nothing but its exit
// code. own says that it is the builtin one, which is always found.
func exitReason(exit int, text string, own bool) string {
	why := exitText("the agent", exit)
	switch {
	case exit != exitNotFound:
	case own:
		why = fmt.Sprintf("a command in the prompt was not found (exit %d): install it, or correct the prompt", exit)
	default:
		why = fmt.Sprintf("the agent's program, or a command that it ran, was not found (exit %d): install what its output names, or name another agent in .vizier/config.toml", exit)
	}
	if last := lastLine(text); last != "" {
		why += "; its last line was: " + last
	}
	return why
}

// exitText describes the end of a program that did not succeed.
func exitText(who string, exit int) string {
	if exit > 128 && exit < 128+65 {
		return fmt.Sprintf("%s was ended by signal %d (exit %d)", who, exit-128, exit)
	}
	return fmt.Sprintf("%s failed (exit %d)", who, exit)
}

// lastLine returns the last line of text that a terminal shows something of, shortened.
func lastLine(text string) string {
	lines := strings.Split(text, "\n")
	for _, line := range slices.Backward(lines) {
		last := joblog.Text([]byte(line))
		if len(last) > 200 {
			last = strings.ToValidUTF8(last[:200], "") + "…"
		}
		if last != "" {
			return last
		}
	}
	return ""
}

// filtered runs the agent with its output piped into its filter.
func (k *conversation) filtered(ctx context.Context, env []string, out io.Writer) (int, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	filter := k.command(ctx, k.q.Dir, k.Filter, env)
	filter.Stdin, filter.Stdout = r, out
	err = filter.Start()
	r.Close()
	if err != nil {
		w.Close()
		return 0, fmt.Errorf("progress filter: %w", refused(filter, err))
	}
	agent := k.command(ctx, k.q.Dir, k.Settings.Command, env, k.homes...)
	agent.Stdin, agent.Stdout = bytes.NewReader(k.q.Prompt), w
	err = agent.Start()
	w.Close()
	if err != nil {
		err = refused(agent, err)
	} else {
		err = agent.Wait()
	}
	filterExit, filterErr := k.finish(filter, filter.Wait())
	if agent.ProcessState == nil {
		return 0, err
	}
	exit, err := k.finish(agent, err)
	broken := exit == 128+int(syscall.SIGPIPE) // the filter had read enough
	if exit != 0 && !broken {
		return exit, errors.Join(err, filterErr)
	}
	if filterExit != 0 && ctx.Err() == nil {
		fmt.Fprintf(k.Stderr, "the progress filter of agent %s failed (exit %d)\n", k.Label, filterExit)
	}
	return filterExit, errors.Join(err, filterErr)
}

// submissionsVariable holds the path of the file to which an attempt appends
// the jobs that it submits.
const submissionsVariable = "VIZIER_SUBMISSIONS"

// maxSubmitted is the maximum size of an agent's submissions, in bytes.
const maxSubmitted = 4 << 20

// forwardSubmissions passes on the jobs that an agent submitted from its sandbox.
func forwardSubmissions(file string) error {
	jobs, err := sys.ReadRegular(file, maxSubmitted)
	to := os.Getenv(submissionsVariable)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (len(jobs) == 0 || to == "") {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := sys.OpenRegular(to, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	_, err = f.Write(jobs)
	return errors.Join(err, f.Close())
}

// complete finds the files of the agent's commands.
func (a Agents) complete(s Settings) (Settings, error) {
	if s.Label == Builtin && len(s.Command) == 0 {
		return s, nil
	}
	if len(s.Command) == 0 {
		shim, err := a.shim(s.Label)
		if _, known := programOf(s.Label); err != nil && known {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		s.Command = []string{shim}
		if filter := filepath.Join(filepath.Dir(shim), "filter.sh"); len(s.Filter) == 0 && regular(filter) {
			s.Filter = []string{filter}
		}
	}
	s.Command, s.Filter = slices.Concat(a.fromRoot(s.Command), s.Flags), a.fromRoot(s.Filter)
	return s, nil
}

// fromRoot returns args with a relative program path resolved against the
// repository's root, since a worktree need not contain the file.
func (a Agents) fromRoot(args []string) []string {
	if len(args) == 0 || filepath.IsAbs(args[0]) || !strings.Contains(args[0], "/") {
		return args
	}
	return append([]string{filepath.Join(a.Root, args[0])}, args[1:]...)
}

func (a Agents) shim(label string) (string, error) {
	for _, dir := range a.Shims {
		if path := filepath.Join(dir, label, "agent.sh"); filepath.IsLocal(label) && regular(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("no agent shim named `%s` was found (looked in %s); set command in [agents.default] of .vizier/config.toml "+
		"to a program that reads a prompt and writes an answer, or agent to the name of a shim, or to \"%s\" for the agent that comes with vizier",
		label, strings.Join(a.Shims, ", "), Builtin)
}

func regular(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}
