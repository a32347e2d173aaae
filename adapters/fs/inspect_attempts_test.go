package fs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What is on record of an attempt that has ended and was damaged is found, and moved aside by a repair. What may just
// be written, what a newer version wrote, and a child that was never written in full are no damage.
func TestInspectFindsDamagedAttempts(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	ended, runs := plain(1), plain(2)
	ended.State = kernel.State{Status: kernel.Failed, Attempt: 3}
	runs.State = kernel.State{Status: kernel.Running, Attempt: 2}
	commit(t, s, kernel.Create(ended), kernel.Create(runs))
	at := func(job int, name string) string {
		return filepath.Join(dir, ".vizier", "jobs", string(id(job)), filepath.FromSlash(name))
	}
	for _, f := range []struct {
		job       int
		name, has string
	}{
		{1, "outcome.json", `{"version":`}, {1, "attempts/1.outcome.json", ""}, {1, "attempts/2.outcome.json", `{"version":99}`},
		{1, "attempts/1.json", `{"host":`}, {1, "attempts/2.json", `{"host":"h","child":{"pi   }` + "\n"}, {1, "attempts/4.json", `{"host":"h","child":{"pid":1`}, {1, "attempts/3.json", ""},
		{1, "attempts/1.result.json", "{"}, {1, "attempts/1.beat", "{"},
		{2, "outcome.json", "{"}, {2, "attempts/1.json", "{"}, {2, "attempts/2.json", "{"}, {2, "attempts/2.outcome.json", "{"},
	} {
		if err := os.MkdirAll(at(f.job, "attempts"), 0o700); err != nil {
			t.Fatal(err)
		}
		writeAt(t, at(f.job, f.name), f.has)
	}
	path := func(job int, name string) string { return ".vizier/jobs/" + string(id(job)) + "/" + name }
	want := []string{path(1, "attempts/1.json"), path(1, "attempts/1.outcome.json"), path(1, "attempts/3.json"), path(1, "attempts/4.json"), path(1, "outcome.json"), path(2, "attempts/1.json")}
	var found []string
	for _, j := range []kernel.Job{ended, runs} {
		for _, odd := range s.inspectFiles(&j) {
			found = append(found, odd.Path)
			if !strings.Contains(odd.Text, " is damaged: ") {
				t.Errorf("%s: %s", odd.Path, odd.Text)
			}
			if err := odd.Fix(); err != nil {
				t.Error(err)
			}
		}
		if left := s.inspectFiles(&j); left != nil {
			t.Errorf("after the repair: %v", left)
		}
	}
	if slices.Sort(found); !slices.Equal(found, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
	for name, has := range map[string]string{"outcome.json.1": `{"version":`, "attempts.1.json.1": `{"host":`} {
		if aside := contentOf(t, filepath.Join(dir, ".vizier", asideDir, string(id(1))+"."+name)); aside != has {
			t.Errorf("%s: %q", name, aside)
		}
	}
}

// A job that is cancelled while its launches are refused leaves no files of an attempt, and a clean store.
func TestACancelledJobThatNeverBegan(t *testing.T) {
	s := newStore(t, t.TempDir())
	j := plain(1)
	j.State = kernel.State{Status: kernel.Queued, Attempt: 3, Refused: 3}
	commit(t, s, kernel.Create(j))
	end := j.State
	end.Status, end.Outcome, end.Exit, end.Finished = kernel.Cancelled, kernel.OutcomeCancelled, kernel.Exited(143), t0
	commit(t, s, kernel.PutState{Job: j.ID, If: 1, State: end})
	if _, err := os.Stat(s.OutcomeFile(j.ID)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Inspect(nil); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// What is on record of another attempt's start, under this one's name, is damage: the process ids differ.
func TestInspectFindsTheClaimOfAnother(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	j := plain(1)
	j.State = kernel.State{Status: kernel.Failed, Attempt: 2}
	commit(t, s, kernel.Create(j))
	at := func(name string) string {
		return filepath.Join(dir, ".vizier", "jobs", string(id(1)), "attempts", name)
	}
	if err := os.MkdirAll(at(""), 0o700); err != nil {
		t.Fatal(err)
	}
	writeAt(t, at("notes.json"), "{") // no attempt's
	for child, want := range map[string]string{
		`,"child":{"pid":7}`: "", `,"child":{"pid":0}`: "", "": "",
		`,"child":{"pid":8}`: "it is about another one: its command had the process id 8, and this one's had 7",
	} {
		b, err := encodeOutcome(kernel.Result{Attempt: kernel.AttemptID{Job: id(1), N: 1}, Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure, Ended: t0, Place: kernel.Place{Host: "h", PID: 7}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		writeAt(t, at("1.outcome.json"), string(b))
		writeAt(t, at("1.json"), `{"host":"h"`+child+"}")
		odd := s.inspectFiles(&j)
		if want == "" && len(odd) > 0 || want != "" && (len(odd) != 1 || !strings.Contains(odd[0].Text, want)) {
			t.Errorf("%q: %+v", child, odd)
		}
	}
}

// A job that was removed is not put back from the journal, whatever is in its place since.
func TestARemovedJobIsNotPutBack(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	j := plain(1)
	commit(t, s, kernel.Create(j))
	commit(t, s, kernel.RemoveJob{Job: j.ID})
	at := filepath.Join(dir, ".vizier", "jobs", string(j.ID))
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	writeAt(t, filepath.Join(at, "notes"), "x")
	if err := os.MkdirAll(filepath.Join(dir, ".vizier", sentinelsDir), 0o700); err != nil {
		t.Fatal(err)
	}
	writeAt(t, filepath.Join(dir, ".vizier", sentinelsDir, "notes.txt"), "x") // is no mark
	odd, err := s.Inspect(nil)
	if err != nil || len(odd) != 1 || !strings.Contains(odd[0].Text, "is lost") || odd[0].Fix() != nil {
		t.Fatalf("%+v, %v", odd, err)
	}
	if odd, err := s.Inspect(nil); err != nil || len(odd) > 0 {
		t.Errorf("after the repair: %+v, %v", odd, err)
	}
	if _, err := os.Lstat(at); !os.IsNotExist(err) {
		t.Errorf("its directory is there: %v", err)
	}
}
