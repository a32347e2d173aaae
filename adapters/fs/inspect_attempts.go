package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

const (
	attemptsStart = "what is on record of the attempt's start"
	attemptsEnd   = "what is on record of the attempt's end"
)

// inspectFiles reports what is on record of j's ended attempts and was cut short, damaged or removed, and what is in
// the place of j's files. How the job ended is in its record, so no decision needs the files of attempts. A repair
// moves what is wrong aside, and puts back an outcome of which there is a copy. What is in a pack is sealed.
func (s *Store) inspectFiles(j *kernel.Job) (out []Oddity) {
	if s.Packed(j.ID) != "" {
		return nil
	}
	out = s.inspectPlaces(j.ID)
	running := 0 // the attempt whose files may just be written
	if j.State.Status == kernel.Running {
		running = j.State.Attempt
	}
	look := func(name, what string, check func([]byte) error) {
		if odd := s.inspectAttempt(j, name, what, check); odd.Text != "" {
			out = append(out, odd)
		}
	}
	unchecked := func([]byte) error { return nil }
	outcome := unchecked
	if running == 0 {
		outcome = func(b []byte) error {
			_, err := decodeOutcome(j.ID, b)
			return err
		}
	}
	look(outcomeName, attemptsEnd, outcome)
	if at := jobPath(j.ID, effectsDir); s.isFile(at) {
		out = append(out, s.inTheWay(at, "a file is in the place of the directory of effects, so an operation that has one fails"))
	}
	if at := jobPath(j.ID, attemptsDir); s.isFile(at) {
		return append(out, Oddity{Path: vizierDir + "/" + at, Text: "a file is in the place of the directory of attempts, so none can start" + movesAside, Fix: func() error {
			if err := s.setAside(at); err != nil {
				return err
			}
			return repair(s.inspectFiles(j))
		}})
	}
	if odd := s.inspectLost(j); odd.Text != "" {
		out = append(out, odd)
	}
	names, _ := s.base.names(jobPath(j.ID, attemptsDir)) // a directory that cannot be listed is reported elsewhere
	for _, name := range names {
		number, what, _ := strings.Cut(name, ".")
		n, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		start, end := func(b []byte) error { return s.checkClaim(j.ID, n, b) }, func(b []byte) error {
			r, err := decodeOutcome(j.ID, b)
			if err == nil && r.Attempt.N != n {
				err = fmt.Errorf("it is about attempt %d", r.Attempt.N)
			}
			return err
		}
		if n == running {
			start, end = unchecked, unchecked
		}
		switch file := path.Join(attemptsDir, name); what {
		case "outcome.json":
			look(file, attemptsEnd, end)
		case "json":
			look(file, attemptsStart, start)
		}
	}
	return out
}

const movesAside = ". A repair moves it to " + vizierDir + "/" + asideDir

// repair makes every repair there is.
func repair(all []Oddity) (err error) {
	for _, odd := range all {
		if odd.Fix != nil {
			err = errors.Join(err, odd.Fix())
		}
	}
	return err
}

// isFile reports that there is something at path, and it is neither a directory nor a link.
func (s *Store) isFile(path string) bool {
	e, err := Confined{*s.base}.Stat(path)
	return err == nil && e.Mode != iofs.ModeDir && e.Mode != iofs.ModeSymlink
}

// inspectPlaces reports what is in the place of a job's logs and its lock. Links are reported elsewhere.
func (s *Store) inspectPlaces(id kernel.JobID) (out []Oddity) {
	names, _ := s.base.names(jobPath(id, ""))
	for _, name := range names {
		at := jobPath(id, name)
		if !strings.HasSuffix(name, ".log") && name != lockName || s.base.isLink(at) {
			continue
		}
		if what := s.base.inPlaceOf(at); what != "" {
			out = append(out, s.inTheWay(at, what+" "+errMisplaced.Error()))
		}
	}
	return out
}

