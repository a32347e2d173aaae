package fs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// aMilestone returns a store with a milestone before entry 2, of more than one block, and the
// digest of entry 1.
func aMilestone(t *testing.T) (*livedStore, digest) {
	t.Helper()
	l := emptyStore(t)
	var many []kernel.NewJob
	for n := range 120 {
		sp := plain(n + 1).Spec
		sp.Name = fmt.Sprintf("%x", sha256.Sum256([]byte{byte(n)})) // which nothing makes shorter
		many = append(many, kernel.NewJob{ID: id(n + 1), Spec: sp})
	}
	if _, err := l.app.Submit(t.Context(), many, "ann"); err != nil {
		t.Fatal(err)
	}
	l.seal(func() { l.submit(121) })
	if err := l.s.TrimHistory(t.Context()); err != nil || !slices.Equal(l.s.milestones(), []uint64{2}) {
		t.Fatalf("%v, milestones %v", err, l.s.milestones())
	}
	head, err := l.s.segmentHead(segment{first: 1})
	if err != nil {
		t.Fatal(err)
	}
	return l, head.Tip
}

// readsMilestone reads the milestone before entry 2 from a disk.
func (l *livedStore) readsMilestone(d disk) (*table, milestoneMeta, error) {
	l.t.Helper()
	f, err := l.s.base.file(milestoneFile(2), os.O_RDONLY)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { f.Close() })
	return readMilestone(d, f)
}

// A milestone has every record as it was, and when that was.
func TestAMilestoneIsTheStateBefore(t *testing.T) {
	l, tip := aMilestone(t)
	w := l.s.openMilestone(2, &tip)
	if w == nil {
		t.Fatal("there is none")
	}
	defer w.close()
	got, err := w.store.records(kernel.Scope{All: true})
	if err != nil || len(got.Jobs) != 120 {
		t.Fatalf("%d jobs, %v", len(got.Jobs), err)
	}
	head, _ := l.s.segmentHead(segment{first: 1})
	if w.number != 1 || !w.whole || w.bounds == nil || stamp(w.written) != head.Ended {
		t.Errorf("after entry %d, of %s, whole: %v, limits %v", w.number, w.written, w.whole, w.bounds)
	}
	now := recordsOf(t, l.s)
	slices.SortFunc(got.Jobs, func(a, b kernel.Job) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) })
	for i := range got.Jobs {
		if !reflect.DeepEqual(got.Jobs[i], now.Jobs[i]) {
			t.Fatalf("%+v, want %+v", got.Jobs[i], now.Jobs[i])
		}
	}
	table, _, err := l.readsMilestone(machine{})
	if err != nil || len(table.blocks) < 2 {
		t.Errorf("it has %d blocks, %v: this tests too little", len(table.blocks), err)
	}
}

