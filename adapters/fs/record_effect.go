package fs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// effectRecord is effects/KEY.json: one side effect of a job, written before it
// is made and after.
type effectRecord struct {
	Version    int            `json:"version"`
	Key        string         `json:"key"`
	ID         string         `json:"id"`
	Generation int            `json:"generation"`
	Operation  string         `json:"operation"`
	Part       string         `json:"part,omitempty"`
	Attempt    int            `json:"attempt"`
	Round      int            `json:"round"`
	State      string         `json:"state"`
	BegunAt    stamp          `json:"begun_at"`
	Result     *outcomeRecord `json:"result,omitempty"`
	Merge      *mergeRecord   `json:"merge,omitempty"`
}

// mergeRecord is what a merge settled.
type mergeRecord struct {
	Source kernel.CommitID `json:"source_commit,omitempty"`
	Target kernel.CommitID `json:"target_commit"`
}

func encodeEffect(e *effect.Record, extra map[string]json.RawMessage) ([]byte, error) {
	r := open[effectRecord]{V: effectRecord{recordVersion, e.Key, string(e.Job), e.Generation, e.Operation, e.Part, e.Attempt, e.Round,
		e.State.String(), stamp(e.Begun), nil, nil}, Extra: extra}
	if e.State != effect.Intended {
		o := newOutcome(e.Result)
		r.V.Result = &o
	}
	if e.Merge.Target != "" {
		r.V.Merge = &mergeRecord{e.Merge.Source, e.Merge.Target}
	}
	b, err := toJSON(r)
	if err != nil {
		return nil, fmt.Errorf("encode effect %s of %s: %w", e.Key, e.Job, err)
	}
	return b, nil
}

func decodeEffect(id kernel.JobID, key string, b []byte) (*effect.Record, map[string]json.RawMessage, error) {
	var r open[effectRecord]
	if err := fromJSON(b, &r); err != nil {
		return nil, nil, jsonError(err)
	}
	var d decoder
	e := &effect.Record{Key: r.V.Key, Job: kernel.JobID(r.V.ID), Generation: r.V.Generation, Operation: r.V.Operation, Part: r.V.Part,
		Attempt: r.V.Attempt, Round: r.V.Round, Begun: time.Time(r.V.BegunAt)}
	state, err := effect.ParseState(r.V.State)
	d.fail("state", err)
	e.State = state
	if r.V.Version > recordVersion {
		d.fail("version", fmt.Errorf("effect format %d, this program reads up to %d: %w", r.V.Version, recordVersion, ErrNewer))
	}
	if e.Job != id || e.Key != key {
		d.fail("key", fmt.Errorf("it is not effect %s of job %s", key, id))
	}
	switch {
	case e.State == effect.Intended:
	case r.V.Result == nil:
		d.fail("result", fmt.Errorf("missing from an effect that is %s", e.State))
	default:
		result, err := r.V.Result.result(id)
		d.fail("result", err)
		e.Result = *result
	}
	if m := r.V.Merge; m != nil {
		e.Merge = effect.Merge{Source: m.Source, Target: m.Target}
	}
	return e, r.Extra, d.err
}

// Effect returns the record of a job's effect; nil: there is none.
func (s *Store) Effect(id kernel.JobID, key string) (*effect.Record, error) {
	_, err := effectFile(id, key)
	if err == nil {
		err = s.open(false)
	}
	if err != nil {
		return nil, err
	}
	file := effectsDir + "/" + key + ".json"
	b, err := s.readJobFile(id, file, maxRecord)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	e, _, err := decodeEffect(id, key, b)
	if err != nil {
		// The file is invalid, not an argument of the caller.
		why := kernel.Said(err)
		return nil, errors.New(filepath.Join(vizierDir, s.fileOf(id, file)) + ": " + why + ": move the file away if you know what became of the effect")
	}
	return e, nil
}

// Effects returns a job's effects, in the order in which they were begun. The
// error says what is wrong with the records that are left out.
func (s *Store) Effects(id kernel.JobID) ([]effect.Record, error) {
	if err := s.open(false); err != nil {
		return nil, err
	}
	if !kernel.ValidJobID(string(id)) {
		return nil, fmt.Errorf("job %q: %w", id, kernel.ErrNotFound)
	}
	names, err := s.jobFileNames(id, effectsDir)
	errs := []error{err}
	var all []effect.Record
	for _, name := range names {
		key, ok := strings.CutSuffix(name, ".json")
		if _, bad := effectFile(id, key); !ok || bad != nil {
			continue // a file that is being written
		}
		e, err := s.Effect(id, key)
		errs = append(errs, err)
		if e != nil {
			all = append(all, *e)
		}
	}
	slices.SortFunc(all, func(a, b effect.Record) int {
		return cmp.Or(cmp.Compare(a.Generation, b.Generation), a.Begun.Compare(b.Begun), cmp.Compare(a.Key, b.Key))
	})
	return all, errors.Join(errs...)
}

