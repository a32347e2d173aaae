package fs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// alive is an executor whose attempts all have a live runner.
type alive struct{}

func (alive) Start(context.Context, kernel.AttemptID) error { return nil }
func (alive) Alive(_ context.Context, all []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	out := map[kernel.AttemptID]kernel.Fact[kernel.Runner]{}
	for _, a := range all {
		out[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Alive})
	}
	return out
}
func (alive) Stop(context.Context, kernel.AttemptID) error  { return nil }
func (alive) Sweep(context.Context, kernel.AttemptID) error { return nil }

// livedStore is a store with a history.
type livedStore struct {
	t   testing.TB
	dir string
	s   *Store
	app *app.Scheduler
}

func emptyStore(t testing.TB) *livedStore {
	l := &livedStore{t: t, dir: t.TempDir()}
	o := options()
	o.Program = "1.0"
	at := t0.Add(time.Hour)
	o.Now = func() time.Time { at = at.Add(time.Second); return at }
	l.s = newStoreWith(t, l.dir, o)
	l.app = &app.Scheduler{Store: process{l.s}, Executor: alive{}, Observers: []app.Observer{l.s}, Now: o.Now, Limits: kernel.Limits{MaxRunning: 2}}
	return l
}

// newLivedStore returns a store with a history of a few entries, half of them sealed: jobs
// that ran one after the other, and one that was approved.
func newLivedStore(t testing.TB) *livedStore {
	l := emptyStore(t)
	l.submit(1)
	l.submit(2, 1)
	l.end(1, kernel.OutcomeSucceeded)
	l.s.log.limit = 1 // the next commit seals
	l.ask(kernel.NewJob{ID: id(3), Spec: plain(3).Spec, Approval: kernel.Require(t0, "ann")})
	l.s.log.limit = checkpointSize
	l.end(2, kernel.OutcomeFailed)
	if _, err := l.app.Approve(t.Context(), id(3), kernel.Consent{By: "bob"}); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *livedStore) submit(n int, after ...int) {
	sp := plain(n).Spec
	for _, m := range after {
		sp.After = append(sp.After, id(m))
	}
	l.ask(kernel.NewJob{ID: id(n), Spec: sp})
}

func (l *livedStore) ask(n kernel.NewJob) {
	l.t.Helper()
	if _, err := l.app.Submit(l.t.Context(), []kernel.NewJob{n}, "ann"); err != nil {
		l.t.Fatal(err)
	}
}

func (l *livedStore) end(n int, how kernel.Outcome) {
	l.t.Helper()
	r := kernel.Result{Attempt: kernel.AttemptID{Job: id(n), N: 1}, Outcome: how, Started: t0, Ended: t0}
	if how == kernel.OutcomeFailed {
		r.Exit, r.Class = 1, kernel.ExitFailure
	}
	if _, err := l.app.Finish(l.t.Context(), r); err != nil {
		l.t.Fatal(err)
	}
}

