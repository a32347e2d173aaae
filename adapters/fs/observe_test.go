package fs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/kernel"
)

func observe(s *Store, p kernel.Probes) kernel.Facts {
	f := kernel.NewFacts()
	s.Observe(context.Background(), p, &f)
	return f
}

func markersOf(t *testing.T, s *Store, a kernel.Artifact) []kernel.JobID {
	t.Helper()
	f, ok := observe(s, kernel.Probes{Markers: []kernel.Artifact{a}}).Markers[a]
	if !ok || !f.Known || f.Err != "" {
		t.Fatalf("markers of %q: %+v", a, f)
	}
	slices.Sort(f.Value)
	return f.Value
}

// Whether an artifact exists is not known while a link is in the place of one of the directories on the way to its
// marker, and the inspection names that place.
func TestMarkersBehindALink(t *testing.T) {
	a := custom("type", "key")
	for _, at := range []string{artifactsDir, markersDir, typeDir(markersDir, a.Name), artifactDir(markersDir, a)} {
		for _, to := range []string{"aside", "nothing"} {
			s := newStore(t, t.TempDir())
			commit(t, s, kernel.Publish{Attempt: kernel.AttemptID{Job: id(1), N: 1}, Artifacts: []kernel.Artifact{a}})
			if got := markersOf(t, s, a); !slices.Equal(got, []kernel.JobID{id(1)}) {
				t.Fatal(got)
			}
			path, elsewhere := s.abs(at), t.TempDir()
			if err := errors.Join(os.Rename(path, filepath.Join(elsewhere, "aside")), os.Symlink(filepath.Join(elsewhere, to), path)); err != nil {
				t.Fatal(err)
			}
			if f := observe(s, kernel.Probes{Markers: []kernel.Artifact{a}}).Markers[a]; f.Err == "" {
				t.Errorf("%s: %+v", at, f)
			}
			odd, err := s.Inspect(nil)
			if err != nil || !slices.ContainsFunc(odd, func(o Oddity) bool { return o.Path == vizierDir+"/"+at }) {
				t.Errorf("%s: %+v, %v", at, odd, err)
			}
		}
	}
}

// Each artifact has a marker of its own, whatever its name.
func TestMarkersOfAnyName(t *testing.T) {
	long := strings.Repeat("n", 120) // 240 digits: the longest that stays in one level
	names := []string{"a", "A", "b", ".", "..", "a/b", "a_", "ä", "日本語", " ", "new\nline", "x\x00y", long, long + "n", long + long + "n",
		strings.Repeat("/", 800), strings.Repeat("ü", 300), "job.json", strings.Repeat("f", 32)}
	dir := t.TempDir()
	s := newStore(t, dir)
	var actions []kernel.Action
	arts := map[kernel.Artifact][]kernel.JobID{}
	for n, name := range names {
		for m, key := range names {
			if (n+m)%3 != 0 { // some are published by none, some by one, some by two
				continue
			}
			a := custom(name, key)
			for _, job := range []kernel.JobID{id(n + 1), id(50 + m)}[:1+(n+m)%2] {
				arts[a] = append(arts[a], job)
				actions = append(actions, kernel.Publish{Attempt: kernel.AttemptID{Job: job, N: 1}, Artifacts: []kernel.Artifact{a}})
			}
		}
	}
	commit(t, s, actions...)
	for _, n := range names {
		for _, m := range names {
			a := custom(n, m)
			if d := cmp.Diff(arts[a], markersOf(t, s, a)); d != "" {
				t.Errorf("markers of %.60q: %s", a, d)
			}
		}
	}
	gone := custom(names[0], names[0])
	commit(t, s, kernel.Reset{Attempt: kernel.AttemptID{Job: id(1)}, Produces: []kernel.Artifact{gone}})
	if got := markersOf(t, s, gone); len(got) != 0 {
		t.Errorf("markers after a reset: %v", got)
	}
	where := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		where++
		if err == nil && len(d.Name()) > 255 {
			t.Errorf("a name of %d bytes", len(d.Name()))
		}
		return err
	})
	if err != nil || where < 100 {
		t.Errorf("%d files, %v", where, err)
	}
}

