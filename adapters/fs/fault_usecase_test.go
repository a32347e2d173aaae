package fs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// struck is a process that uses a store on a disk that may fail.
type struck struct {
	alive
	*Store
	t     *testing.T
	dir   string
	disk  *faulty
	sched *app.Scheduler
	now   time.Time

	started map[kernel.AttemptID]bool
	gone    map[kernel.AttemptID]bool // their runners have died
	closed  func()                    // is called after each transaction
}

// strike returns a process for the store in dir. Its disk does not fail yet.
func strike(t *testing.T, dir string) *struck {
	t.Helper()
	u := &struck{t: t, dir: dir, disk: &faulty{stats: true}, now: t0.Add(time.Hour), started: map[kernel.AttemptID]bool{}}
	o := options()
	o.Durable, o.Program, o.EventBytes, o.EventFiles, o.KeepLogs = true, "1.0", 1500, 30, 1
	o.Now = func() time.Time { return u.now }
	u.Store = NewStore(dir, o)
	u.Store.disk, u.pause = u.disk, 0
	u.sched = &app.Scheduler{Store: u, Observers: []app.Observer{u.Store}, Executor: u, Cleaner: u, Sentinels: u.Store, Events: u.Store, Hooks: u,
		Now: o.Now, Limits: kernel.Limits{MaxRunning: 2}, PackAfter: time.Minute}
	return u
}

type struckTx struct {
	*Tx
	u *struck
}

func (x struckTx) Close() error {
	err := x.Tx.Close()
	if x.u.closed != nil {
		x.u.closed()
	}
	return err
}

func (u *struck) Begin(ctx context.Context) (app.Tx, error) {
	tx, err := u.Store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return struckTx{tx, u}, nil
}

func (u *struck) BeginSettling(ctx context.Context, r kernel.Result) (app.Tx, error) {
	tx, err := u.Store.BeginSettling(ctx, r)
	if err != nil {
		return nil, err
	}
	return struckTx{tx, u}, nil
}

func (u *struck) Start(_ context.Context, a kernel.AttemptID) error {
	u.started[a] = true
	return nil
}

func (u *struck) Alive(ctx context.Context, all []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	out := u.alive.Alive(ctx, all)
	for a := range u.gone {
		out[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead})
	}
	return out
}

func (u *struck) Wants(k kernel.EventKind) bool { return k == kernel.JobFailedFinal }
func (u *struck) Wake()                         {}
func (u *struck) DropBranch(context.Context, string) (bool, string, error) {
	return false, "", nil
}
func (u *struck) BranchAt(context.Context, string) (bool, string, error) { return false, "", nil }
func (u *struck) Claim(kernel.AttemptID) error                           { return nil }
func (u *struck) Beat(kernel.AttemptID) error                            { return nil }
func (u *struck) Acquire(kernel.AttemptID) (io.Closer, error) {
	return nil, errors.New("one at a time")
}

// Run plays a command: the job succeeds if its name does not say otherwise.
func (u *struck) Run(_ context.Context, j *kernel.Job) kernel.Result { return u.result(j) }

func (u *struck) result(j *kernel.Job) kernel.Result {
	r := kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Produced: j.Spec.Produces, Started: u.now, Ended: u.now}
	if strings.HasPrefix(j.Spec.Name, "fails") {
		r.Outcome, r.Exit, r.Class, r.Produced = kernel.OutcomeFailed, 1, kernel.ExitFailure, nil
	}
	return r
}

// reported returns err, or why what is on record is not complete.
func reported(rep app.Report, err error) error { return errors.Join(err, rep.Late) }

// submit enqueues jobs whose names say what they do.
func (u *struck) submit(jobs ...kernel.NewJob) error {
	return reported(u.sched.Submit(context.Background(), jobs, "ann"))
}

func wanted(n int, name string, change ...func(*kernel.NewJob)) kernel.NewJob {
	j := kernel.NewJob{ID: id(n), Spec: plain(n).Spec}
	j.Spec.Name = name
	for _, c := range change {
		c(&j)
	}
	return j
}

func comesAfter(n int) func(*kernel.NewJob) {
	return func(j *kernel.NewJob) { j.Spec.After = append(j.Spec.After, id(n)) }
}

func isAsked(j *kernel.NewJob) { j.Approval = kernel.Require(t0, "ann") }