// A milestone counts only where it belongs, with what this version writes, and if all of it can be read.
func TestAMilestoneThatCountsForNothing(t *testing.T) {
	l, tip := aMilestone(t)
	name := filepath.Join(l.dir, vizierDir, milestoneFile(2))
	whole := contentOf(t, name)
	opens := func(entry uint64, tip *digest) bool {
		w := l.s.openMilestone(entry, tip)
		if w != nil {
			w.close()
		}
		return w != nil
	}
	writeAt(t, filepath.Join(l.dir, vizierDir, milestoneFile(3)), whole)
	other := tip
	other[3] ^= 1
	if opens(2, nil) || opens(2, &other) || opens(3, &tip) || opens(4, &tip) || !opens(2, &tip) {
		t.Errorf("it opens with no tip: %v, with another: %v, elsewhere: %v, where none is: %v, where it belongs: %v",
			opens(2, nil), opens(2, &other), opens(3, &tip), opens(4, &tip), opens(2, &tip))
	}
	calls := &faulty{}
	if _, _, err := l.readsMilestone(calls); err != nil || calls.n < 4 {
		t.Fatalf("%d calls, %v", calls.n, err)
	}
	for k := 1; k <= calls.n; k++ {
		d := &faulty{at: k}
		if _, _, err := l.readsMilestone(d); err == nil {
			t.Errorf("%s fails, call %d of %d, and it is read", d.where, k, calls.n)
		}
	}
	for size := range 20 {
		writeAt(t, name, whole[:size])
		if _, _, err := l.readsMilestone(machine{}); err == nil {
			t.Errorf("the first %d bytes are read", size)
		}
	}
	_, meta, _ := func() (*table, milestoneMeta, error) { writeAt(t, name, whole); return l.readsMilestone(machine{}) }()
	of := func(line []byte) {
		t.Helper()
		kv := newPastState().store.cache.kv
		if line != nil {
			kv.memtable.put(keyValue{keyMeta, line})
		}
		kv.memtable.put(keyValue{"x", []byte("y")})
		var b bytes.Buffer
		table := &table{packed: true}
		if err := table.fill(&b, kv.iterate("", ""), true); err != nil {
			t.Fatal(err)
		}
		writeAt(t, name, string(binary.LittleEndian.AppendUint32(b.Bytes(), table.sum)))
	}
	for what, change := range map[string]func(*milestoneMeta){
		"of another format": func(m *milestoneMeta) { m.Format += "." }, "of records of another shape": func(m *milestoneMeta) { m.Job++ },
		"of another entry": func(m *milestoneMeta) { m.Entry++ }, "after another entry": func(m *milestoneMeta) { m.Tip = other }, "": func(*milestoneMeta) {},
	} {
		m := meta
		change(&m)
		line, err := toLine(m)
		if err != nil {
			t.Fatal(err)
		}
		if of(line); opens(2, &tip) != (what == "") {
			t.Errorf("a milestone %s counts: %v", what, what != "")
		}
	}
	for _, line := range [][]byte{nil, []byte("{"), []byte("{}")} {
		of(line)
		if _, _, err := l.readsMilestone(machine{}); err == nil {
			t.Errorf("described by %q it is read", line)
		}
	}
	if b, err := unpack([]byte{0xff}); b != nil || !errors.Is(err, errCache) {
		t.Errorf("%q, %v", b, err)
	}
}

