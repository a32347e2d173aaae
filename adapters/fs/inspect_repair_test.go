package fs

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// damage is what happens to a store between two commands, and what an inspection says of it.
type damage struct {
	do   map[string]string // what becomes of files: their content, gone, or what is there instead
	says []string          // "PATH: TEXT"; a text that the system makes is cut off at "..."
	next string            // what each says to do
	left []string          // what is still said after the repair
	aside,
	changed []string // what is moved aside, and files that are not as they were
}

const (
	isGone = "\x00gone"
	isDir  = "\x00dir"
	isLink = "\x00link"
)

func (d damage) happen(t *testing.T, dir string) {
	t.Helper()
	for name, to := range d.do {
		at := file(dir, name)
		err := os.RemoveAll(at)
		if err == nil && to != isGone {
			err = os.MkdirAll(filepath.Dir(at), 0o700)
		}
		if err == nil {
			switch to {
			case isGone:
			case isDir:
				err = os.MkdirAll(filepath.Join(at, "below"), 0o700)
			case isLink:
				err = os.Symlink("/dev/null", at)
			default:
				err = os.WriteFile(at, []byte(to), 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What an inspection finds, it says in a few words, with the next step, and a repair puts it right as far as it can:
// what stood in the way is kept aside, and what there is a copy of is back as it was. Whichever call of the disk fails meanwhile,
// the repair says so, or the store is right; and then another repair does what is left.
func TestWhatARepairPutsRight(t *testing.T) {
	oneGoroutine(t)
	whole := t.TempDir()
	tok := custom("t", "k")
	u := strike(t, whole)
	serve := func(n int) error {
		r := &app.Runner{Scheduler: u.sched, Outcomes: u.Store, Workload: u}
		return r.Serve(t.Context(), kernel.AttemptID{Job: id(n), N: 1}, io.NopCloser(nil))
	}
	if err := errors.Join(u.submit(wanted(1, "one", yields(tok))), u.later(time.Minute), serve(1), u.submit(wanted(2, "two"), wanted(3, "three", yields(tok))), u.later(time.Minute), u.finish(2),
		u.WritePayload(id(1), tok, []byte("p")), u.WriteSentinel("slug", []byte("{}")), u.Close()); err != nil {
		t.Fatal(err)
	}
	writeAt(t, file(whole, jobPath(id(1), "stdout.log")), "out")
	copied := func() string {
		to := t.TempDir()
		if err := os.CopyFS(to, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		return to
	}
	files := func(dir string) map[string]string {
		all := tree(t, dir)
		for name := range all {
			if strings.Contains(name, "aside/") || strings.HasSuffix(name, ".tmp") {
				delete(all, name)
			}
		}
		return all
	}
	before := files(whole)
	job, other := jobPath(id(1), ""), jobPath(id(2), "")
	marker, payload := artifactFile(markersDir, tok, id(1)), artifactFile(payloadsDir, tok, id(1))
	outcome, end, start := jobPath(id(1), outcomeName), jobPath(id(1), attemptOutcome(1)), jobPath(id(1), attemptsDir+"/1.json")
	for _, name := range []string{marker, payload, outcome, end} {
		if before[name] == "" {
			t.Fatalf("there is no %s in\n%v", name, slices.Sorted(maps.Keys(before)))
		}
	}
	moved := func(name string) string {
		return strings.ReplaceAll(strings.TrimPrefix(name, jobsDir+"/"), "/", ".") + ".1"
	}
	const aside = ". A repair moves it to .vizier/jobs/aside"
	inPlace := func(name, what, of, more string) damage {
		return damage{do: map[string]string{name: what}, says: []string{name + ": " + map[string]string{isDir: "a directory", isLink: "a symbolic link, which Vizier does not follow,", "file": "a file"}[what] +
			" is in the place of " + of + aside + more}, aside: []string{moved(name)}}
	}
	gone := func(d damage, names ...string) damage { d.changed = names; return d }
	lost := marker + ": the marker of custom:t:k is missing, which the job has made: no other job finds that. A repair writes the marker anew"
	rows := map[string]damage{
		"nothing": {},
		"a record that is gone from a job with files":  {do: map[string]string{job + "/job.json": isGone}, says: []string{job + ": a job's directory without a record; the journal has the record"}},
		"a job's directory with files that nobody has": {do: map[string]string{jobPath(id(9), "stdout.log"): "out"}, says: []string{jobPath(id(9), "") + ": a job's directory without a record: job " + string(id(9)) + " is lost, and if it was open it will not run. A repair moves what is left of it to .vizier/jobs/aside"}, aside: []string{string(id(9)) + ".1"}},
		"a job's directory with nothing in it": {do: map[string]string{jobPath(id(9), stateName): "queued\n", jobPath(id(9), ".x.tmp"): "", jobPath(id(9), lockName): ""},
			says: []string{jobPath(id(9), "") + ": a job's directory without a record, and with nothing in it"}},
		"a file in the place of a job's directory":        {do: map[string]string{job: "x"}, says: []string{job + ": a file is in the place of a job's directory; the journal has the record" + aside}, aside: []string{string(id(1)) + ".1"}, left: []string{end + ": what is on record of the attempt is missing. A repair writes its end anew from outcome.json"}, changed: []string{job + "/stdout.log", job + "/attempts/", end}},
		"a file in the place of a lost one":               {do: map[string]string{jobPath(id(9), ""): "x"}, says: []string{jobPath(id(9), "") + ": a file is in the place of a job's directory: job " + string(id(9)) + " is lost, and if it was open it will not run" + aside}, aside: []string{string(id(9)) + ".1"}},
		"a directory in the place of the event log":       gone(inPlace(eventsFile, isDir, "the file, so no event is recorded", ""), eventsFile),
		"a directory in the place of a full event log":    inPlace("jobs/events.7.jsonl", isDir, "the file, so events cannot be read", ""),
		"a directory in the place of the resident's lock": inPlace(residentFile, isDir, "the file, so no resident scheduler can start", ""),
		"a link in the place of the resident's lock":      inPlace(residentFile, isLink, "the file, so no resident scheduler can start", ""),
		"a directory in the place of the hooks' lock":     gone(inPlace(drainFile, isDir, "the file, so no hook is called", ""), "jobs/hooks/"),
		"a directory in the place of the lost runners":    inPlace(lostFile, isDir, "the file, so no job goes on whose runner was lost", ""),
		"a link in the place of the lost runners":         {do: map[string]string{lostFile: isLink}, says: []string{lostFile + ": a symbolic link, which Vizier does not follow"}, next: "move what it leads to here, or the link away if it is none of Vizier's", left: []string{lostFile + ": a symbolic link, which Vizier does not follow"}, changed: []string{lostFile}},
		"a file in the place of all artifacts": {do: map[string]string{artifactsDir: "file"}, says: []string{lost, artifactsDir + ": a file is in the place of a directory of artifacts, so no job can make one there" + aside},
			aside: []string{"artifacts.1"}, changed: []string{payload, payloadsDir + "/", payloadsDir + "/74/", payloadsDir + "/74/6b/"}},
		"a directory in the place of a payload":      gone(inPlace(payload, isDir, "an artifact's payload", ""), payload),
		"a link in the place of a payload":           {do: map[string]string{payload: isLink}, says: []string{payload + ": a symbolic link, which Vizier does not follow"}, next: "move what it leads to here, or the link away if it is none of Vizier's", left: []string{payload + ": a symbolic link, which Vizier does not follow"}, changed: []string{payload}},
		"a directory in the place of a marker":       inPlace(marker, isDir, "an artifact's marker", ", and writes the marker anew if the job has made the artifact"),
		"a link in the place of a marker":            inPlace(marker, isLink, "an artifact's marker", ", and writes the marker anew if the job has made the artifact"),
		"a marker that is gone":                      {do: map[string]string{marker: isGone}, says: []string{lost}},
		"a marker that nobody made in another's way": inPlace(artifactFile(markersDir, tok, id(3)), isDir, "an artifact's marker", ", and writes the marker anew if the job has made the artifact"),
		"a marker of no job in the way":              inPlace(artifactFile(markersDir, tok, id(9)), isDir, "an artifact's marker", ", and writes the marker anew if the job has made the artifact"),
		"a directory in the place of a log":          gone(inPlace(job+"/stdout.log", isDir, "the file", ""), job+"/stdout.log"),
		"a directory in the place of a lock":         inPlace(job+"/job.lock", isDir, "the file", ""),
		"a file in the place of all effects":         inPlace(job+"/effects", "file", "the directory of effects, so an operation that has one fails", ""),
		"a file in the place of all attempts":        inPlace(job+"/attempts", "file", "the directory of attempts, so none can start", ""),
		"an outcome that is gone":                    {do: map[string]string{outcome: isGone}, says: []string{outcome + ": what is on record of the attempt's end is missing. A repair writes it anew from what the attempt or the journal has"}},
		"an outcome that was cut short":              {do: map[string]string{outcome: "{"}, says: []string{outcome + ": what is on record of the attempt's end is damaged: ..."}, aside: []string{moved(outcome)}},
		"an end that was cut short":                  {do: map[string]string{end: "{"}, says: []string{end + ": what is on record of the attempt's end is damaged: ..."}, aside: []string{moved(end)}},
		"an end of another attempt": {do: map[string]string{end: strings.Replace(before[end], `"attempt": 1`, `"attempt": 2`, 1)}, says: []string{end + ": what is on record of the attempt's end is damaged: it is about attempt 2" + aside + ", and writes it anew from a copy"},
			aside: []string{moved(end)}},
		"a directory in the place of an outcome":   inPlace(outcome, isDir, "what is on record of the attempt's end", ", and writes it anew from a copy"),
		"a directory in the place of an end":       inPlace(end, isDir, "what is on record of the attempt's end", ", and writes it anew from a copy"),
		"all that is on record of an attempt":      {do: map[string]string{end: isGone, start: isGone}, says: []string{end + ": what is on record of the attempt is missing. A repair writes its end anew from outcome.json"}},
		"all attempts":                             {do: map[string]string{job + "/attempts": isGone}, says: []string{end + ": what is on record of the attempt is missing. A repair writes its end anew from outcome.json"}},
		"a state that is wrong":                    {do: map[string]string{other + "/state": "odd\n"}, says: []string{other + `/state: the record means "succeeded", and it does not say so`}},
		"a directory in the place of a state file": {do: map[string]string{other + "/state": isDir}, says: []string{other + `/state: the record means "succeeded", and it does not say so`}, aside: []string{moved(other + "/state")}},
		"a directory in the place of a record":     {do: map[string]string{other + "/job.json": isDir}, says: []string{other + `/job.json: the record cannot be read: ...`}, aside: []string{moved(other + "/job.json")}},
		"a mark of a conflict that is torn": {do: map[string]string{sentinelsDir + "/slug.json": "{"}, says: []string{sentinelsDir + "/slug.json: the mark of an open merge conflict cannot be read: it was cut short or is damaged"},
			next: "move it away, and retry the merge of this plan: it marks the conflict anew", left: []string{sentinelsDir + "/slug.json: the mark of an open merge conflict cannot be read: it was cut short or is damaged"}, changed: []string{sentinelsDir + "/slug.json"}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0 // of the disk, by the last repair
			// mend returns what is found, and why the repair failed, one of whose calls of the disk fails.
			mend := func(s *Store, fix bool, at int) (says []string, next string, failed, err error) {
				tx, err := s.Begin(t.Context())
				if err != nil {
					return nil, "", nil, err
				}
				found, err := s.Inspect(nil)
				for _, odd := range found {
					text := odd.Text
					for _, want := range row.says {
						if path, cut, is := strings.Cut(want, ": "); is && ".vizier/"+path == odd.Path && strings.HasSuffix(cut, "...") && strings.HasPrefix(text, strings.TrimSuffix(cut, "...")) {
							text = cut
						}
					}
					says = append(says, strings.TrimPrefix(odd.Path, ".vizier/")+": "+text)
					next = odd.Next
				}
				slices.Sort(says)
				if d, is := s.disk.(*faulty); is {
					d.n, d.at = 0, at
				}
				if fix && err == nil {
					failed = repair(found)
				}
				if d, is := s.disk.(*faulty); is {
					calls, d.at = d.n, 0
				}
				return says, next, failed, errors.Join(err, tx.Close())
			}
			spoilt := func() (string, *Store, *faulty) {
				dir, d := copied(), &faulty{}
				row.happen(t, dir)
				s := newStore(t, dir)
				s.disk = d
				return dir, s, d
			}
			dir, s, _ := spoilt()
			says, next, failed, err := mend(s, true, 0)
			if err != nil || failed != nil || !slices.Equal(says, row.says) || next != row.next {
				t.Fatalf("%v, %v, next %q\n%s", err, failed, next, cmp.Diff(row.says, says))
			}
			first := calls
			right := func(how string) {
				t.Helper()
				left, _, _, err := mend(newStore(t, dir), false, 0)
				if err != nil || !slices.Equal(left, row.left) {
					t.Errorf("%s: it says %q, %v", how, left, err)
				}
				after, was := files(dir), files(whole)
				for _, name := range row.changed {
					delete(was, name)
					delete(after, name)
				}
				if diff := cmp.Diff(was, after); diff != "" {
					t.Errorf("%s: %s", how, diff)
				}
				kept, _ := os.ReadDir(file(dir, asideDir))
				var names []string
				for _, e := range kept {
					names = append(names, e.Name())
				}
				if !slices.Equal(names, row.aside) {
					t.Errorf("%s: aside is %q", how, names)
				}
			}
			right("repaired")
			if len(row.says) == 0 || row.next != "" {
				return
			}
			for k := 1; k <= first; k++ {
				var d *faulty
				dir, s, d = spoilt()
				_, _, failed, err := mend(s, true, k)
				if err := errors.Join(err, s.Close()); err != nil {
					t.Error(err)
				}
				how := fmt.Sprintf("%s failed, call %d of %d", d.where, k, first)
				if failed == nil && !strings.HasPrefix(d.where, "open ") && !strings.HasPrefix(d.where, "read ") && !strings.HasPrefix(d.where, "names ") {
					right(how)
					continue
				}
				if _, _, again, err := mend(newStore(t, dir), true, 0); err != nil || again != nil {
					t.Errorf("%s, and the next time: %v, %v", how, again, err)
				}
			}
		})
	}
}

// A lost job whose runner may still be at work is left alone.
func TestARunnerWithoutARecord(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	lock := file(dir, jobPath(id(9), lockName))
	writeAt(t, lock, "")
	f, err := os.OpenFile(lock, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, s)
	defer closeTx(t, tx)
	odd, err := s.Inspect(nil)
	if err != nil || len(odd) != 1 || odd[0].Fix != nil || odd[0].Text != "a job's directory without a record" ||
		odd[0].Next != "a runner is at work in it: wait for its end, and run `vizier doctor` again" {
		t.Errorf("%+v, %v", odd, err)
	}
}

// If the journal cannot be read, nobody knows whether it has the record of a job.
func TestAJobOfWhichTheJournalSaysNothing(t *testing.T) {
	dir := t.TempDir()
	s, d := newStore(t, dir), &faulty{}
	s.disk = d
	commit(t, s, kernel.Create(plain(1)))
	writeAt(t, file(dir, jobPath(id(8), "stdout.log")), "out")
	writeAt(t, file(dir, jobPath(id(9), "")), "x")
	tx := begin(t, s)
	defer closeTx(t, tx)
	for n, want := range map[int]string{8: "a job's directory without a record, and it is not known whether the journal has the record: ",
		9: "a file is in the place of a job's directory, and it is not known whether the journal has the record: "} {
		d.only, d.at, d.n = plansFile, 1, 0
		odd := s.inspectJob(id(n))
		if len(odd) != 1 || odd[0].Fix != nil || odd[0].Next != journalUnread || !strings.HasPrefix(odd[0].Text, want) || !strings.Contains(odd[0].Text, unix.EIO.Error()) {
			t.Errorf("%+v", odd)
		}
	}
	d.at = 0
	for _, odd := range slices.Concat(s.inspectJob(id(8)), s.inspectJob(id(9))) {
		if odd.Fix == nil {
			t.Errorf("%+v", odd)
		}
	}
}

// What is wrong with the start of an attempt is said in words, and not in those of the decoder.
func TestWhatIsWrongWithAClaim(t *testing.T) {
	s := newStore(t, t.TempDir())
	for text, want := range map[string]string{"7": "expected object, found number", `{"host": 7}`: `field "host": expected string, found number`, "": "it is empty", "{": "it was cut short"} {
		if err := s.checkClaim(id(1), 1, []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// A pipe is no file, and nobody waits for what comes out of it.
func TestAPipeInThePlaceOfAFile(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	if err := unix.Mkfifo(file(dir, eventsFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if odd := s.inspectEvents(); len(odd) != 1 || odd[0].Text != "a pipe or a device is in the place of the file, so no event is recorded. A repair moves it to .vizier/jobs/aside" {
		t.Errorf("%+v", odd)
	}
}

// A change that cannot be written is told with its job, unless what is in its way is told by itself.
func TestWhatIsInTheWayOfAHeldChange(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)), kernel.Create(plain(2)), kernel.Create(plain(3)))
	marker := artifactFile(markersDir, custom("t", "k"), id(1))
	if err := os.MkdirAll(file(dir, marker+"/below"), 0o700); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, s)
	defer closeTx(t, tx)
	held := func(n int, path string) quarantinedGroup {
		return quarantinedGroup{id(n), fmt.Sprintf("job %d is held", n), group{job: id(n), ops: []fileOp{{kind: opWrite, path: jobPath(id(n), stateName)}, {kind: opWrite, path: path}}}}
	}
	s.quarantine = []quarantinedGroup{held(2, marker+"x"), held(1, marker)}
	defer func() { s.quarantine = nil }()
	odd, err := s.Inspect(nil)
	var got []string
	for _, o := range odd {
		got = append(got, o.Path+": "+o.Text)
	}
	want := []string{".vizier/" + marker + ": a directory is in the place of an artifact's marker. A repair moves it to .vizier/jobs/aside, and writes the marker anew if the job has made the artifact",
		".vizier/" + jobPath(id(2), recordName) + ": job 2 is held"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%s", err, cmp.Diff(want, got))
	}
}
