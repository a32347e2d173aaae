package fs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// claimRecord is the part of a claim, attempts/N.json, that says where its attempt
// runs.
type claimRecord struct {
	Host  string `json:"host"`
	Child *struct {
		PID int `json:"pid"`
	} `json:"child"`
}

// Attempts returns a job's attempts that left files, by number. An attempt
// without an outcome is running or was lost.
func (s *Store) Attempts(id kernel.JobID) ([]kernel.Result, error) {
	if err := s.open(false); err != nil {
		return nil, ignoreMissing(err)
	}
	if !kernel.ValidJobID(string(id)) {
		return nil, fmt.Errorf("attempts of job %q: %w", id, kernel.ErrInvalid)
	}
	names, err := s.jobFileNames(id, attemptsDir)
	if err != nil {
		return nil, fmt.Errorf("attempts of job %s: %w", id, err)
	}
	found := map[int]kernel.Result{}
	for _, name := range names {
		number, what, _ := strings.Cut(name, ".")
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || what != "json" && what != "outcome.json" {
			continue
		}
		ended, err := s.outcome(id, attemptOutcome(n))
		if ended != nil && ended.Attempt.N == n {
			found[n] = *ended
			continue
		}
		r := kernel.Result{Attempt: kernel.AttemptID{Job: id, N: n}}
		agent, failed := s.agentRunOf(r.Attempt)
		b, unclaimed := s.readJobFile(id, attemptsDir+"/"+number+".json", maxRecord)
		for _, err := range []error{err, failed, unclaimed} {
			if unread(err) {
				return nil, fmt.Errorf("attempt %d of job %s: %w", n, id, err)
			}
		}
		r.Agent = agent
		if unclaimed == nil {
			r.Place = claimPlace(b)
		}
		found[n] = r
	}
	out := make([]kernel.Result, 0, len(found))
	for _, r := range found {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b kernel.Result) int { return cmp.Compare(a.Attempt.N, b.Attempt.N) })
	return out, nil
}

// claimPlace returns where an attempt runs, by its claim. Claims of earlier
// versions are several JSON values.
func claimPlace(claim []byte) kernel.Place {
	var p kernel.Place
	for values := json.NewDecoder(strings.NewReader(string(claim))); ; {
		var c claimRecord
		if values.Decode(&c) != nil {
			return p
		}
		p.Host = cmp.Or(p.Host, c.Host)
		if c.Child != nil {
			p.PID = c.Child.PID
		}
	}
}
