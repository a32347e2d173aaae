package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// Problem is something wrong with a file of the store.
type Problem struct {
	Job  kernel.JobID
	Path string // relative to the repository's root
	Text string
}

// Validate checks every record on the disk, with the files of its attempts, against the published schema and the
// invariants of seed 004. It changes nothing, and returns how many records there
// are.
func (s *Store) Validate(ctx context.Context) (problems []Problem, count int, err error) {
	shape, err := newSchemaCheck()
	if err != nil {
		return nil, 0, err
	}
	err = s.still(ctx, func() error {
		problems, count = nil, 0
		ids, err := s.jobIDs()
		if err != nil {
			return err
		}
		slices.Sort(ids)
		holders := map[string]kernel.JobID{}
		for _, id := range ids {
			b, err := s.readJobFile(id, recordName, maxRecord)
			if errors.Is(err, iofs.ErrNotExist) {
				continue // no job's directory
			}
			count++
			texts := []string{}
			if err != nil {
				texts = append(texts, err.Error())
			} else {
				texts = s.problemsOf(id, b, shape, holders)
			}
			for _, text := range texts {
				problems = append(problems, Problem{id, vizierDir + "/" + s.fileOf(id, recordName), text})
			}
			if j, _, err := decodeRecord(id, b); err == nil {
				for _, odd := range s.inspectFiles(&j) {
					problems = append(problems, Problem{id, odd.Path, odd.Text})
				}
			}
		}
		return nil
	})
	return problems, count, err
}

// still calls f while nobody changes the store. It may call it again, if somebody did.
func (s *Store) still(ctx context.Context, f func() error) (err error) {
	if err := s.open(false); err != nil {
		if errors.Is(err, iofs.ErrNotExist) {
			return nil
		}
		return err
	}
	if s.elsewhere(ctx) {
		return f() // nobody changes it
	}
	if _, err := s.Read(ctx, kernel.Scope{}); err != nil { // completes what a crash cut short
		return err
	}
	unlock, err := s.takeShared(ctx, func(held error) error {
		if _, behind, err := s.behind(); behind || err != nil { // the files lack what the holder has committed
			return errors.Join(held, err)
		}
		return f()
	})
	if errors.Is(err, iofs.ErrNotExist) || isReadOnly(err) {
		return f()
	}
	if err != nil || unlock == nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return f()
}

// problemsOf returns what is wrong with the record b of a job.
func (s *Store) problemsOf(id kernel.JobID, b []byte, shape *schemaCheck, holders map[string]kernel.JobID) []string {
	v, err := decodeJSON(b)
	if err != nil {
		return []string{err.Error()}
	}
	out := shape.problems(v)
	j, _, err := decodeRecord(id, b)
	if err != nil {
		if len(out) == 0 {
			out = append(out, err.Error())
		}
		return out
	}
	o, _ := v.(map[string]any)
	text := func(key string) string { t, _ := o[key].(string); return t }
	bad := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	word := j.State.Status.Coarse()
	if have := text("state"); have != word {
		bad("state: %q, and the status %s means %q", have, j.State.Status, word)
	}
	if have, err := s.readJobFile(id, stateName, 64); err != nil || strings.TrimSpace(string(have)) != word {
		bad("the file state beside it says %q, it says %q", strings.TrimSpace(string(have)), word)
	}
	if why := j.Unsealed(); why != "" && (j.Open() || j.Seal() == kernel.Broken) {
		bad("schedule.approval: %s", why)
	}
	in := j.Spec.Prompt
	if in == nil {
		return out
	}
	if text("job_id") != text("id") {
		bad("job_id: %q is not the id", text("job_id"))
	}
	if inbox.Home(in) == "" {
		bad("inbox_file: %q does not end in %q", in.File, inbox.NameOf(kernel.RunningPrompt, in.Rel))
	}
	if text("processed_path") != "" && word != "succeeded" {
		bad("processed_path: the run has not succeeded")
	}
	if (text("archived_path") != "" || text("failure_reason") != "") && word == "succeeded" {
		bad("archived_path, failure_reason: the run has not failed")
	}
	if j.HoldsPrompt() {
		prompt := fmt.Sprintf("%s %d %s", in.File, in.Inode, in.SHA256)
		if other := holders[prompt]; other != "" {
			bad("inbox_file: job %s holds the same prompt", other)
		}
		holders[prompt] = id
	}
	return out
}
