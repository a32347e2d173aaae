package fs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// nearEverything returns what can be near, of each kind.
func nearEverything() []kernel.Near {
	return []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Due, At: t0}, {Kind: kernel.Dependents, Job: id(1)}, {Kind: kernel.Dependents, Job: id(1), Most: 2},
		{Kind: kernel.Consumers, Artifact: custom("t", "k")}, {Kind: kernel.RunConsumers, Artifact: custom("t", "k"), Run: "r"},
		{Kind: kernel.Producers, Artifact: custom("t", "k")}, {Kind: kernel.RunProducers, Artifact: custom("t", "k"), Run: "r"}, {Kind: kernel.Contenders, Key: "x", Most: 2},
		{Kind: kernel.PoolContenders, Key: "x", Most: 2}, {Kind: kernel.Line, Key: "local", Most: 2}, {Kind: kernel.Waiters, Most: 2}, {Kind: kernel.Members, Run: "r"},
		{Kind: kernel.Members, Run: "r", Most: 1}, {Kind: kernel.OnBranch, Key: "draft/p"}, {Kind: kernel.Rivals, Key: "draft/p"}, {Kind: kernel.Keyed, Key: "k"}, {Kind: kernel.Stoppers, Run: "r"}, {Kind: kernel.Handled, Job: id(1)}, {Kind: kernel.Prompts, Key: "p"},
		{Kind: kernel.Woken}, {Kind: kernel.NewestRuns, Most: 2}, {Kind: kernel.Newest, Most: 2}, {Kind: kernel.OfNumber, Number: 1}, {Kind: kernel.Outsiders}, {Kind: kernel.Readers, Key: "main"}}
}

// questions returns the ways to read a store, each with a text of its answer. If an
// answer names what could not be read, that counts as an error.
func questions() map[string]func(*Store) (string, error) {
	ctx := context.Background()
	records := func(rec kernel.Records, err error) (string, error) {
		for id, why := range rec.Unreadable {
			err = errors.Join(err, fmt.Errorf("%s: %s: %w", id, why, errTold))
		}
		var text strings.Builder
		for _, j := range rec.Jobs {
			fmt.Fprintln(&text, j.ID, j.Rev, j.Spec.Name, j.State.Status, j.State.Reason)
		}
		fmt.Fprintln(&text, rec.Succeeded, rec.Counts)
		return text.String(), err
	}
	return map[string]func(*Store) (string, error){
		"all records": func(s *Store) (string, error) { return records(s.Read(ctx, kernel.Scope{All: true})) },
		"a record": func(s *Store) (string, error) {
			return records(s.Read(ctx, kernel.Scope{Near: []kernel.Near{{Kind: kernel.Itself, Job: id(2)}, {Kind: kernel.Itself, Job: id(3)}}}))
		},
		"records near something": func(s *Store) (string, error) {
			var all strings.Builder
			var errs error
			for _, n := range nearEverything() {
				text, err := records(s.Read(ctx, kernel.Scope{Near: []kernel.Near{n}, Tally: []kernel.Number{1}, Reads: true}))
				fmt.Fprintln(&all, n.Kind, text)
				errs = errors.Join(errs, err)
			}
			return all.String(), errs
		},
		"the records in a transaction": func(s *Store) (string, error) {
			tx, err := s.Begin(ctx)
			if err != nil {
				return "", err
			}
			text, err := records(tx.Load(kernel.Scope{All: true}))
			return text, errors.Join(err, tx.Close())
		},
		"what changed": func(s *Store) (string, error) {
			_, now, _ := s.Changed(JournalOffset{})
			ids, now, told := s.Changed(JournalOffset{epoch: now.epoch})
			if !told {
				return "", errTold
			}
			return fmt.Sprint(ids, now), nil
		},
		"the ids": func(s *Store) (string, error) {
			ids, err := s.IDs()
			return fmt.Sprint(len(ids)), err
		},
		"events for hooks": func(s *Store) (string, error) {
			events, err := s.Pending()
			return fmt.Sprint(events), err
		},
		"the history": func(s *Store) (string, error) {
			var text strings.Builder
			err := s.History(ctx, func(kernel.JobID, []byte) bool { return true }, func(e HistoryEntry) error {
				_, err := fmt.Fprintln(&text, e.Entry, e.Asked, e.Changes)
				return err
			})
			return text.String(), err
		},
		"the past": func(s *Store) (string, error) {
			p, err := s.PastAt(ctx, Moment{Entry: 2})
			if err != nil {
				return "", err
			}
			defer p.Close()
			text, err := records(p.Read(ctx, kernel.Scope{All: true}))
			return fmt.Sprint(p.Entry, text), err
		},
		"whether the history is whole": func(s *Store) (string, error) {
			v, err := s.VerifyHistory(ctx)
			edited := false
			for _, f := range v.Findings {
				switch {
				case f.Kind == FoundNoReason: // these commits have no account
				case f.Kind == FoundEdit && f.Job == id(2):
					edited = true
				default:
					err = errors.Join(err, fmt.Errorf("%s: %w", f.Text, errTold))
				}
			}
			return fmt.Sprint(v.First, v.Last, v.Decisions, v.Tip, edited), err
		},
		"whether the records are valid": func(s *Store) (string, error) {
			problems, n, err := s.Validate(ctx)
			for _, p := range problems {
				err = errors.Join(err, fmt.Errorf("%v: %w", p, errTold))
			}
			return fmt.Sprint(n), err
		},
		"attempts": func(s *Store) (string, error) {
			all, err := s.Attempts(id(2))
			return fmt.Sprint(all), err
		},
		"a payload": func(s *Store) (string, error) {
			b, err := s.Payload(id(2), custom("t", "k"))
			return string(b), err
		},
	}
}

