package fs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/kernel"
)

// rewrite writes the journal anew with the entries that change returns.
func (l *livedStore) rewrite(change func([]*pastEntry) []*pastEntry) {
	l.t.Helper()
	name := file(l.dir, plansFile)
	var all []*pastEntry
	if err := eachEntry([]byte(contentOf(l.t, name)), name, nil, func(e *pastEntry) error { all = append(all, e); return nil }); err != nil {
		l.t.Fatal(err)
	}
	var journal []byte
	for _, e := range change(all) {
		b, err := e.encode()
		if err != nil {
			l.t.Fatal(err)
		}
		journal = append(journal, b...)
	}
	writeAt(l.t, name, string(journal))
}

// toldFindings returns findings as lines.
func toldFindings(all []Finding) (lines []string) {
	for _, f := range all {
		line := fmt.Sprintf("%s %d %s: %s", f.Kind, f.Entry, strings.TrimLeft(string(f.Job), "0"), f.Text)
		if f.Recorded != "" || f.Decided != "" {
			line += fmt.Sprintf(" [%s / %s]", f.Recorded, f.Decided)
		}
		lines = append(lines, line)
	}
	return lines
}

// Whatever somebody does to the entries of a journal, with checksums that fit, the verification names it.
func TestAHistoryThatWasRewritten(t *testing.T) {
	first := func(change func(e *pastEntry)) func([]*pastEntry) []*pastEntry { // of those in the journal, entry 4
		return func(all []*pastEntry) []*pastEntry { change(all[0]); return all }
	}
	last := func(change func(e *pastEntry)) func([]*pastEntry) []*pastEntry {
		return func(all []*pastEntry) []*pastEntry { change(all[len(all)-1]); return all }
	}
	replaced := func(old, text string) func(e *pastEntry) {
		return func(e *pastEntry) {
			if !bytes.Contains(e.account, []byte(old)) {
				t.Errorf("no %s in %s", old, e.account)
			}
			e.account = bytes.ReplaceAll(e.account, []byte(old), []byte(text))
		}
	}
	failed := `exit_code 1, failure_class "exit", finished_at "2026-03-04T05:06:07.890123Z", outcome "failed", outcome_path ".vizier/jobs/` + string(id(2)) +
		`/outcome.json", started_at "2026-03-04T05:06:07.890123Z", state "failed_final", status "failed"`
	for name, c := range map[string]struct {
		change func([]*pastEntry) []*pastEntry
		want   []string
	}{
		"nothing":                 {func(all []*pastEntry) []*pastEntry { return all }, nil},
		"an entry is there twice": {func(all []*pastEntry) []*pastEntry { return append(all, all[1]) }, nil},
		"an entry is there twice, and differs": {func(all []*pastEntry) []*pastEntry {
			other := *all[1]
			other.groups = nil
			return append(all, &other)
		}, []string{
			`rewritten 5 : entry 5 is there twice, and not the same`,
		}},
		"another entry is before": {first(replaced(`"program":"1.0"`, `"program":"0.9"`)), []string{
			`rewritten 5 : entry 4 was rewritten: entry 5 followed another`,
		}},
		"an entry is gone": {func(all []*pastEntry) []*pastEntry { return slices.Delete(all, 1, 2) }, []string{
			`missing 6 : entry 5 is missing: what later ones were decided by is not known`,
			`missing 0 : the end of the journal is gone or damaged: what came after entry 6 is known from the records alone`,
		}},
		"two entries are gone": {func(all []*pastEntry) []*pastEntry { return slices.Delete(all, 0, 2) }, []string{
			`missing 6 : entries 4 to 5 are missing: what later ones were decided by is not known`,
			`missing 0 : the end of the journal is gone or damaged: what came after entry 6 is known from the records alone`,
		}},
		"another action": {last(func(e *pastEntry) { e.world = nil }), []string{
			`decided_otherwise_by_this_version 6 : version 1.0 decided otherwise than this one does [ / kernel.Launch {"Attempt":{"Job":"00000000000000000000000000000003","N":1}}]`,
			`missing 0 : the end of the journal is gone or damaged: what came after entry 6 is known from the records alone`,
		}},
		"a request about another job": {last(replaced(string(id(3)), string(id(9)))), []string{
			`decided_otherwise_by_this_version 6 : version 1.0 decided otherwise than this one does [it was done / refused: approve 00000000000000000000000000000009: no such job]`,
		}},
		"a record that is left out": {func(all []*pastEntry) []*pastEntry {
			all[1].groups = slices.DeleteFunc(all[1].groups, func(g group) bool { return g.job == id(2) })
			return all
		}, []string{
			`decided_otherwise_by_this_version 5 2: version 1.0 decided otherwise than this one does [left as it was / ` + failed + `]`,
			`rewritten 6 : entry 5 was rewritten: entry 6 followed another`,
			`missing 0 : the end of the journal is gone or damaged: what came after entry 6 is known from the records alone`,
			`missing 0 2: its record is from after the last entry: the end of the history is missing, or somebody wrote it by hand [` + failed + ` / exit_code null, failure_class absent, finished_at null, outcome absent, outcome_path null, started_at "2026-03-04T06:06:12.890123Z", state "running", status "running"]`,
		}},
		"a record of another job": {func(all []*pastEntry) []*pastEntry {
			for i, g := range all[1].groups {
				if g.job == id(2) {
					all[1].groups[i].job, all[1].groups[i].record = id(7), bytes.ReplaceAll(g.record, []byte(id(2)), []byte(id(7)))
				}
			}
			return all
		}, []string{
			`decided_otherwise_by_this_version 5 7: version 1.0 decided otherwise than this one does [status "failed" / no record]`,
			`rewritten 6 : entry 5 was rewritten: entry 6 followed another`,
			`missing 0 2: its record is from after the last entry: the end of the history is missing, or somebody wrote it by hand [` + failed + ` / exit_code null, failure_class absent, finished_at null, outcome absent, outcome_path null, started_at "2026-03-04T06:06:12.890123Z", state "running", status "running"]`,
			`edited 0 7: its record was deleted by hand [no record / status "failed"]`,
		}},
		"a job that is removed instead": {func(all []*pastEntry) []*pastEntry {
			for i, g := range all[1].groups {
				if g.job == id(2) {
					all[1].groups[i] = group{job: id(2), ops: []fileOp{{kind: opRemoveJob}}}
				}
			}
			return all
		}, []string{
			`decided_otherwise_by_this_version 5 2: version 1.0 decided otherwise than this one does [no record / status "failed"]`,
			`rewritten 6 : entry 5 was rewritten: entry 6 followed another`,
			`missing 0 : the end of the journal is gone or damaged: what came after entry 6 is known from the records alone`,
			`edited 0 2: its record was made by hand [status "failed" / no record]`,
		}},
		"an account that makes no sense": {last(func(e *pastEntry) { e.account = []byte("{") }), []string{
			`damaged 6 : .vizier/jobs/journal/plans: entry 6: not JSON at byte 1: unexpected end of JSON input`,
		}},
		"an account of a verb that is none": {last(replaced(`"approve"`, `"applaud"`)), []string{
			`damaged 6 : .vizier/jobs/journal/plans: entry 6, of version 1.0: field "steps.applaud": this version does not know it`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLivedStore(t)
			l.rewrite(c.change)
			v := l.verified()
			if got := toldFindings(v.Findings); !slices.Equal(got, c.want) {
				t.Errorf("it finds\n%s\ndiff\n%s", strings.Join(got, "\n"), cmp.Diff(c.want, got))
			}
		})
	}
}

