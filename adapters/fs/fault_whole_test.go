package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// told is what is odd about a store: each file that could not be read is one more.
type told []string

func (t told) has(all told) bool {
	return !slices.ContainsFunc(all, func(text string) bool { return !slices.Contains(t, text) }) ||
		slices.ContainsFunc(t, func(text string) bool { return strings.Contains(text, unix.EIO.Error()) })
}

// moreLooks returns the looks at a store of fullStore whose job 1 is packed that looks leaves out.
func moreLooks() map[string]func(context.Context, *Store) (any, error) {
	found := func(all []Oddity) (texts told) {
		for _, o := range all {
			texts = append(texts, o.Path+": "+o.Text+"; "+o.Next)
		}
		return texts
	}
	return map[string]func(context.Context, *Store) (any, error){
		"oddities": func(ctx context.Context, s *Store) (any, error) {
			tx, err := s.Begin(ctx)
			if err != nil {
				return nil, err
			}
			all, err := s.Inspect(map[kernel.RunID]bool{})
			return found(all), errors.Join(err, tx.Close())
		},
		"what is misplaced": func(ctx context.Context, s *Store) (any, error) { return found(s.Misplaced(ctx)), nil },
		"a log": func(_ context.Context, s *Store) (any, error) {
			f, err := s.OpenLog(id(1), "stdout")
			if err != nil {
				return nil, err
			}
			b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
			return string(b), errors.Join(err, f.Close())
		},
		"the end of a packed log":  func(_ context.Context, s *Store) (any, error) { return s.LogTail(id(1), "stdout", 2) },
		"attempts of a packed job": func(_ context.Context, s *Store) (any, error) { return s.Attempts(id(1)) },
		"effects of a packed job":  func(_ context.Context, s *Store) (any, error) { return s.Effects(id(1)) },
		"a packed job":             func(_ context.Context, s *Store) (any, error) { return s.Job(id(1)) },
		"what a packed job made":   func(_ context.Context, s *Store) (any, error) { return s.Payload(id(1), custom("t", "k")) },
		"evidence of a packed job": func(ctx context.Context, s *Store) (any, error) {
			return s.Export(ctx, "1", []kernel.JobID{id(1)}, noCommits)
		},
		"whether a place was taken": func(ctx context.Context, s *Store) (any, error) { return nil, s.Foreign(ctx) },
	}
}

// Whichever call of the disk fails, each look at a store answers as before or says so.
func TestWhicheverCallOfTheDiskFailsALookSaysSo(t *testing.T) {
	oneGoroutine(t)
	dir := fullStore(t)
	writeAt(t, file(dir, jobPath(id(1), "stdout.log")), "some output")
	s := newStore(t, dir)
	if _, err := packOnce(s, t0.Add(100*time.Hour), 1); err != nil || s.Packed(id(1)) == "" {
		t.Fatalf("not packed: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	all := looks()
	for name, look := range moreLooks() {
		all[name] = look
	}
	for name, look := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			copied := func() string {
				to := t.TempDir()
				if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				return to
			}
			at := copied()
			ask := func(d *faulty) (any, error) {
				s := NewStore(at, options())
				s.disk = d
				v, err := look(t.Context(), s)
				return v, errors.Join(err, s.Close())
			}
			d := &faulty{}
			want, err := ask(d)
			if err != nil {
				t.Fatal(err)
			}
			calls := d.n
			for k := 1; k <= calls; k++ {
				d := &faulty{at: k}
				got, err := ask(d)
				if err != nil || answers(got, want) {
					continue
				}
				if odd, isOdd := got.(told); !isOdd || !odd.has(want.(told)) {
					t.Errorf("%s fails, call %d of %d:\n%.600s\nwant\n%.600s", d.where, k, calls, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
				}
			}
		})
	}
}

// answers reports that a look got what another one wanted. Without a cache it may get more:
// all jobs instead of some, or those that count as dirty until a tick has judged them.
func answers(got, want any) bool {
	g, isRead := got.(kernel.Records)
	if !isRead || !g.Narrow {
		return isRead || reflect.DeepEqual(got, want)
	}
	w := want.(kernel.Records)
	for _, j := range w.Jobs {
		if j.State.Status == kernel.Succeeded {
			w.Succeeded++
		}
		if !slices.ContainsFunc(g.Jobs, func(o kernel.Job) bool { return reflect.DeepEqual(o, j) }) {
			return false
		}
	}
	for _, j := range g.Jobs {
		if j.State.Status == kernel.Succeeded { // Succeeded counts those that are not among Jobs
			g.Succeeded++
		}
		if !slices.Contains(g.Dirty, j.ID) && !slices.ContainsFunc(w.Jobs, func(o kernel.Job) bool { return o.ID == j.ID }) {
			return false
		}
	}
	g.Jobs, g.Dirty, g.Judged = w.Jobs, w.Dirty, w.Judged
	return reflect.DeepEqual(g, w)
}

