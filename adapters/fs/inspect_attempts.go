package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	iofs "io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// inspectAttempts reports what is on record of j's ended attempts and was cut short or damaged, and an outcome
// that is missing. How the job ended is in its record, so no decision needs these files. A repair moves them
// aside, and puts back an outcome of which there is a copy. What is in a pack is sealed.
func (s *Store) inspectAttempts(j *kernel.Job) (out []Oddity) {
	if s.Packed(j.ID) != "" {
		return nil
	}
	const end, start = "what is on record of the attempt's end", "what is on record of the attempt's start"
	look := func(name, what string, check func([]byte) error) {
		b, err := s.readJobFile(j.ID, name, maxRecord)
		if name == outcomeName && errors.Is(err, iofs.ErrNotExist) {
			if kept := s.copiedOutcome(j); kept != nil {
				at := jobPath(j.ID, name)
				out = append(out, Oddity{Path: vizierDir + "/" + at, Text: what + " is missing. A repair writes it anew from what the attempt or the journal has",
					Fix: func() error { return s.base.write(at, kept, true) }})
			}
		}
		if err != nil {
			return // it is gone, or reported elsewhere
		}
		if err = check(b); err == nil || errors.Is(err, ErrNewer) {
			return
		}
		at := jobPath(j.ID, name)
		text := what + " is damaged: " + err.Error() + ". A repair moves it to " + vizierDir + "/" + asideDir
		var kept []byte
		if name == outcomeName {
			kept = s.copiedOutcome(j)
		} else if what == end {
			kept = s.journalledOutcome(j.ID, at)
		}
		if kept != nil {
			text += ", and writes it anew from a copy"
		}
		out = append(out, Oddity{Path: vizierDir + "/" + at, Text: text, Fix: func() error {
			if _, err := s.setAside(at); err != nil || kept == nil {
				return err
			}
			return s.base.write(at, kept, true)
		}})
	}
	outcome := func(b []byte) error {
		_, err := decodeOutcome(j.ID, b)
		return err
	}
	running := 0 // the attempt whose files may just be written
	if j.State.Status == kernel.Running {
		running = j.State.Attempt
	} else {
		look(outcomeName, end, outcome)
	}
	names, _ := s.base.names(jobPath(j.ID, attemptsDir)) // a directory that cannot be listed is reported elsewhere
	for _, name := range names {
		number, what, _ := strings.Cut(name, ".")
		n, err := strconv.Atoi(number)
		switch file := path.Join(attemptsDir, name); {
		case err != nil || n == running:
		case what == "outcome.json":
			look(file, end, outcome)
		case what == "json":
			look(file, start, checkClaim)
		}
	}
	return out
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

// checkClaim returns why nothing can be read of a claim. Its child may be missing, or be written in part.
func checkClaim(b []byte) error {
	var c claimRecord
	err := json.NewDecoder(bytes.NewReader(b)).Decode(&c)
	if before, _, child := bytes.Cut(b, []byte(`,"child":`)); err != nil && child {
		err = json.Unmarshal(append(bytes.Clone(before), '}'), &c)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	return err
}

// journalledOutcome returns the last outcome of a job that the journal has for the file name, or nil.
func (s *Store) journalledOutcome(id kernel.JobID, name string) (last []byte) {
	s.eachJournalled(id, func(g group) {
		if g.does(opRemoveJob) {
			last = nil
		}
		for _, op := range g.ops {
			if op.kind == opWrite && (op.path == name || op.to != "" && path.Join(path.Dir(op.path), op.to) == name) {
				last = op.data
			}
		}
	})
	if _, err := decodeOutcome(id, last); err != nil {
		return nil
	}
	return last
}
