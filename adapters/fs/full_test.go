package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// fill writes name until only leave bytes of the file system are free.
func fill(t *testing.T, name string, leave int64) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var size int64
	for block := make([]byte, 1<<20); len(block) >= 4096; {
		n, err := f.Write(block)
		size += int64(n)
		if errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(max(0, size-leave)); err != nil {
		t.Fatal(err)
	}
}

// said returns the word that begins the reason of every job, and asserts that they agree.
func said(t *testing.T, rec kernel.Records) string {
	t.Helper()
	word := find(t, rec, id(1)).State.Reason[:3]
	for _, j := range rec.Jobs {
		if j.State.Reason[:3] != word {
			t.Errorf("job %s says %q, job 1 %q", j.ID, j.State.Reason[:3], word)
		}
	}
	return word
}

// sayAll returns a plan that makes word the reason of all jobs, followed by filler text
// of more words, so that records can grow by pages.
func sayAll(rec kernel.Records, word string, more int) kernel.Plan {
	var p kernel.Plan
	for _, j := range rec.Jobs {
		p.Records = append(p.Records, put(j, func(st *kernel.State) { st.Reason = word + strings.Repeat(" long", more) }))
	}
	return p
}

// However much room there is, a commit on a full disk fails with the reason;
// nothing is half done, and with room again the store goes on.
func TestFullDisk(t *testing.T) {
	oneGoroutine(t)
	dir := disktest.Small(t, 12<<20)
	s := newStore(t, dir)
	var jobs []kernel.Action
	for n := 1; n <= 6; n++ {
		j := plain(n)
		j.State.Reason = "old"
		jobs = append(jobs, kernel.Create(j))
	}
	commit(t, s, jobs...)
	filler := filepath.Join(dir, "filler")
	failures := 0
	for pages := int64(0); pages < 60; pages++ {
		s := newStore(t, dir)
		before := read(t, s)
		was := said(t, before)
		want := fmt.Sprintf("%03d", pages)
		commit(t, s, sayAll(before, was, 0).Actions()...) // small again, so that each record needs room to grow
		fill(t, filler, pages*4096)
		tx := begin(t, s)
		rec := load(t, tx)
		err := tx.Commit(sayAll(rec, want, 2500))
		if err == nil {
			was = want
		} else {
			failures++
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space") {
				t.Errorf("with %d pages: %v", pages, err)
			}
			// A smaller plan may be recorded in its place, if it left no trace.
			_ = tx.Commit(kernel.NewPlan(put(find(t, rec, id(1)), func(st *kernel.State) { st.Reason = "BAD" })))
		}
		_ = tx.Close()
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		after := read(t, newStore(t, dir))
		if len(after.Jobs) != 6 || len(after.Unreadable) > 0 {
			t.Fatalf("with %d pages: %d jobs, unreadable %v", pages, len(after.Jobs), after.Unreadable)
		}
		if find(t, after, id(1)).State.Reason == "BAD" {
			for _, j := range after.Jobs {
				if word := j.State.Reason[:3]; j.ID != id(1) && word == want {
					t.Fatalf("with %d pages a plan is half done: job %s says %q", pages, j.ID, word)
				}
			}
			commit(t, newStore(t, dir), sayAll(after, want, 0).Actions()...)
			continue
		}
		if got := said(t, after); got != was && (err == nil || got != want) {
			t.Fatalf("with %d pages: commit %v, then all say %q", pages, err, got)
		}
	}
	if failures < 5 || failures == 60 {
		t.Errorf("%d of 60 commits failed: the test says little", failures)
	}
	closeTx(t, begin(t, newStore(t, dir)))
	err := filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".tmp") {
			t.Errorf("left %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// playSmallFiles does the same with a limit on the size of files, which needs no privileges.
func playSmallFiles(dir string) error {
	signal.Ignore(unix.SIGXFSZ)
	s := NewStore(dir, options())
	try := func(p func(kernel.Records) kernel.Plan) error {
		tx, err := s.Begin(context.Background())
		if err != nil {
			return err
		}
		defer tx.Close()
		rec, err := tx.Load(kernel.Scope{All: true})
		if err != nil {
			return err
		}
		return tx.Commit(p(rec))
	}
	create := kernel.NewPlan(kernel.Create(plain(1)), kernel.Create(plain(2)))
	if err := try(func(kernel.Records) kernel.Plan { return create }); err != nil {
		return err
	}
	info, err := os.Stat(file(dir, plansFile))
	if err != nil {
		return err
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	speak := func(rec kernel.Records) kernel.Plan { return sayAll(rec, "new", 600) }
	for _, more := range []int64{0, 1, 7, 8, 100, 3000} {
		limit := was
		setTo(&limit.Cur, info.Size()+more)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			return err
		}
		err := try(speak)
		rec, err2 := s.Read(context.Background(), kernel.Scope{All: true})
		if err3 := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); err2 != nil || err3 != nil {
			return errors.Join(err2, err3)
		}
		if !errors.Is(err, syscall.EFBIG) {
			return fmt.Errorf("with %d bytes more: %w", more, err)
		}
		for _, j := range rec.Jobs {
			if j.State.Reason != "" || j.Rev != 1 || len(rec.Jobs) != 2 {
				return fmt.Errorf("with %d bytes more job %s says %.10s", more, j.ID, j.State.Reason)
			}
		}
	}
	if err := try(speak); err != nil {
		return err
	}
	rec, err := NewStore(dir, options()).Read(context.Background(), kernel.Scope{All: true})
	for _, j := range rec.Jobs {
		if !strings.HasPrefix(j.State.Reason, "new") {
			return fmt.Errorf("in the end job %s says %q", j.ID, j.State.Reason)
		}
	}
	return err
}

func TestFilesThatMayNotGrow(t *testing.T) {
	a := cast(t, "small", t.TempDir())
	out, err := io.ReadAll(a.out)
	if err := errors.Join(err, a.cmd.Wait()); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	a.done = true
}

// A store on a read-only file system is read as it is, and says why it cannot
// be written.
func TestReadOnlyStore(t *testing.T) {
	dir := disktest.Small(t, 1<<20)
	j := plain(1)
	j.State.Status = kernel.Succeeded
	w := newStore(t, dir)
	commit(t, w, kernel.Create(j), kernel.Create(plain(2)),
		kernel.Publish{Attempt: j.Attempt(), Artifacts: []kernel.Artifact{custom("t", "k")}})
	want := read(t, w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	disktest.ReadOnly(t, dir)
	s := newStore(t, dir)
	for range 2 {
		got := read(t, s)
		if len(got.Jobs) != 2 || !reflect.DeepEqual(find(t, got, id(1)), find(t, want, id(1))) || !reflect.DeepEqual(find(t, got, id(2)), find(t, want, id(2))) {
			t.Errorf("read %+v", got)
		}
	}
	if got := markersOf(t, s, custom("t", "k")); len(got) != 1 {
		t.Errorf("markers %v", got)
	}
	if got, err := s.Job(id(2)); err != nil || got.ID != id(2) {
		t.Errorf("job: %v", err)
	}
	for name, err := range map[string]error{
		"begin":    func() error { _, err := s.Begin(soon(t)); return err }(),
		"conclude": s.Conclude(someResult(id(1))),
	} {
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// setTo sets a number of whatever type the system gives it.
func setTo[T int64 | uint64](to *T, n int64) { *to = T(n) }

// On a full disk, where the records lack what the journal has, nobody is accused of that.
func TestVerifyOnAFullDisk(t *testing.T) {
	oneGoroutine(t)
	dir := disktest.Small(t, 12<<20)
	commit(t, newStore(t, dir), kernel.Create(plain(1)))
	cannot := 0
	for pages := range int64(40) {
		fill(t, filepath.Join(dir, "filler"), pages*4096)
		tx := begin(t, newStore(t, dir))
		load(t, tx)
		j := plain(2 + int(pages))
		j.State.Reason = strings.Repeat("long ", 2000)
		_ = tx.Commit(kernel.NewPlan(kernel.Create(j)))
		_ = tx.Close()
		v, err := newStore(t, dir).VerifyHistory(t.Context())
		if errors.Is(err, syscall.ENOSPC) {
			cannot++
		} else if err != nil {
			t.Errorf("with %d pages: %v", pages, err)
		}
		if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
			t.Fatal(err)
		}
		for _, f := range v.Findings {
			if f.Kind == FoundEdit || f.Kind == FoundForgery {
				t.Errorf("with %d pages: %+v", pages, f)
			}
		}
		closeTx(t, begin(t, newStore(t, dir)))
	}
	if cannot == 0 {
		t.Error("it could always compare: the test says little")
	}
}
