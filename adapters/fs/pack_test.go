package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// endedJob returns a job that succeeded.
func endedJob(n int) kernel.Job {
	j := plain(n)
	j.State.Status, j.State.Attempt, j.State.Outcome = kernel.Succeeded, 1, kernel.OutcomeSucceeded
	j.State.Exit, j.State.Started, j.State.Finished = kernel.Exited(0), t0, t0.Add(time.Second)
	return j
}

// packStore returns a store in which jobs 1 to 3 have ended and left files, and job 4
// is open.
func packStore(t *testing.T, o Options) (string, *Store) {
	t.Helper()
	dir := t.TempDir()
	s := newStoreWith(t, dir, o)
	s.disk = idle{}
	for n := 1; n <= 3; n++ {
		j := endedJob(n)
		r := kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Ended: j.State.Finished}
		commit(t, s, kernel.Create(j))
		if err := s.Conclude(r); err != nil {
			t.Fatal(err)
		}
		entry, err := encodeEffect(&effect.Record{Key: strings.Repeat("a1", 32), Job: j.ID, Operation: "git.commit", Attempt: 1, State: effect.Applied, Begun: t0, Result: r}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"stdout.log": fmt.Sprintf("output of %d\n", n), "stderr.log": "", "job.lock": "",
			"attempts/1.json": `{"host":"h","child":{"pid":7}}`, "attempts/1.report.jsonl": `{"done":1}` + "\n",
			"hooks/0.1.mail.log": "sent\n", "effects/" + strings.Repeat("a1", 32) + ".json": string(entry)} {
			writeAt(t, filepath.Join(s.JobDir(j.ID), name), text)
		}
	}
	commit(t, s, kernel.Create(plain(4)))
	return dir, s
}

// packOnce packs in one transaction.
func packOnce(s *Store, ended time.Time, most int) (more bool, err error) {
	tx, err := s.Begin(context.Background())
	if err != nil {
		return false, err
	}
	more, err = tx.Pack(ended, most)
	return more, errors.Join(err, tx.Close())
}

// packAll packs every job that can be packed.
func packAll(t testing.TB, s *Store) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = packOnce(s, t0.Add(time.Hour), 2); err != nil {
			t.Fatal(err)
		}
	}
}