// filesOf returns what a store tells of the files of jobs that packStore made.
func filesOf(s *Store) (string, error) {
	var all strings.Builder
	var errs error
	for n := 1; n <= 3; n++ {
		log, err := s.OpenLog(id(n), "stdout")
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(io.NewSectionReader(log, 0, 1<<20))
		errs = errors.Join(errs, err, log.Close())
		attempts, err := s.Attempts(id(n))
		errs = errors.Join(errs, err)
		effects, err := s.Effects(id(n))
		errs = errors.Join(errs, err)
		fmt.Fprintf(&all, "%d: %s %+v %+v\n", n, text, attempts, effects)
	}
	return all.String(), errs
}

// Whichever call of the disk fails while jobs are packed, no file is lost, whether or not another transaction packs
// what is left.
func TestWhicheverCallOfTheDiskFailsJobsArePacked(t *testing.T) {
	oneGoroutine(t)
	at, s := packStore(t, options())
	want, err := filesOf(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for k, calls := 0, 1; k <= calls; k++ { // at first none fails
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(at)); err != nil {
			t.Fatal(err)
		}
		s, d := newStore(t, dir), &faulty{at: k}
		s.disk = d
		_, err := packOnce(s, t0.Add(time.Hour), 1)
		_ = s.Close()
		if k == 0 {
			calls = d.n
		}
		fresh := newStore(t, dir)
		if none := fresh.Packed(id(1)) == ""; err != nil && !errors.Is(err, unix.EIO) || k == 0 && (err != nil || none || calls < 10) {
			t.Errorf("%s fails, call %d of %d: %v, not packed is %t", d.where, k, calls, err, none)
		}
		if k%2 == 0 {
			packAll(t, fresh)
		}
		if got, err := filesOf(fresh); err != nil || got != want {
			t.Fatalf("%s fails, call %d of %d: %v\n%s\nwant\n%s", d.where, k, calls, err, got, want)
		}
	}
}

// pastOf returns the jobs as they were after an entry of the history.
func pastOf(s *Store, entry uint64) (string, error) {
	p, err := s.PastAt(context.Background(), Moment{Entry: entry})
	if err != nil {
		return "", err
	}
	defer p.Close()
	rec, err := p.Read(context.Background(), kernel.Scope{All: true})
	var all []string
	for _, j := range rec.Jobs {
		all = append(all, fmt.Sprint(j.ID, j.Rev, j.State.Status))
	}
	slices.Sort(all)
	return fmt.Sprint(p.Entry, all), err
}

// Whichever call of the disk fails while the history is trimmed, what is left is whole and says what it said
// before, and the next time all is dropped that is too much.
func TestWhicheverCallOfTheDiskFailsTheHistoryIsTrimmed(t *testing.T) {
	oneGoroutine(t)
	l := newLivedStore(t)
	l.seal(func() { l.submit(4) })
	l.seal(func() { l.submit(5) })
	l.submit(6)
	if err := l.s.Close(); err != nil {
		t.Fatal(err)
	}
	entries := func(dir string) map[uint64]string {
		s := newStore(t, dir)
		v, err := s.VerifyHistory(t.Context())
		if err != nil || len(v.Findings) > 0 {
			t.Errorf("%v, %+v", err, v.Findings)
		}
		all := map[uint64]string{}
		for entry := v.First + 1; entry <= v.Last; entry++ { // the past of the first of them may be dropped
			if all[entry], err = pastOf(s, entry); err != nil {
				t.Error(err)
			}
		}
		return all
	}
	whole := entries(l.dir)
	for _, bytes := range []int64{0, 1} { // with no bound, and with one that leaves nothing but the newest
		var after map[uint64]string
		for k, calls := 0, 1; k <= calls; k++ { // at first none fails
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(l.dir)); err != nil {
				t.Fatal(err)
			}
			s, d := newStore(t, dir), &faulty{at: k}
			s.disk = d
			s.KeepHistory(bytes, 0)
			err := errors.Join(s.TrimHistory(t.Context()), s.Close())
			got := entries(dir)
			if k == 0 {
				if after, calls = got, d.n; err != nil || (len(after) == len(whole)) != (bytes == 0) || calls < 10 {
					t.Fatalf("%v after %d calls: %v, before %v", err, calls, after, whole)
				}
			}
			for entry, text := range got {
				if text != whole[entry] {
					t.Errorf("%s fails, call %d of %d: entry %d has %s, before %s", d.where, k, calls, entry, text, whole[entry])
				}
			}
			if err != nil && !errors.Is(err, unix.EIO) || len(got) < len(after) {
				t.Errorf("%s fails, call %d of %d: %v; the history is %v, want %v", d.where, k, calls, err, got, after)
			}
			again := newStore(t, dir)
			again.KeepHistory(bytes, 0)
			if err := again.TrimHistory(t.Context()); err != nil || !maps.Equal(entries(dir), after) {
				t.Errorf("%s fails, call %d of %d, and the next time: %v", d.where, k, calls, err)
			}
		}
	}
}

