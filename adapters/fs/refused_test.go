package fs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What has no valid job id is refused before it becomes a path.
func TestNoPathIsMadeOfABadID(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	before := tree(t, dir)
	for _, bad := range []kernel.JobID{"", "../x", "a/b", kernel.JobID(strings.Repeat("g", 32))} {
		a := kernel.AttemptID{Job: bad, N: 1}
		for name, err := range map[string]error{
			"a patch":             s.WritePatch(bad, []byte("p")),
			"no input":            s.WriteNoInput(bad, "why"),
			"a payload":           s.WritePayload(bad, custom("t", "k"), []byte("p")),
			"attempts":            second(s.Attempts(bad)),
			"the end of a log":    second(s.LogTail(bad, "stdout", 9)),
			"a log":               second(s.OpenLog(bad, "stdout")),
			"a job":               second(s.Job(bad)),
			"an outcome":          s.Conclude(kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded}),
			"an outcome for good": s.ConcludeOnce(kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded}),
		} {
			if err == nil {
				t.Errorf("%s of job %q is no error", name, bad)
			}
		}
		if s.Applied(a) {
			t.Errorf("an attempt of job %q is done", bad)
		}
	}
	if after := tree(t, dir); len(after) != len(before) {
		t.Errorf("%d files were made", len(after)-len(before))
	}
}

func second[T any](_ T, err error) error { return err }

// A pack that holds something else than files of a job, or that ends early, is no pack.
func TestPacksOfSomethingElse(t *testing.T) {
	pack := func(heads ...tar.Header) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for _, h := range heads {
			h.Mode = 0o600
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size))); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	good := tar.Header{Name: "effects/a.json", Size: 3, Typeflag: tar.TypeReg}
	whole := pack(good)
	if files, err := decodePack(whole); err != nil || len(files) != 1 || files[0].name != good.Name || string(files[0].data) != "xxx" {
		t.Fatalf("%+v, %v", files, err)
	}
	for name, b := range map[string][]byte{
		"a directory":    pack(good, tar.Header{Name: "d/", Typeflag: tar.TypeDir}),
		"a link":         pack(tar.Header{Name: "l", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}),
		"a way out":      pack(tar.Header{Name: "../x", Size: 1, Typeflag: tar.TypeReg}),
		"another way":    pack(tar.Header{Name: "/x", Size: 1, Typeflag: tar.TypeReg}),
		"an odd name":    pack(tar.Header{Name: "a//b", Size: 1, Typeflag: tar.TypeReg}),
		"its beginning":  whole[:len(whole)/2],
		"all but an end": whole[:len(whole)-1],
		"no archive":     []byte("x"),
		"nothing":        nil,
	} {
		if files, err := decodePack(b); err == nil {
			t.Errorf("%s is a pack of %+v", name, files)
		}
	}
}

// The number of a job is given to the record that the plan was made for, and to no other.
func TestTheNumberOfAJob(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	for name, a := range map[string]kernel.NumberJob{"another revision": {Job: id(1), If: 9, Number: 7}, "no job": {Job: id(2), If: 1, Number: 7}} {
		tx := begin(t, s)
		load(t, tx)
		if err := tx.Commit(kernel.NewPlan(a)); err == nil {
			t.Errorf("%s got a number", name)
		}
		closeTx(t, tx)
	}
	commit(t, s, kernel.NumberJob{Job: id(1), If: 1, Number: 7, Part: "p"})
	rec := read(t, newStore(t, dir))
	if j := find(t, rec, id(1)); j.Number != 7 || j.Part != "p" || j.Rev != 2 || j.State.Status != kernel.Queued || rec.Last != 7 {
		t.Errorf("%d/%s, revision %d, %s; the last number is %d", j.Number, j.Part, j.Rev, j.State.Status, rec.Last)
	}
}

