package vizier

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/fs/inbox"
	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	rules "github.com/vizier-scheduler/vizier/kernel/inbox"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// world holds the connected adapters of one repository.
type world struct {
	scheduler *app.Scheduler
	store     *fs.Store
	local     *proc.Local
	clusters  map[string]*cluster.Cluster
	git       *git.Repo
	env       Environment

	newStore func() *fs.Store
	hosts    watch.Hosts
	resident bool                   // this process is the resident scheduler
	send     func(*cluster.Cluster) // delivers the outbox of a cluster without delay

	live   *config.Live
	differ func(*config.Config) // changes the configuration for this process; nil: unchanged
}

// connect connects the adapters of a repository. It changes nothing on disk.
// differ, unless nil, changes the configuration for this process.
func connect(at git.Root, live *config.Live, env Environment, program string, differ func(*config.Config)) (*world, error) {
	root, repo := at.Dir, git.Open(at)
	repo.Own = map[string]string{fs.IgnoreFile: fs.Ignored}
	w := &world{git: repo, env: env, live: live, differ: differ}
	w.send = w.startSender
	if err := proc.CheckHost(); err != nil {
		return nil, err
	}
	cfg := w.config()
	exe, resident, err := programs(program)
	if err != nil {
		return nil, err
	}
	durable := cfg.Store.Durability != "relaxed"
	now := clock(env)
	newStore := func() *fs.Store {
		return fs.NewStore(root, fs.Options{
			Durable: durable, Boot: proc.Boot(), Now: now, Tracking: repo, Program: version(), Admit: w.admit,
			Who: strings.Join(os.Args, " "),
		})
	}
	w.store, w.newStore = newStore(), newStore
	w.hosts = watch.Hosts{Record: w.store.HostFile(), Turn: w.store.TurnFile(), Seen: w.store.HostsDir(), Resident: w.store.ResidentFile(), Self: watch.Host{Name: proc.Host(), Boot: proc.Boot()}}
	w.local = &proc.Local{Exe: exe, ResidentExe: resident, Root: root, Files: w.store, Now: now}
	w.scheduler = &app.Scheduler{
		Store: lockingStore{w.store, cfg.Scheduler.LockTimeout}, Observers: []app.Observer{w.store, repo, w.local},
		Executor: w.local, Worktrees: repo, Sentinels: w.store, Prompts: inbox.Tender{Tree: inbox.Tree{Now: now}}, Cleaner: runCleaner{w.store, repo},
		Events: w.store, Configure: w.configure, Now: now, NewID: minter(env, now),
	}
	w.apply(cfg)
	return w, nil
}

// config returns the configuration of this process.
func (w *world) config() config.Config {
	cfg := w.live.Config()
	if w.differ != nil {
		w.differ(&cfg)
	}
	return cfg
}

// configure applies a changed configuration to s, which is w's scheduler or a
// copy of it. Durability and the lock timeout do not change.
func (w *world) configure(s *app.Scheduler) {
	if w.live.Refresh() {
		w.apply(w.config())
	}
	if own := w.scheduler; s != own {
		s.Limits, s.Executors, s.Hooks, s.Waker, s.Inside = own.Limits, own.Executors, own.Hooks, own.Waker, own.Inside
		s.Keep, s.PackAfter = own.Keep, own.PackAfter
	}
}

// apply sets everything that depends on cfg.
func (w *world) apply(cfg config.Config) {
	w.store.Keep(cfg.Logs.KeepAttempts, cfg.Events.MaxBytes, cfg.Events.Files)
	w.store.KeepHistory(cfg.History.MaxBytes, cfg.History.Keep)
	w.local.Grace, w.local.MaxLog = cfg.Jobs.Grace, cfg.Logs.MaxBytes
	home := inboxHome(w.local.Root, cfg)
	w.local.Closed = []string{filepath.Join(home, rules.Dir), filepath.Join(home, rules.ProcessedDir), filepath.Join(home, rules.FinishedDir), filepath.Join(home, rules.FailedDir)}
	w.local.Spans, w.local.HooksExe = cfg.OTel.Endpoint != "", ""
	if w.local.Spans {
		w.local.HooksExe = spanProgram(w.local.Exe)
	}
	w.local.Containers = proc.Engine(cfg.Containers.Engine, cfg.Containers.Run, cfg.Containers.Remove)
	w.local.Lease = proc.Lease{TTL: cfg.Leases.TTL, Stalled: cfg.Leases.Stalled, Locks: cfg.Leases.Locks}
	limits := kernel.Limits{MaxRunning: cfg.Scheduler.MaxRunning, OthersApprove: cfg.Approvals.Others(), Executors: map[string]int{}, Pools: cfg.Pools, Grace: cfg.Jobs.Grace}
	if limits.MaxRunning == 0 {
		limits.MaxRunning = runtime.NumCPU()
	}
	w.clusters = clusters(cfg, w.local, func() *fs.Store {
		s := w.newStore()
		s.Keep(cfg.Logs.KeepAttempts, cfg.Events.MaxBytes, cfg.Events.Files)
		return s
	}, w.hosts.Elsewhere)
	executors := map[string]app.Executor{}
	for name, c := range w.clusters {
		executors[name], limits.Executors[name] = clusterExecutor{c, func(c *cluster.Cluster) { w.send(c) }}, cfg.Executors[name].MaxRunning
	}
	s := w.scheduler
	s.Limits, s.Executors, s.Hooks, s.Waker = limits, executors, newHookWaker(cfg, w.store, w.local), nil
	s.Keep, s.PackAfter = retention.Policy(cfg.GC.Keep), cfg.GC.PackAfter
	switch {
	case !cfg.Scheduler.Resident:
	case s.Sandboxed:
		s.Waker = notifyingWaker{w.store.ResidentFile()}
	default:
		s.Waker = residentWaker{w.store.ResidentFile(), w.local}
	}
	s.Inside = w.insideJob
}