// inspectAttempt reports what is wrong with a file of j's attempts, of which check says why nothing can be read.
func (s *Store) inspectAttempt(j *kernel.Job, name, what string, check func([]byte) error) (odd Oddity) {
	at := jobPath(j.ID, name)
	odd.Path = vizierDir + "/" + at
	b, err := s.readJobFile(j.ID, name, maxRecord)
	switch there := s.base.inPlaceOf(at); {
	case there != "" && (name != outcomeName || !s.base.isLink(at)):
		odd.Text = there + " is in the place of " + what + movesAside
	case errors.Is(err, iofs.ErrNotExist) && name == outcomeName:
		if kept := s.copiedOutcome(j); kept != nil {
			odd.Text = what + " is missing. A repair writes it anew from what the attempt or the journal has"
			odd.Fix = func() error { return s.base.write(at, kept, true) }
		}
		return odd
	case err != nil:
		return odd // it is gone, or reported elsewhere
	default:
		if err = check(b); err == nil || errors.Is(err, ErrNewer) {
			return odd
		}
		odd.Text = what + " is damaged: " + err.Error() + movesAside
	}
	var kept []byte
	if name == outcomeName {
		kept = s.copiedOutcome(j)
	} else if what == attemptsEnd {
		kept = s.journalledOutcome(j.ID, at)
	}
	if kept != nil {
		odd.Text += ", and writes it anew from a copy"
	}
	odd.Fix = func() error {
		if err := s.setAside(at); err != nil || kept == nil {
			return err
		}
		return s.base.write(at, kept, true)
	}
	return odd
}

// inspectLost reports that nothing is on record of j's latest attempt, which has ended, but its outcome. Of one whose
// launch was refused there never was.
func (s *Store) inspectLost(j *kernel.Job) (odd Oddity) {
	end := jobPath(j.ID, attemptOutcome(j.State.Attempt))
	if !j.State.Status.Terminal() || j.State.Started.IsZero() || !s.base.lacks(end) || !s.base.lacks(jobPath(j.ID, fmt.Sprintf("%s/%d.json", attemptsDir, j.State.Attempt))) {
		return odd
	}
	b, err := s.readJobFile(j.ID, outcomeName, maxRecord)
	if err != nil {
		return odd
	}
	if r, err := decodeOutcome(j.ID, b); err != nil || r.Attempt != j.Attempt() {
		return odd
	}
	return Oddity{Path: vizierDir + "/" + end, Text: "what is on record of the attempt is missing. A repair writes its end anew from " + outcomeName, Fix: func() error {
		made, err := s.base.make(jobPath(j.ID, attemptsDir))
		if err != nil {
			return err
		}
		made.close()
		return s.base.write(end, b, true)
	}}
}

// copiedOutcome returns outcome.json of j by what the attempt's own file or the journal says of the same end,
// or nil.
func (s *Store) copiedOutcome(j *kernel.Job) []byte {
	st := &j.State
	if ended := st.Status.Terminal() || st.Status == kernel.FailedRetryable; !ended || !st.Exit.Known || !st.Removed.IsZero() {
		return nil
	}
	copied, _ := s.readJobFile(j.ID, attemptOutcome(st.Attempt), maxRecord)
	for _, b := range [][]byte{copied, s.journalledOutcome(j.ID, jobPath(j.ID, outcomeName))} {
		if r, err := decodeOutcome(j.ID, b); err == nil && r.Attempt == j.Attempt() && r.Outcome == st.Outcome && r.Ended.Equal(st.Finished) {
			b, err = encodeOutcome(*r, j)
			if err == nil {
				return b
			}
		}
	}
	return nil
}

// checkClaim returns why nothing can be read of the claim of attempt n, or why it is not that attempt's. Its child may
// be missing, or be written in part into the room left for it.
func (s *Store) checkClaim(id kernel.JobID, n int, b []byte) error {
	var c claimRecord
	err := json.NewDecoder(bytes.NewReader(b)).Decode(&c)
	if before, _, child := bytes.Cut(b, []byte(`,"child":`)); err != nil && child && bytes.HasSuffix(b, []byte("}\n")) {
		c = claimRecord{}
		err = json.Unmarshal(append(bytes.Clone(before), '}'), &c)
	}
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("it is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it was cut short")
	case err != nil:
		return jsonError(err)
	}
	if r, _ := s.outcome(id, attemptOutcome(n)); r != nil && r.Attempt.N == n && r.Place.PID != 0 && c.Child != nil && c.Child.PID != 0 && c.Child.PID != r.Place.PID {
		return fmt.Errorf("it is about another one: its command had the process id %d, and this one's had %d", c.Child.PID, r.Place.PID)
	}
	return nil
}

// journalledOutcome returns the last outcome of a job that the journal has for the file name, or nil.
func (s *Store) journalledOutcome(id kernel.JobID, name string) (last []byte) {
	err := s.eachJournalled(id, func(g group) {
		if g.does(opRemoveJob) {
			last = nil
		}
		for _, op := range g.ops {
			if op.kind == opWrite && (op.path == name || op.to != "" && path.Join(path.Dir(op.path), op.to) == name) {
				last = op.data
			}
		}
	})
	if err == nil { // else there may be a later one
		_, err = decodeOutcome(id, last)
	}
	if err != nil {
		return nil
	}
	return last
}
