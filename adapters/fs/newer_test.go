package fs

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/kernel"
)

// newerEntry returns an entry of a newer version: job 1 gets the reason "newer", and
// change adds more.
func newerEntry(t *testing.T, s *Store, change func(*entry)) entry {
	t.Helper()
	b, err := s.entryOf(kernel.Plan{Records: []kernel.RecordAction{put(plain(1), func(st *kernel.State) { st.Reason = "newer" })}})
	if err != nil {
		t.Fatal(err)
	}
	change(&b.e)
	return b.e
}

// If a newer version left work that this version does not know, this version changes
// nothing but can still read. Nothing of the work is lost: the newer version finds it
// as it was.
func TestJournalOfANewerVersion(t *testing.T) {
	const action, files, done = 0, 1, 2 // how far the newer version came: to the journal, the files or the end
	for name, c := range map[string]struct {
		change func(*entry)
		came   int
		boot   string
		free   bool // this version may change the store
	}{
		"an action, in the journal alone":  {teleport, action, "", false},
		"an action, the files are written": {teleport, files, "", false},
		"an action, after another boot":    {teleport, files, "boot-2", false},
		"an action that was done":          {teleport, done, "", true},
		"another type of a field":          {func(e *entry) { e.world = []named{{"kernel.Stop", []byte(`{"Attempt":"x"}`)}} }, files, "", false},
		"a file operation": {func(e *entry) {
			e.groups[0].ops = append(e.groups[0].ops, fileOp{kind: numOpKinds, path: "x"})
		}, action, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := newStore(t, dir)
			commit(t, s, kernel.Create(plain(1)))
			tx := begin(t, s)
			load(t, tx)
			e := newerEntry(t, s, c.change)
			if err := tx.link(&e, false); err != nil {
				t.Fatal(err)
			}
			end, _, err := s.log.append(e, tx.pos.end)
			if err != nil {
				t.Fatal(err)
			}
			if c.came >= files {
				for _, g := range e.groups {
					if err := s.applyGroup(g); err != nil {
						t.Fatal(err)
					}
				}
				tx.pos.start, tx.pos.end, tx.pos.done = tx.pos.end, end, c.came == done
				if err := s.log.setPosition(tx.pos); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(tx.unlock(), s.Close()); err != nil {
				t.Fatal(err)
			}

			o := options()
			if c.boot != "" {
				o.Boot = c.boot
			}
			journal := contentOf(t, file(dir, plansFile))
			looks := newStoreWith(t, dir, o)
			for range 2 { // the first read changes nothing for the second
				for _, s := range []*Store{newStoreWith(t, dir, o), looks} {
					if got := find(t, read(t, s), id(1)).State.Reason; got != "newer" {
						t.Errorf("looking finds %q", got)
					}
					if c.came == action && s.cache != nil { // it would be ahead of the files
						t.Error("what only the journal has is remembered")
					}
				}
				s := newStoreWith(t, dir, o)
				tx, err := s.Begin(context.Background())
				if c.free {
					if err != nil {
						t.Fatal(err)
					}
					closeTx(t, tx)
					return
				}
				if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "written by a newer vizier") {
					t.Fatalf("it may change: %v", err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(journal, contentOf(t, file(dir, plansFile))); d != "" {
				t.Errorf("the journal is another:\n%s", d)
			}
			if p, _, err := (&journalReader{t, dir, o}).position(); err != nil || p.done && p.end == end {
				t.Errorf("it counts as done: %+v %v", p, err)
			}
		})
	}
}

func teleport(e *entry) {
	e.world = []named{{"kernel.Launch", []byte(`{"Attempt":{"Job":"` + string(id(1)) + `","N":1}}`)}, {"kernel.Teleport", []byte(`{"To":"mars"}`)}}
}

// journalReader reads the mark of a store that no process has open.
type journalReader struct {
	t   *testing.T
	dir string
	o   Options
}

func (r *journalReader) position() (position, bool, error) {
	s := newStoreWith(r.t, r.dir, r.o)
	if err := s.open(false); err != nil {
		return position{}, false, err
	}
	if err := s.openJournal(); err != nil {
		return position{}, false, err
	}
	return s.log.position()
}

// A record of a later format is known as such, whatever the format has made of its fields.
func TestARecordOfALaterFormat(t *testing.T) {
	for text, newer := range map[string]bool{`{"version":99,"id":7}`: true, `{"version":1,"id":7}`: false} {
		if _, _, err := decodeRecord(id(1), []byte(text)); err == nil || errors.Is(err, ErrNewer) != newer {
			t.Errorf("%s: %v", text, err)
		}
	}
}
