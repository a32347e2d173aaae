package fs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// recordsOf returns all records of a store, sorted by id.
func recordsOf(t testing.TB, s interface {
	Read(ctx context.Context, scope kernel.Scope) (kernel.Records, error)
}) kernel.Records {
	t.Helper()
	rec, err := s.Read(t.Context(), kernel.Scope{All: true})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(rec.Jobs, func(a, b kernel.Job) int { return cmp.Compare(a.ID, b.ID) })
	rec.Last = 0
	return rec
}

// seal makes the commits of next seal the journal.
func (l *livedStore) seal(next func()) {
	l.s.log.limit = 1
	next()
	l.s.log.limit = checkpointSize
}

func (l *livedStore) forgetMilestones() {
	l.t.Helper()
	for _, n := range l.s.milestones() {
		if err := l.s.base.remove(milestoneFile(n)); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *livedStore) pastAt(when Moment) *Past {
	l.t.Helper()
	p, err := newStore(l.t, l.dir).PastAt(l.t.Context(), when)
	if err != nil {
		l.t.Fatalf("%+v: %v", when, err)
	}
	l.t.Cleanup(p.Close)
	return p
}

// The past at each entry shows the records as they were then, with and without milestones;
// at the last entry it shows the records of now. The histories are random.
func TestThePastIsWhatWas(t *testing.T) {
	draw := drawtest.Of(t)
	l := emptyStore(t)
	var was []kernel.Records
	var written []time.Time
	note := func() {
		was = append(was, recordsOf(t, l.s))
		written = append(written, l.app.Now())
	}
	for n := 1; n <= 40; n++ {
		submit := func() {
			var after []int
			if jobs := recordsOf(t, l.s).Jobs; len(jobs) > 0 && draw.IntN(2) == 0 {
				k, _ := strconv.ParseInt(string(jobs[draw.IntN(len(jobs))].ID), 16, 64)
				after = append(after, int(k))
			}
			l.submit(n, after...)
		}
		if n > 1 && draw.IntN(5) == 0 {
			l.seal(submit)
		} else {
			submit()
		}
		note()
		rec := recordsOf(t, l.s)
		for i := range rec.Jobs {
			j := &rec.Jobs[i]
			if j.State.Status != kernel.Running || draw.IntN(3) == 0 {
				continue
			}
			r := kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Started: t0, Ended: t0}
			if draw.IntN(4) == 0 {
				r.Outcome, r.Exit, r.Class = kernel.OutcomeFailed, 1, kernel.ExitFailure
			}
			if _, err := l.app.Finish(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			note()
		}
		if draw.IntN(6) == 0 {
			if _, err := l.app.GC(t.Context(), time.Duration(draw.IntN(60))*time.Second); err != nil {
				t.Fatal(err)
			}
			if v, err := l.s.VerifyHistory(t.Context()); err != nil || int(v.Last) != len(was) { // it had something to do
				note()
			}
		}
	}
	told := map[uint64]time.Time{}
	if err := l.s.History(t.Context(), func(kernel.JobID, []byte) bool { return true }, func(h HistoryEntry) error {
		told[h.Entry] = h.At
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	check := func(how string) {
		t.Helper()
		for i := range was {
			p := l.pastAt(Moment{Entry: uint64(i + 1)})
			if at := told[p.Entry]; !at.IsZero() && !p.At.Equal(at) {
				t.Fatalf("%s: entry %d is from %s, and was written at %s", how, p.Entry, p.At, at)
			}
			if got := recordsOf(t, p); !reflect.DeepEqual(got, was[i]) {
				t.Fatalf("%s: at entry %d there are\n%+v\nand there were\n%+v", how, i+1, got, was[i])
			}
			p = l.pastAt(Moment{Time: written[i]})
			if got := recordsOf(t, p); p.Entry != uint64(i+1) || !reflect.DeepEqual(got, was[i]) {
				t.Fatalf("%s: at %s, after entry %d, there are those of entry %d", how, written[i], i+1, p.Entry)
			}
			p.Close()
		}
	}
	check("as it comes")
	l.forgetMilestones()
	if err := l.s.TrimHistory(t.Context()); err != nil {
		t.Fatal(err)
	}
	if files, err := l.s.segments(); err != nil || len(files) > 0 && len(l.s.milestones()) == 0 {
		t.Fatalf("%d sealed files and no milestone, %v", len(files), err)
	}
	check("with milestones")
	if p := l.pastAt(Moment{}); int(p.Entry) != len(was) || !reflect.DeepEqual(recordsOf(t, p), recordsOf(t, l.s)) {
		t.Errorf("at the end, after entry %d of %d, it is not what is", p.Entry, len(was))
	}
	l.finds()
}

// The history tells what the gates of the past saw.
func TestThePastKnowsWhatGatesSaw(t *testing.T) {
	l := emptyStore(t)
	art := custom("t", "x")
	sp := plain(1).Spec
	sp.Needs = []kernel.Artifact{art, {Kind: kernel.MergeSentinel, Name: "x"}}
	if err := l.s.WriteSentinel("x", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	l.ask(kernel.NewJob{ID: id(1), Spec: sp})
	explain := func(s app.Scheduler, store app.Store, o app.Observer) kernel.Explanation {
		s.Store, s.Observers = store, []app.Observer{o}
		e, _, err := s.Explain(t.Context(), id(1))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	p := l.pastAt(Moment{Entry: 1})
	want := explain(*l.app, l.app.Store, l.s)
	if got := explain(*l.app, readOnly{p}, p); !reflect.DeepEqual(got.Unmet, want.Unmet) || len(want.Unmet) == 0 {
		t.Errorf("then:\n%+v\nnow:\n%+v", got, want)
	}
	l.seal(func() { l.submit(2) })
	if err := l.s.TrimHistory(t.Context()); err != nil || len(l.s.milestones()) == 0 {
		t.Fatalf("%v, milestones %v", err, l.s.milestones())
	}
	if p := l.pastAt(Moment{Entry: 2}); !reflect.DeepEqual(explain(*l.app, readOnly{p}, p).Unmet, want.Unmet) {
		t.Error("behind a milestone it is another")
	}
}

type readOnly struct{ *Past }

func (readOnly) Begin(context.Context) (app.Tx, error) { return nil, ErrPast }

// A milestone of another history, or of another version, counts for nothing.
func TestAMilestoneOfAnotherHistory(t *testing.T) {
	var l [2]*livedStore
	for i := range l {
		l[i] = emptyStore(t)
		l[i].submit(1 + i)
		l[i].seal(func() { l[i].submit(3 + i) })
		if err := l[i].s.TrimHistory(t.Context()); err != nil || !slices.Equal(l[i].s.milestones(), []uint64{2}) {
			t.Fatalf("%v, milestones %v", err, l[i].s.milestones())
		}
	}
	b, err := os.ReadFile(filepath.Join(l[0].dir, vizierDir, milestoneFile(2)))
	if err != nil {
		t.Fatal(err)
	}
	writeAt(t, filepath.Join(l[1].dir, vizierDir, milestoneFile(2)), string(b))
	if got, want := recordsOf(t, l[1].pastAt(Moment{})), recordsOf(t, l[1].s); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Limits on record that cannot be read are an error, and not no limits.
func TestLimitsOfThePastThatCannotBeRead(t *testing.T) {
	l := emptyStore(t)
	l.submit(1)
	l.seal(func() { commit(t, l.s, kernel.Create(plain(2))) }) // an entry without limits of its own
	if err := l.s.TrimHistory(t.Context()); err != nil || !slices.Equal(l.s.milestones(), []uint64{2}) {
		t.Fatalf("%v, milestones %v", err, l.s.milestones())
	}
	f, err := l.s.base.file(milestoneFile(2), os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	_, meta, err := readMilestone(machine{}, f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	w := l.s.openMilestone(2, &meta.Tip)
	defer w.close()
	w.bounds = &limitsRecord{Grace: "soon"}
	if err := l.s.writeMilestone(w, 2, meta.Tip); err != nil {
		t.Fatal(err)
	}
	if _, err := newStore(t, l.dir).PastAt(t.Context(), Moment{}); err == nil || !strings.Contains(err.Error(), "limits.grace") {
		t.Errorf("it is shown: %v", err)
	}
}

// A milestone in which any byte changed counts for nothing either.
func TestAMilestoneThatIsDamaged(t *testing.T) {
	oneGoroutine(t)
	l := emptyStore(t)
	var many []kernel.NewJob // of more than one block
	for n := range 250 {
		many = append(many, kernel.NewJob{ID: id(n + 1), Spec: plain(n + 1).Spec})
	}
	if _, err := l.app.Submit(t.Context(), many, "ann"); err != nil {
		t.Fatal(err)
	}
	l.seal(func() { l.submit(251) })
	if err := l.s.TrimHistory(t.Context()); err != nil || !slices.Equal(l.s.milestones(), []uint64{2}) {
		t.Fatalf("%v, milestones %v", err, l.s.milestones())
	}
	name, want := filepath.Join(l.dir, vizierDir, milestoneFile(2)), recordsOf(t, l.s)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(whole); at += 13 {
		b := bytes.Clone(whole)
		b[at] ^= 1 << (at % 8)
		writeAt(t, name, string(b))
		p, err := newStore(t, l.dir).PastAt(t.Context(), Moment{})
		if err != nil {
			t.Fatalf("byte %d: %v", at, err)
		}
		got, err := p.Read(t.Context(), kernel.Scope{All: true})
		if err != nil || len(got.Jobs) != len(want.Jobs) {
			t.Fatalf("byte %d: %d jobs, want %d: %v", at, len(got.Jobs), len(want.Jobs), err)
		}
		p.Close()
	}
}

// disturbed is a disk that calls onOpen for each file that is opened by its path.
type disturbed struct {
	machine
	onOpen  func(path string)
	opening atomic.Int32
}

func (d *disturbed) open(at int, path string, flags int) (int, error) {
	d.opening.Add(1)
	defer d.opening.Add(-1)
	d.onOpen(path)
	return d.machine.open(at, path, flags)
}

// Whoever asks for the past of a store may close it when the answer is there: nothing reads
// ahead of a part that cannot be shown, and an interrupt ends the walk.
func TestNothingReadsAheadOfThePastThatIsTold(t *testing.T) {
	l := newLivedStore(t)
	for n := 4; n < 10; n++ {
		l.seal(func() { l.submit(n) })
	}
	l.forgetMilestones()
	files, err := l.s.segments()
	if err != nil || len(files) < 6 {
		t.Fatalf("%d sealed files, %v", len(files), err)
	}
	past := func(ctx context.Context, onOpen func(path string)) error {
		t.Helper()
		d := &disturbed{onOpen: onOpen}
		s := newStore(t, l.dir)
		s.disk = d
		p, err := s.PastAt(ctx, Moment{Entry: 8})
		if n := d.opening.Load(); n > 0 {
			t.Errorf("%d files are being opened after the answer: %v", n, err)
		}
		if err == nil {
			p.Close()
		}
		l.forgetMilestones()
		return err
	}
	for _, at := range files {
		ctx, cancel := context.WithCancel(t.Context())
		err := past(ctx, func(path string) {
			if path == at.file() {
				cancel()
			}
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted at %s: %v", at.file(), err)
		}
		cancel()
	}
	first := filepath.Join(l.dir, vizierDir, files[0].file())
	b, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	writeAt(t, first, string(b))
	err = past(t.Context(), func(path string) {
		if slices.IndexFunc(files, func(f segment) bool { return path == f.file() }) > 0 {
			time.Sleep(20 * time.Millisecond)
		}
	})
	if err == nil || !strings.Contains(err.Error(), files[0].file()) {
		t.Errorf("with a damaged first part: %v", err)
	}
}

// A past that cannot be shown is an error that names what can be shown, and only the
// damaged part is lost.
func TestThePastThatCannotBeShown(t *testing.T) {
	fails := func(l *livedStore, when Moment, words ...string) {
		t.Helper()
		p, err := newStore(t, l.dir).PastAt(t.Context(), when)
		if err == nil {
			t.Fatalf("%+v is shown, as of entry %d", when, p.Entry)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%+v: %v: no %q", when, err, w)
			}
		}
	}
	l := emptyStore(t)
	if _, err := newStore(t, l.dir).PastAt(t.Context(), Moment{Entry: 1}); !errors.Is(err, kernel.ErrNotFound) {
		t.Errorf("without a history: %v", err)
	}
	l = newLivedStore(t)
	if err := os.RemoveAll(filepath.Join(l.dir, vizierDir, historyDir)); err != nil {
		t.Fatal(err)
	}
	fails(l, Moment{Entry: 1}, "nothing of the history can be shown")
	l = newLivedStore(t)
	l.seal(func() { l.submit(4) })
	l.submit(5)
	files, err := l.s.segments()
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	fails(l, Moment{Time: t0}, "begins with entry 1, at ")
	fails(l, Moment{Entry: 99}, "the last one by then is 8")
	first := filepath.Join(l.dir, vizierDir, files[0].file())
	good, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	l.forgetMilestones() // the reads above made them
	newer := append([]byte("vizier history 9\n"), good...)
	flipped := slices.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string][]byte{"flipped": flipped, "truncated": good[:len(good)/2], "of a later version": newer, "empty": {}} {
		if err := os.WriteFile(first, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		fails(l, Moment{Entry: 2}, files[0].file())
		fails(l, Moment{Entry: 8}, files[0].file(), "nothing after it can be shown")
		if rec := recordsOf(t, newStore(t, l.dir)); len(rec.Jobs) != 5 {
			t.Errorf("%s: now there are %d jobs", name, len(rec.Jobs))
		}
	}
	if err := os.WriteFile(first, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.s.TrimHistory(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(first, flipped, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(l, Moment{Entry: 2}, files[0].file(), "can be shown again from entry 4 on, at ")
	if p := l.pastAt(Moment{Entry: 8}); len(recordsOf(t, p).Jobs) != 5 {
		t.Error("behind the milestone it is not all there")
	}
	for _, n := range l.s.milestones() { // a damaged one is none
		name := filepath.Join(l.dir, vizierDir, milestoneFile(n))
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(name, len(b))
		b[len(b)-20] ^= 1
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fails(l, Moment{Entry: 8}, files[0].file())
	if err := os.WriteFile(first, good, 0o600); err != nil {
		t.Fatal(err)
	}
	l.pastAt(Moment{Entry: 8})
	l.s.KeepHistory(1, 0)
	if err := l.s.TrimHistory(t.Context()); err != nil {
		t.Fatal(err)
	}
	fails(l, Moment{Entry: 2}, "begins with entry ")
	l.pastAt(Moment{Entry: 8})
}

// The check whether a milestone is due closes the milestone that it begins with, and so does a past.
func TestMilestonesAreClosed(t *testing.T) {
	const times = 200
	l := emptyStore(t)
	l.submit(1)
	l.seal(func() { l.submit(2) })
	if err := l.s.TrimHistory(t.Context()); err != nil || !slices.Equal(l.s.milestones(), []uint64{2}) {
		t.Fatalf("%v, milestones %v", err, l.s.milestones())
	}
	next := func() int { // the next descriptor
		f, err := l.s.base.file(milestoneFile(2), os.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return int(f.Fd())
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector would close files that nothing refers to
	before := next()
	for what, use := range map[string]func() error{
		"the check": func() error { return l.s.setMilestones(t.Context()) },
		"a past": func() error {
			p, err := l.s.PastAt(t.Context(), Moment{Entry: 2})
			if err == nil {
				p.Close()
			}
			return err
		},
		"an entry that is not there": func() error {
			if p, err := l.s.PastAt(t.Context(), Moment{Entry: 99}); !errors.Is(err, kernel.ErrNotFound) {
				return fmt.Errorf("%v, %w", p, err)
			}
			return nil
		},
	} {
		for range times {
			if err := use(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		if after := next(); after > before+times/2 { // other tests open files as well
			t.Errorf("%s: descriptors went from %d to %d", what, before, after)
		}
	}
}

// The past answers what was seen last, or why it does not know.
func TestThePastAnswersProbes(t *testing.T) {
	a, marked := custom("t", "seen"), custom("t", "marked")
	asked := kernel.Probes{Artifacts: []kernel.Artifact{a}, Markers: []kernel.Artifact{a, marked}, Branches: []string{"main"}, Head: true, Clean: true, Merging: true, Sandbox: true}
	seen := kernel.NewFacts()
	seen.Present[a], seen.Markers[a], seen.Heads["main"] = kernel.Seen(true), kernel.Seen([]kernel.JobID{id(2), id(1)}), kernel.Seen(kernel.CommitID("c0"))
	seen.Head, seen.Clean, seen.Merging, seen.Sandbox = kernel.Seen("main"), kernel.Seen(true), kernel.Seen("draft/x"), kernel.Seen(kernel.Enforcement{Files: "no"})
	failed := kernel.NewFacts()
	failed.Present[a], failed.Clean = kernel.Unseen[bool]("it failed"), kernel.Unseen[bool]("it failed, too")
	w := newPastState()
	w.take(&pastEntry{entry: entry{number: 1, groups: []group{{ops: []fileOp{{kind: opWrite, path: artifactFile(markersDir, marked, id(3))}, {kind: opWrite, path: artifactFile(markersDir, marked, id(4))}, {kind: opRemove, path: artifactFile(markersDir, marked, id(4))}}}}}})
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		seen  kernel.Facts
		err   error
		whole bool
	}{"seen": {seen: seen}, "nothing": {seen: kernel.NewFacts()}, "nothing, from the first entry on": {seen: kernel.NewFacts(), whole: true}, "what failed": {seen: failed}, "unreadable": {seen: kernel.NewFacts(), err: errors.New("cannot be read")}} {
		w.whole = c.whole
		why := notThen
		if c.err != nil {
			why = c.err.Error()
		}
		want := kernel.NewFacts()
		want.Present[a], want.Heads["main"] = recalledFrom(c.seen.Present[a], why), recalledFrom(c.seen.Heads["main"], why)
		want.Markers[a], want.Markers[marked] = kernel.Unseen[[]kernel.JobID](why), kernel.Seen([]kernel.JobID{id(3)})
		switch {
		case name == "seen":
			want.Markers[a] = kernel.Seen([]kernel.JobID{id(1), id(2)})
		case c.whole:
			want.Markers[a] = kernel.Seen([]kernel.JobID(nil))
		}
		want.Head, want.Clean, want.Merging, want.Sandbox = recalledFrom(c.seen.Head, why), recalledFrom(c.seen.Clean, why), recalledFrom(c.seen.Merging, why), recalledFrom(c.seen.Sandbox, why)
		got := kernel.NewFacts()
		(&Past{state: w, facts: func() (kernel.Facts, error) { return c.seen, c.err }}).Observe(t.Context(), asked, &got)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: it says\n%+v\nwant\n%+v", name, got, want)
		}
		none := kernel.NewFacts()
		if (&Past{state: w, facts: func() (kernel.Facts, error) { return c.seen, c.err }}).Observe(t.Context(), kernel.Probes{}, &none); !reflect.DeepEqual(none, kernel.NewFacts()) {
			t.Errorf("%s: asked for nothing, it says %+v", name, none)
		}
	}
}

func recalledFrom[T any](f kernel.Fact[T], why string) kernel.Fact[T] {
	if f.Known || f.Err != "" {
		return f
	}
	return kernel.Unseen[T](why)
}

// What cannot be read of the facts of one account makes all of them unknown, with the reason.
func TestFactsOfThePastThatCannotBeRead(t *testing.T) {
	w := newPastState()
	w.told = [][]byte{[]byte(`{"steps":[{"facts":{"clean":{"value":true}}}]}`), []byte(`{"steps":3}`)}
	if _, err := w.facts(); err == nil || !strings.HasPrefix(err.Error(), "the facts on record cannot be read: ") {
		t.Errorf("%v", err)
	}
	w.limits = []byte("{")
	if _, err := w.past(); err == nil {
		t.Error("limits that make no sense are none")
	}
}
