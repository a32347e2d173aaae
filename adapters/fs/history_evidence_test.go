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
	l.headsFit(b, 5)
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

// headsFit checks that evidence of the entries 1 to last is an opening without records and one
// sealed file, whose heads tell the same of the entries as the history does.
func (l *livedStore) headsFit(b []byte, last uint64) {
	l.t.Helper()
	p, err := newStore(l.t, l.dir).history(l.t.Context(), false)
	if err != nil {
		l.t.Fatal(err)
	}
	want := []segmentHead{{First: 1, Opening: true}, {First: 1, Last: last}}
	if err := p.each(func(e *pastEntry) error {
		if when := stamp(e.written()); e.number == 1 {
			want[0].Began, want[0].Ended, want[1].Began = when, when, when
		}
		if e.number == last {
			want[1].Tip, want[1].Ended = e.digest(), stamp(e.written())
		}
		return nil
	}); err != nil {
		l.t.Fatal(err)
	}
	_, parts, err := openEvidence(b)
	if err != nil || len(parts) != len(want) {
		l.t.Fatalf("%d parts, %v", len(parts), err)
	}
	for i, part := range parts {
		head, content, err := openSegment(part)
		if want[i].Size = int64(len(content)); err != nil || head != want[i] {
			l.t.Errorf("part %d: %+v, want %+v, %v", i+1, head, want[i], err)
		}
		bad := slices.Clone(b)
		at := bytes.Index(bad, part) + len(part)/2
		bad[at] ^= 1
		_, v, err := VerifyEvidence(l.t.Context(), "1.0", resealed(bad))
		if name := []string{"part 1", "part 2"}[i]; err != nil || len(v.Findings) != 1 || v.Findings[0].File != name || v.Findings[0].Kind != FoundDamage {
			l.t.Errorf("%s is damaged: %+v, %v", name, v.Findings, err)
		}
	}
}