// If packing meets a damaged block of the cache, the next transaction makes a new cache,
// so that jobs do not stay unpacked for ever.
func TestPackingWithADamagedCache(t *testing.T) {
	dir, made := packStore(t, options())
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range caches(dir) {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	s := newStore(t, dir)
	recordsOf(t, s) // makes the cache, of tables only
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.cache.kv.tables) == 0 {
		t.Fatal("the cache has no table")
	}
	for _, table := range s.cache.kv.tables {
		table.recent = [len(table.recent)]recentBlock{} // read again
		if err := os.WriteFile(filepath.Join(dir, vizierDir, tableFile(table.number)), make([]byte, table.size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	more, err := tx.Pack(t0.Add(time.Hour), 10)
	if err := errors.Join(err, tx.Close()); more || err != nil {
		t.Fatalf("more %v, %v", more, err)
	}
	packAll(t, s)
	for n := 1; n <= 3; n++ {
		if there, err := s.base.exists(packFile(id(n))); !there || err != nil {
			t.Errorf("job %d has a pack: %v, %v", n, there, err)
		}
	}
}

// Packing gets on and ends where the cache cannot be saved, so that each transaction makes it
// anew, also where no job can be packed.
func TestPackingWhereTheCacheCannotBeSaved(t *testing.T) {
	for _, packs := range []bool{true, false} {
		dir, made := packStore(t, options())
		for n := 1; n <= 3 && !packs; n++ {
			writeAt(t, filepath.Join(made.JobDir(id(n)), "command.patch"), "x")
		}
		if err := made.Close(); err != nil {
			t.Fatal(err)
		}
		for _, file := range caches(dir) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		writeAt(t, file(dir, cacheFile, "x"), "in the way")
		s := newStore(t, dir)
		for turns, more := 1, true; more; turns++ {
			var err error
			if more, err = packOnce(s, t0.Add(time.Hour), 2); err != nil {
				t.Fatal(err)
			}
			if turns > 3 {
				t.Fatalf("jobs can be packed: %v; it never ends", packs)
			}
		}
		for n := 1; n <= 3; n++ {
			if (s.Packed(id(n)) != "") != packs {
				t.Errorf("job %d: packed %q", n, s.Packed(id(n)))
			}
		}
	}
}

// asSeen returns what readers see of jobs 1 to 4.
func asSeen(t testing.TB, s *Store) map[string]any {
	t.Helper()
	out := map[string]any{"all": read(t, s)}
	must := func(v any, err error) any {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
		return v
	}
	ids, err := s.IDs()
	slices.Sort(ids)
	out["ids"] = must(ids, err)
	for n := 1; n <= 4; n++ {
		job := id(n)
		f := kernel.NewFacts()
		a := kernel.AttemptID{Job: job, N: 1}
		s.Observe(context.Background(), kernel.Probes{Attempts: []kernel.AttemptID{a}}, &f)
		j, err := s.Job(job)
		out[fmt.Sprint("job ", n)] = must(j, err)
		attempts, err := s.Attempts(job)
		out[fmt.Sprint("attempts ", n)] = must(attempts, err)
		effects, err := s.Effects(job)
		out[fmt.Sprint("effects ", n)] = must(effects, err)
		log, err := s.LogTail(job, "stdout", 9)
		out[fmt.Sprint("log ", n)] = must(string(log), err)
		out[fmt.Sprint("result ", n)] = f.Results[a]
		out[fmt.Sprint("progress ", n)] = s.Progress(a)
	}
	return out
}

// unlike returns the differences between two results of asSeen.
func unlike(a, b map[string]any) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if !reflect.DeepEqual(a[key], b[key]) {
			out = append(out, fmt.Sprintf("%s: %+v and %+v", key, a[key], b[key]))
		}
	}
	return strings.Join(out, "\n")
}

// Readers find the same of a packed job as before. Its pack is one file that standard
// tools can read, and a change of the job brings its files back as they were.
func TestAPackedJobReadsAsBefore(t *testing.T) {
	dir, s := packStore(t, options())
	before, files := asSeen(t, s), tree(t, dir)
	packAll(t, s)
	for n := 1; n <= 3; n++ {
		if exists(s.JobDir(id(n))) || s.Packed(id(n)) != s.PackFile(id(n)) {
			t.Errorf("job %d is not packed", n)
		}
	}
	if !exists(s.JobDir(id(4))) || s.Packed(id(4)) != "" {
		t.Error("an open job was packed")
	}
	asRebuilt(t, s, false)
	if d := unlike(before, asSeen(t, s)); d != "" {
		t.Errorf("the process that packed sees\n%s", d)
	}
	if d := unlike(before, asSeen(t, newStore(t, dir))); d != "" {
		t.Errorf("another process sees\n%s", d)
	}
	if problems, count, err := s.Validate(soon(t)); err != nil || len(problems) > 0 || count != 4 {
		t.Errorf("%v %d %v", problems, count, err)
	}
	tx := begin(t, s)
	if odd, err := s.Inspect(nil); err != nil || len(odd) > 0 {
		t.Errorf("%+v %v", odd, err)
	}
	closeTx(t, tx)
	if size := s.Sizes(t.Context(), []kernel.JobID{id(1)})[id(1)]; size == 0 || size > 8<<10 {
		t.Errorf("a packed job takes %d bytes", size)
	}
	text, err := exec.CommandContext(t.Context(), "tar", "-xzOf", s.PackFile(id(2)), "stdout.log").Output()
	if err != nil || string(text) != "output of 2\n" {
		t.Errorf("tar: %q %v", text, err)
	}
	commit(t, s, put(endedJob(2), func(st *kernel.State) { st.Reason = "changed" }))
	now := tree(t, dir)
	for name, text := range files {
		if base := jobPath(id(2), ""); strings.HasPrefix(name, base+"/") && !slices.Contains([]string{"job.json", "job.lock"}, filepath.Base(name)) && now[name] != text {
			t.Errorf("%s comes back as %q", name, now[name])
		}
	}
	if exists(s.PackFile(id(2))) {
		t.Error("its pack is still there")
	}
	commit(t, s, kernel.RemoveJob{Job: id(1)})
	if exists(s.PackFile(id(1))) {
		t.Error("the pack of a job that was removed is still there")
	}
	packAll(t, s)
	if s.Packed(id(2)) == "" || s.Packed(id(3)) == "" {
		t.Error("a job that was changed is not packed again")
	}
	asRebuilt(t, s, false)
}

// A reader that opens a log of a packed job again finds the file that it knows, unless the
// job has run again, and few files stay open.
func TestLogsOfPackedJobsThatAreOpenedAgain(t *testing.T) {
	_, s := packStore(t, options())
	copies := t.TempDir()
	t.Setenv("TMPDIR", copies)
	for n := range 2 * maxUnpackedFiles {
		writeAt(t, filepath.Join(s.JobDir(id(3)), fmt.Sprintf("stdout.%d.log", n)), "earlier\n")
	}
	open := func(n int, stream, want string) os.FileInfo {
		t.Helper()
		f, err := s.OpenLog(id(n), stream)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		b, err2 := io.ReadAll(io.NewSectionReader(f, 0, 1<<10))
		if err := errors.Join(err, err2); err != nil || string(b) != want {
			t.Errorf("%s of job %d: %q, %v", stream, n, b, err)
		}
		return info
	}
	packAll(t, s)
	first := open(1, "stdout", "output of 1\n")
	for n := range 2 * maxUnpackedFiles {
		open(3, fmt.Sprint("stdout.", n), "earlier\n")
		if !os.SameFile(first, open(1, "stdout", "output of 1\n")) {
			t.Error("a log is another file when it is opened again")
		}
	}
	if kept := openBelow(copies); len(kept) > maxUnpackedFiles {
		t.Errorf("%d files stay open", len(kept))
	}
	commit(t, s, put(find(t, read(t, s), id(1)), func(st *kernel.State) { st.Reason = "again" }))
	writeAt(t, filepath.Join(s.JobDir(id(1)), "stdout.log"), "output of the next\n")
	packAll(t, s)
	open(1, "stdout", "output of the next\n")
}

// A job is not packed if people may read its files by their names, if they are large, or
// while its runner lives.
func TestWhatIsNotPacked(t *testing.T) {
	for name, leave := range map[string]func(string) func(){
		"a patch":      func(job string) func() { writeAt(t, filepath.Join(job, "command.patch"), "x"); return nil },
		"a checkpoint": func(job string) func() { writeAt(t, filepath.Join(job, "checkpoint", "1"), "x"); return nil },
		"another file": func(job string) func() { writeAt(t, filepath.Join(job, "notes.txt"), "x"); return nil },
		"a large log": func(job string) func() {
			writeAt(t, filepath.Join(job, "stdout.log"), strings.Repeat("x", maxPackable))
			return nil
		},
		"a link": func(job string) func() { _ = os.Symlink("/etc/passwd", filepath.Join(job, "x.log")); return nil },
		"a living runner": func(job string) func() {
			f, err := os.OpenFile(filepath.Join(job, "job.lock"), os.O_RDWR, 0)
			if err == nil {
				err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
			}
			if err != nil {
				t.Fatal(err)
			}
			return func() { f.Close() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, s := packStore(t, options())
			gone := leave(s.JobDir(id(1)))
			if _, err := packOnce(s, t0, 10); err != nil || s.Packed(id(2)) != "" {
				t.Errorf("what ended later was packed: %v", err)
			}
			packAll(t, s)
			if s.Packed(id(1)) != "" || exists(s.PackFile(id(1))) || s.Packed(id(2)) == "" {
				t.Errorf("packed: %q and %q", s.Packed(id(1)), s.Packed(id(2)))
			}
			if more, err := packOnce(s, t0.Add(time.Hour), 1); more || err != nil {
				t.Errorf("it is looked at again and again: %v", err)
			}
			if gone != nil {
				gone()
				if packAll(t, s); s.Packed(id(1)) == "" {
					t.Error("it is not packed once its runner is gone")
				}
			}
		})
	}
}

// A damaged pack is reported by its path, and holds up no other job.
func TestADamagedPack(t *testing.T) {
	for name, damage := range map[string]func(string) string{
		"cut off":      func(b string) string { return b[:len(b)/2] },
		"empty":        func(string) string { return "" },
		"another byte": func(b string) string { return b[:len(b)/2] + string(b[len(b)/2]^1) + b[len(b)/2+1:] },
		"no archive":   func(string) string { return "hello" },
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := packStore(t, options())
			packAll(t, s)
			writeAt(t, s.PackFile(id(1)), damage(contentOf(t, s.PackFile(id(1)))))
			for _, s := range []*Store{s, newStore(t, dir)} {
				rec := read(t, s)
				at := ".vizier/jobs/" + string(id(1)) + ".tar.gz: the pack of the job's files is damaged: "
				if why := rec.Unreadable[id(1)]; len(rec.Jobs) != 3 || !strings.HasPrefix(why, at) {
					t.Errorf("%d jobs, unreadable: %q", len(rec.Jobs), why)
				}
				if _, err := s.Job(id(1)); err == nil {
					t.Error("its record is read")
				}
				problems, _, err := s.Validate(soon(t))
				if err != nil || len(problems) != 1 || problems[0].Job != id(1) || !strings.HasPrefix(at, problems[0].Path) {
					t.Errorf("%+v %v", problems, err)
				}
				tx := begin(t, s)
				if odd, err := s.Inspect(nil); err != nil || len(odd) != 1 || odd[0].Fix != nil || !strings.HasPrefix(at, odd[0].Path) {
					t.Errorf("%+v %v", odd, err)
				}
				closeTx(t, tx)
			}
			commit(t, s, put(endedJob(2), func(st *kernel.State) { st.Reason = "changed" }))
			if got := find(t, read(t, newStore(t, dir)), id(2)).State.Reason; got != "changed" {
				t.Errorf("job 2 says %q", got)
			}
		})
	}
}