// What cannot be told of a state is not written as a milestone.
func TestAStateThatIsNoMilestone(t *testing.T) {
	l, tip := aMilestone(t)
	for what, change := range map[string]func(*pastState) uint64{
		"of which entries are missing":      func(*pastState) uint64 { return 3 },
		"whose limits cannot be read":       func(w *pastState) uint64 { w.limits = []byte(`{"limits":1}`); return 2 },
		"whose facts cannot be read":        func(w *pastState) uint64 { w.told = [][]byte{[]byte(`{"steps":1}`)}; return 2 },
		"with which nothing is wrong, as a": func(*pastState) uint64 { return 2 },
	} {
		w := l.s.openMilestone(2, &tip)
		l.forgetMilestones()
		entry := change(w)
		err := l.s.writeMilestone(w, entry, tip)
		if good, written := what == "with which nothing is wrong, as a", len(l.s.milestones()) > 0; (err == nil) != good || written != good {
			t.Errorf("a state %s: written %v, %v", what, written, err)
		}
		w.close()
		if len(l.s.milestones()) == 0 {
			if err := l.s.TrimHistory(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A milestone keeps the facts that gates ask for, and no other.
func TestAMilestoneKeepsWhatGatesAskFor(t *testing.T) {
	l := emptyStore(t)
	mark, sentinel := custom("t", "x"), kernel.Artifact{Kind: kernel.MergeSentinel, Name: "x"}
	sp := plain(1).Spec
	sp.Needs, sp.Preconditions = []kernel.Artifact{mark, sentinel}, []kernel.Precondition{{Kind: kernel.BranchExists, Branch: "asked"}}
	l.ask(kernel.NewJob{ID: id(1), Spec: sp})
	p := l.pastAt(Moment{})
	seen := kernel.NewFacts()
	seen.Present[sentinel], seen.Present[kernel.Artifact{Kind: kernel.MergeSentinel, Name: "y"}] = kernel.Seen(true), kernel.Seen(true)
	seen.Markers[mark], seen.Markers[custom("t", "y")] = kernel.Seen([]kernel.JobID{id(7)}), kernel.Seen([]kernel.JobID{id(8)})
	seen.Heads["asked"], seen.Heads["nobody asks"] = kernel.Seen(kernel.CommitID("c0ffee")), kernel.Seen(kernel.CommitID("c0ffee"))
	seen.Head, seen.Clean, seen.Merging, seen.Sandbox = kernel.Seen("main"), kernel.Seen(true), kernel.Seen("merge"), kernel.Seen(kernel.Enforcement{Files: "no files"})
	p.state.begun, p.state.told = seen, nil
	if err := errors.Join(os.Mkdir(filepath.Join(l.dir, vizierDir, historyDir), 0o700), l.s.writeMilestone(p.state, 2, digest{})); err != nil {
		t.Fatal(err)
	}
	w := l.s.openMilestone(2, &digest{})
	if w == nil {
		t.Fatal("there is none")
	}
	defer w.close()
	want := kernel.NewFacts()
	want.Present[sentinel], want.Markers[mark] = seen.Present[sentinel], seen.Markers[mark]
	want.Heads["asked"] = seen.Heads["asked"]
	want.Head, want.Clean, want.Merging, want.Sandbox = seen.Head, seen.Clean, seen.Merging, seen.Sandbox
	if got := w.begun; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Trimming removes the milestones of entries that no part begins with, keeps the others as
// they are, and says so if it cannot.
func TestMilestonesOfNoPartAreRemoved(t *testing.T) {
	l, _ := aMilestone(t)
	at := func(n uint64) string { return filepath.Join(l.dir, vizierDir, milestoneFile(n)) }
	before, err := os.Stat(at(2))
	if err != nil {
		t.Fatal(err)
	}
	writeAt(t, at(7), "of no part")
	writeAt(t, at(9), "of no part")
	if err := l.s.TrimHistory(t.Context()); err != nil || !slices.Equal(l.s.milestones(), []uint64{2}) {
		t.Errorf("milestones %v, %v", l.s.milestones(), err)
	}
	if after, err := os.Stat(at(2)); err != nil || !os.SameFile(before, after) {
		t.Errorf("the milestone of a part was written again: %v", err)
	}
	first := filepath.Join(l.dir, vizierDir, segment{first: 1}.file())
	whole := contentOf(t, first)
	for _, now := range []string{whole, ""} {
		writeAt(t, first, now)
		if err := os.MkdirAll(at(7), 0o700); err != nil {
			t.Fatal(err)
		}
		writeAt(t, at(9), "of no part")
		if err := l.s.TrimHistory(t.Context()); err == nil || exists(at(9)) {
			t.Errorf("one cannot be removed: %v; the other is there: %v", err, exists(at(9)))
		}
	}
}

// A milestone must save as many bytes as the newest one before it takes.
func TestWhatAMilestoneMustSave(t *testing.T) {
	l := emptyStore(t)
	for n, size := range map[uint64]int{9: 5, 2: 10, 5: 20} {
		writeAt(t, filepath.Join(l.dir, vizierDir, milestoneFile(n)), string(make([]byte, size)))
	}
	for _, name := range []string{"7.milestone", "000000000003.milestone.tmp", "x.milestone", "000000000004.segment"} {
		writeAt(t, filepath.Join(l.dir, vizierDir, historyDir, name), "no milestone")
	}
	read(t, l.s)
	if got := l.s.milestones(); !slices.Equal(got, []uint64{2, 5, 9}) {
		t.Errorf("milestones %v", got)
	}
	for entry, want := range []int64{0, 0, 10, 10, 10, 20, 20, 20, 20, 5, 5} {
		if got := l.s.milestoneWorth(uint64(entry)); got != want {
			t.Errorf("before entry %d %d, want %d", entry, got, want)
		}
	}
}
