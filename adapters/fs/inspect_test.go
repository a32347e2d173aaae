package fs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// An inspection reports each file that does not fit the store, with a fix if there is one.
func TestInspect(t *testing.T) {
	dir := t.TempDir()
	o := options()
	o.Now = time.Now
	s := newStoreWith(t, dir, o)
	if odd, err := newStore(t, t.TempDir()).Inspect(nil); odd != nil || err != nil {
		t.Errorf("of no store: %v %v", odd, err)
	}
	var jobs []kernel.Action
	for n := 1; n <= 7; n++ {
		jobs = append(jobs, kernel.Create(plain(n)))
	}
	known, gone := kernel.RunID("run_"+id(1)), kernel.RunID("run_"+id(2))
	commit(t, s, append(jobs, kernel.CreateRun{Run: known, Manifest: []byte("{}")}, kernel.CreateRun{Run: gone, Manifest: []byte("{}")})...)
	following, err := s.FollowRun(known)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[kernel.RunID]bool{known: true}
	found := func() (texts []string, fixes map[string]func() error) {
		t.Helper()
		tx := begin(t, s)
		defer closeTx(t, tx)
		odd, err := s.Inspect(runs)
		if err != nil {
			t.Fatal(err)
		}
		fixes = map[string]func() error{}
		for _, o := range odd {
			mended := " [fix]"
			if fixes[o.Path] = o.Fix; o.Fix == nil {
				mended = ""
			}
			texts = append(texts, strings.TrimPrefix(o.Path, ".vizier/jobs/")+": "+strings.SplitN(o.Text, ":", 2)[0]+mended)
		}
		slices.Sort(texts)
		return texts, fixes
	}
	if texts, _ := found(); !slices.Equal(texts, []string{"runs/" + string(gone) + ".json: the manifest of a run that has no job [fix]"}) {
		t.Fatalf("of a store that is well: %q", texts)
	}
	at := func(name string) string { return filepath.Join(dir, ".vizier", "jobs", name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) { t.Helper(); writeAt(t, at(name), text) }
	write(string(id(1))+"/job.json", "{") // the journal still has the record
	write(string(id(2))+"/state", "running\n")
	must(os.Remove(at(string(id(3)) + "/job.json"))) // its state file stays
	must(os.Remove(at(string(id(4)) + "/job.json")))
	write(string(id(4))+"/stdout.log", "work")
	write(string(id(5))+"/job.json", `{"version": 99}`) // of a newer program
	must(os.Remove(at(string(id(6)) + "/state")))
	write(string(id(7))+"/.x.1.2.tmp", "")
	write("no-job/.y.tmp", "")
	write("runs/run_x.txt", "")
	write("runs/"+string(gone)+".follow", "")
	must(os.Symlink("/dev/null", at(string(id(7))+"/stdout.log")))
	must(os.Symlink("/dev/null", at("events.jsonl")))
	texts, fixes := found()
	want := []string{
		string(id(1)) + "/job.json: the record cannot be read [fix]",
		string(id(2)) + "/state: the record means \"queued\", and it does not say so [fix]",
		string(id(3)) + ": a job's directory without a record; the journal has the record [fix]",
		string(id(4)) + ": a job's directory without a record; the journal has the record [fix]",
		string(id(5)) + "/job.json: the record cannot be read",
		string(id(6)) + "/state: the record means \"queued\", and it does not say so [fix]",
		string(id(7)) + "/stdout.log: a symbolic link, which Vizier does not follow",
		"events.jsonl: a symbolic link, which Vizier does not follow",
		"runs/" + string(gone) + ".follow: somebody followed this run and is gone [fix]",
		"runs/" + string(gone) + ".json: the manifest of a run that has no job [fix]",
	}
	slices.Sort(want)
	if !slices.Equal(texts, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
	tx := begin(t, s)
	if _, err := tx.Load(kernel.Scope{}); err != nil {
		t.Fatal(err)
	}
	for path, fix := range fixes {
		if fix != nil {
			if err := fix(); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	rec, err := tx.Load(kernel.Scope{Near: []kernel.Near{{Kind: kernel.Newest, Most: 99}}})
	if _, bad := rec.Unreadable[id(1)]; err != nil || bad || !slices.ContainsFunc(rec.Jobs, func(j kernel.Job) bool { return j.ID == id(1) }) {
		t.Errorf("mended in a transaction, it is not there: %v, %v", rec.Unreadable, err)
	}
	closeTx(t, tx)
	if j := find(t, read(t, newStore(t, dir)), id(1)); j.ID != id(1) || j.Rev != 1 {
		t.Errorf("%+v", j)
	}
	for _, n := range []int{3, 4} {
		if j := find(t, read(t, newStore(t, dir)), id(n)); j.Rev != 1 {
			t.Errorf("job %d is not back: %+v", n, j)
		}
	}
	for _, name := range []string{"runs/" + string(gone) + ".json", "runs/" + string(gone) + ".follow"} {
		if _, err := os.Lstat(at(name)); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
	texts, _ = found()
	if !slices.Equal(texts, []string{string(id(5)) + "/job.json: the record cannot be read",
		string(id(7)) + "/stdout.log: a symbolic link, which Vizier does not follow", "events.jsonl: a symbolic link, which Vizier does not follow"}) {
		t.Errorf("after all fixes: %q", texts)
	}
	must(os.Remove(at(string(id(7)) + "/stdout.log")))
	must(os.Remove(at("events.jsonl")))
	writeAt(t, filepath.Join(dir, ".vizier", sentinelsDir, "p.json"), `{"job_id":`)
	if texts, _ := found(); !slices.Contains(texts, ".vizier/"+sentinelsDir+"/p.json: the mark of an open merge conflict cannot be read") {
		t.Errorf("of a mark that was cut short: %q", texts)
	}
	journal := []byte(contentOf(t, at("journal/plans")))
	journal[len(journal)/2] ^= 1
	write("journal/plans", string(journal))
	if texts, _ := found(); !slices.Contains(texts, "journal/plans: an entry was changed, or is damaged") {
		t.Errorf("of a damaged journal: %q", texts)
	}
	if err := following.Close(); err != nil {
		t.Error(err)
	}
	// a temporary file is left alone until it is old
	later := options()
	for _, wait := range []time.Duration{59 * time.Minute, 61 * time.Minute} {
		want := 0
		if wait > time.Hour {
			want = 2
		}
		later.Now = func() time.Time { return time.Now().Add(wait) }
		old := newStoreWith(t, dir, later)
		tx := begin(t, old)
		odd, err := old.Inspect(runs)
		n := 0
		for _, o := range odd {
			if o.Text == "a temporary file that somebody left" {
				n++
				if wait > time.Hour && o.Fix() != nil {
					t.Error(o.Path)
				}
			}
		}
		if err != nil || n != want {
			t.Errorf("after %v: %d, %v", wait, n, err)
		}
		closeTx(t, tx)
	}
}

// A sealed file that was changed is found without looking into it. One of a later version is no fault.
func TestInspectFindsAChangedSegment(t *testing.T) {
	l := emptyStore(t)
	l.ask(kernel.NewJob{ID: id(1), Spec: plain(1).Spec, Approval: kernel.Require(t0, "ann")})
	l.s.log.limit = 1 // the next commit seals
	if _, err := l.app.Reject(t.Context(), id(1), kernel.Refusal{By: "bob"}); err != nil {
		t.Fatal(err)
	}
	name := segment{first: 1}.file()
	was := contentOf(t, filepath.Join(l.dir, vizierDir, name))
	damaged := []byte(was)
	damaged[len(damaged)/2] ^= 1
	for row, want := range map[string]struct{ content, next string }{
		"as it was":         {was, ""},
		"a changed byte":    {string(damaged), "vizier history verify"},
		"cut off":           {was[:len(was)-1], "vizier history verify"},
		"empty":             {"", "vizier history verify"},
		"of a later format": {historyKind + "2\n", ""},
	} {
		t.Run(row, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(l.dir, vizierDir, name), []byte(want.content), 0o600); err != nil {
				t.Fatal(err)
			}
			var next string
			found, err := l.s.Inspect(nil)
			for _, odd := range found {
				if odd.Path == vizierDir+"/"+name {
					next = odd.Next
				}
			}
			if next != want.next || err != nil {
				t.Errorf("%+v, %v", found, err)
			}
		})
	}
}

// A history that was trimmed begins with an opening, and is well.
func TestInspectOfATrimmedHistory(t *testing.T) {
	l := emptyStore(t)
	l.submit(1)
	l.s.log.limit = 1 // each commit seals
	for n := 2; n <= 5; n++ {
		l.submit(n)
	}
	l.s.KeepHistory(1, 0)
	if err := l.s.TrimHistory(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := l.s.segments()
	if err != nil || !slices.ContainsFunc(all, func(g segment) bool { return g.opening }) {
		t.Fatalf("%+v, %v", all, err)
	}
	if found, err := l.s.Inspect(nil); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// The marker of what a job has made is missing if nobody had it removed.
func TestInspectOfMissingMarkers(t *testing.T) {
	s := newStore(t, t.TempDir())
	made := custom("t", "k")
	for name, c := range map[string]struct {
		change func(*kernel.Job)
		n      int
	}{
		"gone":               {func(*kernel.Job) {}, 1},
		"of a job that runs": {func(j *kernel.Job) { j.State.Status = kernel.Running }, 0},
		"purged":             {func(j *kernel.Job) { j.State.Removed = t0 }, 0},
		"retired":            {func(j *kernel.Job) { j.State.Retired = true }, 0},
		"never declared":     {func(j *kernel.Job) { j.Spec.Produces = nil }, 0},
		"of another attempt": {func(j *kernel.Job) { j.State.Attempt = 2 }, 0},
		"of another kind too": {func(j *kernel.Job) {
			j.Spec.Produces = append(j.Spec.Produces, kernel.Artifact{Kind: kernel.PlanDoc, Name: "p", Ref: "b"})
		}, 1},
	} {
		j := plain(1)
		j.Spec.Produces, j.State = []kernel.Artifact{made}, kernel.State{Status: kernel.Succeeded, Attempt: 1}
		commit(t, s, kernel.Create(j))
		r := kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Ended: t0, Produced: []kernel.Artifact{made, {Kind: kernel.PlanDoc, Name: "p", Ref: "b"}}}
		if err := s.Conclude(r); err != nil {
			t.Fatal(err)
		}
		c.change(&j)
		if odd := s.inspectMarkers(&j); len(odd) != c.n {
			t.Errorf("%s: %+v", name, odd)
		}
		commit(t, s, kernel.RemoveJob{Job: j.ID})
	}
}

// A record that may not be read is not damaged: it is not written anew, and what helps is named.
func TestInspectOfWhatMayNotBeRead(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	disktest.Owned(t, dir)
	shut := filepath.Join(dir, ".vizier", "jobs", string(id(1)))
	if err := os.Chmod(shut, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(shut, 0o700)
	tx := begin(t, s)
	defer closeTx(t, tx)
	odd, err := s.Inspect(nil)
	if err != nil || len(odd) == 0 {
		t.Fatal(odd, err)
	}
	for _, o := range odd {
		if o.Fix != nil || !strings.Contains(o.Next, "chmod") {
			t.Errorf("%s: %s: next: %q", o.Path, o.Text, o.Next)
		}
	}
}