// A pack that a power cut left torn never counted. Its job's directory is whole, or the
// journal has the rest, so readers ignore the pack and the next one replaces it.
func TestAPackThatNeverCounted(t *testing.T) {
	dir, s := packStore(t, options())
	before := asSeen(t, s)
	writeAt(t, s.PackFile(id(1)), "")
	writeAt(t, s.PackFile(id(2)), "torn")
	if err := os.Remove(s.RecordFile(id(2))); err != nil { // the record was lost as well: the journal has it
		t.Fatal(err)
	}
	writeAt(t, s.PackFile(id(4)), "torn") // here even the directory was lost
	if err := os.RemoveAll(s.JobDir(id(4))); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Boot = "boot-2" // so the whole journal is replayed
	s = newStoreWith(t, dir, o)
	if d := unlike(before, asSeen(t, s)); d != "" {
		t.Error(d)
	}
	commit(t, s, put(endedJob(1), func(st *kernel.State) { st.Reason = "changed" }))
	packAll(t, s)
	if s.Packed(id(1)) == "" || s.Packed(id(2)) == "" {
		t.Error("they are not packed")
	}
	if d := unlike(before, asSeen(t, s)); !strings.HasPrefix(d, "all: ") || strings.Count(d, "\n") != 1 {
		t.Errorf("besides the record of job 1: %s", d)
	}
}

