package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// faulty is a disk one of whose calls fails.
type faulty struct {
	mu    sync.Mutex
	at    int    // the call that fails, from 1; 0: none
	dead  bool   // and every one after that: the process was killed
	is    error  // how they fail; nil: EIO
	only  string // the calls that count are about names with this in it
	stats bool   // whether looks at the attributes of files count, too
	n     int
	where string   // the call that failed first
	files []string // the names that the calls which failed were about
	fails func()   // is called when a call fails
}

func (f *faulty) call(what, name string) error {
	return f.strike(what, func() string { return name })
}

// callOf is call for an open file.
func (f *faulty) callOf(what string, fd int) error {
	return f.strike(what, func() string {
		name, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) // "": this system does not tell
		return filepath.Base(name)
	})
}

func (f *faulty) strike(what string, name func() string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.only != "" && !strings.Contains(name(), f.only) {
		return nil
	}
	if f.n++; f.n != f.at && !(f.dead && f.n > f.at) {
		return nil
	}
	about := name()
	f.where = cmp.Or(f.where, what+" "+about)
	f.files = append(f.files, strings.Split(about, " to ")...)
	if f.fails != nil {
		f.fails()
	}
	return cmp.Or(f.is, error(unix.EIO))
}

func (f *faulty) open(at int, name string, flags int) (int, error) {
	if err := f.call("open", name); err != nil {
		return -1, err
	}
	return machine{}.open(at, name, flags)
}

func (f *faulty) create(at int, name string, flags int) (int, error) {
	if err := f.call("create", name); err != nil {
		return -1, err
	}
	return machine{}.create(at, name, flags)
}

func (f *faulty) read(fd int, data []byte) error {
	return either(f.callOf("read", fd), func() error { return machine{}.read(fd, data) })
}

func (f *faulty) readAt(file *os.File, data []byte, offset int64) (int, error) {
	if err := f.call(fmt.Sprintf("read at %d of", offset), file.Name()); err != nil {
		return 0, failed("read", file.Name(), err)
	}
	return machine{}.readAt(file, data, offset)
}

func (f *faulty) names(dir *os.File) ([]string, error) {
	if err := f.call("names of", dir.Name()); err != nil {
		return nil, failed("readdirent", dir.Name(), err)
	}
	return machine{}.names(dir)
}

func (f *faulty) look(at int, path string) (sys.Looked, error) {
	if f.stats {
		err := error(nil)
		if path == "" {
			err = f.callOf("look at", at)
		} else {
			err = f.call("look at", path)
		}
		if err != nil {
			return sys.Looked{}, err
		}
	}
	return machine{}.look(at, path)
}

func (f *faulty) stat(at int, name string) (unix.Stat_t, error) {
	if f.stats {
		if err := f.call("stat", name); err != nil {
			return unix.Stat_t{}, err
		}
	}
	return machine{}.stat(at, name)
}

func (f *faulty) mkdir(at int, name string) error {
	return either(f.call("mkdir", name), func() error { return machine{}.mkdir(at, name) })
}

func (f *faulty) write(fd int, data []byte) error {
	return either(f.callOf("write", fd), func() error { return machine{}.write(fd, data) })
}

func (f *faulty) writeAt(fd int, data []byte, offset int64) error {
	return either(f.callOf(fmt.Sprintf("write at %d of", offset), fd), func() error { return machine{}.writeAt(fd, data, offset) })
}

func (f *faulty) truncate(fd int, size int64) error {
	return either(f.callOf("truncate", fd), func() error { return machine{}.truncate(fd, size) })
}

func (f *faulty) mayWrite(at int, name string) error {
	return either(f.call("ask for writing to", name), func() error { return machine{}.mayWrite(at, name) })
}

func (f *faulty) rename(from int, old string, to int, name string) error {
	return either(f.call("rename", old+" to "+name), func() error { return machine{}.rename(from, old, to, name) })
}

func (f *faulty) renameNew(from int, old string, to int, name string) error {
	return either(f.call("rename", old+" to new "+name), func() error { return machine{}.renameNew(from, old, to, name) })
}

func (f *faulty) link(from int, old string, to int, name string) error {
	return either(f.call("link", name), func() error { return machine{}.link(from, old, to, name) })
}

