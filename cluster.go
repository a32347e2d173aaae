package vizier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster/command"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster/slurm"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster/ssh"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// clusters returns the configured executors. Each has a store of its own, since
// several goroutines use it.
func clusters(cfg config.Config, local *proc.Local, store func() *fs.Store, blind func() bool) map[string]*cluster.Cluster {
	out := map[string]*cluster.Cluster{}
	for name, e := range cfg.Executors {
		own := store()
		c := &cluster.Cluster{
			Name: name, Kind: e.Kind, Root: local.Root, Files: own, Local: local, Conclude: own.ConcludeOnce, Blind: blind,
			Settings: cluster.Settings{Pack: e.Pack, Cores: e.CPUs, SubmitRate: e.SubmitRate, MaxSubmitted: e.MaxSubmitted,
				NoLocks: !e.Locks, Lease: e.Lease, Poll: e.Poll, Timeout: e.Timeout, Program: e.Program},
			Asked: func(id kernel.JobID) ([]string, time.Duration, error) {
				j, err := own.Job(id)
				return j.Asks(), j.Spec.Task.Timeout, err
			},
		}
		c.Engine = engine(e, c)
		out[name] = c
	}
	return out
}

// engine returns the engine of a configured executor.
func engine(e config.Executor, of *cluster.Cluster) cluster.Engine {
	switch e.Kind {
	case command.Kind:
		return command.Engine{Settings: command.Settings{Submit: e.Submit, List: e.List, Cancel: e.Cancel, Options: e.Options, Dir: of.Root}}
	case ssh.Kind:
		hosts := &ssh.Engine{Client: e.SSH, Program: cmp.Or(e.Program, of.Local.Exe), Dir: filepath.Join(of.Files.ClusterDir(), of.Name+".hosts")}
		if len(e.SSH) == 0 {
			hosts.Client = []string{"ssh"}
		}
		for _, h := range e.Hosts {
			hosts.Hosts = append(hosts.Hosts, ssh.Host(h))
		}
		return hosts
	default:
		return slurm.Settings{Partition: e.Partition, Account: e.Account, QOS: e.QOS, Time: e.Time, CPUs: e.CPUs, Memory: e.Memory, Gres: e.Gres,
			Options: e.Options, Dir: of.Root}
	}
}

// placeOf returns how a process finds out about the cluster job that it runs
// in, by the kind of engine. Earlier versions do not state the kind.
func placeOf(kind string) cluster.Place {
	if kind == "" || kind == slurm.Kind {
		return slurm.Place{}
	}
	return cluster.EnvPlace{}
}

// clusterExecutor implements app.Executor with a cluster.
type clusterExecutor struct {
	*cluster.Cluster
	send func(*cluster.Cluster)
}

// Send makes sure that the cluster's outbox is delivered.
func (e clusterExecutor) Send() { e.send(e.Cluster) }

// startSender starts a process that delivers the outbox of a cluster, if this
// process left something there or nobody else is looking at it. The process has
// the environment of this one, which sbatch passes on. If it cannot be started,
// the resident scheduler delivers the outbox.
func (w *world) startSender(c *cluster.Cluster) {
	const others = 2 * time.Minute // the resident scheduler looks more often
	while := others
	if w.scheduler.Waker == nil {
		while = cluster.DefaultPoll
	}
	if c.NeedsSender(while) {
		_ = w.local.StartSender(c.Name)
	}
}

// clusterHere returns the executor called name of the repository that contains
// the working directory.
func clusterHere(name string, env Environment) (*world, *cluster.Cluster, error) {
	root, live, err := here(env)
	if err != nil {
		return nil, nil, err
	}
	w, err := connect(root, live, env, "", nil)
	if err != nil {
		return nil, nil, err
	}
	c := w.clusters[name]
	if c == nil {
		return nil, nil, fmt.Errorf("there is no executor %s: %w", name, kernel.ErrInvalid)
	}
	return w, c, nil
}

// serveSender implements the hidden entry point `__send EXECUTOR`, which
// delivers the executor's outbox.
func serveSender(args []string, stderr io.Writer, env Environment) int {
	const patience = 10 * time.Minute
	err := func() error {
		if len(args) != 1 {
			return fmt.Errorf("expected an executor: %w", kernel.ErrInvalid)
		}
		_, c, err := clusterHere(args[0], env)
		if err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		_, err = c.Deliver(ctx)
		return err
	}()
	if err != nil {
		fmt.Fprintln(stderr, "vizier sender:", err)
		return 1
	}
	return 0
}