// A job that went while an earlier version wrote, which keeps no history, is missed, and only once.
func TestAJobThatWentWhileNoHistoryWasKept(t *testing.T) {
	l := newLivedStore(t)
	l.older(1, `"exit_code": 0`, `"exit_code": 0`)
	if err := os.RemoveAll(l.s.JobDir(id(2))); err != nil {
		t.Fatal(err)
	}
	l.submit(4)
	want := []string{"interrupted 7 1: its record changed while no history was kept", "interrupted 7 2: its record went while no history was kept"}
	if got := toldFindings(l.verified().Findings); !slices.Equal(got, want) {
		t.Errorf("it finds\n%s", strings.Join(got, "\n"))
	}
	l.older(1, `"exit_code": 0`, `"exit_code": 0`)
	f, err := os.OpenFile(file(l.dir, plansFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := (&entry{groups: []group{{job: id(3), ops: []fileOp{{kind: opRemoveJob}}}}}).encode()
	if err == nil {
		_, err = f.Write(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	l.submit(5)
	want = append(want, "interrupted 8 1: its record changed while no history was kept", "interrupted 8 3: its record went while no history was kept")
	if got := toldFindings(l.verified().Findings); !slices.Equal(got, want) {
		t.Errorf("it finds\n%s", strings.Join(got, "\n"))
	}
}

// A finding says what was done to a record, and what people call its job.
func TestFindingsNameWhatWasDone(t *testing.T) {
	record := func(n int) []byte {
		j := plain(n)
		j.Number = kernel.Number(n + 4)
		b, err := Record(&j, t0)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for want, f := range map[string]Finding{
		"its record was deleted by hand": editOf(id(1), record(1), nil), "its record was made by hand": editOf(id(1), nil, record(1)),
		"its record was edited by hand": editOf(id(1), record(1), record(2)),
	} {
		if f.Kind != FoundEdit || f.Text != want {
			t.Errorf("%+v, want %s", f, want)
		}
	}
	v, e := newVerifier(""), &readEntry{}
	e.groups = []group{{job: id(1), record: record(1)}, {job: id(2), record: record(2)}}
	e.record.Found = map[kernel.JobID][]byte{id(3): record(3)}
	v.records[id(4)] = record(4)
	for n, want := range []string{"", "5", "6", "7", "8", ""} {
		if got := v.refOf(id(n), e); got != want {
			t.Errorf("job %d is called %q, want %q", n, got, want)
		}
	}
}

// A verification tells why a record cannot be read.
func TestARecordThatCannotBeReadIsFound(t *testing.T) {
	l := newLivedStore(t)
	name := l.s.RecordFile(id(1))
	if err := errors.Join(l.s.Close(), os.Remove(name), os.Mkdir(name, 0o700)); err != nil {
		t.Fatal(err)
	}
	v, err := newStore(t, l.dir).VerifyHistory(t.Context())
	if err != nil || len(v.Findings) != 1 || v.Findings[0].Kind != FoundEdit || v.Findings[0].Job != id(1) ||
		!strings.HasPrefix(v.Findings[0].Text, "its record cannot be read: ") || !strings.Contains(v.Findings[0].Text, recordName) {
		t.Errorf("%+v, %v", v.Findings, err)
	}
}