// The end of the journal is gone, which the next transaction puts on record, once, and the inspection tells of it.
// If the journal cannot begin anew, the transaction says so. Whatever fails, no record becomes an older one.
func TestALostTailIsOnRecord(t *testing.T) {
	oneGoroutine(t)
	l := newLivedStore(t)
	records := func(s *Store) map[kernel.JobID]kernel.Job {
		all := map[kernel.JobID]kernel.Job{}
		for _, j := range read(t, s).Jobs {
			all[j.ID] = j
		}
		return all
	}
	whole := records(l.s)
	if err := l.s.Close(); err != nil {
		t.Fatal(err)
	}
	name := file(l.dir, plansFile)
	info, err := os.Stat(name)
	if err == nil {
		err = os.Truncate(name, info.Size()/2)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, boot := range []string{"boot-1", "boot-2"} {
		o := options()
		o.Boot = boot
		begun := func(dir string, d disk) error {
			s := newStoreWith(t, dir, o)
			if d != nil {
				s.disk = d
			}
			tx, err := s.Begin(t.Context())
			if err != nil {
				return errors.Join(err, s.Close())
			}
			return errors.Join(tx.Close(), s.Close())
		}
		for k, calls := 0, 1; k <= calls; k++ { // at first none fails
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(l.dir)); err != nil {
				t.Fatal(err)
			}
			d := &faulty{at: k}
			err := begun(dir, d)
			needs := strings.HasPrefix(d.where, "truncate") || strings.HasPrefix(d.where, "write at") // without it the journal does not begin anew
			if k == 0 && err != nil || err != nil && !errors.Is(err, unix.EIO) || needs && err == nil {
				t.Errorf("%s, %s fails: %v", boot, d.where, err)
			}
			sealed := func() map[string]string {
				files := map[string]string{}
				for _, name := range []string{historyDir, markFile, plansFile} {
					err := filepath.WalkDir(file(dir, name), func(path string, e iofs.DirEntry, err error) error {
						if err == nil && !e.IsDir() && !strings.Contains(path, ".milestone") && !strings.HasSuffix(path, ".tmp") {
							files[strings.TrimPrefix(path, dir)] = contentOf(t, path)
						}
						return err
					})
					if err != nil {
						t.Error(err)
					}
				}
				return files
			}
			first := sealed()
			for range 2 {
				if err := begun(dir, nil); err != nil {
					t.Fatalf("%s, %s failed, and the next transaction: %v", boot, d.where, err)
				}
			}
			if k == 0 {
				calls = d.n
				if now := sealed(); !maps.Equal(now, first) || len(now) < 4 {
					t.Errorf("%s: the next transaction changes\n%s", boot, cmp.Diff(first, now))
				}
			}
			s := newStoreWith(t, dir, o)
			if now := records(s); !reflect.DeepEqual(now, whole) {
				t.Errorf("%s, %s failed: the records are %+v", boot, d.where, now)
			}
			tx := begin(t, s)
			found, err := s.Inspect(map[kernel.RunID]bool{})
			if told := fmt.Sprint(found); err != nil || !strings.Contains(told, "the end of the journal is gone") {
				t.Errorf("%s, %s failed: the inspection finds %s, %v", boot, d.where, told, err)
			}
			closeTx(t, tx)
		}
	}
}
