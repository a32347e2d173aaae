package vizier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/adapters/proc/agent"
	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
	"github.com/vizier-scheduler/vizier/adapters/proc/sandbox"
	"github.com/vizier-scheduler/vizier/app/op"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// serveNode implements the hidden entry point `__workflow-node --job-id ID`:
// the command of a workflow node's attempt. Its working directory is the
// execution root. It reports to its runner how it ended by the result file and
// by its exit code; the runner writes the records.
func serveNode(args []string, stdout, stderr io.Writer, env Environment) int {
	n, at, err := readNode(args, stdout, stderr, env)
	if err != nil {
		fmt.Fprintln(stderr, "vizier node:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	write := func(r op.Result) error {
		out := resultOf(&n.node.Job, r)
		out.Sandbox = n.kept.String()
		return writeResult(at.file, out)
	}
	n.env.Told = func(told kernel.AgentRun) error { return write(op.Result{Agent: &told}) }
	r := op.Run(ctx, n.env, n.node)
	if r.Outcome != kernel.OutcomeSucceeded {
		fmt.Fprintf(stderr, "workflow node %s %s (exit %d): %s\n", n.node.ManifestNode.Node, r.Outcome, r.Exit, n.refer(r.Reason))
		if ctx.Err() != nil { // whoever ended it knows the reason better: a time limit, or a person
			r = op.Result{Exit: 143, Agent: r.Agent}
		}
	}
	if err := op.UntilRoom(ctx, func() error { return write(r) }); err != nil {
		fmt.Fprintln(stderr, "vizier node:", err)
		return max(r.Exit, 1)
	}
	return r.Exit
}

// loadedNode is a node with the environment of its operation.
type loadedNode struct {
	node *op.Node
	env  *op.Env
	kept *keptTo
}

// refer returns text for people, with the references of jobs in place of their
// ids.
func (n loadedNode) refer(text string) string {
	return view.Refer(text, func(id string) string {
		j, err := n.env.Records.Job(kernel.JobID(id))
		if err != nil {
			return ""
		}
		return j.Ref()
	})
}

// keptTo collects what was enforced for what a node started, in words and
// without duplicates.
type keptTo struct {
	mu    sync.Mutex
	words []string
}

func (k *keptTo) add(words string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.words, words) {
		k.words = append(k.words, words)
	}
}

func (k *keptTo) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.words, "; ")
}

// attemptAt is what the runner told the node about its attempt.
type attemptAt struct {
	id   kernel.AttemptID
	file string // path of the result file
}

func readNode(args []string, stdout, stderr io.Writer, env Environment) (loadedNode, attemptAt, error) {
	var none loadedNode
	at := attemptAt{file: env.Get("VIZIER_RESULT_FILE")}
	if len(args) != 2 || args[0] != "--job-id" || !kernel.ValidJobID(args[1]) {
		return none, at, errors.New("expected --job-id ID: the runner of a workflow node starts this command, nobody else")
	}
	var err error
	if at.id, err = proc.ParseAttempt(env.Get("VIZIER_ATTEMPT_ID")); err != nil || at.file == "" || string(at.id.Job) != args[1] {
		return none, at, errors.New("this command runs inside an attempt of its job: start the job with `vizier retry`")
	}
	dir, err := os.Getwd()
	if err != nil {
		return none, at, fmt.Errorf("find the working directory: %w", err)
	}
	root, err := git.FindRoot(env.Get("VIZIER_ROOT"))
	if err != nil {
		return none, at, err
	}
	live, err := inherited(root, env)
	if err != nil {
		return none, at, err
	}
	w, err := connect(root, live, env, "", nil)
	if err != nil {
		return none, at, err
	}
	n := &op.Node{Root: root.Dir, Dir: dir}
	if n.Job, err = w.store.Job(at.id.Job); err != nil {
		return none, at, err
	}
	if err := n.Job.Fence(at.id); err != nil {
		return none, at, err
	}
	manifest, err := w.store.Run(n.Job.Spec.Origin.Run)
	if err != nil {
		return none, at, err
	}
	if pinned := n.Job.Spec.Origin.Manifest; pinned != "" && pinned != kernel.DigestOf(string(manifest)) {
		return none, at, fmt.Errorf("the manifest of run %s is not the one that its jobs were made with: run the template again", n.Job.Spec.Origin.Run)
	}
	if err := json.Unmarshal(manifest, &n.Manifest); err != nil {
		return none, at, fmt.Errorf("manifest of run %s: %w", n.Job.Spec.Origin.Run, err)
	}
	var known bool
	if n.ManifestNode, known = n.Manifest.Nodes[n.Job.Spec.Origin.Node]; !known {
		return none, at, fmt.Errorf("run %s has no node %s", n.Job.Spec.Origin.Run, n.Job.Spec.Origin.Node)
	}
	hide, err := w.local.Hide(&n.Job)
	if err != nil {
		return none, at, err
	}
	kept := &keptTo{}
	return loadedNode{n, w.operations(live.Config(), env, n, kept, hide, stdout, stderr), kept}, at, nil
}