func yields(a kernel.Artifact) func(*kernel.NewJob) {
	return func(j *kernel.NewJob) { j.Spec.Produces = append(j.Spec.Produces, a) }
}

// finish settles the attempt of a running job.
func (u *struck) finish(n int) error {
	j, err := u.Job(id(n))
	if err != nil {
		return err
	}
	return reported(u.sched.Finish(context.Background(), u.result(&j)))
}

// later passes time.
func (u *struck) later(d time.Duration) error {
	u.now = u.now.Add(d)
	return nil
}

// settle advances the jobs until none runs. Each that ran must have been started, here or by a process before.
func (u *struck) settle(before map[kernel.AttemptID]bool) error {
	for range 20 {
		if err := reported(u.sched.Tick(context.Background())); err != nil {
			return fmt.Errorf("tick: %w", err)
		}
		rec, err := u.Read(context.Background(), kernel.Scope{All: true})
		if err != nil {
			return err
		}
		n := 0
		for i := range rec.Jobs {
			j := &rec.Jobs[i]
			if j.State.Status != kernel.Running {
				continue
			}
			if n++; !u.started[j.Attempt()] && !before[j.Attempt()] {
				return fmt.Errorf("attempt %v runs, and nobody started it", j.Attempt())
			}
			if err := reported(u.sched.Finish(context.Background(), u.result(j))); err != nil {
				return fmt.Errorf("finish %v: %w", j.Attempt(), err)
			}
		}
		if n == 0 {
			return nil
		}
	}
	return errors.New("there is no end of running jobs")
}

// state is what a store holds that must last.
type state map[string]string

// look returns what the store in dir holds. It brings it up to date.
func look(t *testing.T, dir string) (state, error) {
	u := strike(t, dir)
	defer u.Close() //nolint:errcheck // it was only read
	tx, err := u.Store.Begin(context.Background())
	if err != nil {
		return nil, err
	}
	rec, err := tx.Load(kernel.Scope{All: true})
	if err = errors.Join(err, tx.Close()); err != nil {
		return nil, err
	}
	all := state{}
	for _, j := range rec.Jobs {
		b, err := json.Marshal(j)
		if err != nil {
			return nil, err
		}
		all["job "+string(j.ID[30:])] = string(b)
		own, err := u.Job(j.ID)
		if again, _ := json.Marshal(own); err != nil || string(again) != string(b) {
			return nil, fmt.Errorf("the record of %s: %w\n%s\nand among all\n%s", j.ID, err, again, b)
		}
		if !u.stateFileSays(j.ID, j.State.Status.Coarse()) {
			all["state file of "+string(j.ID[30:])] = "another"
		}
		for _, a := range j.Spec.Produces {
			if ids, err := u.Markers(a); err == nil {
				all["markers of "+a.Ref] = fmt.Sprint(ids)
			}
		}
	}
	for id, why := range rec.Unreadable {
		all["record of "+string(id[30:])] = why
	}
	if rec.Succeeded > 0 {
		all["succeeded and not read"] = fmt.Sprint(rec.Succeeded)
	}
	pending, err := u.Pending()
	all["pending"] = fmt.Sprint(len(pending))
	return all, err
}

// Markers returns the jobs that have made a.
func (u *struck) Markers(a kernel.Artifact) ([]kernel.JobID, error) {
	f := u.markers(a)
	return f.Value, nil
}

// brief is the part of a state that is the same whenever it is reached.
func (s state) brief() state {
	out := state{}
	for name, text := range s {
		if strings.HasPrefix(name, "job ") {
			var j kernel.Job
			_ = json.Unmarshal([]byte(text), &j)
			text = fmt.Sprint(j.State.Status, " attempt ", j.State.Attempt, " generation ", j.State.Generation, " ", j.State.Approval.State)
		}
		out[name] = text
	}
	return out
}

