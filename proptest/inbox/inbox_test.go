// Package inbox puts prompts through random histories, with crashes at every
// step between the files of the inbox, the records and the world, and checks the
// result against the contract of seed 004. Files and records are real, processes
// are not.
package inbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/fs/inbox"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	rules "github.com/vizier-scheduler/vizier/kernel/inbox"
)

func TestMain(m *testing.M) {
	flag.Parse()
	set := func(name, value string) {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	if os.Getenv("RAPID_CHECKS") == "" {
		set("rapid.checks", "40")
	}
	set("rapid.steps", "40")
	set("rapid.shrinktime", "5s")
	os.Exit(m.Run())
}

// crash is the death of a process.
type crash struct{}

// now returns the real time: it is compared with that of files.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// world is what survives every process, and what the test knows of it.
type world struct {
	dir   string
	ids   int
	fuse  int // calls until the process dies; negative: it does not
	alive map[kernel.AttemptID]bool

	tokens  []string // of prompts dropped
	removed map[string]bool
	copies  map[string]bool // tokens of prompts that may get two jobs: they were copied, or renamed to new prompts after the end of their job
	retries map[kernel.JobID]was
}

// was is an earlier state of a record.
type was struct {
	status  kernel.Status
	retries int
	gen     int
}

func (w *world) burn() {
	if w.fuse == 0 {
		w.fuse = -1
		panic(crash{})
	}
	w.fuse = max(w.fuse-1, -1)
}

// The ports. The process may die in any call of them.
type (
	store struct {
		*fs.Store
		w *world
	}
	tx struct {
		*fs.Tx
		w *world
	}
	tree struct {
		inbox.Tree
		w *world
	}
	tender struct {
		inbox.Tender
		w *world
	}
	exec struct{ w *world }
)

func (s store) Begin(ctx context.Context) (app.Tx, error) {
	s.w.burn()
	t, err := s.Store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return tx{t, s.w}, nil
}

func (t tx) Commit(p kernel.Plan) error {
	t.w.burn()
	err := t.Tx.Commit(p)
	t.w.burn()
	return err
}

func (t tx) Done() error {
	t.w.burn()
	return t.Tx.Done()
}

func (t tree) Lock() (io.Closer, bool, error) { f, free, err := t.Tree.Lock(); return f, free, err }

func (t tree) Restore(f rules.PromptFile, rel string) error {
	t.w.burn()
	err := t.Tree.Restore(f, rel)
	t.w.burn()
	return err
}

func (t tree) Fail(rel string, from kernel.PromptName, why string) error {
	t.w.burn()
	return t.Tree.Fail(rel, from, why)
}

func (t tree) Finish(rel string, n kernel.PromptName) (string, error) {
	t.w.burn()
	return t.Tree.Finish(rel, n)
}

func (t tender) TendPrompt(j *kernel.Job, want kernel.PromptName, why string, others []uint64) (bool, bool, error) {
	t.w.burn()
	found, archived, err := t.Tender.TendPrompt(j, want, why, others)
	t.w.burn()
	return found, archived, err
}

func (e exec) Start(_ context.Context, a kernel.AttemptID) error {
	e.w.burn()
	if _, claimed := e.w.alive[a]; !claimed {
		e.w.alive[a] = true
	}
	return nil
}

func (e exec) Alive(_ context.Context, attempts []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	out := map[kernel.AttemptID]kernel.Fact[kernel.Runner]{}
	for _, a := range attempts {
		r := kernel.Runner{Liveness: kernel.Dead}
		if e.w.alive[a] {
			r.Liveness = kernel.Alive
		}
		out[a] = kernel.Seen(r)
	}
	return out
}

func (e exec) Stop(_ context.Context, a kernel.AttemptID) error  { e.w.alive[a] = false; return nil }
func (e exec) Sweep(_ context.Context, a kernel.AttemptID) error { e.w.alive[a] = false; return nil }

// process returns the parts of a new process, which knows only the files.
func (w *world) process() (*app.Scheduler, *app.Inbox, *fs.Store) {
	st := fs.NewStore(w.dir, fs.Options{Boot: "boot", Now: now, Who: "test"})
	sched := &app.Scheduler{Store: store{st, w}, Observers: []app.Observer{st}, Executor: exec{w}, Prompts: tender{inbox.Tender{Tree: inbox.Tree{Now: time.Now}}, w},
		Limits: kernel.Limits{MaxRunning: 3}, Now: now, NewID: w.id}
	box := &app.Inbox{Tree: tree{inbox.Tree{Home: w.home(), Now: time.Now}, w}, Archive: true, Patience: time.Second, Now: now, Parse: inbox.ParsePrompt}
	target := &app.InboxTarget{Root: w.dir, Scheduler: sched,
		Place: func(context.Context, rules.Path) (rules.Path, error) {
			return rules.Path{Owner: "local", Repository: "r", Branch: "main"}, nil
		},
		Prepare: w.prepare}
	box.Find = func(rules.Path) (*app.InboxTarget, error) { return target, nil }
	return sched, box, st
}

func (w *world) home() string { return filepath.Join(w.dir, ".vizier") }

func (w *world) id() kernel.JobID {
	w.ids++
	return kernel.JobID(fmt.Sprintf("%032x", w.ids))
}

// prepare makes a run of one job, or of two, the second of which stands for the prompt.
func (w *world) prepare(_ context.Context, p app.Prompt) (app.RunRequest, error) {
	run := kernel.RunID("run_" + string(w.id()))
	in := p.Record
	last := kernel.NewJob{ID: p.ID, Spec: kernel.Spec{Prompt: &in, Origin: kernel.Origin{Run: run, Node: "last"}, Task: kernel.Task{Args: []string{"x"}},
		Budget: kernel.Budget{Retries: 1, Reclaims: 1}}}
	last.Spec.Retry = kernel.RetryPolicy{Base: time.Millisecond, Cap: time.Millisecond}.On(kernel.ExitFailure)
	req := app.RunRequest{Run: run, Manifest: []byte("{}")}
	switch p.Front.Set["kind"] {
	case "bad":
		return req, errors.New("no such thing")
	case "two":
		first := kernel.NewJob{ID: w.id(), Spec: kernel.Spec{Origin: kernel.Origin{Run: run, Node: "first"}, Task: kernel.Task{Args: []string{"x"}}}}
		last.Spec.After = []kernel.JobID{first.ID}
		req.Jobs = append(req.Jobs, first)
	}
	req.Jobs = append(req.Jobs, last)
	return req, nil
}

// lives runs f in a process of its own, and reports whether the process survived it.
func (w *world) lives(t *rapid.T, f func(*app.Scheduler, *app.Inbox, *fs.Store) error) (lived bool) {
	sched, box, st := w.process()
	defer func() {
		_ = st.Close()
		w.fuse = -1
		if p := recover(); p != nil {
			if _, died := p.(crash); !died {
				panic(p)
			}
		}
	}()
	if err := f(sched, box, st); err != nil {
		t.Fatalf("%v", err)
	}
	return true
}

// records returns all records on the disk.
func (w *world) records(t *rapid.T) []kernel.Job {
	st := fs.NewStore(w.dir, fs.Options{Boot: "boot", Now: now})
	defer st.Close()
	rec, err := st.Read(context.Background(), kernel.Scope{All: true})
	if err != nil || len(rec.Unreadable) > 0 {
		t.Fatalf("%v %v", err, rec.Unreadable)
	}
	return rec.Jobs
}

func (w *world) drop(t *rapid.T) {
	name := fmt.Sprintf("p%d.prompt.md", rapid.IntRange(0, 3).Draw(t, "name"))
	at := filepath.Join(w.home(), "inbox", name)
	if _, err := os.Lstat(at); err == nil {
		t.Skip("the name is in use")
	}
	token := fmt.Sprintf("token%d.", len(w.tokens))
	kind := rapid.SampledFrom([]string{"one", "one", "two", "bad"}).Draw(t, "kind")
	if err := os.WriteFile(at, []byte("---\nset: {kind: "+kind+"}\n---\n"+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.tokens = append(w.tokens, token)
}

// take removes a prompt's file from the inbox, as a person might.
func (w *world) take(t *rapid.T) {
	files, _ := filepath.Glob(filepath.Join(w.home(), "inbox", "*.md"))
	if len(files) == 0 || rapid.IntRange(0, 3).Draw(t, "happens") > 0 {
		t.Skip("not now")
	}
	at := rapid.SampledFrom(files).Draw(t, "file")
	w.removed[w.token(t, at)] = true
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
}

// rename gives a prompt another name, or copies it, as a person might. A file that
// is not named as a new prompt must never run.
func (w *world) rename(t *rapid.T) {
	files, _ := filepath.Glob(filepath.Join(w.home(), "inbox", "*.running.md"))
	if len(files) == 0 || rapid.IntRange(0, 1).Draw(t, "happens") > 0 {
		t.Skip("not now")
	}
	at := rapid.SampledFrom(files).Draw(t, "file")
	word := rapid.SampledFrom([]string{"running", "running", "prompt", "done"}).Draw(t, "word")
	to := filepath.Join(w.home(), "inbox", fmt.Sprintf("p%d.%s.md", rapid.IntRange(0, 5).Draw(t, "new name"), word))
	if exists(to) {
		t.Skip("the name is in use")
	}
	if word == "prompt" && !w.open(t, at) {
		w.copies[w.token(t, at)] = true
	}
	if word != "running" || rapid.Bool().Draw(t, "renames") {
		if err := os.Rename(at, to); err != nil {
			t.Fatal(err)
		}
		return
	}
	w.copies[w.token(t, at)] = true
	text, err := os.ReadFile(at)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// open reports whether the job of a prompt's file is open.
func (w *world) open(t *rapid.T, file string) bool {
	var st unix.Stat_t
	text, err := os.ReadFile(file)
	if err == nil {
		err = unix.Stat(file, &st)
	}
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(text))
	return slices.ContainsFunc(w.records(t), func(j kernel.Job) bool {
		return j.Open() && j.Spec.Prompt != nil && j.Spec.Prompt.Inode == st.Ino && j.Spec.Prompt.SHA256 == sum
	})
}

func (w *world) token(t *rapid.T, file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "token")
	n, _, _ := strings.Cut(rest, ".")
	return "token" + n + "."
}

// end ends a running attempt: its runner says how, or is lost.
func (w *world) end(t *rapid.T) {
	var running []kernel.AttemptID
	for _, j := range w.records(t) {
		if a := j.Attempt(); j.State.Status == kernel.Running && w.alive[a] {
			running = append(running, a)
		}
	}
	if len(running) == 0 {
		t.Skip("nothing runs")
	}
	a := rapid.SampledFrom(running).Draw(t, "attempt")
	r := kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded, Ended: now()}
	switch rapid.IntRange(0, 4).Draw(t, "outcome") {
	case 0, 1:
		r.Outcome, r.Exit, r.Class, r.Reason = kernel.OutcomeFailed, 1, kernel.ExitFailure, "it failed"
	case 2:
		r.Reason = "a remark"
	case 3: // lost
		w.alive[a] = false
		return
	}
	w.finish(t, r)
}

func (w *world) finish(t *rapid.T, r kernel.Result) {
	w.lives(t, func(s *app.Scheduler, _ *app.Inbox, st *fs.Store) error {
		if err := st.Conclude(r); err != nil {
			return err
		}
		w.alive[r.Attempt] = false
		_, err := s.Finish(context.Background(), r)
		return err
	})
}

// verb cancels or rewinds a job.
func (w *world) verb(t *rapid.T) {
	jobs := w.records(t)
	if len(jobs) == 0 {
		t.Skip("no job")
	}
	j := jobs[rapid.IntRange(0, len(jobs)-1).Draw(t, "job")]
	w.lives(t, func(s *app.Scheduler, _ *app.Inbox, _ *fs.Store) error {
		var err error
		if rapid.Bool().Draw(t, "retry") {
			_, err = s.Retry(context.Background(), "ann", j.ID)
		} else {
			_, err = s.Cancel(context.Background(), j.ID, "ann", false)
		}
		if errors.Is(err, kernel.ErrConflict) || errors.Is(err, kernel.ErrRunning) {
			return nil
		}
		return err
	})
}

func (w *world) pass(t *rapid.T, visible time.Duration) {
	lived := w.lives(t, func(_ *app.Scheduler, box *app.Inbox, _ *fs.Store) error {
		box.Visible = visible
		rep, err := box.Once(context.Background(), true)
		for _, l := range rep.Left {
			waits := strings.HasSuffix(l.Path, ".prompt.md") && strings.Contains(l.Reason, "cannot be called") // until its namesake has ended
			if err == nil && !waits && !strings.Contains(l.Reason, "vanished") {
				err = fmt.Errorf("left %v", rep.Left)
			}
		}
		return err
	})
	if !lived {
		return
	}
	for _, j := range w.records(t) {
		if j.HoldsPrompt() && !j.Open() && exists(j.Spec.Prompt.File) {
			t.Errorf("job %s is %s, and its prompt is called %s", j.ID, j.State.Status, j.State.Prompt.Named)
		}
	}
}

// check checks the invariants of the store.
func (w *world) check(t *rapid.T) {
	st := fs.NewStore(w.dir, fs.Options{Boot: "boot", Now: now})
	defer st.Close()
	problems, _, err := st.Validate(context.Background())
	if err != nil || len(problems) > 0 {
		t.Fatalf("%v %+v", err, problems)
	}
	owners := map[string]kernel.JobID{}
	for _, j := range w.records(t) {
		before, known := w.retries[j.ID]
		n := j.State.Spent.Retries
		if known && j.State.Generation == before.gen && n != before.retries && (n != before.retries+1 || before.status != kernel.FailedRetryable && before.status != kernel.Running) {
			t.Errorf("job %s went from %d retries, %s, to %d", j.ID, before.retries, before.status, n)
		}
		if j.State.Status == kernel.FailedRetryable && known && before.status == kernel.Running && n != before.retries {
			t.Errorf("job %s counts a retry that has not happened", j.ID)
		}
		w.retries[j.ID] = was{j.State.Status, n, j.State.Generation}
		in := j.Spec.Prompt
		if in == nil {
			continue
		}
		copied := filepath.Join(w.home(), filepath.FromSlash(rules.Processed(in, j.ID)))
		if _, err := os.Stat(copied); err == nil {
			token := w.token(t, copied)
			if other := owners[token]; other != "" && !w.copies[token] {
				t.Errorf("%s has the jobs %s and %s", token, other, j.ID)
			}
			owners[token] = j.ID
		}
	}
}

// quiesce lets everything end, and checks the name of every prompt's file.
func (w *world) quiesce(t *rapid.T) {
	w.fuse = -1
	for range 200 {
		w.pass(t, time.Hour)
		time.Sleep(2 * time.Millisecond)
		open := 0
		for _, j := range w.records(t) {
			if !j.Open() {
				continue
			}
			open++
			if a := j.Attempt(); j.State.Status == kernel.Running && w.alive[a] {
				w.finish(t, kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded, Ended: now()})
			}
		}
		left, _ := filepath.Glob(filepath.Join(w.home(), "inbox", "*.prompt.md"))
		if open == 0 && len(left) == 0 {
			break
		}
	}
	for _, j := range w.records(t) {
		if j.Open() {
			t.Errorf("job %s is %s (%s), attempt %d, since nobody did anything any more; its prompt is called %s", j.ID, j.State.Status, j.State.Wait.Detail, j.State.Attempt, j.State.Prompt.Named)
		}
	}
	w.check(t)
	names := map[string][]string{}
	for _, tree := range []string{"inbox", "finished"} {
		files, _ := filepath.Glob(filepath.Join(w.home(), tree, "*.md"))
		for _, f := range files {
			names[w.token(t, f)] = append(names[w.token(t, f)], filepath.Base(f))
		}
	}
	states := map[string]kernel.Status{}
	for _, j := range w.records(t) {
		if in := j.Spec.Prompt; in != nil {
			if copied := filepath.Join(w.home(), filepath.FromSlash(rules.Processed(in, j.ID))); exists(copied) {
				states[w.token(t, copied)] = j.State.Status
			} else if !exists(filepath.Join(w.home(), filepath.FromSlash(rules.NoInput(in, j.ID)))) {
				t.Errorf("job %s has neither a copy of its prompt nor a note that there was none", j.ID)
			}
		}
	}
	for _, token := range w.tokens {
		if w.removed[token] || w.copies[token] {
			continue
		}
		st, ran := states[token]
		want := ".error.md"
		if ran && st == kernel.Succeeded {
			want = ".done.md"
		}
		if len(names[token]) != 1 || !strings.HasSuffix(names[token][0], want) {
			t.Errorf("%s is called %v, its job is %s", token, names[token], st)
		}
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// Whatever happens, and wherever a process dies: records are valid, retries are
// counted when a job runs again, no prompt gets two jobs, and in the end the name
// of every prompt's file says how its job ended.
func TestTheContractOfTheInbox(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "vizier-inbox-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			t.Fatal(err)
		}
		w := &world{dir: dir, fuse: -1, alive: map[kernel.AttemptID]bool{},
			removed: map[string]bool{}, copies: map[string]bool{}, retries: map[kernel.JobID]was{}}
		if _, err := (inbox.Tree{Home: w.home(), Now: time.Now}).Init(); err != nil {
			t.Fatal(err)
		}
		dies := func(f func(*rapid.T)) func(*rapid.T) {
			return func(t *rapid.T) {
				if rapid.IntRange(0, 2).Draw(t, "dies") == 0 {
					w.fuse = rapid.IntRange(0, 12).Draw(t, "after")
				}
				f(t)
				w.fuse = -1
			}
		}
		pass := dies(func(t *rapid.T) {
			w.pass(t, rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "visible"))
		})
		t.Repeat(map[string]func(*rapid.T){
			"drop": w.drop, "drop too": w.drop, "pass": pass, "pass too": pass, "end": dies(w.end), "end too": dies(w.end), "verb": dies(w.verb),
			"take": w.take, "rename": w.rename, "time": func(*rapid.T) { time.Sleep(time.Millisecond) },
			"": w.check,
		})
		w.quiesce(t)
	})
}