// mend puts back what a sandboxed command made of the link of its working tree, and if it did make
// something of it, also the tracked files that are missing: such a command has removed the tree, and the
// next attempt would commit that. The error says what the command did.
func (w *world) mend(dir string) error {
	bad := w.local.MendLink(dir)
	if bad == nil {
		return nil
	}
	n, err := w.git.RestoreMissing(context.Background(), dir)
	switch {
	case err != nil:
		return fmt.Errorf("%w; tracked files may be missing: %w", bad, err)
	case n > 0:
		return fmt.Errorf("%w, and so were tracked files that were missing: %d", bad, n)
	}
	return bad
}

// operations returns the environment of a node's operation. hide removes
// secrets from text that is kept; nil: there are none.
func (w *world) operations(cfg config.Config, env Environment, n *op.Node, kept *keptTo, hide func([]byte) []byte, stdout, stderr io.Writer) *op.Env {
	m := n.Manifest
	params, left := m.Variables()
	if len(left) > 0 {
		fmt.Fprintf(stderr, "warning: no variable holds the parameters %s: they are too long; .vizier/jobs/runs/%s.json has them\n", strings.Join(left, ", "), m.Run)
	}
	shell := agent.Shell{Stdout: stdout, Stderr: stderr, Grace: cfg.Jobs.Grace, Env: params, Hide: hide}
	if n.Job.Spec.Task.Sandbox.On() {
		shell.Step, shell.Ended = []string{w.local.Exe}, w.mend
		shell.Confine = func(dir string, also ...string) (*sandbox.Policy, error) {
			p, err := w.local.Confine(&n.Job, dir, also...)
			if err == nil {
				kept.add(proc.Kept(&n.Job))
			}
			return p, err
		}
		shell.Apart = func(program string) { kept.add("the sandbox of " + program + " alone") }
	}
	scripts := shell
	if n.Job.Spec.Task.Container != "" {
		scripts.Contain = func(dir string, args, env []string) (argv, client []string, err error) {
			return w.local.Contain(&n.Job, dir, args, env)
		}
	}
	repo := *w.git
	repo.OnPark, repo.ParkedBy = func(p git.Parked) { fmt.Fprintln(stderr, p) }, n.Job.ID
	return &op.Env{
		Git: &repo, Files: w.store, Effects: w.store, Events: w.store, Records: w.store, Shell: scripts, Stdout: stdout, Stderr: stderr, Now: w.scheduler.Now,
		Printed:  w.printed,
		Confined: n.Job.Spec.Task.Sandbox.On() && sandbox.This().Enforcement().Files == "",
		Agents: agent.Agents{Shell: shell, Root: w.local.Root, Shims: shimDirs(env), Select: func(j *kernel.Job) (agent.Settings, error) {
			return agentSettings(cfg.Agents.For(j.Spec.Origin.Alias, m.TemplateID+"@"+m.Version, m.Selector)).Limited(), nil
		}, Self: selfPath(), Unconfigured: unconfigured(w.local.Root)},
	}
}