// Files with other names than markers have do not count as markers.
func TestOnlyMarkersAreMarkers(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	a := custom("t", "k")
	commit(t, s, kernel.Publish{Attempt: kernel.AttemptID{Job: id(1), N: 1}, Artifacts: []kernel.Artifact{a, {Kind: kernel.PlanDoc, Name: "x", Ref: "y"}}})
	at := filepath.Dir(file(dir, artifactFile(markersDir, a, id(1))))
	for _, name := range []string{string(id(2)), "x.json", "." + string(id(3)) + ".json.1.1.tmp", string(id(4)) + ".json.bak", "ABC.json"} {
		writeAt(t, filepath.Join(at, name), "{}")
	}
	if got := markersOf(t, s, a); len(got) != 1 || got[0] != id(1) {
		t.Errorf("markers %v", got)
	}
	writeAt(t, file(dir, markersDir, hexName("t"), hexName("file")), "not a directory")
	if got := markersOf(t, s, custom("t", "file")); len(got) != 0 {
		t.Errorf("markers %v", got)
	}
}

func TestSentinelsAndPatches(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	writeAt(t, file(dir, sentinelsDir, "open.json"), "{}")
	writeAt(t, file(dir, sentinelsDir, "a b\n..ä.json"), "{}")
	writeAt(t, s.PatchFile(id(1)), "diff")
	sentinel := func(slug string) kernel.Artifact { return kernel.Artifact{Kind: kernel.MergeSentinel, Name: slug} }
	patch := func(job string) kernel.Artifact { return kernel.Artifact{Kind: kernel.CommandPatch, Name: job} }
	for a, want := range map[kernel.Artifact]kernel.Fact[bool]{
		sentinel("open"):                     kernel.Seen(true),
		sentinel("a b\n..ä"):                 kernel.Seen(true),
		sentinel("other"):                    kernel.Seen(false),
		patch(string(id(1))):                 kernel.Seen(true),
		patch(string(id(2))):                 kernel.Seen(false),
		patch("../" + string(id(1))):         kernel.Seen(false),
		{Kind: kernel.PlanBranch, Name: "x"}: {}, // another observer's
	} {
		if got := observe(s, kernel.Probes{Artifacts: []kernel.Artifact{a}}).Present[a]; got != want {
			t.Errorf("%q: %+v, want %+v", a, got, want)
		}
	}
	for _, bad := range []string{"", "..", "a/b", strings.Repeat("x", 300)} {
		a := sentinel(bad)
		if got := observe(s, kernel.Probes{Artifacts: []kernel.Artifact{a}}).Present[a]; got.Known || got.Err == "" {
			t.Errorf("%.20q: %+v, want an error", bad, got)
		}
	}
	for range 2 { // clearing what is clear is no error
		if err := s.ClearSentinel("open"); err != nil {
			t.Fatal(err)
		}
	}
	a := sentinel("open")
	if got := observe(s, kernel.Probes{Artifacts: []kernel.Artifact{a}}).Present[a]; got != kernel.Seen(false) {
		t.Errorf("after clearing: %+v", got)
	}
}

func TestResults(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	a := kernel.AttemptID{Job: id(1), N: 3}
	ask := func() kernel.Fact[*kernel.Result] {
		return observe(s, kernel.Probes{Attempts: []kernel.AttemptID{a}}).Results[a]
	}
	if f := ask(); !f.Known || f.Value != nil {
		t.Errorf("none yet: %+v", f)
	}
	want := someResult(id(1))
	for range 2 {
		if err := s.Conclude(want); err != nil {
			t.Fatal(err)
		}
	}
	if f := ask(); !f.Known || f.Value == nil || diff(want, *f.Value) != "" {
		t.Errorf("recorded: %+v", f)
	}
	later := want
	later.Attempt.N = 4
	if err := s.Conclude(later); err != nil {
		t.Fatal(err)
	}
	if f := ask(); !f.Known || f.Value == nil || diff(want, *f.Value) != "" {
		t.Errorf("beside that of a later attempt: %+v", f)
	}
	a.N = 9
	if f := ask(); !f.Known || f.Value != nil {
		t.Errorf("of an attempt without one: %+v", f)
	}
	a = later.Attempt
	whole := contentOf(t, s.OutcomeFile(id(1)))
	for name, content := range map[string]string{
		"empty": "", "torn": whole[:len(whole)/2], "garbage": "\x00\x01", "another job's": strings.ReplaceAll(whole, string(id(1)), string(id(2))),
		"no outcome": `{"version":1,"id":"` + string(id(1)) + `"}`, "unknown word": strings.Replace(whole, `"failed"`, `"fine"`, 1),
	} {
		writeAt(t, s.OutcomeFile(id(1)), content)
		writeAt(t, file(dir, jobPath(id(1), attemptOutcome(a.N))), content)
		if f := ask(); f.Value == nil || f.Value.Class != kernel.WorkerLost || !strings.Contains(f.Value.Reason, "outcome.json") {
			t.Errorf("%s: %+v, want a lost attempt, and the file's name", name, f)
		}
	}
	if err := errors.Join(os.Remove(s.OutcomeFile(id(1))), os.Mkdir(s.OutcomeFile(id(1)), 0o700)); err != nil {
		t.Fatal(err)
	}
	if f := ask(); f.Known || f.Err == "" {
		t.Errorf("a directory: %+v", f)
	}
	if err := s.Conclude(want); err == nil {
		t.Error("an outcome was recorded over a directory")
	}
}