// sound asserts that the history and the events of the store in dir are whole, and that a repair leaves nothing odd.
func sound(t *testing.T, dir string, want map[string]int) error {
	u := strike(t, dir)
	defer u.Close() //nolint:errcheck // what it wrote is read again
	v, err := u.VerifyHistory(context.Background())
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	found := map[string]int{}
	for _, f := range v.Findings {
		found[f.Kind]++
	}
	if want[FoundEdit] > 0 { // what was changed by hand may be back before anybody notices
		for kind, n := range want {
			found[kind] = max(found[kind], n)
		}
	}
	if !maps.Equal(found, want) {
		return fmt.Errorf("the history: %+v, want %v", v.Findings, want)
	}
	last := uint64(0)
	r := u.Events(0)
	err = r.Read(func(line []byte) error {
		n := eventSeq(line)
		if last > 0 && n != last+1 {
			return fmt.Errorf("event %d comes after event %d: %s", n, last, line)
		}
		last = n
		return nil
	})
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	if u.doctor(false, want) == nil {
		return nil
	}
	if err := errors.Join(u.doctor(true, want), u.doctor(false, want)); err != nil {
		return fmt.Errorf("doctor --fix: %w", err)
	}
	return nil
}

// doctor returns what an examination finds that is not repaired, but for what the history is known to lack.
func (u *struck) doctor(fix bool, known map[string]int) error {
	found, err := u.sched.Examine(context.Background(), []app.Check{{Name: "files", Before: true, Look: func(context.Context, *kernel.Snapshot) (out []app.Finding, err error) {
		odd, err := u.Inspect(map[kernel.RunID]bool{})
		for _, o := range odd {
			f := app.Finding{Path: o.Path, Problem: o.Text}
			if o.Fix != nil {
				f.Fix = func(context.Context) error { return o.Fix() }
			}
			out = append(out, f)
		}
		return out, err
	}}}, fix)
	for _, f := range found {
		if !f.Fixed && (known[FoundGap] == 0 || !strings.Contains(f.Problem, "journal is gone")) {
			err = errors.Join(err, fmt.Errorf("%s: %s", f.Path, f.Problem))
		}
	}
	return err
}

// ordeal is something that is done on a disk that fails.
type ordeal struct {
	lay  func(*struck) error // makes the store
	open func(*struck) error // comes just before, while the disk is well
	do   func(*struck) error
	once bool // only what has not happened is done again

	partly bool   // with an error, a part of it may be done
	unsure bool   // what cannot be read may hold a decision up, without an error
	tries  bool   // it tries again by itself, and the error may be that of the last try
	finds  string // what the history lacks; "": nothing
}

