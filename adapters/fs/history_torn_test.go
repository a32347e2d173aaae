package fs

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// reboots ends the process; the next one is of another boot.
func (l *livedStore) reboots() {
	l.t.Helper()
	if err := l.s.Close(); err != nil {
		l.t.Fatal(err)
	}
	mark := file(l.dir, markFile)
	writeAt(l.t, mark, strings.Replace(contentOf(l.t, mark), `"boot-1"`, `"boot-0"`, 1))
}

// zeroed overwrites the journal from an offset on with zeros, as a power failure leaves a file that had grown.
func (l *livedStore) zeroed(from int64) {
	l.t.Helper()
	name := file(l.dir, plansFile)
	info, err := os.Stat(name)
	if err == nil {
		err = errors.Join(os.Truncate(name, from), os.Truncate(name, info.Size()))
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// told returns what a verification by another process finds, and all that is amiss.
func (l *livedStore) told() (texts []string) {
	l.t.Helper()
	v, err := newStore(l.t, l.dir).VerifyHistory(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	for _, f := range v.Findings {
		texts = append(texts, f.Kind+": "+f.Text)
	}
	return texts
}

// If a power failure tore the first entry of the journal, and records tell of it, that is a loss. Its number is given to no other
// entry, and nobody is accused of anything.
func TestALossFromTheFirstEntryOn(t *testing.T) {
	for _, c := range []struct{ sealed, look bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		l, want := newLivedStore(t), FoundGap+": "+lostEntries(3).Text
		if !c.sealed {
			l, want = emptyStore(t), FoundGap+": "+lostEntries(0).Text
			l.submit(1)
			l.submit(2, 1)
		}
		l.reboots()
		l.zeroed(0)
		tells := func(when string) {
			told := l.told()
			if len(told) == 0 || told[0] != want || slices.ContainsFunc(told, func(s string) bool { return !strings.HasPrefix(s, FoundGap) }) {
				t.Errorf("%+v, %s: %q, want %q", c, when, told, want)
			}
		}
		if c.look {
			tells("at once")
		}
		l.submit(7)
		tells("after a commit")
		l.seal(func() { l.submit(8) })
		tells("later")
	}
}

// In a store that does not sync, a power failure may lose entries whose records it keeps, and the mark that knew of them.
func TestALossThatTheMarkDoesNotKnow(t *testing.T) {
	l := emptyStore(t)
	l.submit(1)
	mark, end := contentOf(t, file(l.dir, markFile)), l.s.log.last.at.end
	l.submit(2, 1)
	if err := os.WriteFile(file(l.dir, markFile), []byte(mark), 0o600); err != nil {
		t.Fatal(err)
	}
	l.reboots()
	l.zeroed(end)
	if told := l.told(); len(told) == 0 || told[0] != FoundGap+": "+lostEntries(1).Text {
		t.Errorf("%q", told)
	}
}

// A power failure that tears an entry of which no record tells loses nothing.
func TestATornEntryIsNoLoss(t *testing.T) {
	tear := func(l *livedStore) { // an entry that was being written
		l.t.Helper()
		f, err := os.OpenFile(file(l.dir, plansFile), os.O_WRONLY|os.O_APPEND, 0o600)
		if err == nil {
			_, err = f.Write(make([]byte, 100))
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			l.t.Fatal(err)
		}
	}
	for name, made := range map[string]func() *livedStore{
		"the first of a new store": func() *livedStore {
			l := emptyStore(t)
			closeTx(t, begin(t, l.s))
			return l
		},
		"the first after all was sealed": func() *livedStore {
			l := newLivedStore(t)
			tx := begin(t, l.s)
			tip, known, err := tx.tip()
			if err == nil {
				_, err = tx.startOver(tip, known)
			}
			if err != nil || l.s.log.last.at.end != 0 {
				t.Fatal(err)
			}
			closeTx(t, tx)
			return l
		},
		"a later one": func() *livedStore { return newLivedStore(t) },
		"one after an edit": func() *livedStore {
			l := newLivedStore(t)
			l.edit(1, `"exit_code": 0`, `"exit_code": 3`)
			return l
		},
		"one after one of a version without a history": func() *livedStore {
			l := newLivedStore(t)
			l.older(1, `"exit_code": 0`, `"exit_code": 3`)
			return l
		},
		"one after the only one of a version without a history": func() *livedStore {
			l := newLivedStore(t)
			if err := errors.Join(os.RemoveAll(file(l.dir, historyDir)), os.Truncate(file(l.dir, plansFile), 0)); err != nil {
				t.Fatal(err)
			}
			writeAt(t, file(l.dir, markFile), `"boot-0" 1 0 0 true false 0`+"\n")
			l.older(1, `"exit_code": 0`, `"exit_code": 3`)
			return l
		},
	} {
		l := made()
		ids, err := l.s.IDs()
		if err != nil {
			t.Fatal(err)
		}
		jobs := len(ids)
		l.reboots()
		tear(l)
		told := slices.DeleteFunc(l.told(), func(s string) bool { return !strings.HasPrefix(s, FoundGap) })
		if again := read(t, newStore(t, l.dir)); len(told) > 0 || len(again.Jobs) != jobs {
			t.Errorf("%s: %d jobs of %d, and told is %q", name, len(again.Jobs), jobs, told)
		}
	}
}
