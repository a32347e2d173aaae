package op

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// world is a real repository with one commit on main, and what operations
// reach it through.
type world struct {
	*testing.T
	dir    string
	env    *Env
	stderr *bytes.Buffer
	jobs   int

	journal journal

	swept bool // the test itself has calls fail: they are not rehearsed
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return worldLike(t, "one commit", newEmptyWorld, func(w *world) {
		w.write(w.dir, ".gitignore", ".vizier/jobs/\n.vizier/tmp/\n.vizier/tmp-worktrees/\n.vizier/sessions/\n")
		w.commit(w.dir, "readme.txt", "one\n")
	})
}

func newEmptyWorld(t *testing.T) *world {
	t.Helper()
	w := newDirectory(t)
	w.git(w.dir, "init", "--quiet", "--template=", "--initial-branch=main")
	return w.open()
}

// newDirectory returns a world whose directory is empty.
func newDirectory(t *testing.T) *world {
	t.Helper()
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "maintenance.auto", "GIT_CONFIG_VALUE_0": "false", // a process for each commit
		"GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.org",
		"GIT_COMMITTER_NAME": "Ann", "GIT_COMMITTER_EMAIL": "ann@example.org",
	} {
		t.Setenv(name, value)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, dir: filepath.Join(dir, "repo"), stderr: new(bytes.Buffer)}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

// open makes what operations reach the repository through.
func (w *world) open() *world {
	w.Helper()
	root, err := git.FindRoot(w.dir)
	if err != nil {
		w.Fatal(err)
	}
	w.env = &Env{Git: git.Open(root), Files: fs.NewStore(w.dir, fs.Options{}), Effects: &w.journal, Events: &w.journal, Stdout: new(bytes.Buffer), Stderr: w.stderr, Now: time.Now}
	return w
}

// originals has the repositories that worlds are copied from, by name.
var originals = map[string]string{}

// originalsIn is their directory.
var originalsIn string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "vizier-op-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	originalsIn = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// worldLike returns a world that more has made of from's: the first of that
// name is kept and copied, since git takes ten times as long.
func worldLike(t *testing.T, name string, from func(*testing.T) *world, more func(*world)) *world {
	t.Helper()
	if originals[name] == "" {
		w := from(t)
		more(w)
		to := filepath.Join(originalsIn, name)
		if err := os.CopyFS(to, os.DirFS(w.dir)); err != nil {
			t.Fatal(err)
		}
		originals[name] = to
	}
	w := newDirectory(t)
	if err := os.CopyFS(w.dir, os.DirFS(originals[name])); err != nil {
		t.Fatal(err)
	}
	w.git(w.dir, "update-index", "--refresh") // the files are others
	return w.open()
}

// git runs git as a person would.
func (w *world) git(dir string, args ...string) string {
	w.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *world) write(dir, name, text string) {
	w.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) read(dir, name string) string {
	w.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		w.Fatal(err)
	}
	return string(b)
}

