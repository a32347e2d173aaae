package fs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

func noCommits(context.Context, []string) ([]EvidenceCommit, error) { return nil, nil }

// resealed returns a file with a digest at its end that fits: whoever changes a file can change that, too.
func resealed(b []byte) []byte {
	b = slices.Clone(b[:len(b)-sha256.Size])
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// Evidence is accepted as it was written, and refused with any byte changed.
func TestEvidenceRefusesEveryChangedByte(t *testing.T) {
	l := newLivedStore(t)
	l.submit(4, 3)
	if err := os.WriteFile(l.s.LogFile(id(1), "stdout"), []byte("made\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := newStore(t, l.dir).Export(t.Context(), "1", []kernel.JobID{id(1), id(2)}, noCommits)
	if err != nil {
		t.Fatal(err)
	}
	e, v, err := VerifyEvidence(t.Context(), "1.0", b)
	if err != nil || len(v.Findings) > 0 || v.First != 1 || v.Last != 5 || v.Decisions != 5 {
		t.Fatalf("%+v, %v", v, err)
	}
	if len(e.Jobs) != 2 || len(e.Jobs[0].Files) != 1 || e.Jobs[0].Files[0] != (EvidenceFile{".vizier/jobs/" + string(id(1)) + "/stdout.log", 5, digest(sha256.Sum256([]byte("made\n"))).String()}) {
		t.Fatalf("%+v", e)
	}
	refused := func(b []byte) bool {
		_, v, err := VerifyEvidence(t.Context(), "1.0", b)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(v.Findings, func(f Finding) bool { return !f.Harmless() })
	}
	for i := range b {
		bad := slices.Clone(b)
		bad[i] ^= 1 << (i % 8)
		if !refused(bad) {
			t.Fatalf("byte %d of %d may be changed", i, len(b))
		}
	}
	for i := range b {
		if !refused(b[:i]) {
			t.Fatalf("the first %d of %d bytes are enough", i, len(b))
		}
	}
	// A change in the chain is refused even if the digest at the end fits.
	line := bytes.IndexByte(b[len(evidenceVersion):], '\n') + len(evidenceVersion)
	for i := line + 1; i < len(b)-sha256.Size; i++ {
		bad := slices.Clone(b)
		bad[i] ^= 1 << (i % 8)
		if !refused(resealed(bad)) {
			t.Fatalf("byte %d of %d may be changed with the digest at the end", i, len(b))
		}
	}
}

// Evidence has what its decisions read, and no other job.
func TestEvidenceHasWhatItNeeds(t *testing.T) {
	l := emptyStore(t)
	for n := 1; n <= 20; n++ {
		l.submit(n)
		l.end(n, kernel.OutcomeSucceeded)
	}
	l.submit(21, 7)
	l.seal(func() { l.end(21, kernel.OutcomeFailed) })
	b, err := newStore(t, l.dir).Export(t.Context(), "21", []kernel.JobID{id(21)}, noCommits)
	if err != nil {
		t.Fatal(err)
	}
	_, parts, err := openEvidence(b)
	if err != nil {
		t.Fatal(err)
	}
	_, content, err := openSegment(parts[0])
	if err != nil {
		t.Fatal(err)
	}
	var before []kernel.JobID
	_ = eachEntry(content, "", nil, func(e *pastEntry) error {
		for _, g := range e.groups {
			if g.job != "" {
				before = append(before, g.job)
			}
		}
		return nil
	})
	if !slices.Equal(before, []kernel.JobID{id(7)}) {
		t.Errorf("it has the records of %v", before)
	}
	if _, v, err := VerifyEvidence(t.Context(), "1.0", b); err != nil || len(v.Findings) > 0 || v.Decisions != 2 || v.First != 41 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := newStore(t, l.dir).Export(t.Context(), "99", []kernel.JobID{id(99)}, noCommits); err == nil {
		t.Error("there is evidence of a job that never was")
	}
}

// A verification reports a record that differs from the history, and a commit that does
// not match its name or does not belong to the jobs.
func TestEvidenceTellsWhatDoesNotMatch(t *testing.T) {
	l := newLivedStore(t)
	key := strings.Repeat("ab", 32)
	writeAt(t, file(l.dir, jobPath(id(1), effectsDir+"/"+key+".json")), "{}")
	object := []byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nmade\n\n" + effect.Trailer + key + "\n")
	name := kernel.CommitID(objectName(object, 40))
	foreign := []byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nmade\n")
	finds := func(commits []EvidenceCommit, want ...string) {
		t.Helper()
		b, err := newStore(t, l.dir).Export(t.Context(), "1", []kernel.JobID{id(1)}, func(_ context.Context, marks []string) ([]EvidenceCommit, error) {
			if !slices.Equal(marks, []string{effect.Trailer + key}) {
				t.Errorf("it looks for %v", marks)
			}
			return commits, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		_, v, err := VerifyEvidence(t.Context(), "1.0", b)
		var got []string
		for _, f := range v.Findings {
			got = append(got, f.Kind)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v, %v; want %v", v.Findings, err, want)
		}
	}
	finds([]EvidenceCommit{{name, object}})
	finds([]EvidenceCommit{{name, append(slices.Clone(object), '!')}}, FoundDamage)
	finds([]EvidenceCommit{{kernel.CommitID(objectName(foreign, 64)), foreign}}, FoundEdit)
	l.edit(1, `"exit_code": 0`, `"exit_code": 3`)
	finds(nil, FoundEdit)
}

// Evidence names the files that a job left, those of its custom artifacts too.
func TestEvidenceNamesWhatAJobLeft(t *testing.T) {
	l := emptyStore(t)
	sp := plain(1).Spec
	there := custom("t", "there")
	sp.Produces = []kernel.Artifact{there, custom("t", "missing"), {Kind: kernel.CommandPatch, Name: string(id(1))}}
	l.ask(kernel.NewJob{ID: id(1), Spec: sp})
	for _, err := range []error{l.s.WritePayload(id(1), there, []byte("load")), l.s.WritePatch(id(1), []byte("patch"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	writeAt(t, l.s.LogFile(id(1), "stdout"), "out")
	b, err := newStore(t, l.dir).Export(t.Context(), "1", []kernel.JobID{id(1)}, noCommits)
	if err != nil {
		t.Fatal(err)
	}
	e, _, err := VerifyEvidence(t.Context(), "1.0", b)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]EvidenceFile{}
	for _, f := range e.Jobs[0].Files {
		got[f.Path] = f
	}
	for name, text := range map[string]string{artifactFile(payloadsDir, there, id(1)): "load", jobPath(id(1), "stdout.log"): "out"} {
		path := vizierDir + "/" + name
		if want := (EvidenceFile{path, int64(len(text)), digest(sha256.Sum256([]byte(text))).String()}); got[path] != want {
			t.Errorf("%+v, want %+v", got[path], want)
		}
	}
}

// Evidence with extra bytes after its parts is refused, even if the digest at the end fits.
func TestEvidenceWithMoreBehindIt(t *testing.T) {
	l := newLivedStore(t)
	b, err := newStore(t, l.dir).Export(t.Context(), "1", []kernel.JobID{id(1)}, noCommits)
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{"x", "xy"} {
		bad := resealed(slices.Concat(b[:len(b)-sha256.Size], []byte(more), b[len(b)-sha256.Size:]))
		if _, _, err := openEvidence(bad); !errors.Is(err, errEvidence) {
			t.Errorf("with %q behind it: %v", more, err)
		}
	}
}

// Evidence that spans the loss of a journal has what came after it, and tells of the loss.
func TestEvidenceAcrossALostJournal(t *testing.T) {
	l := newLivedStore(t)
	if err := errors.Join(l.s.Close(), os.Remove(filepath.Join(l.dir, vizierDir, plansFile))); err != nil {
		t.Fatal(err)
	}
	l.submit(4, 1)
	whole, err := newStore(t, l.dir).VerifyHistory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := newStore(t, l.dir).Export(t.Context(), "1", []kernel.JobID{id(1), id(4)}, noCommits)
	if err != nil {
		t.Fatal(err)
	}
	_, v, err := VerifyEvidence(t.Context(), "1.0", b)
	if err != nil || v.First != 1 || v.Last != whole.Last || v.Tip != whole.Tip || v.Decisions != whole.Decisions {
		t.Errorf("%+v, %v; the whole history: %+v", v, err, whole)
	}
	if len(v.Findings) == 0 || v.Findings[0].Harmless() || v.Findings[0].Text != lostEntries(3).Text {
		t.Errorf("it finds %+v", v.Findings)
	}
}

// Only what an export wrote is read as evidence.
func TestAFileThatIsNoEvidence(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "e")
	if b, err := ReadEvidence(name); !errors.Is(err, iofs.ErrNotExist) || b != nil {
		t.Errorf("%q, %v", b, err)
	}
	for text, good := range map[string]bool{evidenceKind + "1\nrest": true, "": false, "x" + evidenceKind: false} {
		writeAt(t, name, text)
		b, err := ReadEvidence(name)
		if good && (err != nil || string(b) != text) || !good && (!errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), name+" is no evidence, which `vizier history export` writes")) {
			t.Errorf("%q: %q, %v", text, b, err)
		}
	}
	if _, err := ReadEvidence(dir); err == nil || errors.Is(err, kernel.ErrInvalid) {
		t.Errorf("a directory: %v", err)
	}
}

// A number is given once more only to the job as it was.
func TestANumberIsGivenAgain(t *testing.T) {
	j := plain(1)
	j.Rev = 3
	r := &redone{jobs: map[kernel.JobID]*kernel.Job{id(1): &j, id(2): nil}}
	if err := r.NumberJob(kernel.NumberJob{Job: id(1), If: 3, Number: 5, Part: "2"}); err != nil {
		t.Fatal(err)
	}
	if now := r.jobs[id(1)]; now.Number != 5 || now.Part != "2" || now.Rev != 4 || now.Spec.Name != j.Spec.Name {
		t.Errorf("%+v", now)
	}
	for _, n := range []int{1, 2} {
		if err := r.NumberJob(kernel.NumberJob{Job: id(n), If: 3}); !errors.Is(err, kernel.ErrStale) {
			t.Errorf("job %d, which is another by now: %v", n, err)
		}
	}
}