// allRunners watches the runners of this machine and of the clusters.
type allRunners struct {
	*proc.RunnerWatcher
	files   cluster.Files
	watches map[string]*cluster.Watch // by the name of their cluster
	given   map[kernel.AttemptID]string
	ended   chan struct{}
}

// watchRunners returns a watcher that watches no runner yet. Its goroutines end
// with ctx, and give a cluster nothing while current is false.
func (w *world) watchRunners(ctx context.Context, current func() bool) app.RunnerWatcher {
	local := w.local.NewRunnerWatcher()
	if len(w.clusters) == 0 {
		return local
	}
	all := &allRunners{RunnerWatcher: local, watches: map[string]*cluster.Watch{}, ended: make(chan struct{}, 1)}
	for name, c := range w.clusters {
		all.files, all.watches[name] = c.Files, c.NewWatch(ctx, current)
	}
	w.send = func(c *cluster.Cluster) {
		if !c.NeedsSender(cluster.DefaultPoll) {
			return // the watch delivers deferred requests by itself
		}
		if one := all.watches[c.Name]; one != nil { // a new executor is watched by the next resident scheduler
			one.Send()
		}
	}
	heard := []<-chan struct{}{local.Ended()}
	for _, w := range all.watches {
		heard = append(heard, w.Ended())
	}
	for _, one := range heard {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-one:
				}
				select {
				case all.ended <- struct{}{}:
				default:
				}
			}
		}()
	}
	return all
}

func (r *allRunners) Ended() <-chan struct{} { return r.ended }

// Watch implements app.RunnerWatcher. To which cluster an attempt was given is looked up once.
func (r *allRunners) Watch(attempts []kernel.AttemptID) bool {
	given, of := make(map[kernel.AttemptID]string, len(attempts)), map[string][]kernel.AttemptID{}
	var own []kernel.AttemptID
	for _, a := range attempts {
		name, known := r.given[a]
		if !known {
			name = cluster.GivenTo(r.files, a)
		}
		if r.watches[name] == nil { // it has a runner here, or one is about to have its order written
			own = append(own, a)
			continue
		}
		given[a] = name
		of[name] = append(of[name], a)
	}
	r.given = given
	for name, w := range r.watches {
		w.Watch(of[name])
	}
	return r.RunnerWatcher.Watch(own)
}

// onNode is the store with which a runner on a node records.
type onNode struct{ *fs.Store }

func (o onNode) Conclude(r kernel.Result) error { return o.ConcludeOnce(r) }

// nodeWorkload notes the attempt for signal handling from the moment it is
// claimed.
type nodeWorkload struct {
	*proc.Local
	begun func()
	asked func() error // why the cluster asked this runner to end; nil: it did not
}

func (w nodeWorkload) Claim(a kernel.AttemptID) error {
	err := w.Local.Claim(a)
	if err == nil {
		w.begun()
	}
	return err
}

// Run distinguishes a command that the cluster ended from one that a signal
// ended for a reason of its own: in the first case the runner gets the signal
// as well. A shell whose command got it first exits with 128 plus the signal's
// number.
func (w nodeWorkload) Run(ctx context.Context, j *kernel.Job) kernel.Result {
	const late, step = time.Second, 50 * time.Millisecond // on a busy node, the runner's signal may be late
	r := w.Local.Run(ctx, j)
	const terminated = 128 + int(syscall.SIGTERM)
	if r.Class != kernel.Signal && r.Exit != terminated {
		return r
	}
	why := context.Cause(ctx) // or the runner's signal came first, and has ended the attempt meanwhile
	if why == nil {
		why = w.asked()
	}
	for end := time.Now().Add(late); why == nil && time.Now().Before(end); why = w.asked() {
		time.Sleep(step)
	}
	e, known := errors.AsType[*proc.EndedError](why)
	switch {
	case known:
		r.Exit, r.Class, r.Reason = e.Exit(), e.Class, e.Reason
	case why != nil:
		r.Reason = why.Error()
	}
	return r
}

// serveOnNode implements the hidden entry point `__node --attempt JOB/N`: the
// runner of an attempt on a cluster, which its batch job starts at the
// repository's root. It does not take the scheduler lock and starts no other
// job.
func serveOnNode(args []string, stderr io.Writer, env Environment) int {
	limitProcessors()
	err := runRemote(args, env)
	if err != nil {
		fmt.Fprintln(stderr, "vizier runner:", err)
	}
	if err == nil || errors.Is(err, kernel.ErrStale) { // ErrStale: another runner has the attempt
		return 0
	}
	return 1
}

