// Package vizier puts the scheduler together for a program that embeds it: the
// use cases of app over the files, the git repository and the processes of a
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
// Jobs run in processes of their own, which are started as the same program:
// that is what Serve is for. A program that does not call it names another that
// does, such as the command vizier, in Options.Program.
package vizier

import (
	"slices"
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

// Environment is the variables of a process, as os.Environ has them.
type Environment []string

// Get is the value of a variable, "" when it is unset. The last setting wins,
// as in the system.
func (e Environment) Get(name string) string {
	for _, kv := range slices.Backward(e) {
		if len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
			return kv[len(name)+1:]
		}
	}
	return ""
}

// Has reports that a variable is set, if only to nothing.
func (e Environment) Has(name string) bool {
	return slices.ContainsFunc(e, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
}

// Options are what the embedding program decides.
type Options struct {
	Environ    Environment // VIZIER_* settings are read from it
	ConfigFile string      // read instead of the user's and the repository's; "": those
	Program    string      // the file that runners are started as; "": this program's
	NoResident bool        // start no resident scheduler, whatever the configuration says
}

// Repository is a repository, opened. Opening it has touched nothing.
type Repository struct {
	Scheduler *app.Scheduler // the use cases
	Config    config.Config
	Root      string // of the main working tree; absolute
	Tree      string // the working tree it was opened from; absolute

	Store    *fs.Store
	Git      *git.Repo
	Clusters map[string]*cluster.Cluster
	Agents   app.AgentPrograms

	// Outside says which process goes on with what is asked for here, when this
	// one is in a sandbox; "": it is in none.
	Outside string

	world   *world
	options Options
}

// Open opens the repository that dir belongs to. The error is
// git.ErrNotRepository where it belongs to none, and a *config.Error where its
// configuration is wrong.
func Open(dir string, o Options) (*Repository, error) {
	root, err := git.FindRoot(dir)
	if err != nil {
		return nil, err
	}
	keep := fs.NewLayout(root.Dir).KeptConfigFile()
	if o.ConfigFile != "" {
		keep = "" // what this process starts reads other files
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

// Resident is the process of the resident scheduler; 0: none is alive.
func (r *Repository) Resident() int { return watch.PID(r.Store.ResidentFile()) }

// FewFiles is why the resident scheduler that is alive may fail to start jobs; "": there is
// none, or nothing is known against it, as of one in another process namespace.
func (r *Repository) FewFiles() string {
	pid, space := watch.Holder(r.Store.ResidentFile())
	if pid == 0 || space != proc.PIDSpace() {
		return ""
	}
	return proc.FewFilesOf(pid)
}

// Attended reports that there is a resident scheduler, here or on the host that schedules,
// or that one is just being started.
func (r *Repository) Attended() bool {
	return watch.Taken(r.Store.ResidentFile()) || r.Elsewhere()
}

// Elsewhere reports that another host schedules, whose locks may not hold here: what to settle
// is left to that one by who only looks, since this host may see late what it does.
func (r *Repository) Elsewhere() bool { return r.world.hosts.Elsewhere() }

// ContainerLine is the command line by which the container of j starts, without its
// variables; "" for a job without one.
func (r *Repository) ContainerLine(j *kernel.Job) string { return r.world.local.ContainerLine(j) }

// CheckContainers says why no job can run in a container on this host, and what to
// do; "": they can.
func (r *Repository) CheckContainers() (problem, next string) { return r.world.local.CheckContainers() }

// Asker is who uses the repository, as records have it.
type Asker struct {
	Command []string      // what was typed
	Name    func() string // of the person or program; called only where it goes on record
}

// Builder makes jobs for an asker who stands in the working tree that r was
// opened from.
func (r *Repository) Builder(who Asker) *enqueue.Builder { return r.builder(r.Tree, who) }

func (r *Repository) builder(tree string, who Asker) *enqueue.Builder {
	in := r.world.builder(tree, r.Config)
	in.Agents, in.Origin, in.By = r.Agents, kernel.Origin{Command: who.Command, TraceParent: trace.Parse(r.world.env.Get("TRACEPARENT")).String()}, who.Name
	return in
}

// Templates are those of r.
func (r *Repository) Templates() Templates { return r.world.templates(r.Config) }

// builder makes jobs for whoever stands in tree.
func (w *world) builder(tree string, cfg config.Config) *enqueue.Builder {
	return &enqueue.Builder{
		Scheduler: w.scheduler, Trees: trees{w.git}, Templates: w.templates(cfg), Root: w.local.Root, Tree: tree,
		Defaults: enqueue.Defaults{Timeout: cfg.Jobs.Timeout, Executor: cfg.Jobs.Executor, Sandbox: sandboxOf(cfg.Jobs), Containers: imagesOf(cfg), Settings: cfg.Flows.Settings(),
			Agent: func(alias string, selectors ...string) app.AgentChoice {
				return AgentChoice(cfg.Agents.For(alias, selectors...))
			}},
	}
}

// imagesOf are the images of the jobs of executors that name none.
func imagesOf(c config.Config) map[string]string {
	out := map[string]string{}
	for name, e := range c.Executors {
		out[name] = e.Container
	}
	return out
}

// sandboxOf is the least sandbox that the configuration asks for.
func sandboxOf(c config.Jobs) kernel.Sandbox {
	b := kernel.Sandbox{Write: c.Write}
	b.Mode, _ = kernel.ParseSandboxMode(c.Sandbox)
	b.Network, _ = kernel.ParseNetwork(c.Network)
	return b
}

// trees are the working trees behind enqueue's port.
type trees struct{ *git.Repo }

func (trees) TreeOf(path string) (root, tree string, err error) {
	at, err := git.FindRoot(path)
	return at.Dir, at.Tree, err
}

// Templates are the templates of a repository, and the user's own, behind
// enqueue's port.
type Templates struct {
	template.Loader

	store   *fs.Store
	aliases map[string]string
}

func (w *world) templates(cfg config.Config) Templates {
	return Templates{template.Loader{Root: w.local.Root, Global: cfg.Workflow.Global(w.env.Get)}, w.store, cfg.Commands}
}

// Find is the template that a person means by a name.
func (t Templates) Find(name string) (enqueue.Choice, error) {
	found, err := t.Loader.Find(name, t.aliases)
	return enqueue.Choice(found), err
}

// Load reads a template.
func (t Templates) Load(c enqueue.Choice) (*workflow.Source, error) { return t.Loader.Load(c.Path) }

// Spec is the text of a specification.
func (t Templates) Spec(tree, path string) (string, error) { return template.Spec(tree, path) }

// Specs are the specifications below a directory.
func (t Templates) Specs(tree, dir string) ([]enqueue.SpecFile, error) {
	files, err := template.Specs(tree, dir)
	out := make([]enqueue.SpecFile, len(files))
	for i, f := range files {
		out[i] = enqueue.SpecFile(f)
	}
	return out, err
}

// Manifest is that of a run.
func (t Templates) Manifest(run kernel.RunID) ([]byte, error) { return t.store.Run(run) }