// The same holds if the journal no longer has the job's beginning.
func TestAPackThatNeverCountedOfAnOldJob(t *testing.T) {
	dir, s := packStore(t, options())
	s.log.limit = 0
	commit(t, s, put(plain(4), func(st *kernel.State) { st.Reason = "the journal begins again" }))
	s.log.limit = 1 << 30
	commit(t, s, put(endedJob(3), func(st *kernel.State) { st.Reason = "on record" }))
	before := asSeen(t, s)
	writeAt(t, s.PackFile(id(3)), "torn")
	if err := os.Remove(s.RecordFile(id(3))); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Boot = "boot-2"
	s = newStoreWith(t, dir, o)
	if d := unlike(before, asSeen(t, s)); d != "" {
		t.Error(d)
	}
}

// If a process is killed at any call while it packs a job or brings one back, readers
// still see everything, and the next transaction works on everything.
func TestKilledWhilePacking(t *testing.T) {
	oneGoroutine(t)
	o := options()
	o.Durable = true
	change := func(s *Store, reason string) error {
		tx, err := s.Begin(context.Background())
		if err != nil {
			return err
		}
		defer tx.Close()
		rec, err := tx.Load(kernel.Scope{All: true})
		if err != nil {
			return err
		}
		return tx.Commit(kernel.NewPlan(put(find(t, rec, id(1)), func(st *kernel.State) { st.Reason = reason })))
	}
	lives := map[string]func(*Store) error{
		"packing":     func(s *Store) error { _, err := packOnce(s, t0.Add(time.Hour), 2); return err },
		"coming back": func(s *Store) error { return change(s, "after the kill") },
	}
	for name, life := range lives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := false
			for k := 1; !ended; k++ {
				dir, s := packStore(t, o)
				if name != "packing" {
					packAll(t, s)
				}
				want := asSeen(t, s)
				d := &faulty{at: k, dead: true}
				s.disk, s.base.disk, s.log.base.disk = d, d, d
				err := life(s)
				ended = err == nil
				_ = s.Close()
				unlocked := asSeen(t, newStore(t, dir)) // by another process, before the next change
				if name == "packing" {
					if d := unlike(want, unlocked); d != "" {
						t.Errorf("killed at call %d: %s", k, d)
					}
				}
				next := newStoreWith(t, dir, o)
				if err := change(next, "after the kill"); err != nil {
					t.Errorf("killed at call %d: %v", k, err)
				}
				packAll(t, next)
				got := asSeen(t, next)
				if j := got["job 1"].(kernel.Job); j.State.Reason != "after the kill" {
					t.Errorf("killed at call %d, job 1 says %q", k, j.State.Reason)
				}
				for _, m := range []map[string]any{want, got} {
					maps.DeleteFunc(m, func(key string, _ any) bool { return key == "all" || key == "job 1" })
				}
				if d := unlike(want, got); d != "" || next.Packed(id(1)) == "" {
					t.Errorf("killed at call %d, packed %q: %s", k, next.Packed(id(1)), d)
				}
				if k > 1000 {
					t.Fatal("it never ends")
				}
			}
		})
	}
}