// here returns the repository that contains the working directory, and its
// configuration.
func here(env Environment) (git.Root, *config.Live, error) {
	dir, err := os.Getwd()
	if err != nil {
		return git.Root{}, nil, err
	}
	root, err := git.FindRoot(dir)
	if err != nil {
		return root, nil, err
	}
	live, err := inherited(root, env)
	return root, live, err
}

// inherited returns the configuration of a process that another one started.
func inherited(root git.Root, env Environment) (*config.Live, error) {
	return config.Inherit(config.Sources{Root: root.Dir, Env: env.Get}, fs.NewLayout(root.Dir).KeptConfigFile())
}

// runCleaner removes what jobs leave behind: files in the store, and branches.
type runCleaner struct {
	*fs.Store
	*git.Repo
}

// insideJob reports whether this process was started by a job, or may have
// been. If the job is known for sure, the user's own configuration file may
// still allow the decision, since that file is not the job's doing.
func (w *world) insideJob(ctx context.Context) (app.Descent, bool) {
	rec, err := w.scheduler.Store.Read(ctx, kernel.Scope{Near: []kernel.Near{{Kind: kernel.Attended}}})
	if err != nil {
		return app.Descent{Why: "the jobs cannot be read: " + err.Error()}, true
	}
	var running []kernel.AttemptID
	for _, j := range rec.Jobs {
		if j.State.Status == kernel.Running {
			running = append(running, j.Attempt())
		}
	}
	a, why, inside := w.local.InsideJob(running)
	for _, pid := range askers(ctx) {
		if !inside {
			a, why, inside = w.local.InsideJobOf(pid, running)
		}
	}
	if inside && why == "" && config.OwnAllows(os.Getuid()) {
		return app.Descent{}, false
	}
	return app.Descent{Job: a.Job, Why: why}, inside
}

// lockingStore implements app.Store. It waits for the lock up to the configured
// timeout; 0 waits for ever, as a runner must: it has a result to record, and
// nobody will run the attempt again.
type lockingStore struct {
	*fs.Store
	timeout time.Duration
}

// admit takes this host's turn to write: see fs.Options.
func (w *world) admit(ctx context.Context, looks bool) (fs.Turn, error) {
	turn, err := w.hosts.Admit(ctx, w.resident, looks)
	if other, ok := errors.AsType[*watch.HostError](err); ok {
		err = otherHost{other}
	}
	return turn, err
}

// otherHost wraps a refusal in favour of another host as app.ErrOtherHost.
type otherHost struct{ *watch.HostError }

func (otherHost) Is(target error) bool { return target == app.ErrBusy || target == app.ErrOtherHost }

func (s lockingStore) Begin(ctx context.Context) (app.Tx, error) {
	within, stop := s.within(ctx)
	defer stop()
	tx, err := s.Store.Begin(within)
	if err != nil { // return a nil interface, not an interface with a nil pointer
		return nil, busy(ctx, err)
	}
	return tx, nil
}

// BeginSettling begins a transaction that settles r's attempt. It does not
// wait: if the lock is taken, it fails with app.ErrBusy.
func (s lockingStore) BeginSettling(ctx context.Context, r kernel.Result) (app.Tx, error) {
	tx, err := s.Store.BeginSettling(ctx, r)
	if err != nil {
		return nil, busy(ctx, err)
	}
	return tx, nil
}

func (s lockingStore) Read(ctx context.Context, scope kernel.Scope) (kernel.Records, error) {
	within, stop := s.within(ctx)
	defer stop()
	rec, err := s.Store.Read(within, scope)
	return rec, busy(ctx, err)
}

func (s lockingStore) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.timeout)
}

// busy converts the store's BusyError to app.ErrBusy, which front ends know. If
// the caller's context ended first, it returns the context's error: the wait
// was interrupted, and the lock timeout may not have been reached.
func busy(ctx context.Context, err error) error {
	var b *fs.BusyError
	switch {
	case !errors.As(err, &b):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return fmt.Errorf("%w (held by %s)", app.ErrBusy, b.By())
	}
}