// edit changes the record of a job by hand.
func (l *livedStore) edit(n int, old, text string) {
	l.t.Helper()
	name := l.s.RecordFile(id(n))
	b, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(b), old) {
		l.t.Fatalf("%v: no %s in %s", err, old, b)
	}
	if err := os.WriteFile(name, []byte(strings.ReplaceAll(string(b), old, text)), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// kinds returns the kinds of the findings of a verification by another process.
func (l *livedStore) kinds() (out []string) {
	l.t.Helper()
	v, err := newStore(l.t, l.dir).VerifyHistory(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	for _, f := range v.Findings {
		out = append(out, f.Kind)
	}
	return out
}

func (l *livedStore) finds(want ...string) {
	l.t.Helper()
	if got := l.kinds(); !slices.Equal(got, want) {
		v, err := newStore(l.t, l.dir).VerifyHistory(l.t.Context())
		l.t.Fatalf("found %v, want %v: %+v, %v", got, want, v, err)
	}
}

func TestHistoryIsVerified(t *testing.T) {
	l := newLivedStore(t)
	v, err := newStore(t, l.dir).VerifyHistory(t.Context())
	if err != nil || len(v.Findings) > 0 || v.First != 1 || v.Last != 6 || v.Decisions != 6 {
		t.Fatalf("%+v, %v", v, err)
	}
	var told []string
	err = newStore(t, l.dir).History(t.Context(), func(kernel.JobID, []byte) bool { return true }, func(h HistoryEntry) error {
		told = append(told, h.Asked[0].Verb+" "+h.Asked[0].By+" "+h.Changes[len(h.Changes)-1].To)
		return nil
	})
	if want := []string{"submit ann running", "submit ann waiting_on_deps", "finish  running", "submit ann waiting_on_approval",
		"finish  failed", "approve bob running"}; err != nil || !slices.Equal(told, want) {
		t.Errorf("told %q, %v", told, err)
	}
}

// Another host, for which the mark means nothing and which may not write now, can still verify
// the whole history.
func TestHistoryOfAnotherHost(t *testing.T) {
	l := newLivedStore(t)
	o := options()
	o.Boot, o.Admit = "boot-2", func(context.Context, bool) (Turn, error) { return nil, errors.New("another host is at it") }
	v, err := newStoreWith(t, l.dir, o).VerifyHistory(t.Context())
	if err != nil || len(v.Findings) > 0 || v.First != 1 || v.Last != 6 {
		t.Fatalf("%+v, %v", v, err)
	}
}

func TestHistoryNamesWhatWasChangedByHand(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*livedStore)
		want []string
	}{
		"a record": {func(l *livedStore) { l.edit(1, `"exit_code": 0`, `"exit_code": 3`) }, []string{FoundEdit}},
		"a record that the store goes on with": {func(l *livedStore) {
			l.edit(1, `"exit_code": 0`, `"exit_code": 3`)
			l.submit(4, 1)
		}, []string{FoundEdit}},
		"a record that is gone": {func(l *livedStore) {
			if err := os.RemoveAll(l.s.JobDir(id(1))); err != nil {
				l.t.Fatal(err)
			}
		}, []string{FoundEdit}},
		"an approval": {func(l *livedStore) {
			l.ask(kernel.NewJob{ID: id(4), Spec: plain(4).Spec, Approval: kernel.Require(t0, "ann")})
			l.edit(4, `"state": "pending"`, `"state": "approved"`)
			l.submit(5)
		}, []string{FoundForgery}},
		"an approval that nobody noticed": {func(l *livedStore) {
			l.ask(kernel.NewJob{ID: id(4), Spec: plain(4).Spec, Approval: kernel.Require(t0, "ann")})
			l.edit(4, `"state": "pending"`, `"state": "approved"`)
		}, []string{FoundForgery}},
		"the end of the journal": {func(l *livedStore) {
			l.submit(4)
			plans := filepath.Join(l.dir, vizierDir, plansFile)
			st, err := os.Stat(plans)
			if err != nil {
				l.t.Fatal(err)
			}
			l.end(4, kernel.OutcomeSucceeded)
			if err := os.Truncate(plans, st.Size()); err != nil {
				l.t.Fatal(err)
			}
		}, []string{FoundGap, FoundGap}}, // the journal is short, and the record newer
		"a sealed segment that is gone": {func(l *livedStore) {
			if err := os.Remove(filepath.Join(l.dir, vizierDir, segment{first: 1}.file())); err != nil {
				l.t.Fatal(err)
			}
		}, []string{FoundGap}}, // the entries after it are not reported
		"a record, where a sealed segment is gone": {func(l *livedStore) {
			if err := os.Remove(filepath.Join(l.dir, vizierDir, segment{first: 1}.file())); err != nil {
				l.t.Fatal(err)
			}
			l.edit(3, `"state": "approved"`, `"state": "rejected"`)
		}, []string{FoundGap, FoundEdit}},
		"a record, where a sealed segment is damaged": {func(l *livedStore) {
			name := filepath.Join(l.dir, vizierDir, segment{first: 1}.file())
			b, err := os.ReadFile(name)
			if err != nil {
				l.t.Fatal(err)
			}
			writeAt(l.t, name, string(b[:len(b)-1]))
			l.edit(3, `"state": "approved"`, `"state": "rejected"`)
			told := 0
			err = l.s.History(l.t.Context(), func(kernel.JobID, []byte) bool { return true }, func(HistoryEntry) error { told++; return nil })
			if _, damaged := errors.AsType[*SegmentError](err); told != 3 || !damaged {
				l.t.Errorf("told %d entries, %v", told, err)
			}
		}, []string{FoundDamage, FoundEdit}},
		"a sealed segment, where the journal has nothing": {func(l *livedStore) {
			l.seal(func() { l.submit(4) })
			files, err := l.s.segments()
			if err != nil || len(files) < 2 {
				l.t.Fatal(len(files), err)
			}
			name := filepath.Join(l.dir, vizierDir, files[len(files)-1].file())
			b, err := os.ReadFile(name)
			if err != nil {
				l.t.Fatal(err)
			}
			writeAt(l.t, name, string(b[:len(b)-1]))
			writeAt(l.t, filepath.Join(l.dir, vizierDir, plansFile), "")
		}, []string{FoundDamage}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLivedStore(t)
			c.do(l)
			l.finds(c.want...)
		})
	}
}