// RecordEffect replaces the record of e's effect, durably. It is kernel.ErrStale
// if the attempt is not current any more, or another attempt has taken the
// effect over. It checks and writes under the scheduler lock, so that no later
// attempt begins in between. The lock is shared, and not held during a sync.
func (s *Store) RecordEffect(ctx context.Context, e effect.Record) error {
	name, err := effectFile(e.Job, e.Key)
	if err == nil {
		err = s.open(false)
	}
	if err != nil {
		return err
	}
	d, err := s.effectsDir(e.Job)
	if err != nil {
		return fmt.Errorf("record effect of %s: %w", e.Job, err)
	}
	defer d.close()
	if err := s.recordEffect(ctx, d, name[strings.LastIndexByte(name, '/')+1:], &e); err != nil {
		return fmt.Errorf("record effect %s of %s attempt %d: %w", e.Operation, e.Job, e.Attempt, err)
	}
	return nil
}

func (s *Store) recordEffect(ctx context.Context, d dir, name string, e *effect.Record) error {
	was, err := d.read(name, maxRecord)
	missing := errors.Is(err, iofs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	var old *effect.Record
	var extra map[string]json.RawMessage
	if !missing {
		if old, extra, err = decodeEffect(e.Job, e.Key, was); err != nil {
			return err
		}
	}
	data, err := encodeEffect(e, extra)
	if err != nil {
		return err
	}
	temp, err := d.stage(name, name, data, s.opts.Durable)
	if err != nil {
		return err
	}
	err = s.fenced(ctx, kernel.AttemptID{Job: e.Job, N: e.Attempt}, func() error {
		if now, err := d.read(name, maxRecord); ignoreMissing(err) != nil {
			return err
		} else if !bytes.Equal(now, was) {
			return fmt.Errorf("somebody else has it: %w", kernel.ErrStale)
		}
		if err := e.Follow(old); err != nil {
			return err
		}
		return d.install(temp, name, missing)
	})
	if err != nil {
		return d.discard(temp, err)
	}
	return d.sync(name, s.opts.Durable)
}

// install renames the file temp to name, in place of the file that has it. If fresh is
// set, the name must be free; if it is not, that is kernel.ErrStale. Others hold the lock
// shared as well, so one of them may have taken it just now.
func (d dir) install(temp, name string, fresh bool) error {
	if !fresh {
		return failed("rename", name, d.disk.rename(d.fd, temp, d.fd, name))
	}
	err := d.disk.link(d.fd, temp, d.fd, name)
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("somebody else has it: %w", kernel.ErrStale)
	}
	if err == nil {
		err = d.disk.unlink(d.fd, temp)
	}
	return failed("link", name, err)
}

// effectsDir opens the directory of a job's effects, and makes it durably if it
// is missing. It never makes the directory of the job.
func (s *Store) effectsDir(id kernel.JobID) (dir, error) {
	job, err := s.base.open(jobPath(id, ""))
	if err != nil {
		return dir{fd: -1}, err
	}
	defer job.close()
	d, err := job.open(effectsDir)
	if !errors.Is(err, iofs.ErrNotExist) {
		return d, err
	}
	if d, err = job.make(effectsDir); err != nil {
		return d, err
	}
	if err = job.sync(jobPath(id, effectsDir), s.opts.Durable); err != nil {
		d.close()
	}
	return d, err
}

// fenced calls f if a is its job's current attempt by the journal. It holds the
// scheduler lock meanwhile, so that a stays the current one.
func (s *Store) fenced(ctx context.Context, a kernel.AttemptID, f func() error) error {
	for try := true; ; try = false {
		if err := s.fencedShared(ctx, a, f, try); !errors.Is(err, errBehind) {
			return err
		}
		if err := s.complete(ctx, false); err != nil {
			return err
		}
	}
}

// fencedShared is fenced if the files have all changes of the journal, else
// errBehind.
func (s *Store) fencedShared(ctx context.Context, a kernel.AttemptID, f func() error, try bool) (err error) {
	unlock, err := s.take(ctx, lockShared)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	_, behind, err := s.behind()
	if err != nil {
		return err
	}
	if err := s.readQuarantine(); err != nil {
		return err
	}
	held := s.quarantineReason(a.Job)
	if behind || held != "" && try { // perhaps it can be written by now
		return errBehind
	}
	if held != "" {
		return errors.New(held)
	}
	j, _, err := s.readRecord(a.Job)
	if err != nil {
		return err
	}
	if err := j.Fence(a); err != nil {
		return err
	}
	return f()
}

// committedEffects writes "committed" into the records of the effects that j's
// current generation has committed. Until a new generation begins, the job's
// record says so, too.
func (s *Store) committedEffects(j *kernel.Job) []fileOp {
	effects, _ := s.Effects(j.ID) // what cannot be read stays as it is
	var ops []fileOp
	for _, e := range effects {
		if e.State == effect.Committed || effect.StateOf(j, &e) != effect.Committed {
			continue
		}
		name, _ := effectFile(j.ID, e.Key)
		b, err := s.readJobFile(j.ID, effectsDir+"/"+e.Key+".json", maxRecord)
		if err != nil {
			continue
		}
		_, extra, _ := decodeEffect(j.ID, e.Key, b)
		e.State = effect.Committed
		if b, err = encodeEffect(&e, extra); err == nil {
			ops = append(ops, fileOp{kind: opWrite, path: name, data: b})
		}
	}
	return ops
}