// programs returns the files of two builds of this program: the one that
// runners are started as, and the one for long-running processes such as the
// resident scheduler. The second is built with libgit2 and used if it is
// installed beside the first. It queries git without starting a process, but
// takes longer to start than most commands take to run.
func programs(own string) (runner, resident string, err error) {
	if own == "" {
		if own, err = os.Executable(); err != nil {
			return "", "", fmt.Errorf("find this program's file: %w", err)
		}
	}
	beside := func(name string) string {
		file := filepath.Join(filepath.Dir(own), name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file
		}
		return own
	}
	switch filepath.Base(own) {
	case proc.ResidentName:
		return beside("vizier"), own, nil
	case proc.TopName, proc.OTelName:
		return beside("vizier"), beside(proc.ResidentName), nil
	}
	return own, beside(proc.ResidentName), nil
}

// clock returns a function that returns the time with the precision of records,
// microseconds. VIZIER_NOW fixes the time for tests.
func clock(env Environment) func() time.Time {
	if fixed, err := time.Parse(time.RFC3339Nano, env.Get("VIZIER_NOW")); err == nil {
		return func() time.Time { return kernel.Timestamp(fixed) }
	}
	return func() time.Time { return kernel.Timestamp(time.Now()) }
}

// minter returns a function that makes job ids: UUIDv7 without hyphens, so that
// ids grow with time, and strictly so within a process. With VIZIER_IDS=seq it
// counts, for tests.
func minter(env Environment, now func() time.Time) func() kernel.JobID {
	var mu sync.Mutex
	var last uint64
	seq := env.Get("VIZIER_IDS") == "seq"
	return func() kernel.JobID {
		mu.Lock()
		defer mu.Unlock()
		var b [16]byte
		if seq {
			last++
			binary.BigEndian.PutUint64(b[8:], last)
			return kernel.JobID(hex.EncodeToString(b[:]))
		}
		// 48 bits of milliseconds and 12 of their fraction, as one number.
		t := now()
		at := uint64(t.UnixMilli())<<12 | uint64(t.Nanosecond()%1_000_000)*4096/1_000_000
		last = max(last+1, at)
		_, _ = rand.Read(b[8:]) // it never fails
		binary.BigEndian.PutUint64(b[:8], last>>12<<16|0x7000|last&0xfff)
		b[8] = b[8]&0x3f | 0x80
		return kernel.JobID(hex.EncodeToString(b[:]))
	}
}

// serveAttempt implements the hidden entry point `__shim --attempt JOB/N`: the
// runner. Its working directory is the repository's root.
func serveAttempt(args []string, stderr io.Writer, env Environment) int {
	limitProcessors()
	proc.RaiseFileSize()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	fail := func(err error) int {
		if err == nil || errors.Is(err, kernel.ErrStale) { // ErrStale: another process runs the attempt, which is not an error
			return 0
		}
		fmt.Fprintln(stderr, "vizier runner:", err)
		return 1
	}
	if len(args) != 2 || args[0] != "--attempt" {
		return fail(fmt.Errorf("expected --attempt JOB/N: %w", kernel.ErrInvalid))
	}
	attempt, err := proc.ParseAttempt(args[1])
	if err != nil {
		return fail(err)
	}
	root, live, err := here(env)
	if err != nil {
		return fail(err)
	}
	w, err := connect(root, live, env, "", func(c *config.Config) { c.Scheduler.LockTimeout = 0 })
	if err != nil {
		return fail(err)
	}
	held, err := w.local.Inherited(attempt)
	if err != nil {
		return fail(err)
	}
	ending, end := context.WithCancelCause(context.Background())
	w.scheduler.Ending = ending
	runner := &app.Runner{Scheduler: w.scheduler, Outcomes: w.store, Applied: w.store.Applied, Workload: w.local, Beat: w.config().Leases.Heartbeat,
		Submissions: w.submissions(root.Dir), ReleaseCache: func() {
			w.store.Forget()
			debug.FreeOSMemory()
			if l := w.scheduler.Waker; l != nil && ending.Err() == nil {
				l.Wake(kernel.Wakes{Poll: true}) // so that the resident scheduler notices if this process dies
			}
		}}
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM {
				end(errors.New("its runner was asked to end (SIGTERM)"))
			} else {
				runner.Check()
			}
		}
	}()
	err = runner.Serve(context.Background(), attempt, held)
	if errors.Is(err, kernel.ErrMoved) && ending.Err() == nil { // this directory is where it was moved to
		err = tickHere(env)
	}
	return fail(err)
}

// limitProcessors lets the goroutines of a runner share two processors. With more, they would move between threads. With
// one, Go takes it from each system call that lasts, and looks every 20 microseconds whether one does.
func limitProcessors() { runtime.GOMAXPROCS(min(2, runtime.GOMAXPROCS(0))) }

// tickHere ticks once in the repository of the working directory.
func tickHere(env Environment) error {
	root, live, err := here(env)
	if err != nil {
		return err
	}
	w, err := connect(root, live, env, "", func(c *config.Config) { c.Scheduler.LockTimeout = 0 })
	if err != nil {
		return err
	}
	_, err = w.scheduler.Tick(context.Background())
	return err
}

// version is that of the program, as its build recorded it.
var version = sync.OnceValue(func() string { //nolint:gochecknoglobals // a constant of the process
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
})