// Every observation of a store that cannot be opened is an error.
func TestObserveWithoutAStore(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, vizierDir)); err != nil {
		t.Fatal(err)
	}
	a, art, sentinel := kernel.AttemptID{Job: id(1), N: 1}, custom("t", "k"), kernel.Artifact{Kind: kernel.MergeSentinel, Name: "x"}
	f := observe(newStore(t, dir), kernel.Probes{Markers: []kernel.Artifact{art}, Artifacts: []kernel.Artifact{sentinel}, Attempts: []kernel.AttemptID{a}})
	if f.Markers[art].Err == "" || f.Present[sentinel].Err == "" || f.Results[a].Err == "" {
		t.Errorf("%+v", f)
	}
	f = observe(newStore(t, t.TempDir()), kernel.Probes{Markers: []kernel.Artifact{art}, Artifacts: []kernel.Artifact{sentinel}, Attempts: []kernel.AttemptID{a}})
	if !f.Markers[art].Known || f.Present[sentinel] != kernel.Seen(false) || !f.Results[a].Known {
		t.Errorf("where there is no store nothing exists: %+v", f)
	}
}

// If a result cannot be read, it is unknown. A file without a valid result shows that
// the runner was lost.
func TestResultsThatCannotBeRead(t *testing.T) {
	j := plain(1)
	j.State = kernel.State{Status: kernel.Running, Attempt: 1}
	a := j.Attempt()
	whole, err := encodeOutcome(kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded}, nil)
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(strings.Replace(string(whole), "succeeded", "improved", 1), `"version": 1`, `"version": 99`, 1)
	for name, c := range map[string]struct {
		latest, own string // what the files hold; "": nothing, "/": there is a directory
		known, lost bool
	}{
		"none":                   {"", "", true, false},
		"whole":                  {string(whole), "", true, false},
		"its own is whole":       {"{ torn", string(whole), true, false},
		"torn":                   {"{ torn", "", true, true},
		"its own is torn":        {"", "{ torn", true, true},
		"no file":                {"/", "", false, false},
		"its own is no file":     {"", "/", false, false},
		"of a newer program":     {newer, "", false, false},
		"own of a newer program": {"", newer, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := newStore(t, dir)
			commit(t, s, kernel.Create(j))
			for path, text := range map[string]string{jobPath(a.Job, outcomeName): c.latest, jobPath(a.Job, attemptOutcome(1)): c.own} {
				switch text {
				case "":
				case "/":
					if err := os.MkdirAll(file(dir, path), 0o700); err != nil {
						t.Fatal(err)
					}
				default:
					writeAt(t, file(dir, path), text)
				}
			}
			got := observe(s, kernel.Probes{Attempts: []kernel.AttemptID{a}}).Results[a]
			if got.Known != c.known || (got.Err == "") != c.known || (got.Value != nil && got.Value.Class == kernel.WorkerLost) != c.lost {
				t.Errorf("%+v", got)
			}
			if c.own == string(whole) || c.latest == string(whole) {
				if got.Value == nil || got.Value.Outcome != kernel.OutcomeSucceeded {
					t.Errorf("%+v", got.Value)
				}
			}
		})
	}
}
