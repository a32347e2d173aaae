package fs

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// A runner forgets what it knows on one goroutine while another reads what a
// submission refers to. The store keeps them apart itself.
func TestAStoreMayBeForgottenWhileItIsRead(t *testing.T) {
	s := newStore(t, disktest.Dir(t))
	actions := make([]kernel.Action, 50)
	for i := range actions {
		actions[i] = kernel.Create(plain(i + 1))
	}
	commit(t, s, actions...)
	var all sync.WaitGroup
	for _, use := range []func() error{
		func() error { s.Forget(); return nil },
		func() error { s.Forget(); return nil },
		func() error {
			rec, err := s.Read(t.Context(), kernel.Scope{All: true})
			if err == nil && len(rec.Jobs) != len(actions) {
				err = errors.New("a read missed jobs")
			}
			return err
		},
		func() error {
			tx, err := s.Begin(t.Context())
			if err != nil {
				return err
			}
			_, err = tx.Load(kernel.Scope{})
			return errors.Join(err, tx.Close())
		},
	} {
		all.Go(func() {
			for range 100 {
				if err := use(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if tx, err := newStore(t, s.root).Begin(shortly(t)); err != nil {
		t.Errorf("something kept the lock: %v", err)
	} else {
		closeTx(t, tx)
	}
}

// A writer that cannot have the lock is told who holds it, also if that is a reader.
func TestAReaderIsNamed(t *testing.T) {
	dir := disktest.Dir(t)
	o := options()
	o.Who = "vizier list 4711"
	s := NewStore(dir, o)
	defer s.Close()
	commit(t, s, kernel.Create(plain(1)))
	if err := os.WriteFile(s.abs(lockFile), []byte("somebody else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := s.still(t.Context(), func() error {
		_, err := newStore(t, dir).Begin(shortly(t))
		mustBeBusy(t, err)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A panic while the lock is held releases it.
func TestAPanicKeepsNoLock(t *testing.T) {
	dir := disktest.Dir(t)
	s := newStore(t, dir)
	j := plain(1)
	j.State.Status, j.State.Attempt = kernel.Running, 1
	commit(t, s, kernel.Create(j))
	for name, use := range map[string]func(){
		"in a look at the whole store": func() { _ = s.still(t.Context(), func() error { panic("on purpose") }) },
		"in a fenced write":            func() { _ = s.fenced(t.Context(), j.Attempt(), func() error { panic("on purpose") }) },
		"in a read": func() {
			read(t, s)
			s.cache.kv.close()
			s.cache.kv = nil // as a store that was forgotten in the middle of it
			_, _ = s.Read(t.Context(), kernel.Scope{Jobs: []kernel.JobID{j.ID}})
		},
	} {
		panicked := func() (p any) {
			defer func() { p = recover() }()
			use()
			return nil
		}()
		if panicked == nil {
			t.Errorf("%s: nothing panicked", name)
		}
		s.Forget()
		for _, other := range []*Store{s, newStore(t, dir)} {
			tx, err := other.Begin(shortly(t))
			if err != nil {
				t.Fatalf("%s: the lock is still held: %v", name, err)
			}
			closeTx(t, tx)
		}
	}
}

// A repository is moved while a store has it open, and another one comes to its
// path. The lock there does not protect the first, so a process that opened it at
// the old path no longer changes it.
func TestAStoreThatWasMoved(t *testing.T) {
	parent := disktest.Dir(t)
	old, now := filepath.Join(parent, "old"), filepath.Join(parent, "new")
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, old)
	defer s.Close()
	commit(t, s, kernel.Create(plain(1)))
	if err := os.Rename(old, now); err != nil {
		t.Fatal(err)
	}
	moved := func() {
		t.Helper()
		if tx, err := s.Begin(soon(t)); !errors.Is(err, kernel.ErrMoved) {
			t.Errorf("a transaction begins: %v, %v", tx, err)
		}
		if all := read(t, s); len(all.Jobs) != 1 || all.Jobs[0].ID != id(1) {
			t.Errorf("it holds %v", all.Jobs)
		}
	}
	moved()
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	commit(t, newStore(t, old), kernel.Create(plain(2)))
	moved()
	if all := read(t, newStore(t, now)); len(all.Jobs) != 1 {
		t.Errorf("at the new path: %d jobs", len(all.Jobs))
	}
}