func (f *faulty) unlink(at int, name string) error {
	return either(f.call("unlink", name), func() error { return machine{}.unlink(at, name) })
}

func (f *faulty) removeAll(dir, name string) error {
	err := f.call("remove all of", name)
	if err == nil {
		return machine{}.removeAll(dir, name)
	}
	if f.dead { // in the middle of it
		_ = os.Remove(filepath.Join(dir, name, recordName))
	}
	return failed("remove", filepath.Join(dir, name), err)
}

func (f *faulty) sync(fd int) error     { return f.callOf("sync", fd) }
func (f *faulty) syncData(fd int) error { return f.callOf("sync data of", fd) }
func (f *faulty) syncAll(fd int) error  { return f.callOf("sync all of", fd) }

func either(err error, call func() error) error {
	if err != nil {
		return err
	}
	return call()
}

// What the system refuses is said, and not taken for done.
func TestTheDiskSaysWhatFails(t *testing.T) {
	var m machine
	dir := t.TempDir()
	for _, name := range []string{"file", "below/file"} {
		writeAt(t, filepath.Join(dir, name), "abc")
	}
	link(t, filepath.Join(dir, "below"), filepath.Join(dir, "link"))
	base, err := openRoot(dir, m)
	if err != nil {
		t.Fatal(err)
	}
	defer base.close()
	at := base.fd
	open := func(path string) error {
		fd, err := m.open(at, path, unix.O_RDONLY)
		if err == nil {
			err = errors.Join(m.read(fd, make([]byte, 3)), unix.Close(fd))
		}
		return err
	}
	file, err := m.open(at, "file", unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(file)
	made, err := m.create(at, "made", unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(made)
	if err := errors.Join(m.write(made, []byte("a")), m.writeAt(made, []byte("c"), 2), m.writeAt(made, []byte("b"), 1)); err != nil || contentOf(t, filepath.Join(dir, "made")) != "abc" {
		t.Errorf("what was written byte by byte: %q, %v", contentOf(t, filepath.Join(dir, "made")), err)
	}
	if err := m.renameNew(at, "made", at, "renamed"); err != nil || exists(filepath.Join(dir, "made")) || contentOf(t, filepath.Join(dir, "renamed")) != "abc" {
		t.Errorf("what was renamed: %v", err)
	}
	for what, c := range map[string]struct{ err, want error }{
		"a file":                        {open("file"), nil},
		"a file below":                  {open("below/file"), nil},
		"a missing file":                {open("gone"), unix.ENOENT},
		"a missing file below":          {open("below/gone"), unix.ENOENT},
		"a file in no directory":        {open("file/file"), unix.ENOTDIR},
		"a link":                        {open("link"), unix.ELOOP},
		"a file behind a link":          {open("link/file"), unix.ENOTDIR},
		"a name that is taken":          {m.renameNew(at, "renamed", at, "file"), unix.EEXIST},
		"a way out":                     {open("below/../file"), unix.EINVAL},
		"more than the file has":        {m.read(file, make([]byte, 4)), io.ErrUnexpectedEOF},
		"what a directory has":          {m.read(at, make([]byte, 1)), unix.EISDIR},
		"writing to what is to be read": {m.write(file, []byte("x")), unix.EBADF},
		"writing there":                 {m.writeAt(file, []byte("x"), 0), unix.EBADF},
		"cutting it":                    {m.truncate(file, 1), unix.EINVAL},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", what, c.err, c.want)
		}
	}
}

// deedsOnAFaultyDisk returns the ways to change a store, each for a store that holds
// jobs 1 to 6: job 1 runs, job 2 ended and published, run r has a manifest, and a
// hook is pending.
func deedsOnAFaultyDisk() map[string]func(*Store) error {
	running := plain(1)
	running.State.Status, running.State.Attempt = kernel.Running, 1
	result := kernel.Result{Attempt: running.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Reason: "r"}
	tok := custom("t", "k")
	transact := func(s *Store, actions ...kernel.Action) error {
		tx, err := s.Begin(context.Background())
		if err != nil {
			return err
		}
		_, err = tx.Load(kernel.Scope{All: true})
		if err == nil {
			err = tx.Commit(kernel.NewPlan(actions...))
		}
		if err == nil {
			err = tx.Done()
		}
		return errors.Join(err, tx.Close())
	}
	say := func(n int, word string) kernel.Action {
		return put(plain(n), func(st *kernel.State) { st.Reason = word })
	}
	return map[string]func(*Store) error{
		"a plan": func(s *Store) error {
			return transact(s, kernel.Create(plain(9)), say(3, "new"), kernel.CreateRun{Run: kernel.RunID("run_" + id(2)), Manifest: []byte("{}")}, kernel.RemoveRun{Run: kernel.RunID("run_" + id(1))},
				kernel.RemoveJob{Job: id(4)}, kernel.PurgeFiles{Job: id(5)}, kernel.Publish{Attempt: running.Attempt(), Artifacts: []kernel.Artifact{tok}},
				kernel.Announce{Event: kernel.Event{At: t0, Job: id(3), Kind: kernel.JobSucceeded}}, kernel.ClearSentinel{Job: id(3), Slug: "foo"})
		},
		"another attempt": func(s *Store) error {
			return transact(s, kernel.Reset{Attempt: kernel.AttemptID{Job: id(2), N: 1}, Produces: []kernel.Artifact{tok}}, kernel.Rotate{Attempt: running.Attempt()}, say(6, "new"))
		},
		"a plan and a checkpoint": func(s *Store) error {
			if err := transact(s, say(3, "one")); err != nil {
				return err
			}
			s.log.limit = 0
			return errors.Join(transact(s, put(plain(6), func(st *kernel.State) { st.Reason = "two" })))
		},
		"an outcome":          func(s *Store) error { return s.Conclude(result) },
		"an outcome for good": func(s *Store) error { return s.ConcludeOnce(result) },
		"a payload":           func(s *Store) error { return s.WritePayload(id(1), tok, []byte("p")) },
		"a patch":             func(s *Store) error { return s.WritePatch(id(1), []byte("p")) },
		"no input":            func(s *Store) error { return s.WriteNoInput(id(1), "why") },
		"a sentinel":          func(s *Store) error { return s.WriteSentinel("bar", []byte("b")) },
		"no sentinel":         func(s *Store) error { return s.ClearSentinel("foo") },
		"no conflict":         func(s *Store) error { return s.DropConflict("foo", &kernel.Job{ID: id(1)}) },
		"files are gone":      func(s *Store) error { return s.NoteCollected() },
		"an event": func(s *Store) error {
			return s.AppendEvents([]kernel.Event{{At: t0, Job: id(3), Kind: kernel.JobFailedFinal}})
		},
		"an announcement": func(s *Store) error { return s.Announce(kernel.Event{At: t0, Job: id(3), Kind: kernel.JobFailedFinal}) },
		"an owner":        func(s *Store) error { return s.Adopt(context.Background()) },
		"an effect": func(s *Store) error {
			return s.RecordEffect(context.Background(), effect.Record{Job: id(1), Key: strings.Repeat("a1", 32), Operation: "git.commit", Attempt: 1})
		},
		"an effect that goes on": func(s *Store) error {
			return s.RecordEffect(context.Background(), effect.Record{Job: id(1), Key: begunEffect, Operation: "git.commit", Attempt: 1, State: effect.Applied, Result: result})
		},
		"an outcome of a lost worker": func(s *Store) error {
			lost := result
			lost.Class = kernel.WorkerLost
			return s.ConcludeOnce(lost)
		},
		"a follower": func(s *Store) error {
			f, err := s.FollowRun(kernel.RunID("run_" + id(1)))
			if err != nil {
				return err
			}
			if !s.Followed(kernel.RunID("run_" + id(1))) {
				return errors.New("nobody follows")
			}
			return f.Close()
		},
		"a hook that is told": func(s *Store) error {
			return s.Ack(kernel.Event{At: t0, Job: id(2), Kind: kernel.JobSucceeded})
		},
	}
}

// begunEffect is the key of an effect of job 1 in a store of faultyStore.
var begunEffect = strings.Repeat("b2", 32)

// faultyStore returns a store for the deeds, on a disk that does not fail yet.
func faultyStore(t *testing.T) (string, *Store, *faulty) {
	t.Helper()
	dir := t.TempDir()
	o := options()
	o.Durable = true
	s := newStoreWith(t, dir, o)
	d := &faulty{}
	s.disk = d
	var jobs []kernel.Action
	for n := 1; n <= 6; n++ {
		j := plain(n)
		j.Spec.Produces = []kernel.Artifact{custom("t", "k")}
		if n == 1 {
			j.State.Status, j.State.Attempt = kernel.Running, 1
		}
		jobs = append(jobs, kernel.Create(j))
	}
	commit(t, s, append(jobs, kernel.Publish{Attempt: kernel.AttemptID{Job: id(2), N: 1}, Artifacts: []kernel.Artifact{custom("t", "k")}}, kernel.CreateRun{Run: kernel.RunID("run_" + id(1)), Manifest: []byte("{}")},
		kernel.Announce{Event: kernel.Event{At: t0, Job: id(2), Kind: kernel.JobSucceeded}})...)
	for _, err := range []error{s.WriteSentinel("foo", []byte("f")), s.WritePatch(id(2), []byte("p")), s.WritePayload(id(2), custom("t", "k"), []byte("p")),
		s.RecordEffect(t.Context(), effect.Record{Job: id(1), Key: begunEffect, Operation: "git.commit", Attempt: 1})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	writeAt(t, file(dir, "jobs", string(id(1)), "attempts", "0.json"), "{}")
	writeAt(t, file(dir, "jobs", string(id(1)), "stdout.log"), "out")
	writeAt(t, file(dir, "jobs", string(id(2)), "stdout.log"), "out")
	return dir, s, d
}

// lasting returns the files of a store that must not be lost. It leaves out the
// journal, whose effect on the other files counts, the cache, and empty files.
func lasting(t *testing.T, dir string) map[string]string {
	t.Helper()
	closeTx(t, begin(t, newStore(t, dir))) // completes what a journal holds
	files := tree(t, dir)
	maps.DeleteFunc(files, func(name, text string) bool { // the second name of an outcome may be missing: nothing depends on it
		return text == "" || strings.HasSuffix(name, "1.outcome.json") || strings.Contains(name, journalDir) || strings.Contains(name, "cache") || strings.HasSuffix(name, ".tmp") || strings.Contains(name, "lock")
	})
	return files
}

// recorded returns how many decisions the history has, and asserts that it is whole.
func recorded(t *testing.T, dir string) uint64 {
	t.Helper()
	v, err := newStore(t, dir).VerifyHistory(t.Context())
	if err != nil {
		t.Error(err)
	}
	for _, f := range v.Findings {
		if f.Kind != FoundNoReason { // these commits have no account
			t.Errorf("the history: %s: %s", f.Kind, f.Text)
		}
	}
	return v.Last
}

// Whichever call of the disk fails while a store brings the changes of the journal into the
// records, a later transaction completes them.
func TestWhicheverCallOfTheDiskFailsTheJournalIsCompleted(t *testing.T) {
	oneGoroutine(t)
	deed := deedsOnAFaultyDisk()["a plan"]
	whole, done, _ := faultyStore(t)
	if err := deed(done); err != nil {
		t.Fatal(err)
	}
	after, killed, decisions := lasting(t, whole), 0, recorded(t, whole)
	behind := func() (string, *Store, *faulty) { // killed once it was in the journal
		dir, s, d := faultyStore(t)
		d.at, d.dead = d.n+killed, true
		if err := deed(s); err == nil {
			t.Fatal("no kill leaves anything in the journal")
		}
		_ = s.Close()
		fresh, d := newStore(t, dir), &faulty{}
		fresh.disk = d
		return dir, fresh, d
	}
	for got := map[string]string(nil); !maps.Equal(got, after); {
		killed++
		dir, _, _ := behind()
		got = lasting(t, dir)
	}
	dir, s, d := behind()
	complete := func(s *Store) error {
		tx, err := s.Begin(context.Background())
		if err != nil {
			return err
		}
		return tx.Close()
	}
	if err := complete(s); err != nil || !maps.Equal(lasting(t, dir), after) {
		t.Fatalf("%v:\n%s", err, gocmp.Diff(after, lasting(t, dir)))
	}
	for k := range d.n {
		dir, s, d := behind()
		d.at = k + 1
		if err := complete(s); err != nil && !errors.Is(err, unix.EIO) {
			t.Errorf("%s fails: %v", d.where, err)
		}
		_ = s.Close()
		if got := lasting(t, dir); !maps.Equal(got, after) {
			t.Errorf("%s fails, and something is lost:\n%s", d.where, gocmp.Diff(after, got))
		}
		if n := recorded(t, dir); n != decisions {
			t.Errorf("%s fails, and the history has %d decisions of %d", d.where, n, decisions)
		}
	}
}

// Whichever call of the disk fails, a deed returns an error, or it is as well done as
// without the failure. With an error, all of it is done or nothing.
func TestWhicheverCallOfTheDiskFailsADeedSaysSo(t *testing.T) {
	oneGoroutine(t)
	for name, deed := range deedsOnAFaultyDisk() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, s, d := faultyStore(t)
			before, calls, first := lasting(t, dir), d.n, recorded(t, dir)
			if err := deed(s); err != nil {
				t.Fatal(err)
			}
			calls = d.n - calls
			after, last := lasting(t, dir), recorded(t, dir)
			if calls == 0 {
				t.Fatal("no call of the disk")
			}
			for k := 1; k <= calls; k++ {
				dir, s, d := faultyStore(t)
				d.at = d.n + k
				err := deed(s)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				got := lasting(t, dir)
				if n := recorded(t, dir); n < first || n > last || err == nil && n != last {
					t.Errorf("%s fails: the history had %d decisions, now %d, and %d if none fails", d.where, first, n, last)
				}
				switch {
				case err != nil && !errors.Is(err, unix.EIO):
					t.Errorf("%s fails: %v", d.where, err)
				case err != nil && name == "a plan and a checkpoint": // these are two deeds: one may be done without the other
				case err != nil && !maps.Equal(got, before) && !maps.Equal(got, after):
					t.Errorf("%s fails, and the deed is half done:\n%s", d.where, gocmp.Diff(after, got))
				case err == nil && strings.HasPrefix(name, "an outcome") && name != "an outcome" && k > calls-5: // only the copy for people is missing
				case err == nil && strings.HasPrefix(d.where, "sync"):
					t.Errorf("%s fails, call %d of %d, and nobody hears of it", d.where, k, calls)
				case err == nil && !maps.Equal(got, after):
					t.Errorf("%s fails, and nobody hears of it", d.where)
				}
			}
		})
	}
}