// errTold is wrapped by the errors that an answer itself reports.
var errTold = errors.New("the answer says so")

// Whichever open or read of a file fails, for example since a process may open no more files,
// the answer is right or reports an error. No read loses a file.
func TestWhicheverOpenOrReadFailsAnAnswerSaysSo(t *testing.T) {
	oneGoroutine(t)
	for name, ask := range questions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			again := func() (string, *Store, *faulty) {
				dir, s, d := faultyStore(t)
				for n, limit := range []int64{0, 1 << 30} { // one entry is sealed, and one is not
					tx := begin(t, s)
					load(t, tx)
					s.log.limit = limit
					if err := tx.Commit(kernel.NewPlan(put(plain(3+n), func(st *kernel.State) { st.Reason, st.Status = "again", kernel.Succeeded }))); err != nil {
						t.Fatal(err)
					}
					if err := tx.Done(); err != nil {
						t.Fatal(err)
					}
					closeTx(t, tx)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				path := s.RecordFile(id(2)) // one was edited by hand
				writeAt(t, path, strings.Replace(contentOf(t, path), `"job 2"`, `"edited"`, 1))
				fresh := newStore(t, dir)
				fresh.disk = d
				return dir, fresh, d
			}
			dir, s, d := again()
			before := d.n
			want, err := ask(s)
			if err != nil {
				t.Fatal(err)
			}
			calls, kept := d.n-before, lasting(t, dir)
			if calls == 0 {
				t.Fatal("no call of the disk")
			}
			for k := 1; k <= calls; k++ {
				dir, s, d := again()
				d.at = d.n + k
				got, err := ask(s)
				if d.where == "" {
					t.Errorf("call %d of %d never came", k, calls)
				}
				if err == nil && got != want {
					t.Errorf("%s fails, and the answer is\n%s\nand not\n%s", d.where, got, want)
				}
				if err != nil && !errors.Is(err, unix.EIO) && !errors.Is(err, errTold) {
					t.Errorf("%s fails: %v", d.where, err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if after := lasting(t, dir); len(after) != len(kept) {
					t.Errorf("%s fails, and %d files are left of %d", d.where, len(after), len(kept))
				}
			}
		})
	}
}