// unconfigured returns the path of the configuration of the repository at root, if there is no such file, or "".
func unconfigured(root string) string {
	at := filepath.Join(root, config.RepositoryFile)
	if _, err := os.Lstat(at); !errors.Is(err, iofs.ErrNotExist) {
		return ""
	}
	return at
}

// printed returns the last lines that a job's attempt has printed, in the order in which it printed them. What cannot
// be read is left out.
func (w *world) printed(ctx context.Context, id kernel.JobID) (out []op.Printed) {
	const most, patience = 100, 300 * time.Millisecond
	lines := joblog.NewLines(func(name string) (*os.File, error) { return w.store.OpenLog(id, name) })
	lines.Last(most)
	add := func(l joblog.Line) error {
		out = append(out, op.Printed{Stream: [...]string{"stdout", "stderr"}[l.Stream], Text: joblog.Text(l.Text)})
		return nil
	}
	if lines.Await(ctx, patience) == nil {
		_, _ = lines.Read(ctx, true, add)
	}
	_ = lines.End(add)
	return out
}

// selfPath returns this program's path for agents. If the node runs as the
// resident program, that is the program beside it.
func selfPath() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	if program := filepath.Join(filepath.Dir(exe), "vizier"); isFile(program) {
		return program
	}
	return exe
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// shimDirs returns the directories that are searched for scripts that run other
// agents: those in the environment, one beside this program, and those of
// packages.
func shimDirs(env Environment) []string {
	var dirs []string
	if dir := env.Get("VIZIER_AGENT_SHIMS_DIR"); dir != "" {
		dirs = append(dirs, dir)
	}
	if exe, err := os.Executable(); err == nil {
		bin := filepath.Dir(exe)
		dirs = append(dirs, filepath.Join(bin, "agents"), filepath.Join(bin, "..", "share", "vizier", "agents"))
	}
	return dirs
}

// nodeResult is the result file of a workflow node.
type nodeResult struct {
	Attempt  string       `json:"attempt"`
	Outcome  string       `json:"outcome,omitempty"` // "": as the runner saw it end
	Exit     int          `json:"exit,omitempty"`
	Class    string       `json:"class,omitempty"`
	Reason   *string      `json:"reason,omitempty"`
	Produced *[]string    `json:"produced,omitempty"`
	Context  *nodeContext `json:"context,omitempty"`

	Agent   *kernel.AgentRun `json:"agent,omitempty"`
	Sandbox string           `json:"sandbox,omitempty"` // what was enforced for what it started
}

type nodeContext struct {
	Root     string `json:"execution_root"`
	Worktree string `json:"worktree_path"`
	Name     string `json:"worktree_name"`
	Branch   string `json:"worktree_branch"`
	Owned    bool   `json:"worktree_owned"`
}

// maxReason is the maximum length of a reason on record, in bytes.
const maxReason = 4096

func resultOf(j *kernel.Job, r op.Result) nodeResult {
	a := j.Attempt()
	out := nodeResult{Attempt: fmt.Sprintf("%s/%d", a.Job, a.N), Agent: r.Agent}
	if r.Outcome == kernel.NoOutcome {
		return out
	}
	reason, produced := r.Reason[:min(len(r.Reason), maxReason)], []string{}
	for _, p := range r.Produced {
		p = p.Canonical()
		if p.Kind == kernel.Custom && slices.Contains(j.Spec.Produces, p) && !slices.Contains(produced, p.String()) {
			produced = append(produced, p.String())
		}
	}
	out.Outcome, out.Exit, out.Class, out.Context = r.Outcome.String(), r.Exit, r.Class.String(), (*nodeContext)(r.Context)
	out.Reason, out.Produced = &reason, &produced
	return out
}

// writeResult writes the file atomically.
func writeResult(path string, r nodeResult) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("result: %w", err)
	}
	return nil
}