// No job is made in the place of another one, neither of the same plan nor of an earlier one.
func TestAJobIsMadeOnce(t *testing.T) {
	s := newStore(t, t.TempDir())
	commit(t, s, kernel.Create(plain(1)))
	for name, actions := range map[string][]kernel.Action{"one that is there": {kernel.Create(plain(1))}, "one of the plan": {kernel.Create(plain(2)), kernel.Create(plain(2))}} {
		tx := begin(t, s)
		load(t, tx)
		if err := tx.Commit(kernel.NewPlan(actions...)); !errors.Is(err, kernel.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
		closeTx(t, tx)
	}
	if rec := read(t, s); len(rec.Jobs) != 1 {
		t.Errorf("there are %d jobs", len(rec.Jobs))
	}
}

// Who calls a long look off is answered with that, and not with a part.
func TestLooksThatAreCalledOff(t *testing.T) {
	l := newLivedStore(t)
	l.seal(func() { l.submit(4) })
	b, err := l.s.Export(t.Context(), "1", []kernel.JobID{id(1)}, noCommits)
	if err != nil {
		t.Fatal(err)
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	for name, look := range map[string]func(context.Context) error{
		"the history": func(ctx context.Context) error {
			return l.s.History(ctx, func(kernel.JobID, []byte) bool { return true }, func(HistoryEntry) error { return nil })
		},
		"whether it is whole": func(ctx context.Context) error { return second(l.s.VerifyHistory(ctx)) },
		"evidence":            func(ctx context.Context) error { return second(l.s.Export(ctx, "1", []kernel.JobID{id(1)}, noCommits)) },
		"whether that is":     func(ctx context.Context) error { _, _, err := VerifyEvidence(ctx, "1.0", b); return err },
		"the past":            func(ctx context.Context) error { return second(l.s.PastAt(ctx, Moment{})) },
		"the records":         func(ctx context.Context) error { _, _, err := l.s.Validate(ctx); return err },
	} {
		if err := look(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := look(gone); err == nil {
			t.Errorf("%s that is called off is told", name)
		}
	}
	within, stop := context.WithCancel(t.Context())
	told := 0
	err = l.s.History(within, func(kernel.JobID, []byte) bool { return true }, func(HistoryEntry) error { told++; stop(); return nil })
	if !errors.Is(err, context.Canceled) || told != 1 {
		t.Errorf("called off after the first entry: %v, %d entries", err, told)
	}
}

// withDigest returns b with its digest.
func withDigest(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(bytes.Clone(b), sum[:]...)
}

// Evidence says what it is: of a later format, damaged, or with parts that it does not have.
func TestEvidenceThatIsNone(t *testing.T) {
	l := newLivedStore(t)
	b, err := l.s.Export(t.Context(), "1", []kernel.JobID{id(1)}, noCommits)
	if err != nil {
		t.Fatal(err)
	}
	e, parts, err := openEvidence(b)
	if err != nil || len(parts) == 0 {
		t.Fatal(len(parts), err)
	}
	with := func(parts ...[]byte) []byte {
		b, err := e.encode(parts)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	other := func(old, text string) []byte { // with a digest that is right
		return withDigest(bytes.Replace(b[:len(b)-32], []byte(old), []byte(text), 1))
	}
	for name, c := range map[string]struct {
		b     []byte
		finds string
	}{
		"whole":                  {with(parts...), ""},
		"of a later format":      {append([]byte(evidenceKind+"2\n"), b...), "evidence format 2"},
		"of an unknown format":   {append([]byte(evidenceKind+"x\n"), b...), errEvidence.Error()},
		"cut short":              {b[:len(b)-1], errEvidence.Error()},
		"with another head":      {other(`{`, `{"unknown`), "."},
		"with a part too much":   {append(bytes.Clone(with(parts...)[:len(b)-32]), b[len(b)-32:]...), ""},
		"that does not begin":    {with(parts[1:]...), errSegment.Error()},
		"of damaged parts":       {with(append([][]byte{parts[0][:len(parts[0])-1]}, parts[1:]...)...), errSegment.Error()},
		"with more than it says": {withDigest(append(bytes.Clone(b[:len(b)-32]), 'x')), errEvidence.Error()},
		"with less than it says": {withDigest(b[:len(b)-33]), errEvidence.Error()},
	} {
		_, v, err := VerifyEvidence(t.Context(), "1.0", c.b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var found []string
		for _, f := range v.Findings {
			found = append(found, f.Text)
		}
		if text := strings.Join(found, "; "); (c.finds == "") != (text == "") || !strings.Contains(text, strings.TrimPrefix(c.finds, ".")) {
			t.Errorf("%s: found is %q, want %q", name, text, c.finds)
		}
	}
}

// The markers of what a job made go with its record, and with its files, but not those that another job made.
func TestMarkersGoWithTheirJob(t *testing.T) {
	tok := custom("t", "k")
	for name, gone := range map[string]kernel.Action{
		"removed": kernel.RemoveJob{Job: id(1), Produces: []kernel.Artifact{tok}},
		"purged":  kernel.PurgeFiles{Job: id(1), Produces: []kernel.Artifact{tok}},
	} {
		s := newStore(t, t.TempDir())
		var actions []kernel.Action
		for n := 1; n <= 2; n++ {
			j := plain(n)
			j.Spec.Produces = []kernel.Artifact{tok}
			j.State.Status, j.State.Attempt = kernel.Succeeded, 1
			actions = append(actions, kernel.Create(j), kernel.Publish{Attempt: j.Attempt(), Artifacts: []kernel.Artifact{tok}})
		}
		commit(t, s, actions...)
		owners := func() []kernel.JobID {
			f := kernel.NewFacts()
			s.Observe(t.Context(), kernel.Probes{Markers: []kernel.Artifact{tok}}, &f)
			ids := slices.Clone(f.Markers[tok].Value)
			slices.Sort(ids)
			return ids
		}
		if got := owners(); !slices.Equal(got, []kernel.JobID{id(1), id(2)}) {
			t.Fatalf("%s: made by %q", name, got)
		}
		commit(t, s, gone)
		if got := owners(); !slices.Equal(got, []kernel.JobID{id(2)}) {
			t.Errorf("%s: afterwards made by %q", name, got)
		}
	}
}
