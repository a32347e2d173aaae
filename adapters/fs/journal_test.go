package fs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/kernel"
)

// world returns one world action of every kind, which a store only remembers.
func world(n int) []kernel.WorldAction {
	actions := kernel.WorldActions()
	f := filler{n: int64(n)}
	for i, a := range actions {
		v := reflect.New(reflect.TypeOf(a)).Elem()
		f.fill(v)
		actions[i] = v.Interface().(kernel.WorldAction)
	}
	return actions
}

// makeBase makes a store in dir with jobs 1–4. Jobs 2 and 3 left logs, an outcome, a
// patch, markers and payloads.
func makeBase(t *testing.T, dir string) {
	s := newStore(t, dir)
	var actions []kernel.Action
	for n := 1; n <= 4; n++ {
		j := plain(n)
		j.State.Attempt = n
		j.Spec.Produces = []kernel.Artifact{custom("t", fmt.Sprint(n))}
		actions = append(actions, kernel.Create(j))
	}
	for n := 2; n <= 3; n++ {
		actions = append(actions, kernel.Publish{Attempt: kernel.AttemptID{Job: id(n), N: n}, Artifacts: []kernel.Artifact{custom("t", fmt.Sprint(n))}})
	}
	commit(t, s, actions...)
	for n := 2; n <= 3; n++ {
		for _, name := range []string{"stdout.log", "stderr.log", "outcome.json", "command.patch"} {
			writeAt(t, file(dir, "jobs", string(id(n)), name), fmt.Sprintf("%s of %d", name, n))
		}
		writeAt(t, file(dir, artifactFile(payloadsDir, custom("t", fmt.Sprint(n)), id(n))), "payload")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// bigPlan does everything that a plan can do to files, over makeBase.
func bigPlan() kernel.Plan {
	at := func(n int) kernel.Job {
		j := plain(n)
		j.State.Attempt = n
		j.Spec.Produces = []kernel.Artifact{custom("t", fmt.Sprint(n))}
		return j
	}
	fresh := plain(5)
	ended := at(4)
	return kernel.Plan{Records: []kernel.RecordAction{
		kernel.Create(fresh),
		kernel.Publish{Attempt: kernel.AttemptID{Job: id(1), N: 1}, Artifacts: []kernel.Artifact{custom("t", "1"), custom(strings.Repeat("long", 200), "x")}},
		put(at(1), func(st *kernel.State) { st.Status = kernel.Running; st.Reason = "started" }),
		kernel.Reset{Attempt: kernel.AttemptID{Job: id(2), N: 2}, Produces: at(2).Spec.Produces},
		put(at(2), func(st *kernel.State) { st.Generation++ }),
		kernel.RemoveJob{Job: id(3), Produces: at(3).Spec.Produces},
		kernel.Rotate{Attempt: kernel.AttemptID{Job: id(4), N: 4}},
		kernel.Announce{Event: kernel.Event{At: t0, Kind: kernel.JobBlocked, Job: id(4)}},
		kernel.PurgeFiles{Job: id(4), Produces: at(4).Spec.Produces},
		put(ended, func(st *kernel.State) {
			st.Status, st.Exit, st.Outcome = kernel.BlockedByDependency, kernel.Exited(1), kernel.OutcomeBlocked
		}),
	}, World: world(1)}
}

// steps returns the file operations that apply e, one by one, in the order of applyGroup.
func steps(s *Store, e entry) []func() error {
	var out []func() error
	for _, g := range e.groups {
		if g.record != nil {
			out = append(out, func() error {
				d, err := s.base.make(jobPath(g.job, ""))
				d.close()
				return err
			})
		}
		for _, op := range g.ops {
			out = append(out, func() error { return s.applyOp(g.job, op) })
		}
		if g.record != nil {
			out = append(out, func() error { return s.base.write(jobPath(g.job, recordName), g.record, false) })
		}
		if g.state != "" {
			out = append(out, func() error { return s.base.write(jobPath(g.job, stateName), []byte(g.state+"\n"), false) })
		}
	}
	return out
}

// crashIn writes a plan to the journal of the store in dir, does the first done file
// operations, and then stops as if killed. It reports whether there were that many.
func crashIn(t *testing.T, dir string, p kernel.Plan, done int) bool {
	t.Helper()
	s := newStore(t, dir)
	tx := begin(t, s)
	load(t, tx)
	b, err := s.entryOf(p)
	if err != nil {
		t.Fatal(err)
	}
	e := b.e
	if err := tx.link(&e, false); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.log.append(e, tx.pos.end); err != nil {
		t.Fatal(err)
	}
	if e, _, err = s.log.read(tx.pos.end); err != nil {
		t.Fatal(err)
	}
	all := steps(s, e)
	for _, step := range all[:min(done, len(all))] {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	// A killed process only loses its lock; closing the transaction would do more.
	if err := errors.Join(tx.unlock(), s.Close()); err != nil {
		t.Fatal(err)
	}
	return done <= len(all)
}

// whole returns the tree after p was committed without a crash.
func whole(t *testing.T, base string, p kernel.Plan) map[string]string {
	t.Helper()
	dir := t.TempDir()
	copyTree(t, base, dir)
	s := newStore(t, dir)
	tx := begin(t, s)
	load(t, tx)
	if err := tx.Commit(p); err != nil {
		t.Fatal(err)
	}
	closeTx(t, tx)
	want := tree(t, dir)
	if reflect.DeepEqual(want, tree(t, base)) {
		t.Fatal("the plan changes nothing")
	}
	return want
}

func TestCrashAfterEveryFileOperation(t *testing.T) {
	oneGoroutine(t)
	base := t.TempDir()
	makeBase(t, base)
	p := bigPlan()
	want := whole(t, base, p)
	for n := 0; ; n++ {
		dir := t.TempDir()
		copyTree(t, base, dir)
		if !crashIn(t, dir, p, n) {
			if n < 15 {
				t.Errorf("only %d operations were tried", n)
			}
			return
		}
		s := newStore(t, dir)
		for again := range 2 { // recovery itself may be cut short before Done
			tx := begin(t, s)
			if d := cmp.Diff(want, tree(t, dir)); d != "" {
				t.Fatalf("after %d operations and recovery %d:\n%s", n, again, d)
			}
			if d := cmp.Diff(world(1), tx.Unfinished()); d != "" {
				t.Fatalf("after %d operations, unfinished differ:\n%s", n, d)
			}
			closeTx(t, tx)
		}
		tx := begin(t, s)
		if err := tx.Done(); err != nil {
			t.Fatal(err)
		}
		closeTx(t, tx)
		tx = begin(t, newStore(t, dir))
		if left := tx.Unfinished(); len(left) > 0 {
			t.Fatalf("after Done still unfinished: %v", left)
		}
		closeTx(t, tx)
		if d := cmp.Diff(want, tree(t, dir)); d != "" {
			t.Fatalf("after %d operations and Done:\n%s", n, d)
		}
	}
}

// A crash in the middle of a write leaves a temporary file, perhaps with the
// very name that the next process of the same pid would choose.
func TestLeftTemporaryFilesDoNotStopAnyone(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	now := tempCount.Load()
	for n := now + 1; n < now+20; n++ {
		for _, name := range []string{recordName, stateName} {
			writeAt(t, filepath.Join(s.JobDir(id(1)), fmt.Sprintf(".%s.%d.%s.tmp", name, os.Getpid(), strconv.FormatUint(n, 36))), "torn")
		}
	}
	tempCount.Store(now)
	commit(t, s, put(plain(1), func(st *kernel.State) { st.Reason = "second" }))
	if got := find(t, read(t, s), id(1)); got.State.Reason != "second" {
		t.Fatalf("reason %q", got.State.Reason)
	}
}

// A torn entry never happened: whatever its length, it is cut off, and the next entry
// takes its place.
func TestTornTailIsCutOff(t *testing.T) {
	oneGoroutine(t)
	base := t.TempDir()
	makeBase(t, base)
	before := tree(t, base)
	torn := t.TempDir()
	copyTree(t, base, torn)
	crashIn(t, torn, bigPlan(), 0)
	old, long := contentOf(t, file(base, plansFile)), contentOf(t, file(torn, plansFile))
	dir := t.TempDir()
	copyTree(t, base, dir)
	tails := []string{strings.Repeat("\x00", 4096), strings.Repeat("\xff", 100), "\x08\x00\x00\x00garbage!!!!!!!!!"}
	for n := len(old) + 1; n < len(long); n += 1 + n/200 {
		tails = append(tails, long[len(old):n])
	}
	flipped := []byte(long[len(old):])
	flipped[len(flipped)/2] ^= 1
	for _, tail := range append(tails, string(flipped)) {
		writeAt(t, file(dir, plansFile), old+tail)
		tx := begin(t, newStore(t, dir))
		if n := len(tx.Unfinished()); n > 0 {
			t.Fatalf("tail of %d bytes: %d actions unfinished", len(tail), n)
		}
		closeTx(t, tx)
		if d := cmp.Diff(before, tree(t, dir)); d != "" {
			t.Fatalf("tail of %d bytes:\n%s", len(tail), d)
		}
		if got := contentOf(t, file(dir, plansFile)); got != old {
			t.Fatalf("tail of %d bytes: the journal has %d bytes, want %d", len(tail), len(got), len(old))
		}
	}
	want := whole(t, base, bigPlan())
	writeAt(t, file(dir, plansFile), old+tails[len(tails)-1])
	commit(t, newStore(t, dir), bigPlan().Actions()...)
	if d := cmp.Diff(want, tree(t, dir)); d != "" {
		t.Fatalf("the next commit after a torn one:\n%s", d)
	}
}

// spoilMark holds the ways in which the mark may be wrong.
var spoilMark = map[string]func(t *testing.T, path string){
	"lost":    func(t *testing.T, path string) { _ = os.Remove(path) },
	"empty":   func(t *testing.T, path string) { writeAt(t, path, "") },
	"garbage": func(t *testing.T, path string) { writeAt(t, path, strings.Repeat("\xff\x00", 300)) },
	"cut":     func(t *testing.T, path string) { writeAt(t, path, contentOf(t, path)[:9]) },
	"another boot": func(t *testing.T, path string) {
		writeAt(t, path, strings.Replace(contentOf(t, path), "boot-1", "boot-0", 1))
	},
	"beyond the end": func(t *testing.T, path string) { writeAt(t, path, "\"boot-1\" 7 99999 999999 false false\n") },
}

func TestReplayFromAnyMarkConverges(t *testing.T) {
	oneGoroutine(t)
	base := t.TempDir()
	makeBase(t, base)
	s := newStore(t, base)
	commit(t, s, bigPlan().Actions()...)
	last := find(t, read(t, s), id(1))
	for n := range 20 {
		commit(t, s, put(last, func(st *kernel.State) { st.Reason = fmt.Sprint("step ", n) }))
		last = find(t, read(t, s), id(1))
	}
	gone := find(t, read(t, s), id(4))
	commit(t, s, kernel.RemoveJob{Job: gone.ID, Produces: gone.Spec.Produces}, kernel.Create(plain(6)))
	want := tree(t, base)
	for _, name := range slices.Sorted(maps.Keys(spoilMark)) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			copyTree(t, base, dir)
			spoilMark[name](t, file(dir, markFile))
			for range 2 {
				tx := begin(t, newStore(t, dir))
				if d := cmp.Diff(want, tree(t, dir)); d != "" {
					t.Fatal(d)
				}
				closeTx(t, tx)
			}
		})
	}
}

// The mark is one line of 256 bytes, as its format page says, whatever its content.
func TestTheMarkIsOneLine(t *testing.T) {
	for _, boot := range []string{"b", "boot-1", strings.Repeat("b", 100)} {
		dir, o := t.TempDir(), options()
		o.Boot = boot
		commit(t, newStoreWith(t, dir, o), kernel.Create(plain(1)))
		mark := contentOf(t, file(dir, markFile))
		if len(mark) != 256 || strings.IndexByte(mark, '\n') != 255 || !strings.HasPrefix(mark, strconv.Quote(boot)+" ") {
			t.Errorf("boot %s: %d bytes, %q", boot, len(mark), mark)
		}
	}
}