func ordeals() map[string]ordeal {
	ctx := context.Background()
	tok := custom("t", "k")
	three := func(u *struck) error { // 1 runs, 2 waits for it, 3 for a person, 4 has failed, 5 has succeeded, 6 comes after 4
		return errors.Join(u.submit(wanted(1, "one", yields(tok)), wanted(2, "two", comesAfter(1)), wanted(3, "three", isAsked)), u.later(time.Minute),
			u.submit(wanted(4, "fails"), wanted(5, "five", comesAfter(4), func(j *kernel.NewJob) { j.Spec.After = nil }), wanted(6, "six", comesAfter(4))),
			u.finish(4), u.later(time.Minute), u.finish(5))
	}
	lost := func(u *struck) error {
		if err := errors.Join(three(u), u.Close()); err != nil {
			return err
		}
		plans := filepath.Join(u.dir, vizierDir, plansFile)
		st, err := os.Stat(plans)
		if err != nil {
			return err
		}
		return os.Truncate(plans, st.Size()/2)
	}
	more := func(u *struck) error { return u.submit(wanted(11, "eleven")) }
	return map[string]ordeal{
		"submit": {lay: three, do: func(u *struck) error {
			return u.submit(wanted(11, "eleven"), wanted(12, "twelve", comesAfter(11)), wanted(13, "thirteen", isAsked))
		}, once: true},
		"the first submit": {lay: func(*struck) error { return nil }, do: func(u *struck) error {
			return u.submit(wanted(11, "eleven"), wanted(12, "twelve", comesAfter(11)))
		}, once: true},
		"approve": {lay: three, do: func(u *struck) error {
			return reported(u.sched.Approve(ctx, id(3), kernel.Consent{By: "bob"}))
		}, once: true},
		"retry":  {lay: three, do: func(u *struck) error { return reported(u.sched.Retry(ctx, "ann", id(4))) }, once: true},
		"cancel": {lay: three, do: func(u *struck) error { return reported(u.sched.Cancel(ctx, id(1), "ann", false)) }},
		"settle": {lay: three, do: func(u *struck) error { return u.finish(1) }, once: true},
		"a hop": {lay: three, do: func(u *struck) error {
			r := &app.Runner{Scheduler: u.sched, Outcomes: u.Store, Workload: u}
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			if u.disk.dead {
				u.disk.fails = stop // else the runner waits for the disk to be well again
			}
			err := r.Serve(ctx, kernel.AttemptID{Job: id(1), N: 1}, io.NopCloser(nil))
			u.disk.fails = nil
			return err
		}, once: true, tries: true},
		"gc": {lay: func(u *struck) error {
			err := errors.Join(three(u), u.finish(1), u.finish(2))
			u.now = u.now.Add(time.Hour)
			return err
		}, open: func(u *struck) error { return u.later(2 * time.Hour) }, do: func(u *struck) error { return reported(u.sched.GC(ctx, time.Hour)) }},
		"pack": {lay: func(u *struck) error { return errors.Join(three(u), u.finish(1), u.finish(2)) },
			open: func(u *struck) error { return u.later(2 * time.Hour) }, do: func(u *struck) error { return u.sched.Pack(ctx) }},
		"a change of a packed job": {lay: func(u *struck) error {
			err := errors.Join(three(u), u.finish(1), u.finish(2))
			u.now = u.now.Add(2 * time.Hour)
			return errors.Join(err, u.sched.Pack(ctx))
		}, do: func(u *struck) error { return reported(u.sched.Retry(ctx, "ann", id(4))) }, once: true},
		"events that are moved away": {lay: func(u *struck) error { u.opts.EventBytes = 100; return three(u) },
			open: func(u *struck) error { u.opts.EventBytes = 100; return nil },
			do: func(u *struck) error {
				return u.submit(wanted(11, "eleven"), wanted(12, "twelve", comesAfter(11)), wanted(13, "thirteen", isAsked))
			}, once: true},
		"a seal": {lay: three, open: func(u *struck) error {
			err := errors.Join(u.Store.open(true), u.openJournal())
			u.log.limit = 1
			return err
		}, do: func(u *struck) error { return u.submit(wanted(11, "eleven")) }, once: true},
		"a lost tail":                {lay: lost, do: more, once: true, finds: FoundGap},
		"a lost tail after a reboot": {lay: func(u *struck) error { u.opts.Boot = "boot-0"; return lost(u) }, do: more, once: true, finds: FoundGap},
		"a lost journal": {lay: func(u *struck) error {
			err := errors.Join(three(u), u.openJournal())
			u.log.limit = 1
			return errors.Join(err, u.later(time.Minute), u.finish(1), u.later(time.Minute), u.finish(2), u.Close(), u.spoil(map[string]string{plansFile: ""}))
		}, do: more, once: true, finds: FoundGap},
		"a repair": {lay: func(u *struck) error {
			return errors.Join(three(u), u.finish(1), u.Close(), u.spoil(map[string]string{jobPath(id(4), recordName): "{", jobPath(id(5), stateName): "odd\n",
				jobPath(id(6), recordName): "", jobPath(id(5), outcomeName): "{", jobPath(id(1), recordName): ""}))
		}, do: func(u *struck) error { return u.doctor(true, nil) }, partly: true, finds: FoundEdit},
		"a runner that is gone": {lay: func(u *struck) error {
			return errors.Join(three(u), u.RecordEffect(ctx, effect.Record{Job: id(1), Key: strings.Repeat("a1", 32), Operation: "command.run", Attempt: 1, State: effect.Applied, Result: u.result(&kernel.Job{ID: id(1)}), Begun: t0}))
		}, open: func(u *struck) error {
			u.gone = map[kernel.AttemptID]bool{{Job: id(1), N: 1}: true}
			return nil
		}, do: func(u *struck) error { return reported(u.sched.Tick(ctx)) }, unsure: true},
		"without a cache": {lay: three, open: func(u *struck) error {
			err := u.Store.open(true)
			return errors.Join(err, u.removeCache())
		}, do: func(u *struck) error {
			return u.submit(wanted(11, "eleven", func(j *kernel.NewJob) { j.Spec.Task.Args = []string{strings.Repeat("x", maxLog)} }))
		}, once: true},
	}
}

