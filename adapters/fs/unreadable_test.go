package fs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// looks returns the ways to read a store of fullStore. They change at most its cache.
func looks() map[string]func(context.Context, *Store) (any, error) {
	key := strings.Repeat("a1", 32)
	read := func(scope kernel.Scope) func(context.Context, *Store) (any, error) {
		return func(ctx context.Context, s *Store) (any, error) {
			rec, err := s.Read(ctx, scope)
			slices.SortFunc(rec.Jobs, func(a, b kernel.Job) int { return strings.Compare(string(a.ID), string(b.ID)) })
			if err == nil && len(rec.Unreadable) > 0 {
				err = fmt.Errorf("%v", rec.Unreadable)
			}
			return rec, err
		}
	}
	past := func(when Moment) func(context.Context, *Store) (any, error) {
		return func(ctx context.Context, s *Store) (any, error) {
			p, err := s.PastAt(ctx, when)
			if err != nil {
				return nil, err
			}
			defer p.Close()
			rec, err := p.Read(ctx, kernel.Scope{All: true})
			slices.SortFunc(rec.Jobs, func(a, b kernel.Job) int { return strings.Compare(string(a.ID), string(b.ID)) })
			return []any{p.Entry, p.At, p.Limits, rec}, err
		}
	}
	near := []kernel.Near{{Kind: kernel.Itself, Job: id(2)}, {Kind: kernel.Attended}, {Kind: kernel.Due, At: t0.Add(time.Hour)}, {Kind: kernel.Dependents, Job: id(1)}, {Kind: kernel.Waiters, Most: 2},
		{Kind: kernel.Newest, Most: 2}, {Kind: kernel.OfNumber, Number: 2}}
	all := map[string]func(context.Context, *Store) (any, error){
		"all records":     read(kernel.Scope{All: true}),
		"a record":        read(kernel.Scope{Jobs: []kernel.JobID{id(2)}}),
		"what is near":    read(kernel.Scope{Near: near, Tally: []kernel.Number{2}}),
		"the past":        past(Moment{}),
		"the early past":  past(Moment{Entry: 2}),
		"a job":           func(_ context.Context, s *Store) (any, error) { return s.Job(id(1)) },
		"ids":             func(_ context.Context, s *Store) (any, error) { return s.IDs() },
		"attempts":        func(_ context.Context, s *Store) (any, error) { return s.Attempts(id(2)) },
		"an effect":       func(_ context.Context, s *Store) (any, error) { return s.Effect(id(4), key) },
		"effects":         func(_ context.Context, s *Store) (any, error) { return s.Effects(id(4)) },
		"a payload":       func(_ context.Context, s *Store) (any, error) { return s.Payload(id(1), custom("t", "k")) },
		"a sentinel":      func(_ context.Context, s *Store) (any, error) { return s.Sentinel("foo") },
		"a run's plan":    func(_ context.Context, s *Store) (any, error) { return s.Run(kernel.RunID("run_" + id(1))) },
		"pending hooks":   func(_ context.Context, s *Store) (any, error) { return s.Pending() },
		"the end of logs": func(_ context.Context, s *Store) (any, error) { return s.LogTail(id(1), "stdout", 100) },
		"events": func(_ context.Context, s *Store) (any, error) {
			var lines []string
			r := s.Events(0)
			err := r.Read(func(line []byte) error { lines = append(lines, string(line)); return nil })
			return lines, errors.Join(err, r.Close())
		},
		"what has happened": func(ctx context.Context, s *Store) (any, error) {
			var out []HistoryEntry
			err := s.History(ctx, func(id kernel.JobID, _ []byte) bool { return true }, func(e HistoryEntry) error { out = append(out, e); return nil })
			return out, err
		},
		"the history verified": func(ctx context.Context, s *Store) (any, error) {
			v, err := s.VerifyHistory(ctx)
			if err == nil && len(v.Findings) > 0 {
				err = fmt.Errorf("%s: %s", v.Findings[0].Kind, v.Findings[0].Text)
			}
			return v, err
		},
		"evidence": func(ctx context.Context, s *Store) (any, error) {
			b, err := s.Export(ctx, "2", []kernel.JobID{id(2), id(1)}, noCommits)
			if err != nil {
				return nil, err
			}
			e, v, err := VerifyEvidence(ctx, "1.0", b)
			if err == nil && len(v.Findings) > 0 {
				err = fmt.Errorf("%s: %s", v.Findings[0].Kind, v.Findings[0].Text)
			}
			var jobs []EvidenceJob
			for _, j := range e.Jobs { // without the files, which evidence only shows as they are now
				jobs = append(jobs, EvidenceJob{Job: j.Job, Record: j.Record})
			}
			return []any{jobs, v.Decisions, v.First, v.Last}, err
		},
		"records judged": func(ctx context.Context, s *Store) (any, error) {
			problems, n, err := s.Validate(ctx)
			if err == nil && len(problems) > 0 {
				err = fmt.Errorf("%+v", problems)
			}
			return n, err
		},
	}
	for i, n := range near {
		all[fmt.Sprintf("near %d", i)] = read(kernel.Scope{Near: []kernel.Near{n}})
	}
	return all
}

