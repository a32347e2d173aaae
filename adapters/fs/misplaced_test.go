package fs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What is in the place of a file that every command needs is named by their error, with what to do. A repair moves
// it aside if the file can be made anew, and then all jobs are there again.
func TestWhatIsInThePlaceOfAFixedFile(t *testing.T) {
	for _, f := range fixedFiles() {
		ways := map[string]func(string) error{
			"a directory": func(name string) error { return os.MkdirAll(filepath.Join(name, "d"), 0o700) },
			"a symbolic":  func(name string) error { return os.Symlink("elsewhere", name) },
		}
		if f.link {
			delete(ways, "a symbolic")
		}
		for how, put := range ways {
			dir := t.TempDir()
			s := newStore(t, dir)
			j := plain(1)
			commit(t, s, kernel.CreateJob{Job: &j})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			at := file(dir, f.path)
			if err := errors.Join(os.RemoveAll(at), put(at)); err != nil {
				t.Fatal(err)
			}
			s = newStore(t, dir)
			s.opts.Tracking = untracked{}
			s.opts.Admit = func(context.Context, bool) (Turn, error) { // as package watch does
				for _, name := range []string{s.HostFile(), s.TurnFile()} {
					if st, err := os.Stat(name); err == nil && st.IsDir() {
						return nil, unix.EISDIR
					}
				}
				return countedTurn{new(int)}, nil
			}
			write := func() error {
				tx, err := s.Begin(t.Context())
				if err != nil {
					return err
				}
				_, err = tx.Load(kernel.Scope{All: true})
				return errors.Join(err, tx.Close())
			}
			next := f.next
			if next == "" {
				next = "vizier doctor --fix"
			}
			if err := write(); err == nil || !strings.Contains(err.Error(), at+": "+how) || strings.Count(err.Error(), next) != 1 {
				t.Errorf("%s, %s: %v", f.path, how, err)
			}
			odd := s.Misplaced(t.Context())
			if len(odd) != 1 || odd[0].Path != vizierDir+"/"+f.path || !strings.HasPrefix(odd[0].Text, how) || odd[0].Next != f.next || (odd[0].Fix == nil) != (f.next != "") {
				t.Errorf("%s, %s: %+v", f.path, how, odd)
				continue
			}
			if f.next != "" {
				if f.path == homeFile { // to accept the store says enough
					if err := s.Adopt(t.Context()); err != nil {
						t.Error(err)
					}
				} else {
					continue
				}
			} else if err := odd[0].Fix(); err != nil {
				t.Errorf("%s, %s: %v", f.path, how, err)
			}
			rec, err := s.Read(t.Context(), kernel.Scope{All: true})
			if err := errors.Join(err, write()); err != nil || len(rec.Jobs) != 1 {
				t.Errorf("%s, %s: afterwards %v, %v", f.path, how, rec, err)
			}
			aside := file(dir, asideDir+"/"+strings.ReplaceAll(strings.TrimPrefix(f.path, "jobs/"), "/", ".")+".1")
			if _, err := os.Lstat(aside); err != nil {
				t.Error(err)
			}
		}
	}
}

// What is in the way of the record of the scheduling host, or of its turn to write, can be moved aside; a link there is in order.
func TestWhatIsInTheWayOfAHost(t *testing.T) {
	for _, name := range []string{hostFile, turnFile} {
		dir := t.TempDir()
		s := newStore(t, dir)
		s.opts.Tracking = untracked{}
		commit(t, s, kernel.Create(plain(1)))
		for what, put := range map[string]func(string) error{
			"a directory": func(name string) error { return os.Mkdir(name, 0o700) },
			"a link":      func(name string) error { return os.Symlink("here/boot", name) },
		} {
			if err := errors.Join(os.RemoveAll(file(dir, name)), put(file(dir, name))); err != nil {
				t.Fatal(err)
			}
			odd := s.Misplaced(t.Context())
			if what == "a link" {
				if len(odd) > 0 {
					t.Errorf("%s, %s: %+v", name, what, odd)
				}
				continue
			}
			if len(odd) != 1 || odd[0].Path != vizierDir+"/"+name || odd[0].Fix == nil {
				t.Fatalf("%s, %s: %+v", name, what, odd)
			}
			if err := odd[0].Fix(); err != nil || len(s.Misplaced(t.Context())) > 0 {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

// Of a store that can only be read, the error of a change says so. It can be read all the same.
func TestAChangeOfAReadOnlyStoreSaysSo(t *testing.T) {
	for _, why := range []error{unix.EROFS, unix.EACCES} {
		dir := t.TempDir()
		s, d := newStore(t, dir), &readOnlyDisk{disk: machine{}, why: why}
		j := plain(1)
		commit(t, s, kernel.CreateJob{Job: &j})
		if err := errors.Join(s.Close(), os.Remove(file(dir, markFile))); err != nil {
			t.Fatal(err)
		}
		s = newStore(t, dir)
		s.disk = d
		_, err := s.Begin(t.Context())
		if !errors.Is(err, why) || !strings.HasPrefix(err.Error(), "the store "+filepath.Join(dir, vizierDir)+" is read-only for you") {
			t.Errorf("%v", err)
		}
		if rec, err := s.Read(t.Context(), kernel.Scope{All: true}); err != nil || len(rec.Jobs) != 1 {
			t.Errorf("%v: %+v, %v", why, rec, err)
		}
	}
}

// Nothing is put on record that cannot be written out, as where nobody may make a job's directory.
func TestAStoreInWhichNoJobCanBeMade(t *testing.T) {
	dir := t.TempDir()
	s, j := newStore(t, dir), plain(1)
	commit(t, s, kernel.CreateJob{Job: &j})
	before, err := os.ReadFile(file(dir, plansFile))
	if err != nil {
		t.Fatal(err)
	}
	s = newStore(t, dir)
	s.disk = closedJobs{}
	if _, err := s.Begin(t.Context()); !errors.Is(err, unix.EACCES) || !strings.HasPrefix(err.Error(), "the store "+filepath.Join(dir, vizierDir)+" is read-only for you") {
		t.Errorf("%v", err)
	}
	if rec, err := s.Read(t.Context(), kernel.Scope{All: true}); err != nil || len(rec.Jobs) != 1 {
		t.Errorf("%+v, %v", rec, err)
	}
	if after, err := os.ReadFile(file(dir, plansFile)); err != nil || !bytes.Equal(after, before) {
		t.Errorf("%v; the journal has %d bytes, %d before", err, len(after), len(before))
	}
}

// closedJobs lets nobody write to the directory of the jobs.
type closedJobs struct{ machine }

func (closedJobs) mayWrite(_ int, name string) error {
	if name == jobsDir {
		return unix.EACCES
	}
	return nil
}

// readOnlyDisk lets nothing be created or opened for writing.
type readOnlyDisk struct {
	disk
	why error
}

func (d *readOnlyDisk) create(int, string, int) (int, error) { return -1, d.why }