// spoil changes files of a store behind its back.
func (u *struck) spoil(files map[string]string) error {
	var errs error
	for name, text := range files {
		if name = filepath.Join(u.dir, vizierDir, name); text == "" {
			errs = errors.Join(errs, os.Remove(name))
		} else {
			errs = errors.Join(errs, os.WriteFile(name, []byte(text), 0o600))
		}
	}
	return errs
}

// faults are the ways in which a disk fails.
type fault struct {
	is   error
	dead bool
}

func (f fault) String() string {
	if f.dead {
		return f.is.Error() + " from then on"
	}
	return f.is.Error()
}

// Whichever call of the disk fails, and whether the disk is well again after it or once the process has ended,
// a use case has done what it says. It says what file is to blame if it has not. Then the store is as before or as after,
// and all goes on.
func TestWhicheverCallOfTheDiskFailsAUseCaseSaysSo(t *testing.T) {
	oneGoroutine(t)
	for name, o := range ordeals() {
		t.Run(name, func(t *testing.T) { o.try(t) })
	}
}

// openFiles returns how many files this process has open; 0: the system does not tell.
func openFiles() int {
	names, _ := os.ReadDir("/proc/self/fd")
	return len(names)
}

func (o ordeal) try(t *testing.T) {
	base := t.TempDir()
	u := strike(t, base)
	if err := errors.Join(o.lay(u), u.Close()); err != nil {
		t.Fatal(err)
	}
	started := u.started
	again := func(dir string) *struck {
		u := strike(t, dir)
		u.now = t0.Add(3 * time.Hour)
		if o.open != nil {
			if err := o.open(u); err != nil {
				t.Fatal(err)
			}
		}
		return u
	}
	copied := func() string {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	seen := func(dir string) state {
		t.Helper()
		v, err := look(t, dir)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	whole := copied()
	states := []state{seen(copied())}
	u = again(whole)
	u.closed = func() {
		dir := t.TempDir()
		copyTree(t, whole, dir)
		states = append(states, seen(dir))
	}
	begun := u.disk.n
	if err := o.do(u); err != nil {
		t.Fatal(err)
	}
	calls := u.disk.n - begun
	u.closed = nil
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	after := seen(whole)
	states = append(states, after)
	last := again(whole)
	if err := errors.Join(last.settle(union(started, u.started)), last.Close()); err != nil {
		t.Fatal(err)
	}
	end := seen(whole).brief()
	findings := map[string]int{}
	v, err := strike(t, whole).VerifyHistory(t.Context())
	for _, f := range v.Findings {
		findings[f.Kind]++
	}
	if err = errors.Join(err, sound(t, whole, findings)); err != nil || len(findings) > 0 != (o.finds != "") || o.finds != "" && findings[o.finds] == 0 {
		t.Fatalf("%v, %+v", err, v.Findings)
	}
	t.Logf("%d calls, %d states", calls, len(states))
	some := calls/6 | 1 // about two dozen of them, with VIZIER_LONG every seventh
	if long {
		some = min(some, 7)
	}
	for k := 1; k <= calls; k++ {
		for i, f := range []fault{{unix.EIO, false}, {unix.ENOSPC, false}, {unix.ENOSPC, true}, {unix.EIO, true}} {
			if (4*k+i)%some > 0 {
				continue
			}
			dir := copied()
			bad := func(format string, args ...any) {
				t.Helper()
				t.Errorf("%s fails, call %d of %d, with %s: %s", u.disk.where, k, calls, f, fmt.Sprintf(format, args...))
			}
			files := openFiles()
			u = again(dir)
			u.disk.at, u.disk.is, u.disk.dead = u.disk.n+k, f.is, f.dead
			err := safely(func() error { return o.do(u) })
			u.disk.at, u.disk.dead = 0, false
			if u.disk.where == "" {
				bad("it never came")
				continue
			}
			if len(u.lock.turn) > 0 {
				bad("the turn is not given back")
			}
			if other := newSchedulerLock(file(dir, lockFile), ""); exists(other.path) {
				unlock, err := other.take(t.Context(), lockAtOnce)
				if err == nil {
					err = errors.Join(unlock(), other.close())
				}
				if err != nil {
					bad("the lock is not free: %v", err)
				}
			}
			if err := u.Close(); err != nil {
				bad("closing: %v", err)
			}
			if now := openFiles(); now > files {
				bad("%d files are open, before %d", now, files)
			}
			if err != nil {
				if !errors.Is(err, f.is) && !strings.Contains(err.Error(), f.is.Error()) {
					bad("another error: %v", err)
				}
				if !slices.ContainsFunc(u.disk.files, func(name string) bool { return strings.Contains(err.Error(), culprit(name)) }) {
					bad("the error names none of %q: %v", u.disk.files, err)
				}
			}
			now, failed := look(t, dir)
			if failed != nil {
				bad("the next transaction: %v", failed)
				continue
			}
			held := strings.Contains(fmt.Sprint(now), f.is.Error()) // a record says what could not be read
			if err == nil && !held && !maps.Equal(now, after) && !(o.unsure && maps.Equal(now, states[0])) {
				bad("and nobody hears of it:\n%s", gocmp.Diff(after, now))
				continue
			}
			if !held && !(o.partly && err != nil) && !slices.ContainsFunc(states, func(s state) bool { return maps.Equal(s, now) }) {
				bad("%v; it is half done:\n%s", err, gocmp.Diff(after, now))
				continue
			}
			if err != nil && o.once && !o.tries && !held && !maps.Equal(now, states[0]) && !errors.Is(err, kernel.ErrRecorded) && !strings.Contains(err.Error(), "may find it on record") {
				bad("something is on record, and it says: %v", err)
			}
			if err != nil && errors.Is(err, kernel.ErrRecorded) && maps.Equal(now, states[0]) && !maps.Equal(now, after) {
				bad("nothing is on record, and it says: %v", err)
			}
			next := again(dir)
			if (err != nil || o.unsure) && (!o.once || maps.Equal(now, states[0])) {
				if err := o.do(next); err != nil {
					bad("%v; and once more: %v", err, err)
				}
			}
			ran := union(started, u.started)
			if err := errors.Join(next.settle(ran), next.Close()); err != nil {
				bad("%v; then: %v", err, err)
			}
			if now := seen(dir).brief(); !maps.Equal(now, end) {
				bad("%v; in the end:\n%s", err, gocmp.Diff(end, now))
			}
			if err := sound(t, dir, findings); err != nil {
				bad("%v", err)
			}
		}
	}
}

func union[K comparable](a, b map[K]bool) map[K]bool {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// safely calls f. A panic is an error.
func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// culprit returns what an error must say of a file of that name: the name, that of the file which a temporary
// one is to replace, or nothing if it is the store as a whole.
func culprit(name string) string {
	name = filepath.Base(name)
	if inner, is := strings.CutSuffix(name, ".tmp"); is {
		parts := strings.Split(strings.TrimPrefix(inner, "."), ".")
		name = strings.Join(parts[:max(1, len(parts)-2)], ".")
	}
	return cmp.Or(name, vizierDir)
}

// A record that cannot be read holds up the jobs that come after its job, until somebody retries them. That this process
// has too many files open is no fault of the record: nothing is decided.
func TestTooManyOpenFilesBlockNoJob(t *testing.T) {
	dir := t.TempDir()
	u := strike(t, dir)
	err := u.submit(wanted(1, "one"), wanted(2, "two", comesAfter(1)))
	if err := errors.Join(err, u.removeCache(), u.Close()); err != nil {
		t.Fatal(err)
	}
	for is, blocked := range map[error]bool{unix.EMFILE: false, unix.ENFILE: false, unix.ENOMEM: false, unix.EIO: true} {
		to := t.TempDir()
		copyTree(t, dir, to)
		u := strike(t, to)
		u.disk.only, u.disk.at, u.disk.dead, u.disk.is = string(id(1)), 1, true, is
		err := u.submit(wanted(11, "eleven"))
		if errors.Is(err, is) == blocked || !blocked && !strings.Contains(err.Error(), string(id(1))) {
			t.Errorf("%v: %v", is, err)
		}
		if err := u.Close(); err != nil {
			t.Error(err)
		}
		s := newStore(t, to)
		rec := read(t, s)
		if two := find(t, rec, id(2)).State.Status; two.Waiting() == blocked || len(rec.Jobs) != map[bool]int{false: 2, true: 3}[blocked] {
			t.Errorf("%v: job 2 is %s, and there are %d jobs, unreadable %v", is, two, len(rec.Jobs), rec.Unreadable)
		}
	}
}