func (w *world) there(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// commit commits one file, and whatever else is new, in dir.
func (w *world) commit(dir, name, text string) string {
	w.Helper()
	w.write(dir, name, text)
	w.git(dir, "add", "--all", "--force", "--", name)
	w.git(dir, "add", "--all", "--", ".", ":(exclude).vizier/state")
	w.git(dir, "commit", "--quiet", "-m", "add "+name)
	return w.rev("HEAD", dir)
}

func (w *world) rev(name string, dir ...string) string {
	w.Helper()
	return w.git(append(dir, w.dir)[0], "rev-parse", "--verify", "--quiet", name)
}

// has reports whether a branch exists.
func (w *world) has(branch string) bool {
	return exec.Command("git", "-C", w.dir, "show-ref", "--verify", "--quiet", "refs/heads/"+branch).Run() == nil
}

// branch makes a branch with files on top of main; the main checkout stays.
func (w *world) branch(name string, files map[string]string) {
	w.Helper()
	dir := filepath.Join(w.TempDir(), "b")
	w.git(w.dir, "worktree", "add", "--quiet", "-b", name, dir, "main")
	for f, text := range files {
		w.commit(dir, f, text)
	}
	w.git(w.dir, "worktree", "remove", "--force", dir)
}

// inStage returns a node of operation in the worktree of the stop condition stop, or that itself, and
// the outcome of what cannot go on there.
func (w *world) inStage(stop *Node, operation string, args map[string]string) (*Node, kernel.Outcome) {
	if operation == "gate.stop_condition" {
		return stop, kernel.OutcomeBlocked
	}
	n := w.node(operation, args).in(stop.Dir)
	n.Job.State.Context = stop.Job.State.Context
	return n, kernel.OutcomeFailed
}

// node returns a node of an operation, in a job and a run of its own.
func (w *world) node(operation string, args map[string]string) *Node {
	w.jobs++
	n := &Node{Root: w.dir, Dir: w.dir}
	n.Operation, n.Uses, n.Node, n.Args = operation, "cap.env.builtin."+operation, "the_node", args
	n.Job.ID = kernel.JobID(fmt.Sprintf("%032x", w.jobs))
	n.Job.Created = time.Now()
	n.Job.Spec.Origin.Run = kernel.RunID(fmt.Sprintf("run_%032x", w.jobs))
	n.Job.State.Attempt, n.Job.State.Status, n.Job.State.Started = 1, kernel.Running, time.Now()
	return n
}

// declares makes an artifact one of n's success.
func (n *Node) declares(a kernel.Artifact) *Node {
	if n.Artifacts == nil {
		n.Artifacts = map[string][]workflow.ArtifactRecord{}
	}
	n.Artifacts["succeeded"] = append(n.Artifacts["succeeded"], workflow.RecordOf(a.Canonical()))
	return n
}

// in runs n in another working tree.
func (n *Node) in(dir string) *Node {
	n.Dir = dir
	return n
}

// run runs n; once more, it is the attempt after one that was killed when all
// was done.
func (w *world) run(n *Node) Result {
	w.Helper()
	w.journal.again(n)
	if w.swept {
		return Run(w.Context(), w.env, n)
	}
	return w.rehearsed(n)
}

// want runs n and asserts how it ends; reason has to contain each of says.
func (w *world) want(n *Node, o kernel.Outcome, says ...string) Result {
	w.Helper()
	r := w.run(n)
	if r.Outcome != o {
		w.Fatalf("%s: %v (%s), want %v\n%s", n.Operation, r.Outcome, r.Reason, o, w.stderr)
	}
	exit := map[kernel.Outcome]int{kernel.OutcomeFailed: 1, kernel.OutcomeBlocked: 10}[o]
	if r.Exit != exit && !(o == kernel.OutcomeFailed && r.Exit > 0 && (len(n.Gates) > 0 || n.arg("command", "script") != "")) {
		w.Errorf("%s: %v with exit code %d, want %d", n.Operation, o, r.Exit, exit)
	}
	for _, s := range says {
		if !strings.Contains(r.Reason, s) {
			w.Errorf("%s: reason %q does not say %q", n.Operation, r.Reason, s)
		}
	}
	return r
}

// prepared runs worktree.prepare and returns the worktree's directory.
func (w *world) prepared(args map[string]string) (string, Result) {
	w.Helper()
	r := w.want(w.node("worktree.prepare", args), kernel.OutcomeSucceeded)
	return filepath.Join(w.dir, r.Context.Worktree), r
}

// photograph returns every file of the main checkout but Vizier's own, its
// index and where it stands.
func (w *world) photograph() map[string]string {
	w.Helper()
	all := map[string]string{"HEAD": w.git(w.dir, "symbolic-ref", "HEAD"), "index": w.git(w.dir, "ls-files", "--stage")}
	err := filepath.WalkDir(w.dir, func(p string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(w.dir, p)
		if err == nil && d.IsDir() && (rel == ".git" || rel == ".vizier") {
			return filepath.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			all[rel] = w.read(w.dir, rel)
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return all
}

func (w *world) unchanged(before map[string]string) {
	w.Helper()
	if after := w.photograph(); !maps.Equal(before, after) {
		w.Errorf("the main checkout has changed:\n%v\n%v", before, after)
	}
}

// produced reports whether r says an artifact exists.
func (r Result) produced(a kernel.Artifact) bool {
	for _, b := range r.Produced {
		if a.Canonical() == b {
			return true
		}
	}
	return false
}