// fullStore returns a store that has one of each kind of file.
func fullStore(t *testing.T) string {
	l := newLivedStore(t)
	l.seal(func() { l.submit(4) })
	if err := l.s.TrimHistory(t.Context()); err != nil || len(l.s.milestones()) == 0 {
		t.Fatalf("%v, milestones %v", err, l.s.milestones())
	}
	l.submit(5)
	commit(t, l.s, kernel.CreateRun{Run: kernel.RunID("run_" + id(1)), Manifest: []byte("{}")})
	for _, err := range []error{l.s.WriteSentinel("foo", []byte("f")), l.s.WritePayload(id(1), custom("t", "k"), []byte("p")),
		l.s.RecordEffect(t.Context(), effect.Record{Job: id(4), Key: strings.Repeat("a1", 32), Operation: "git.commit", Attempt: 1}),
		l.s.AppendEvents([]kernel.Event{{At: t0, Job: id(1), Kind: kernel.JobSucceeded}}), l.s.Announce(kernel.Event{At: t0, Job: id(2), Kind: kernel.JobSucceeded}), l.s.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	writeAt(t, file(l.dir, jobPath(id(1), "stdout.log")), "out")
	writeAt(t, file(l.dir, jobPath(id(2), "attempts/1.json")), "{}")
	return l.dir
}

// Whichever file cannot be read, each look answers as before or fails with an error. It
// never gives another answer. The same holds if a file is cut short, except for the
// files that may end anywhere.
func TestWhicheverFileCannotBeReadIsTold(t *testing.T) {
	oneGoroutine(t)
	dir := fullStore(t)
	ask := func(look func(context.Context, *Store) (any, error), dir string) (any, error) {
		s := NewStore(dir, options())
		v, err := look(t.Context(), s)
		return v, errors.Join(err, s.Close())
	}
	want := map[string]any{}
	for name, look := range looks() {
		v, err := ask(look, dir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want[name] = v
	}
	unread := func(name string) error {
		return errors.Join(os.Remove(name), os.MkdirAll(filepath.Join(name, "d"), 0o700))
	}
	short := func(name string) error {
		b, err := os.ReadFile(name)
		return errors.Join(err, os.WriteFile(name, b[:len(b)/2], 0o600))
	}
	anyLength := []string{"stdout.log", "/data/", "events.jsonl", "hooks/pending", "/runs/", "merge-conflicts"}
	err := fs.WalkDir(os.DirFS(dir), vizierDir, func(f string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		for how, spoil := range map[string]func(string) error{"a directory": unread, "cut short": short} {
			if how == "cut short" && slices.ContainsFunc(anyLength, func(part string) bool { return strings.Contains(f, part) }) {
				continue
			}
			bad := ""
			for name, look := range looks() {
				if bad == "" || strings.Contains(f, journalDir) || strings.HasSuffix(f, recordName) { // a look may repair the cache and the like, and put on record that a record is torn
					bad = t.TempDir()
					if err := errors.Join(os.CopyFS(bad, os.DirFS(dir)), spoil(filepath.Join(bad, f))); err != nil {
						return err
					}
				}
				v, err := ask(look, bad)
				if err == nil && !answers(v, want[name]) {
					t.Errorf("%s is %s: %s\n%.400s\nwant\n%.400s", f, how, name, fmt.Sprintf("%+v", v), fmt.Sprintf("%+v", want[name]))
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