// Readers without the lock always find a job, also while it is being packed or brought
// back.
func TestReadersSeeAJobThatIsBeingPacked(t *testing.T) {
	dir, s := packStore(t, options())
	over := make(chan struct{})
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		r := newStore(t, dir)
		for {
			select {
			case <-over:
				return
			default:
			}
			_, err := r.Job(id(1))
			log, err2 := r.LogTail(id(1), "stdout", 100)
			attempts, err3 := r.Attempts(id(1))
			if err := errors.Join(err, err2, err3); err != nil || string(log) != "output of 1\n" || len(attempts) != 1 || attempts[0].Outcome != kernel.OutcomeSucceeded {
				t.Errorf("%q %+v %v", log, attempts, err)
				return
			}
			select {
			case looked <- struct{}{}:
			default:
			}
		}
	}()
	// This keeps a job from being packed and brought back within one look.
	wait := func() { <-looked; <-looked }
	for k := range 20 {
		packAll(t, s)
		wait()
		commit(t, s, put(find(t, read(t, s), id(1)), func(st *kernel.State) { st.Reason = fmt.Sprint(k) }))
		wait()
	}
	close(over)
	for range looked {
	}
}

// Versions that do not know packs change nothing in a store that ever had one. They take
// its mark for damaged, and then always find an unknown operation in the journal.
func TestEarlierVersionsRefuseAStoreWithPacks(t *testing.T) {
	dir, s := packStore(t, options())
	refused := func() bool {
		t.Helper()
		var p position
		_, err := fmt.Sscanf(contentOf(t, file(dir, markFile)), markLayout, &p.boot, &p.epoch, &p.start, &p.end, &p.done, &p.rebooted, &p.dir)
		e, _, bad := s.log.read(0)
		return err != nil && bad == nil && e.does(opPack)
	}
	if refused() {
		t.Error("a store without packs is refused")
	}
	for range 3 {
		packAll(t, s)
		if !refused() {
			t.Fatal("a store with packs is not refused")
		}
		commit(t, s, put(find(t, read(t, s), id(1)), func(st *kernel.State) { st.Reason += "x" }))
		s.log.limit = 0 // the next commit empties the journal
		commit(t, s, put(find(t, read(t, s), id(4)), func(st *kernel.State) { st.Reason += "x" }))
		s.log.limit = checkpointSize
		if !refused() {
			t.Fatal("a store that has had packs is not refused once its journal was emptied")
		}
	}
	writeAt(t, file(dir, markFile), "what a crash left")
	closeTx(t, begin(t, newStore(t, dir)))
	if !refused() {
		t.Error("it is not refused once its mark was lost")
	}
}

// The files of a job are all found while it is packed or comes back, at the worst moments.
func TestFileNamesOfAJobThatMoves(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		dir, s := packStore(t, options())
		attempts, aside := file(dir, jobPath(id(1), attemptsDir)), filepath.Join(t.TempDir(), "aside")
		want := []string{"1.json", "1.outcome.json", "1.report.jsonl"}
		if got, err := s.jobFileNames(id(1), attemptsDir); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, want %v, %v", got, want, err)
		}
		move := func(from, to string) {
			if err := os.Rename(from, to); err != nil {
				t.Error(err)
			}
		}
		if !leaves {
			move(attempts, aside)
		}
		looked := false
		s.base.disk = &disturbed{onOpen: func(path string) {
			if looked || !strings.HasSuffix(path, ".tar.gz") {
				return
			}
			if looked = true; leaves {
				move(attempts, aside)
			} else {
				move(aside, attempts)
			}
		}}
		if got, err := s.jobFileNames(id(1), attemptsDir); err != nil || !slices.Equal(got, want) || !looked {
			t.Errorf("it leaves: %v; %v, want %v, %v", leaves, got, want, err)
		}
	}
}