// serveProbe implements the hidden entry point `__probe DIR`, which checks what
// a node can see of the submitting host.
func serveProbe(args []string, stderr io.Writer) int {
	err := fmt.Errorf("expected a directory: %w", kernel.ErrInvalid)
	if len(args) == 1 {
		err = cluster.Probe(args[0])
	}
	if err != nil {
		fmt.Fprintln(stderr, "vizier probe:", err)
		return 1
	}
	return 0
}

// serveHost implements the hidden entry point `__host`, which serves requests
// of another host through ssh.
func serveHost(stdin io.Reader, stdout, stderr io.Writer) int {
	if err := ssh.Serve(stdin, stdout); err != nil {
		fmt.Fprintln(stderr, "vizier host:", err)
		return 1
	}
	return 0
}

func runRemote(args []string, env Environment) error {
	if len(args) != 2 || args[0] != "--attempt" {
		return fmt.Errorf("expected --attempt JOB/N: %w", kernel.ErrInvalid)
	}
	attempt, err := proc.ParseAttempt(args[1])
	if err != nil {
		return err
	}
	root, live, err := here(env)
	if err != nil {
		return err
	}
	w, err := connect(root, live, env, "", nil)
	if err != nil {
		return err
	}
	node, err := cluster.Begin(w.store, placeOf, attempt)
	if err != nil {
		return err
	}
	w.hosts.Probe() // while the resident scheduler is likely to hold its lock
	var now current
	now.hear()
	if err := w.runOnNode(node, attempt, &now); err != nil {
		return err
	}
	if node.Locks() {
		w.standIn(context.Background())
	}
	return nil
}

// current is the attempt that this process runs, for its signal handlers.
type current struct{ one atomic.Pointer[onSignal] }

// onSignal is what to do with an attempt when the cluster ends it, or tells it
// to check its record.
type onSignal struct {
	runner     *app.Runner
	terminated atomic.Bool
	why        func() error // returns why the cluster asks it to end
}

// hear handles the signals of this process. ended is set once the process is to
// end, and takes no further attempt.
func (c *current) hear() (ended *atomic.Bool) {
	ended = new(atomic.Bool)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	go func() {
		for s := range signals {
			ended.Store(ended.Load() || s == syscall.SIGTERM)
			one := c.one.Load()
			if one == nil {
				continue
			}
			one.terminated.Store(one.terminated.Load() || s == syscall.SIGTERM)
			if one.runner.Check(); s == syscall.SIGTERM {
				one.runner.Stop(one.why())
			}
		}
	}()
	return ended
}

// runOnNode runs an attempt to its end.
func (w *world) runOnNode(node *cluster.Node, attempt kernel.AttemptID, now *current) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	runner := &app.Runner{Outcomes: onNode{w.store}, Submissions: w.submissions(w.local.Root)}
	this := &onSignal{runner: runner, why: sync.OnceValue(func() error { return node.Terminated(ctx) })}
	runner.Workload = nodeWorkload{w.local, func() {
		node.Begun()
		go node.Beat(ctx, runner.Check, runner.Stop)
	}, func() error {
		if !this.terminated.Load() {
			return nil
		}
		return this.why()
	}}
	now.one.Store(this)
	err := runner.RunRemote(ctx, attempt)
	now.one.Store(nil)
	return errors.Join(err, node.Close())
}

// standIn ticks on a node, after the end of an attempt, if the resident scheduler
// that would have noticed the end is gone. Jobs of the local executor are left
// to their own host.
func (w *world) standIn(ctx context.Context) {
	const patience = time.Minute
	if watch.Taken(w.store.ResidentFile()) {
		return
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	s := *w.scheduler
	s.Configure = func(s *app.Scheduler) {
		w.configure(s)
		s.Limits.Remote, s.Waker, s.Hooks = true, nil, nil
		s.Executor = standInExecutor{w.local}
	}
	w.send = func(c *cluster.Cluster) { _, _ = c.Deliver(ctx) } // no process may outlive this one
	_, _ = s.Tick(ctx)                                          // if it fails, the next attempt's end or the next command tries again
}

// standInExecutor is the local executor on a host that must not start its jobs.
type standInExecutor struct{ *proc.Local }

func (standInExecutor) Start(context.Context, kernel.AttemptID) error {
	return errors.New("it is to be started on the host that jobs are submitted on")
}
