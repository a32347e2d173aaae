// Package vizier assembles the scheduler for a program that embeds it: the use
// cases of app over the files, the git repository and the processes of a
// working tree.
//
//	func main() {
//		if code, ok := vizier.Serve(os.Args[1:], os.Stdout, os.Stderr, os.Environ()); ok {
//			os.Exit(code)
//		}
//		r, err := vizier.Open(".", vizier.Options{Environ: os.Environ()})
//		…
//	}
//
// Jobs run in processes of their own, which are started as the same program;
// Serve is for them. A program that does not call Serve sets Options.Program to
// one that does, such as the command vizier.
package vizier

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/fs/template"
	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/adapters/proc/agent"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/trace"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// Environment is the variables of a process, in the form of os.Environ.
type Environment []string

// Get returns the value of a variable, or "" if it is not set. As in the
// system, the last setting counts.
func (e Environment) Get(name string) string {
	for _, kv := range slices.Backward(e) {
		if len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
			return kv[len(name)+1:]
		}
	}
	return ""
}

// Has reports whether a variable is set, even to "".
func (e Environment) Has(name string) bool {
	return slices.ContainsFunc(e, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
}

// Options are the choices of the embedding program.
type Options struct {
	Environ    Environment // VIZIER_* settings are read from it
	ConfigFile string      // read instead of the user's and the repository's files; "": those
	Program    string      // the file that runners are started as; "": this program's
	NoResident bool        // start no resident scheduler, whatever the configuration says
}

// Repository is an open repository. Opening it changes nothing.
type Repository struct {
	Scheduler *app.Scheduler // the use cases
	Config    config.Config
	Root      string // of the main working tree; absolute
	Tree      string // the working tree it was opened from; absolute

	Store    *fs.Store
	Git      *git.Repo
	Clusters map[string]*cluster.Cluster
	Agents   app.AgentPrograms

	// Outside describes the process that continues what is asked for here, if
	// this process is in a sandbox; "": it is not.
	Outside string

	world   *world
	options Options
}

// Open opens the repository that contains dir. It fails with
// git.ErrNotRepository if there is none, and with a *config.Error if its
// configuration is wrong.
func Open(dir string, o Options) (*Repository, error) {
	root, err := git.FindRoot(dir)
	if err != nil {
		return nil, git.Named(err, o.Environ.Get("GIT_DIR"))
	}
	keep := fs.NewLayout(root.Dir).KeptConfigFile()
	if o.ConfigFile != "" {
		keep = "" // processes that this one starts read other files
	}
	live, err := config.Open(config.Sources{Root: root.Dir, File: o.ConfigFile, Env: o.Environ.Get}, keep)
	if err != nil {
		return nil, err
	}
	w, err := connect(root, live, o.Environ, o.Program, func(c *config.Config) { c.Scheduler.Resident = c.Scheduler.Resident && !o.NoResident })
	if err != nil {
		return nil, err
	}
	return &Repository{
		Scheduler: w.scheduler, Config: w.config(), Root: root.Dir, Tree: root.Tree,
		Store: w.store, Git: w.git, Clusters: w.clusters, Outside: w.confine(),
		Agents: programsOf{agent.Agents{Root: root.Dir, Shims: shimDirs(o.Environ)}},
		world:  w, options: o,
	}, nil
}

// Refresh applies what the configuration files say now to the Scheduler, and returns it; Config stays as it was at Open.
// Like the Scheduler, it must be used by one goroutine at a time.
func (r *Repository) Refresh() config.Config {
	r.world.configure(r.world.scheduler)
	return r.world.config()
}

// Resident returns the pid of the resident scheduler, or 0 if none is alive.
func (r *Repository) Resident() int { return watch.PID(r.Store.ResidentFile()) }

// Hindrance is what keeps the resident scheduler from its work. The zero value:
// nothing does.
type Hindrance struct {
	Problem  string
	Command  []string // what to type
	Then     string   // what follows of that
	Suffices bool     // jobs that are due go on then
}

// Hindrance returns what keeps the resident scheduler from its work: it is
// stopped, its program is gone, or it may open too few files to start jobs. It returns the zero value if
// there is none, or if that is not known, as for one in another process namespace.
func (r *Repository) Hindrance() Hindrance {
	pid, space := watch.Holder(r.Store.ResidentFile())
	if pid == 0 || space != proc.PIDSpace() {
		return Hindrance{}
	}
	if proc.Stopped(pid) {
		return Hindrance{fmt.Sprintf("the resident scheduler (pid %d) is stopped, as by SIGSTOP or a debugger", pid),
			[]string{"kill", "-CONT", strconv.Itoa(pid)}, "it goes on", true}
	}
	if gone := proc.ProgramGone(pid); gone != "" {
		return Hindrance{fmt.Sprintf("the program of the resident scheduler (pid %d), %s, was removed or moved, so it starts nothing", pid, gone),
			[]string{"kill", strconv.Itoa(pid)}, "the next command starts another", false}
	}
	if few := proc.TightLimitOf(pid); few != "" {
		return Hindrance{few, []string{"kill", strconv.Itoa(pid)}, "the next command starts another, with its own limit", false}
	}
	return Hindrance{}
}

// Attended reports whether a resident scheduler is running and not stopped, here
// or on the host that schedules, or is just being started.
func (r *Repository) Attended() bool {
	return watch.Taken(r.Store.ResidentFile()) && !r.Hindrance().Suffices || r.Elsewhere()
}

// Elsewhere reports whether another host schedules. Its locks may not be
// visible here, and its changes may become visible late, so reading commands
// leave it to that host to settle lost jobs.
func (r *Repository) Elsewhere() bool { return r.world.hosts.Elsewhere() }

// ContainerLine returns the command line that starts the container of j, as a value
// of run in [containers] with its placeholders, or "" for a job without one.
func (r *Repository) ContainerLine(j *kernel.Job) string { return r.world.local.ContainerLine(j) }

// CheckContainers returns why jobs cannot run in containers on this host, and
// what to do, or "" if they can.
func (r *Repository) CheckContainers() (problem, next string) { return r.world.local.CheckContainers() }

// Asker is the person or program that uses the repository, as it goes on
// record.
type Asker struct {
	Command []string      // the command line as typed
	Name    func() string // returns its name; called only if the name goes on record
}

// Builder returns a builder of jobs for a requester in the working tree that r
// was opened from.
func (r *Repository) Builder(who Asker) *enqueue.Builder { return r.builder(r.Tree, who) }

func (r *Repository) builder(tree string, who Asker) *enqueue.Builder {
	in := r.world.builder(tree, r.Config)
	in.Agents, in.Origin, in.By = r.Agents, kernel.Origin{Command: who.Command, TraceParent: trace.Parse(r.world.env.Get("TRACEPARENT")).String()}, who.Name
	return in
}

// Templates returns the templates of r.
func (r *Repository) Templates() Templates { return r.world.templates(r.Config) }

// builder returns a builder of jobs for a requester in tree.
func (w *world) builder(tree string, cfg config.Config) *enqueue.Builder {
	return &enqueue.Builder{
		Scheduler: w.scheduler, Trees: trees{w.git}, Templates: w.templates(cfg), Root: w.local.Root, Tree: tree,
		Defaults: enqueue.Defaults{Timeout: cfg.Jobs.Timeout, Executor: cfg.Jobs.Executor, Sandbox: sandboxOf(cfg.Jobs), Containers: imagesOf(cfg), Settings: cfg.Flows.Settings(),
			Agent: func(alias string, selectors ...string) app.AgentChoice {
				return AgentChoice(cfg.Agents.For(alias, selectors...))
			}},
	}
}

// imagesOf returns the default images of executors.
func imagesOf(c config.Config) map[string]string {
	out := map[string]string{}
	for name, e := range c.Executors {
		out[name] = e.Container
	}
	return out
}

// sandboxOf returns the least restrictive sandbox that the configuration
// allows.
func sandboxOf(c config.Jobs) kernel.Sandbox {
	b := kernel.Sandbox{Write: c.Write}
	b.Mode, _ = kernel.ParseSandboxMode(c.Sandbox)
	b.Network, _ = kernel.ParseNetwork(c.Network)
	return b
}

// trees implements enqueue.Trees.
type trees struct{ *git.Repo }

func (trees) TreeOf(path string) (root, tree string, err error) {
	at, err := git.FindRoot(path)
	return at.Dir, at.Tree, err
}

// Templates implements enqueue.Templates with the templates of a repository and
// the user's own.
type Templates struct {
	template.Loader

	store   *fs.Store
	aliases map[string]string
}

func (w *world) templates(cfg config.Config) Templates {
	return Templates{template.Loader{Root: w.local.Root, Global: cfg.Workflow.Global(w.env.Get)}, w.store, cfg.Commands}
}

// Find returns the template with a name that a person typed.
func (t Templates) Find(name string) (enqueue.Choice, error) {
	found, err := t.Loader.Find(name, t.aliases)
	return enqueue.Choice(found), err
}

// Load reads a template.
func (t Templates) Load(c enqueue.Choice) (*workflow.Source, error) { return t.Loader.Load(c.Path) }

// Spec returns the text of a specification.
func (t Templates) Spec(tree, path string) (string, error) { return template.Spec(tree, path) }

// Specs returns the specifications below a directory.
func (t Templates) Specs(tree, dir string) ([]enqueue.SpecFile, error) {
	files, err := template.Specs(tree, dir)
	out := make([]enqueue.SpecFile, len(files))
	for i, f := range files {
		out[i] = enqueue.SpecFile(f)
	}
	return out, err
}

// Manifest returns the manifest of a run.
func (t Templates) Manifest(run kernel.RunID) ([]byte, error) { return t.store.Run(run) }