// A change by hand belongs to the history of its job, and so does an entry that does not say what it was decided by.
func TestEvidenceOfWhatWasNotDecided(t *testing.T) {
	l := newLivedStore(t)
	l.edit(1, `"exit_code": 0`, `"exit_code": 3`)
	l.submit(4, 1)
	b, err := newStore(t, l.dir).Export(t.Context(), "1", []kernel.JobID{id(1)}, noCommits)
	if err != nil {
		t.Fatal(err)
	}
	if _, v, err := VerifyEvidence(t.Context(), "1.0", b); err != nil || v.Last != 7 || len(v.Findings) != 1 || v.Findings[0].Kind != FoundEdit || v.Findings[0].Entry != 7 {
		t.Errorf("%+v, %v", v, err)
	}
	commit(t, l.s, put(find(t, read(t, l.s), id(2)), func(st *kernel.State) { st.Reason = "no account" }))
	p, err := newStore(t, l.dir).history(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	needed := map[kernel.JobID]bool{}
	if parts, err := p.between(t.Context(), 8, 8, nil, needed); err != nil || len(parts) != 2 || !needed[id(2)] || needed[id(3)] {
		t.Errorf("%d parts need %v, %v", len(parts), needed, err)
	}
}

// Whether a job is packed makes no difference to the digests of its files.
func TestEvidenceOfAPackedJob(t *testing.T) {
	_, s := packStore(t, options())
	files := func() []EvidenceFile {
		t.Helper()
		b, err := s.Export(t.Context(), "1", []kernel.JobID{id(1)}, func(_ context.Context, marks []string) ([]EvidenceCommit, error) {
			if !slices.Equal(marks, []string{effect.Trailer + strings.Repeat("a1", 32)}) {
				t.Errorf("it looks for %v", marks)
			}
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		e, _, err := VerifyEvidence(t.Context(), "", b)
		if err != nil {
			t.Fatal(err)
		}
		return e.Jobs[0].Files
	}
	before := files()
	var names []string
	for _, f := range before {
		names = append(names, strings.TrimPrefix(f.Path, ".vizier/jobs/"+string(id(1))+"/"))
	}
	if want := []string{"attempts/1.json", "attempts/1.outcome.json", "attempts/1.report.jsonl", "effects/" + strings.Repeat("a1", 32) + ".json", "hooks/0.1.mail.log", outcomeName, "stderr.log", "stdout.log"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	packAll(t, s)
	if after := files(); s.Packed(id(1)) == "" || !slices.Equal(after, before) {
		t.Errorf("packed:\n%+v\nbefore:\n%+v", after, before)
	}
	wrong := errors.New("git is gone")
	if b, err := s.Export(t.Context(), "1", []kernel.JobID{id(1)}, func(context.Context, []string) ([]EvidenceCommit, error) { return nil, wrong }); b != nil || !errors.Is(err, wrong) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// Without the traces of an effect no commit is looked for.
func TestEvidenceWithoutCommits(t *testing.T) {
	l := newLivedStore(t)
	b, err := l.s.Export(t.Context(), "1", []kernel.JobID{id(1)}, func(context.Context, []string) ([]EvidenceCommit, error) { return nil, errors.New("asked") })
	if err != nil || !bytes.Contains(b, []byte(`"commits":[]`)) {
		t.Errorf("%.200s, %v", b, err)
	}
}

// Whichever call of the disk fails, evidence has all files of a job, or there is none.
func TestWhicheverCallOfTheDiskFailsEvidenceIsWhole(t *testing.T) {
	oneGoroutine(t)
	l := emptyStore(t)
	sp := plain(1).Spec
	sp.Produces = []kernel.Artifact{custom("t", "k")}
	l.ask(kernel.NewJob{ID: id(1), Spec: sp})
	if err := l.s.WritePayload(id(1), custom("t", "k"), []byte("load")); err != nil {
		t.Fatal(err)
	}
	l.seal(func() { l.submit(2, 1) })
	writeAt(t, l.s.LogFile(id(1), "stdout"), "out")
	writeAt(t, file(l.dir, jobPath(id(1), "hooks/1.log")), "sent")
	export := func(d *faulty) ([]byte, error) {
		s := NewStore(l.dir, options())
		s.disk = d
		b, err := s.Export(t.Context(), "1", []kernel.JobID{id(1)}, noCommits)
		return b, errors.Join(err, s.Close())
	}
	all := &faulty{stats: true}
	want, err := export(all)
	if err != nil {
		t.Fatal(err)
	}
	for k := 1; k <= all.n; k++ {
		d := &faulty{at: k, stats: true}
		if got, err := export(d); err == nil && !bytes.Equal(got, want) {
			t.Errorf("%s fails, call %d of %d: %d bytes, want %d", d.where, k, all.n, len(got), len(want))
		}
	}
}

// Evidence replaces a file, or is written through a link, and is for its owner alone.
func TestWhereEvidenceIsWritten(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	writeAt(t, at("old"), "something longer than before")
	for link, to := range map[string]string{"link": "linked", "link to old": "old 2"} {
		if err := os.Symlink(at(to), at(link)); err != nil {
			t.Fatal(err)
		}
	}
	writeAt(t, at("old 2"), "something longer than before")
	if err := os.Link(at("old"), at("kept")); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"new": "new", "old": "old", "link": "linked", "link to old": "old 2"} {
		if err := WriteEvidence(at(name), []byte("evidence")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		info, err := os.Lstat(at(file))
		if got := contentOf(t, at(file)); err != nil || got != "evidence" || !info.Mode().IsRegular() || name == "link" && info.Mode() != 0o600 {
			t.Errorf("%s: %q in %v, %v", name, got, info.Mode(), err)
		}
	}
	if got := contentOf(t, at("kept")); got == "evidence" {
		t.Error("the old file was written to: a full disk would leave neither")
	}
	if info, err := os.Lstat(at("link")); err != nil || info.Mode().Type() != iofs.ModeSymlink {
		t.Errorf("the link is %v, %v", info, err)
	}
	for _, name := range []string{at("missing/e"), dir} {
		if err := WriteEvidence(name, []byte("evidence")); err == nil {
			t.Errorf("it is written to %s", name)
		}
	}
}

// What is no evidence is refused, each kind with its reason.
func TestWhatIsNoEvidenceIsRefused(t *testing.T) {
	of := func(text string) []byte { return resealed(append([]byte(text), make([]byte, sha256.Size)...)) }
	for text, want := range map[string]error{
		evidenceKind + "2\n":   ErrNewer,
		evidenceKind + "1":     errEvidence,
		evidenceKind + "1\r\n": errEvidence,
		evidenceKind + "0\n":   errEvidence,
		evidenceKind + "x\n":   errEvidence,
		"history\n2\n":         errEvidence,
		string(of(evidenceVersion + `{"parts":[1]}` + "\n")):    errEvidence,
		string(of(evidenceVersion + `{"parts":[-1]}` + "\nx")):  errEvidence,
		string(of(evidenceVersion + `{"parts":[1,1]}` + "\nx")): errEvidence,
		string(of(evidenceVersion + `{"parts":[1]}` + "\nx")):   nil,
		string(of(evidenceVersion + `{"parts":[]}` + "\n")):     nil,
		string(of(evidenceVersion + `{}`)):                      nil,
		evidenceVersion + strings.Repeat("x", sha256.Size-1):    errEvidence,
	} {
		if _, _, err := openEvidence([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	if _, _, err := openEvidence(of(evidenceVersion)); err == nil || errors.Is(err, errEvidence) {
		t.Errorf("without its first line: %v", err)
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
	there, first := custom("t", "there"), custom("s", "first")
	sp.Produces = []kernel.Artifact{there, first, custom("t", "missing"), {Kind: kernel.CommandPatch, Name: string(id(1))}}
	l.ask(kernel.NewJob{ID: id(1), Spec: sp})
	another := custom(string(id(1)), "") // of the patch's name, and the job does not make it
	for _, err := range []error{l.s.WritePayload(id(1), there, []byte("load")), l.s.WritePayload(id(1), first, []byte("sorted")), l.s.WritePayload(id(1), another, []byte("load")), l.s.WritePatch(id(1), []byte("patch"))} {
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
	var want []EvidenceFile
	for _, f := range [][2]string{{jobPath(id(1), patchName), "patch"}, {jobPath(id(1), "stdout.log"), "out"},
		{artifactFile(payloadsDir, first, id(1)), "sorted"}, {artifactFile(payloadsDir, there, id(1)), "load"}} {
		want = append(want, EvidenceFile{vizierDir + "/" + f[0], int64(len(f[1])), digest(sha256.Sum256([]byte(f[1]))).String()})
	}
	if got := e.Jobs[0].Files; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
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
	l.submit(4)
	p, err := newStore(t, l.dir).history(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if first, last, err := p.spanOf(t.Context(), map[kernel.JobID]bool{id(1): true}); first != 1 || last != 3 || err != nil {
		t.Errorf("job 1 is in the entries %d to %d, %v", first, last, err)
	}
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