// A finding says what is on record and what the history led to.
func TestAFindingHasBothSides(t *testing.T) {
	for name, use := range map[string]func(*livedStore){"nobody noticed": func(*livedStore) {}, "the store goes on": func(l *livedStore) { l.submit(4, 1) }} {
		l := newLivedStore(t)
		l.edit(1, `"exit_code": 0`, `"exit_code": 3`)
		use(l)
		v, err := newStore(t, l.dir).VerifyHistory(t.Context())
		if err != nil || len(v.Findings) != 1 || !strings.HasSuffix(v.Findings[0].Recorded, "exit_code 3") || !strings.HasSuffix(v.Findings[0].Decided, "exit_code 0") {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}

// A verification gives up after so many findings, which is no error.
func TestAVerificationOfTooManyEdits(t *testing.T) {
	l := emptyStore(t)
	var all []kernel.NewJob
	for n := 1; n <= maxFindings+1; n++ {
		all = append(all, kernel.NewJob{ID: id(n), Spec: plain(n).Spec, Approval: kernel.Require(t0, "ann")})
	}
	if _, err := l.app.Submit(t.Context(), all, "ann"); err != nil {
		t.Fatal(err)
	}
	for n := range all {
		l.edit(n+1, "job "+strconv.Itoa(n+1), "edited")
	}
	l.submit(len(all) + 1)
	last := l.verified().Last
	l.submit(len(all) + 2)
	if v := l.verified(); v.Last != last || len(v.Findings) < maxFindings {
		t.Errorf("it goes to entry %d with %d findings", v.Last, len(v.Findings))
	}
}

// verified returns a verification by another process.
func (l *livedStore) verified() Verification {
	l.t.Helper()
	v, err := newStore(l.t, l.dir).VerifyHistory(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return v
}

// A change without an account has no reason. A commit that changes no record needs none.
func TestAChangeThatNothingDecided(t *testing.T) {
	for name, c := range map[string]struct {
		plan []kernel.Action
		want []string
	}{
		"a new record":     {[]kernel.Action{kernel.Create(plain(2))}, []string{FoundNoReason}},
		"a removed record": {[]kernel.Action{kernel.RemoveJob{Job: id(1)}}, []string{FoundNoReason}},
		"neither":          {[]kernel.Action{kernel.Announce{Event: kernel.Event{At: t0, Job: id(1), Kind: kernel.JobSucceeded}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := emptyStore(t)
			l.submit(1)
			commit(t, l.s, c.plan...)
			l.finds(c.want...)
		})
	}
}

// The verification repeats a decision that led from job to job along a chain, however long the chain.
func TestHistoryVerifiesALongChain(t *testing.T) {
	for _, length := range []int{20, 61, 100} {
		t.Run(strconv.Itoa(length), func(t *testing.T) {
			l := emptyStore(t)
			chain := []kernel.NewJob{{ID: id(1), Spec: plain(1).Spec, Approval: kernel.Require(t0, "ann")}}
			chain[0].Spec.Produces = []kernel.Artifact{custom("t", "k1")}
			for n := 2; n <= length+1; n++ {
				sp := plain(n).Spec
				sp.Needs, sp.Produces = []kernel.Artifact{custom("t", fmt.Sprint("k", n-1))}, []kernel.Artifact{custom("t", fmt.Sprint("k", n))}
				chain = append(chain, kernel.NewJob{ID: id(n), Spec: sp})
			}
			if _, err := l.app.Submit(t.Context(), chain, "ann"); err != nil {
				t.Fatal(err)
			}
			if _, err := l.app.Cancel(t.Context(), id(5), "ann", false); err != nil {
				t.Fatal(err)
			}
			if j := recordsOf(t, l.s).Jobs[length]; j.State.Status != kernel.BlockedByDependency {
				t.Fatalf("the end of the chain is %v", j.State.Status)
			}
			l.finds()
		})
	}
}

// A change of any byte of the history is found.
func TestHistoryRefusesEveryChangedByte(t *testing.T) {
	oneGoroutine(t)
	l := emptyStore(t)
	l.ask(kernel.NewJob{ID: id(1), Spec: plain(1).Spec, Approval: kernel.Require(t0, "ann")})
	l.s.log.limit = 1 // the next commit seals
	if _, err := l.app.Reject(t.Context(), id(1), kernel.Refusal{By: "bob"}); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, l.dir)
	for _, name := range []string{segment{first: 1}.file(), plansFile} {
		name = filepath.Join(l.dir, vizierDir, name)
		was, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for at, b := range was {
			if _, err := f.WriteAt([]byte{b ^ 1<<(at%8)}, int64(at)); err != nil {
				t.Fatal(err)
			}
			v, err := s.VerifyHistory(t.Context())
			if err != nil || len(v.Findings) == 0 {
				t.Fatalf("%s: byte %d of %d was changed: %+v, %v", name, at, len(was), v, err)
			}
			if _, err := f.WriteAt([]byte{b}, int64(at)); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l.finds()
}

// If this version of the program decides an entry otherwise, that is a sign of a change by
// hand only if this version wrote the entry.
func TestHistoryTellsAnUpgradeFromDamage(t *testing.T) {
	l := newLivedStore(t)
	name := filepath.Join(l.dir, vizierDir, plansFile)
	journal, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var last *pastEntry
	start := len(journal)
	for at := 0; at < len(journal); {
		start = at
		at += 8 + int(binary.LittleEndian.Uint32(journal[at:]))
		if err := eachEntry(journal[start:at], name, nil, func(e *pastEntry) error { last = e; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range last.groups {
		last.groups[i].record = bytes.ReplaceAll(last.groups[i].record, []byte(`"bob"`), []byte(`"eve"`))
	}
	l.edit(3, `"bob"`, `"eve"`)
	account := last.account
	for program, want := range map[string]Finding{
		"0.9": {Kind: FoundUpgrade, Text: "version 0.9 decided otherwise than this one does"},
		"1.0": {Kind: FoundOtherwise, Text: "this version decides otherwise from the same records and facts"},
	} {
		last.account = bytes.Replace(account, []byte(`"program":"1.0"`), []byte(`"program":"`+program+`"`), 1)
		b, err := last.encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, append(journal[:start:start], b...), 0o600); err != nil {
			t.Fatal(err)
		}
		o := options()
		o.Program = "1.0"
		v, err := newStoreWith(t, l.dir, o).VerifyHistory(t.Context())
		if err != nil || len(v.Findings) != 1 {
			t.Fatalf("%+v, %v", v, err)
		}
		if f := v.Findings[0]; f.Kind != want.Kind || f.Text != want.Text || f.Harmless() != (program == "0.9") || f.Entry != 6 ||
			!strings.Contains(f.Recorded, "eve") || !strings.Contains(f.Decided, "bob") {
			t.Errorf("an entry of version %s: %+v", program, f)
		}
	}
}

// A segment that is damaged or of a later version does not stop the store.
func TestTheStoreGoesOnWithADamagedHistory(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"damaged":       {"vizier history 1\n{}\n", "was changed, or is damaged"},
		"empty":         {"", "was changed, or is damaged"},
		"of the future": {"vizier history 2\nwhatever", "history format 2: written by a newer vizier"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLivedStore(t)
			if err := os.WriteFile(filepath.Join(l.dir, vizierDir, segment{first: 1}.file()), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			l.submit(4)
			l.s.log.limit = 1
			l.submit(5)
			l.end(4, kernel.OutcomeSucceeded)
			l.finds(FoundDamage)
			v, err := l.s.VerifyHistory(t.Context())
			if err != nil || !strings.Contains(v.Findings[0].Text, c.says) || !strings.Contains(v.Findings[0].Text, ".vizier/jobs/history/000000000001.segment") {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// A verification reports a damaged entry at the end of the journal as lost, also after later
// commits have sealed the entries before it: it must not hide a forged approval.
func TestADamagedLastEntryIsMissed(t *testing.T) {
	for name, older := range map[string]bool{"the last": false, "the one before an earlier version's": true} {
		for _, sealed := range []bool{true, false} {
			t.Run(fmt.Sprint(name, sealed), func(t *testing.T) {
				l := emptyStore(t)
				l.submit(1)
				submit := func() {
					l.ask(kernel.NewJob{ID: id(2), Spec: plain(2).Spec, Approval: kernel.Require(t0, "ann")})
				}
				last := uint64(1)
				if sealed { // then the journal has no entry before the damaged one
					l.seal(submit)
				} else {
					submit()
				}
				journal := filepath.Join(l.dir, vizierDir, plansFile)
				b := []byte(contentOf(t, journal))
				b[len(b)-40] ^= 255
				if err := l.s.Close(); err != nil {
					t.Fatal(err)
				}
				writeAt(t, journal, string(b))
				l.finds(FoundDamage)
				l.edit(2, `"state": "pending"`, `"state": "approved"`)
				l.edit(2, `"revision": 1`, `"revision": 2`)
				if older {
					l.older(1, `"name": "`, `"name": "x`)
				}
				misses := func(when string) {
					t.Helper()
					v, err := newStore(t, l.dir).VerifyHistory(t.Context())
					if err != nil || !slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Text == lostEntries(last).Text && !f.Harmless() }) ||
						!slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Job == id(2) && strings.Contains(f.Text, "approval") && !f.Harmless() }) {
						t.Errorf("%s: %+v, %v", when, v, err)
					}
				}
				l.submit(3)
				misses("after a commit")
				l.seal(func() { l.submit(4) })
				misses("later")
				if p := l.pastAt(Moment{}); p.Entry != last+2 {
					t.Errorf("the last entry is %d", p.Entry)
				}
			})
		}
	}
}

// A forged approval is reported even if another record of the same entry differs.
func TestAForgedApprovalIsNamedAmongOtherDifferences(t *testing.T) {
	l := emptyStore(t)
	l.submit(1)
	l.ask(kernel.NewJob{ID: id(3), Spec: plain(3).Spec, Approval: kernel.Require(t0, "ann")})
	if err := l.s.Close(); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(l.dir, vizierDir, plansFile)
	b := []byte(contentOf(t, journal))
	b[len(b)-40] ^= 255
	writeAt(t, journal, string(b))
	l.edit(3, `"state": "pending"`, `"state": "approved"`)
	if err := os.Remove(filepath.Join(l.dir, vizierDir, markFile)); err != nil { // then the entry looks as if a power cut had left it
		t.Fatal(err)
	}
	l.submit(2)
	v, err := newStore(t, l.dir).VerifyHistory(t.Context())
	if err != nil || !slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Kind == FoundForgery && f.Job == id(3) }) {
		t.Errorf("%+v, %v", v, err)
	}
}

// A history that cannot be continued or written does not stop the store: it begins anew,
// at once or as soon as it can be written.
func TestTheStoreGoesOnWithoutAHistory(t *testing.T) {
	journal := func(l *livedStore) string { return filepath.Join(l.dir, vizierDir, plansFile) }
	for name, damage := range map[string]func(*livedStore) error{
		"the last entry is damaged": func(l *livedStore) error {
			b, err := os.ReadFile(journal(l))
			if err != nil {
				return err
			}
			b[len(b)-40] ^= 255
			return os.WriteFile(journal(l), b, 0o600)
		},
		"a file is in its place": func(l *livedStore) error {
			dir := filepath.Join(l.dir, vizierDir, historyDir)
			return errors.Join(os.Truncate(journal(l), 0), os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLivedStore(t)
			if err := l.s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := damage(l); err != nil {
				t.Fatal(err)
			}
			l.submit(4)
			l.submit(5)
			l.end(4, kernel.OutcomeSucceeded)
		})
	}
}

// The history of a store that an earlier version wrote begins with its records as they are.
func TestHistoryBeginsWithWhatIsThere(t *testing.T) {
	l := newLivedStore(t)
	if err := os.RemoveAll(filepath.Join(l.dir, vizierDir, historyDir)); err != nil {
		t.Fatal(err)
	}
	forceCheckpoint(t, l.dir)
	if err := l.s.Close(); err != nil {
		t.Fatal(err)
	}
	l.submit(4, 3)
	l.end(3, kernel.OutcomeSucceeded)
	l.finds()
	v, err := l.s.VerifyHistory(t.Context())
	if err != nil || v.First != 1 || v.Decisions != 2 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A record that could not be read when the history began stays unreadable in the past until
// the entry that repairs it. It stops no verification, milestone or export of other jobs.
func TestHistoryBeginsWithAnUnreadableRecord(t *testing.T) {
	l := newLivedStore(t)
	name := l.s.RecordFile(id(1))
	good := contentOf(t, name)
	if err := errors.Join(l.s.Close(), os.RemoveAll(filepath.Join(l.dir, vizierDir, journalDir)), os.RemoveAll(filepath.Join(l.dir, vizierDir, historyDir))); err != nil {
		t.Fatal(err)
	}
	writeAt(t, name, "{trash")
	l.submit(4)
	first := []string{FoundGap} // the journal was deleted
	l.finds(first...)
	unread := func(entry uint64, want bool) {
		t.Helper()
		if _, is := recordsOf(t, l.pastAt(Moment{Entry: entry})).Unreadable[id(1)]; is != want {
			t.Errorf("at entry %d job 1 is unreadable: %v", entry, is)
		}
	}
	unread(1, true)
	none := func(context.Context, []string) ([]EvidenceCommit, error) { return nil, nil }
	if b, err := l.s.Export(t.Context(), "4", []kernel.JobID{id(4)}, none); err != nil {
		t.Error(err)
	} else if _, v, err := VerifyEvidence(t.Context(), "", b); err != nil || v.Decisions != 1 || len(v.Findings) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	l.seal(func() { l.submit(5) })
	l.forgetMilestones()
	if err := l.s.TrimHistory(t.Context()); err != nil || len(l.s.milestones()) == 0 {
		t.Fatalf("%v, milestones %v", err, l.s.milestones())
	}
	unread(2, true)
	l.finds(first...)
	writeAt(t, name, good)
	l.submit(6)
	unread(3, false)
	unread(2, true)
	l.finds(append(first, FoundEdit)...)
	if got, want := recordsOf(t, l.pastAt(Moment{})), recordsOf(t, l.s); !reflect.DeepEqual(got, want) {
		t.Errorf("the past ends with\n%+v\nand there are\n%+v", got, want)
	}
}

// A trimmed history is still whole, also if the process died while it trimmed.
func TestHistoryIsTrimmed(t *testing.T) {
	for name, bounds := range map[string]struct {
		bytes int64
		age   time.Duration
		gone  bool
	}{
		"by size": {bytes: 1, gone: true}, "by age": {age: time.Millisecond, gone: true},
		"not while there is room": {bytes: 1 << 20, age: time.Hour}, "not at all": {},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLivedStore(t)
			l.submit(4)
			l.end(3, kernel.OutcomeSucceeded)
			l.s.log.limit = 1
			l.end(4, kernel.OutcomeSucceeded)
			l.s.log.limit = checkpointSize
			l.submit(5, 4)
			l.edit(1, `"exit_code": 0`, `"exit_code": 3`)
			l.submit(6, 1)
			first := filepath.Join(l.dir, vizierDir, segment{first: 1}.file())
			old, err := os.ReadFile(first)
			if err != nil {
				t.Fatal(err)
			}
			l.s.KeepHistory(bounds.bytes, bounds.age)
			for range 2 {
				if err := l.s.TrimHistory(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if l.finds(FoundEdit); bounds.gone == exists(first) {
				t.Errorf("the oldest segment is there: %v", exists(first))
			}
			if bounds.gone {
				v, err := l.s.VerifyHistory(t.Context())
				if err != nil || v.First != 4 || v.Last < 10 {
					t.Errorf("%+v, %v", v, err)
				}
				if err := os.WriteFile(first, old, 0o600); err != nil { // as if it had died in the middle
					t.Fatal(err)
				}
				l.finds(FoundEdit)
			}
		})
	}
}

// BenchmarkHistory verifies the history of as many attempts as ATTEMPTS says. It reports
// the time per entry, the processor time per commit, and the bytes of sealed files per
// attempt.
func BenchmarkHistory(b *testing.B) {
	began := cpuTime(b)
	l, attempts := attempted(b)
	took := cpuTime(b) - began
	sealed := int64(0)
	files, err := l.s.segments()
	if err != nil {
		b.Fatal(err)
	}
	for _, g := range files {
		sealed += l.s.base.stamp(g.file()).size
	}
	entries := 2*attempts + 1
	for b.Loop() {
		v, err := l.s.VerifyHistory(b.Context())
		if err != nil || len(v.Findings) > 0 || v.Decisions != entries {
			b.Fatalf("%+v, %v", v, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*entries), "µs/entry")
	b.ReportMetric(float64(took.Microseconds())/float64(2*attempts), "cpu-µs/commit")
	b.ReportMetric(float64(sealed)/float64(attempts), "sealed-B/attempt")
}

// attempted returns a store with the history of as many attempts as ATTEMPTS says, all of
// it sealed but the last entry.
func attempted(b *testing.B) (l *livedStore, attempts int) {
	b.Helper()
	attempts, err := strconv.Atoi(cmp.Or(os.Getenv("ATTEMPTS"), "1000"))
	if err != nil {
		b.Fatal(err)
	}
	l = emptyStore(b)
	for n := 1; n <= attempts; n++ {
		l.submit(n)
		l.end(n, kernel.OutcomeSucceeded)
	}
	l.seal(func() { l.submit(attempts + 1) })
	return l, attempts
}

// BenchmarkPast goes back to the middle of the history of as many attempts as ATTEMPTS
// says, and reads the jobs that were open then.
func BenchmarkPast(b *testing.B) {
	l, attempts := attempted(b)
	if err := l.s.TrimHistory(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p, err := l.s.PastAt(b.Context(), Moment{Entry: uint64(attempts)})
		if err != nil {
			b.Fatal(err)
		}
		if rec, err := p.Read(b.Context(), kernel.Scope{}); err != nil || len(rec.Jobs)+rec.Succeeded != attempts/2 {
			b.Fatalf("%d jobs and %d that succeeded, %v", len(rec.Jobs), rec.Succeeded, err)
		}
		p.Close()
	}
}

// cpuTime returns the processor time that this process has used.
func cpuTime(t testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// older writes to the job's record as an earlier version does, which keeps no history.
func (l *livedStore) older(n int, old, text string) {
	l.t.Helper()
	b, err := os.ReadFile(l.s.RecordFile(id(n)))
	if err != nil {
		l.t.Fatal(err)
	}
	j, _, err := decodeRecord(id(n), b)
	if err != nil {
		l.t.Fatal(err)
	}
	was, is := strconv.Itoa(int(j.Rev)), strconv.Itoa(int(j.Rev)+1)
	b = bytes.Replace(b, []byte(`"revision": `+was), []byte(`"revision": `+is), 1)
	e := entry{groups: []group{{job: id(n), rev: j.Rev + 1, record: bytes.Replace(b, []byte(old), []byte(text), 1)}}}
	b, err = e.encode()
	if err != nil {
		l.t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(l.dir, vizierDir, plansFile), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.Write(b)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		l.t.Fatal(err)
	}
}

// A change by an earlier version, which keeps no history, does not count as an edit by
// hand, neither before the next transaction nor after it.
func TestAnEarlierVersionWritesToTheStore(t *testing.T) {
	l := newLivedStore(t)
	l.older(2, `"exit_code": 1`, `"exit_code": 7`)
	l.finds(FoundBreach)
	if p := l.pastAt(Moment{Time: l.app.Now()}); !reflect.DeepEqual(recordsOf(t, p), recordsOf(t, l.s)) {
		t.Error("the past does not come to what is")
	}
	l.submit(4)
	l.finds(FoundBreach)
	l.older(4, `"name": "`, `"name": "x`)
	l.finds(FoundBreach, FoundBreach)
	l.edit(1, `"exit_code": 0`, `"exit_code": 3`)
	l.finds(FoundBreach, FoundBreach, FoundEdit)
}

// The history does not vouch for an approval that an earlier version wrote.
func TestAnApprovalWhileNoHistoryWasKept(t *testing.T) {
	l := emptyStore(t)
	l.ask(kernel.NewJob{ID: id(1), Spec: plain(1).Spec, Approval: kernel.Require(t0, "ann")})
	l.older(1, `"state": "pending"`, `"state": "approved"`)
	l.finds(FoundGap)
	l.submit(2)
	l.finds(FoundGap)
	l.older(1, `"name": "`, `"name": "x`)
	l.finds(FoundGap, FoundBreach)
}

// The history keeps its sealed entries even if an earlier version empties the journal.
func TestAnEarlierVersionEmptiesTheJournal(t *testing.T) {
	l := newLivedStore(t)
	l.seal(func() { l.submit(4) })
	forceCheckpoint(t, l.dir)
	if err := l.s.Close(); err != nil {
		t.Fatal(err)
	}
	l.older(1, `"exit_code": 0`, `"exit_code": 0`)
	l.submit(5)
	l.seal(func() { l.submit(6) })
	v, err := newStore(t, l.dir).VerifyHistory(t.Context())
	if err != nil || v.First != 1 || v.Last < 8 || v.Decisions < 8 {
		t.Errorf("%+v, %v", v, err)
	}
}

// The segments that open after each turn with an earlier version are trimmed like all others.
func TestOpeningsAreTrimmed(t *testing.T) {
	l := newLivedStore(t)
	for n := 4; n < 16; n++ {
		l.older(1, `"exit_code": 0`, `"exit_code": 0`)
		l.submit(n)
	}
	count := func() (n int) {
		files, err := l.s.segments()
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	if count() < 24 {
		t.Fatalf("%d files", count())
	}
	l.s.KeepHistory(1, 0)
	for range 2 {
		if err := l.s.TrimHistory(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if count() != 1 {
		t.Errorf("%d files are left", count())
	}
	l.submit(16)
	l.finds()
	l.pastAt(Moment{Time: l.app.Now()})
}

// A verification reports a deleted journal, before anything else is written and ever after.
func TestADeletedJournalIsMissed(t *testing.T) {
	journal := func(l *livedStore, name string) string { return filepath.Join(l.dir, vizierDir, name) }
	for name, remove := range map[string]func(*livedStore) error{
		"the file": func(l *livedStore) error { return os.Remove(journal(l, plansFile)) },
		"both":     func(l *livedStore) error { return os.RemoveAll(journal(l, journalDir)) },
		"emptied":  func(l *livedStore) error { return os.Truncate(journal(l, plansFile), 0) },
	} {
		for _, sealed := range []bool{true, false} {
			t.Run(name+" "+strconv.FormatBool(sealed), func(t *testing.T) {
				l := newLivedStore(t)
				if !sealed {
					l = emptyStore(t)
					l.submit(1)
					l.submit(2, 1)
				}
				if err := errors.Join(l.s.Close(), remove(l)); err != nil {
					t.Fatal(err)
				}
				lost := lostEntries(0).Text
				if sealed {
					lost = lostEntries(3).Text
				}
				misses := func(when string) {
					t.Helper()
					v, err := newStore(t, l.dir).VerifyHistory(t.Context())
					if err != nil || !slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Text == lost && !f.Harmless() }) {
						t.Errorf("%s: %+v, %v", when, v, err)
					}
				}
				misses("at once")
				if _, err := newStore(t, l.dir).Read(t.Context(), kernel.Scope{}); err != nil {
					t.Fatal(err)
				}
				misses("after a look")
				if _, err := l.app.Tick(t.Context()); err != nil {
					t.Fatal(err)
				}
				misses("after a tick")
				l.submit(7)
				l.seal(func() { l.submit(8) })
				misses("later")
			})
		}
	}
}

// If the end of a journal was cut off, at whatever byte, the entries before it stay readable. A
// verification reports the lost ones, at once and ever after, also after a new boot.
func TestAJournalThatWasCutShort(t *testing.T) {
	whole := emptyStore(t)
	whole.submit(1)
	whole.submit(2, 1)
	name := filepath.Join(vizierDir, plansFile)
	before, err := os.ReadFile(filepath.Join(whole.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	whole.end(1, kernel.OutcomeSucceeded)
	size, err := os.Stat(filepath.Join(whole.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	for k, at := range []int64{int64(len(before)), int64(len(before)) + 5, size.Size() - 1, int64(len(before)), int64(len(before)) + 5, size.Size() - 1} {
		rebooted := k >= 3
		t.Run(fmt.Sprint(at, rebooted), func(t *testing.T) {
			l := emptyStore(t)
			l.submit(1)
			l.submit(2, 1)
			l.end(1, kernel.OutcomeSucceeded)
			if err := errors.Join(l.s.Close(), os.Truncate(filepath.Join(l.dir, name), at)); err != nil {
				t.Fatal(err)
			}
			if mark := filepath.Join(l.dir, vizierDir, markFile); rebooted {
				writeAt(t, mark, strings.Replace(contentOf(t, mark), "boot-1", "boot-0", 1))
			}
			misses := func(when string, want ...string) {
				t.Helper()
				v, err := newStore(t, l.dir).VerifyHistory(t.Context())
				var got []string
				for _, f := range v.Findings {
					got = append(got, f.Text)
				}
				if err != nil || len(got) == 0 || got[0] != lostEntries(2).Text || v.Findings[0].Harmless() {
					t.Errorf("%s: %q, %v", when, got, err)
				}
				if slices.Contains(got, "this version decides otherwise from the same records and facts") {
					t.Errorf("%s: %q", when, got)
				}
				if !slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Job == id(2) && f.Kind == FoundGap }) {
					t.Errorf("%s: that the record of job 2 is from after that is not told: %+v", when, v.Findings)
				}
			}
			misses("at once")
			told := 0
			err := newStore(t, l.dir).History(t.Context(), func(kernel.JobID, []byte) bool { return true }, func(HistoryEntry) error { told++; return nil })
			if told != 2 || errors.Is(err, errCutShort) == rebooted { // after a boot the store replays the journal and begins its history anew
				t.Errorf("told %d entries, %v", told, err)
			}
			if p, err := newStore(t, l.dir).PastAt(t.Context(), Moment{Entry: 2}); err != nil || p.Entry != 2 {
				t.Errorf("%v", err)
			}
			if _, err := newStore(t, l.dir).PastAt(t.Context(), Moment{Time: l.app.Now()}); !rebooted && !errors.Is(err, kernel.ErrNotFound) {
				t.Errorf("what is not known is shown: %v", err)
			}
			l.submit(3)
			misses("after a commit")
			l.seal(func() { l.submit(4) })
			misses("later")
			if p, err := newStore(t, l.dir).PastAt(t.Context(), Moment{}); err != nil || p.Entry != 4 {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// A segment that claims a huge size is refused, without memory being reserved for it.
func TestASegmentOfAnySize(t *testing.T) {
	b, err := sealed(segmentHead{First: 1, Size: 1 << 60}, func(w io.Writer) error { _, err := w.Write(make([]byte, 100)); return err })
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := openSegment(b); !errors.Is(err, errSegment) {
		t.Error(err)
	}
}

// Whichever call of the disk fails while the history is trimmed, it stays whole, and trimming it again does the rest.
func TestAHistoryWhoseTrimmingFails(t *testing.T) {
	oneGoroutine(t)
	again := func() (*livedStore, *faulty) {
		l := newLivedStore(t)
		l.submit(4)
		l.seal(func() { l.end(3, kernel.OutcomeSucceeded) })
		l.seal(func() { l.end(4, kernel.OutcomeSucceeded) })
		l.submit(5)
		d := &faulty{}
		fresh := newStoreWith(t, l.dir, l.s.opts)
		fresh.disk = d
		if err := l.s.Close(); err != nil {
			t.Fatal(err)
		}
		l.s = fresh
		l.s.KeepHistory(1, 0)
		return l, d
	}
	left := func(l *livedStore) string {
		t.Helper()
		files, err := os.ReadDir(filepath.Join(l.dir, vizierDir, historyDir))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), milestoneSuffix) { // without milestones only time is lost
				names = append(names, f.Name())
			}
		}
		return strings.Join(names, " ")
	}
	l, d := again()
	before := left(l)
	if err := l.s.TrimHistory(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls, want := d.n, left(l)
	if want == before {
		t.Fatal("nothing is trimmed")
	}
	for k := 1; k <= calls; k++ {
		l, d := again()
		d.at = k
		err := l.s.TrimHistory(t.Context())
		looks := strings.HasPrefix(d.where, "open") || strings.HasPrefix(d.where, "read") // what cannot be read is damaged, and stays
		if got := left(l); err == nil && got != want && !looks {
			t.Errorf("%s fails, and left are %s of %s without an error", d.where, got, before)
		}
		if l.finds(); l.s.TrimHistory(t.Context()) != nil || left(l) != want {
			t.Errorf("after %s failed, left are %s", d.where, left(l))
		}
	}
}

// The head of a sealed file says of which entries it is, and is not believed if it cannot be.
func TestHeadsOfSealedFiles(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	g := segment{first: 5}
	for name, c := range map[string]struct {
		head segmentHead
		good bool
	}{
		"one entry":            {segmentHead{First: 5, Last: 5}, true},
		"no entry":             {segmentHead{First: 5, Last: 4}, true},
		"less than none":       {segmentHead{First: 5, Last: 3}, false},
		"none at all":          {segmentHead{First: 5, Last: 0}, false},
		"the most":             {segmentHead{First: 5, Last: 5 + mostEntries - 1}, true},
		"more than that":       {segmentHead{First: 5, Last: 5 + mostEntries}, false},
		"all there can be":     {segmentHead{First: 5, Last: 1<<64 - 2}, false},
		"another file's":       {segmentHead{First: 6, Last: 7}, false},
		"that of an opening":   {segmentHead{First: 5, Last: 5, Opening: true}, false},
		"entries that go on":   {segmentHead{First: 5, Last: 50}, true},
		"an earlier beginning": {segmentHead{First: 4, Last: 5}, false},
	} {
		b, err := sealed(c.head, func(io.Writer) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		writeAt(t, file(dir, g.file()), string(b))
		head, err := s.segmentHead(g)
		damaged, is := errors.AsType[*SegmentError](err)
		if c.good && (err != nil || head.Last != c.head.Last) || !c.good && (!is || damaged.File != vizierDir+"/"+g.file()) {
			t.Errorf("%s: %+v, %v", name, head, err)
		}
	}
}

// What differs between two records is told by the paths of its fields, an empty one included.
func TestDifferencesOfRecords(t *testing.T) {
	for _, c := range []struct{ a, b, left, right string }{
		{`{"a":1}`, `{"a":1}`, "", ""},
		{`{"a":1,"b":{"c":[2]}}`, `{"a":2,"b":{"c":[3]}}`, "a 1, b.c [2]", "a 2, b.c [3]"},
		{`{"a":{}}`, `{"a":{"b":1}}`, "a {}, a.b absent", "a absent, a.b 1"},
		{`{"a":{}}`, `{}`, "a {}", "a absent"},
		{`{"a":{}}`, `{"a":[]}`, "a {}", "a []"},
		{`{"a":{"b":{}}}`, `{"a":null}`, "a.b {}", "a.b absent"},
		{`{"revision":1,"updated_at":"x","a":true}`, `{"revision":2,"updated_at":"y","a":false}`, "a true", "a false"},
		{``, `{"status":"queued","a":1}`, "no record", `status "queued"`},
		{`{"status":"queued"}`, ``, `status "queued"`, "no record"},
		{``, ``, "no record", "no record"},
		{`{"a":"` + strings.Repeat("x", 119) + `"}`, `{"a":"` + strings.Repeat("y", 118) + `"}`, `a "` + strings.Repeat("x", 119) + "…", `a "` + strings.Repeat("y", 118) + `"`},
	} {
		if left, right := differences([]byte(c.a), []byte(c.b)); left != c.left || right != c.right {
			t.Errorf("%s and %s differ in %q and %q, want %q and %q", c.a, c.b, left, right, c.left, c.right)
		}
	}
}

// A job that was removed is not in what a history that was trimmed begins with.
func TestATrimmedHistoryHasNoRemovedJob(t *testing.T) {
	l := newLivedStore(t)
	commit(t, l.s, kernel.RemoveJob{Job: id(1)})
	l.seal(func() { l.submit(4) })
	l.seal(func() { l.submit(5) })
	l.submit(6)
	l.s.KeepHistory(1, 0)
	if err := l.s.TrimHistory(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, l.dir)
	v, err := s.VerifyHistory(t.Context())
	if err != nil || v.First < 5 {
		t.Fatalf("it begins at %d: %v", v.First, err)
	}
	for _, f := range v.Findings {
		if f.Kind != FoundNoReason {
			t.Errorf("%s: %s", f.Kind, f.Text)
		}
	}
	for entry := v.First + 1; entry <= v.Last; entry++ {
		if past, err := pastOf(s, entry); err != nil || strings.Contains(past, string(id(1))) || !strings.Contains(past, string(id(3))) {
			t.Errorf("after entry %d there are %s, %v", entry, past, err)
		}
	}
}

// refusing is an executor that starts nothing for now.
type refusing struct{ alive }

func (refusing) Start(context.Context, kernel.AttemptID) error { return errors.New("no room") }

// The history says who asked for something, of which job, and why.
func TestWhatWasAskedForIsTold(t *testing.T) {
	l := newLivedStore(t)
	l.ask(kernel.NewJob{ID: id(4), Spec: plain(4).Spec, Approval: kernel.Require(t0, "ann")})
	if _, err := l.app.Reject(t.Context(), id(4), kernel.Refusal{By: "bob", Reason: "not like this"}); err != nil {
		t.Fatal(err)
	}
	l.submit(5)
	if _, err := l.app.Cancel(t.Context(), id(5), "eve", false); err != nil {
		t.Fatal(err)
	}
	if _, err := l.app.Cancel(t.Context(), id(3), "eve", false); err != nil { // it runs
		t.Fatal(err)
	}
	l.end(3, kernel.OutcomeFailed)
	l.edit(4, "not like this", "not so")
	l.app.Executor = refusing{}
	l.submit(6)
	if _, err := l.app.Retry(t.Context(), "ann", id(3)); err != nil {
		t.Fatal(err)
	}
	commit(t, l.s, kernel.RemoveJob{Job: id(2)})
	var told []string
	changes := map[string]bool{}
	err := l.s.History(t.Context(), func(kernel.JobID, []byte) bool { return true }, func(e HistoryEntry) error {
		for _, c := range e.Changes {
			changes[fmt.Sprint(c.Ref, " of ", c.Number, " from ", c.From, " to ", c.To)] = true
		}
		for _, a := range e.Asked {
			told = append(told, strings.TrimSpace(fmt.Sprint(a.Verb, " ", a.By, " ", a.Jobs, " ", a.Text)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"4 of 4 from  to waiting_on_approval", "4 of 4 from waiting_on_approval to blocked_by_approval", "3 of 3 from running to cancelled", "2 of 2 from failed to "} {
		if !changes[want] {
			t.Errorf("%q is not among %v", want, changes)
		}
	}
	for _, want := range []string{"retry ann [" + string(id(3)) + "]", "reject bob [" + string(id(4)) + "] not like this", "finish  [" + string(id(1)) + "] attempt 1 succeeded", "finish  [" + string(id(2)) + "] attempt 1 failed",
		"finish  [" + string(id(3)) + "] attempt 1 cancelled",
		"refuse  [" + string(id(6)) + "] no room", "approve bob [" + string(id(3)) + "]", "cancel eve [" + string(id(5)) + "]"} {
		if !slices.Contains(told, want) {
			t.Errorf("%q is not among %q", want, told)
		}
	}
	var mine []uint64 // about one job
	err = l.s.History(t.Context(), func(j kernel.JobID, _ []byte) bool { return j == id(4) }, func(e HistoryEntry) error { mine = append(mine, e.Entry); return nil })
	if err != nil || len(mine) != 3 { // the last found it edited
		t.Errorf("about one job are the entries %v, %v", mine, err)
	}
}

// A sealed file with the content of another one, or with more or less than its head says, is damaged.
func TestContentsOfSealedFiles(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	text := []byte("some text")
	for name, c := range map[string]struct {
		head segmentHead
		good bool
	}{
		"as it is to be":     {segmentHead{First: 5, Last: 5, Size: 9}, true},
		"more than it says":  {segmentHead{First: 5, Last: 5, Size: 8}, false},
		"less than it says":  {segmentHead{First: 5, Last: 5, Size: 10}, false},
		"less than nothing":  {segmentHead{First: 5, Last: 5, Size: -1}, false},
		"far more":           {segmentHead{First: 5, Last: 5, Size: 1 << 40}, false},
		"of another file":    {segmentHead{First: 6, Last: 6, Size: 9}, false},
		"that of an opening": {segmentHead{First: 5, Last: 5, Size: 9, Opening: true}, false},
	} {
		b, err := sealed(c.head, func(w io.Writer) error { _, err := w.Write(text); return err })
		if err != nil {
			t.Fatal(err)
		}
		g := segment{first: 5}
		writeAt(t, file(dir, g.file()), string(b))
		_, content, err := s.readSegment(g)
		if _, is := errors.AsType[*SegmentError](err); c.good && (err != nil || !bytes.Equal(content, text)) || !c.good && !is {
			t.Errorf("%s: %q, %v", name, content, err)
		}
	}
}