// The first transaction makes the store, and notes where it is. Whichever call of the disk fails then, it says so, and
// the next one makes what is missing.
func TestWhicheverCallOfTheDiskFailsTheStoreIsMade(t *testing.T) {
	oneGoroutine(t)
	create := func(dir string, d *faulty, n int) error {
		o := options()
		o.Tracking = &tracking{stamp: "1"}
		s := newStoreWith(t, dir, o)
		s.disk = d
		tx, err := s.Begin(context.Background())
		if err != nil {
			return errors.Join(err, s.Close())
		}
		if _, err = tx.Load(kernel.Scope{All: true}); err == nil {
			err = tx.Commit(kernel.NewPlan(kernel.Create(plain(n))))
		}
		return errors.Join(err, tx.Close(), s.Close())
	}
	for k := 1; ; k++ {
		dir, d := t.TempDir(), &faulty{at: k}
		err := create(dir, d, 1)
		if d.where == "" {
			if err != nil || k < 10 {
				t.Errorf("%d calls: %v", k-1, err)
			}
			return
		}
		if err != nil && !errors.Is(err, unix.EIO) {
			t.Errorf("%s fails: %v", d.where, err)
		}
		if err := create(dir, &faulty{}, 2); err != nil {
			t.Errorf("%s failed, and the next transaction: %v", d.where, err)
			continue
		}
		rec := read(t, newStore(t, dir))
		find(t, rec, id(2))
		if err == nil {
			find(t, rec, id(1))
		}
	}
}
