package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type historyExportCmd struct {
	Job    string `arg:"" placeholder:"JOB|RUN" help:"Its number, such as 12 or 14/NODE, its name, its id or the beginning of it, or @last."`
	Output string `short:"o" placeholder:"FILE" help:"The file to write; by default standard output."`
}

func (*historyExportCmd) Help() string {
	return "Writes one file that shows what became of a job or of a run: the entries of the history from its first to its last, with the records that they were decided by; its records; " +
		"the digests of its logs and of what else it left; and the commits that it made. `vizier history verify --file FILE` checks it anywhere. " +
		"The entries may name other jobs: read it before you hand it out."
}

// Run writes the file.
func (x *historyExportCmd) Run(c *call) error {
	if x.Output == "" && c.ui.outTTY {
		return usageError(errors.New("the evidence is not text: name a file with --output"))
	}
	r, targets, err := c.targets([]string{x.Job})
	if err != nil {
		return err
	}
	var ids []kernel.JobID
	for _, j := range targets[0].Jobs {
		ids = append(ids, j.ID)
	}
	b, err := r.Evidence(c.ctx, x.Job, ids)
	if err != nil {
		return err
	}
	if x.Output == "" {
		_, err = c.stdout.Write(b)
		return err
	}
	if err := fs.WriteEvidence(x.Output, b); err != nil {
		var wrong *os.PathError // about a temporary file, whose name means nothing to the user
		if errors.As(err, &wrong) {
			err = wrong.Err
		}
		return fmt.Errorf("write %s: %w", x.Output, err)
	}
	sum := sha256.Sum256(b)
	c.ui.print(fmt.Sprintf("Outcome: %d bytes in %s; SHA-256 %s", len(b), x.Output, hex.EncodeToString(sum[:])))
	return nil
}

// evidenceOf is what `history verify --file` reports about the file besides its
// findings.
type evidenceOf struct {
	About   string            `json:"about"`
	Version string            `json:"version"`
	Made    time.Time         `json:"made"`
	Jobs    []kernel.JobID    `json:"jobs"`
	Files   []fs.EvidenceFile `json:"files"`
	Commits []kernel.CommitID `json:"commits"`
}

// verifyFile verifies evidence without opening a repository.
func (h *historyVerifyCmd) verifyFile(c *call) (*evidenceOf, fs.Verification, error) {
	b, err := fs.ReadEvidence(h.File)
	if err != nil {
		return nil, fs.Verification{}, err
	}
	e, v, err := vizier.VerifyEvidence(c.ctx, b)
	if err != nil || e.Program == "" {
		return nil, v, err
	}
	out := &evidenceOf{About: e.About, Version: e.Program, Made: e.Made, Jobs: []kernel.JobID{}, Files: []fs.EvidenceFile{}, Commits: []kernel.CommitID{}}
	for _, j := range e.Jobs {
		out.Jobs, out.Files = append(out.Jobs, j.Job), append(out.Files, j.Files...)
	}
	for _, commit := range e.Commits {
		out.Commits = append(out.Commits, commit.ID)
	}
	return out, v, nil
}

// text formats e as one line.
func (e *evidenceOf) text() string {
	return fmt.Sprintf("Evidence of %s, made %s by version %s: %s, %s, %s\n", e.About, e.Made.Format(time.RFC3339), e.Version,
		view.Counted(len(e.Jobs), "job"), view.Counted(len(e.Files), "file"), view.Counted(len(e.Commits), "commit"))
}
