package inbox

import (
	"errors"
	iofs "io/fs"
	"path"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// Inspect finds leftovers in the trees: temporary files of dead processes,
// reasons without a prompt, and copies of prompts whose jobs are not in jobs.
// Paths are relative to the home.
func (t Tree) Inspect(jobs map[kernel.JobID]bool) (odd []fs.Oddity, err error) {
	err = t.with(func(c fs.Confined) error {
		for _, tree := range []string{inbox.Dir, inbox.ProcessedDir, inbox.FinishedDir, inbox.FailedDir} {
			if err := t.inspect(c, tree, jobs, &odd, 0); err != nil {
				return err
			}
		}
		return nil
	})
	return odd, err
}

func (t Tree) inspect(c fs.Confined, dir string, jobs map[kernel.JobID]bool, odd *[]fs.Oddity, depth int) error {
	names, err := c.Names(dir)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, name := range names {
		have[name] = true
	}
	copies := strings.HasPrefix(dir, inbox.ProcessedDir+"/") || strings.HasPrefix(dir, inbox.FailedDir+"/")
	for _, name := range names {
		at := path.Join(dir, name)
		remove := func() error {
			return t.with(func(c fs.Confined) error { return c.Remove(at) })
		}
		if stem, ok := strings.CutSuffix(name, ".error.txt"); ok && !copies && !have[stem+".error.md"] && !have[stem+".running.md"] {
			*odd = append(*odd, fs.Oddity{Path: at, Text: "a reason without its prompt", Fix: remove})
			continue
		}
		e, err := c.Stat(at)
		switch {
		case errors.Is(err, iofs.ErrNotExist):
		case err != nil:
			return err
		case e.Mode == iofs.ModeDir && copies && kernel.ValidJobID(name):
			if !jobs[kernel.JobID(name)] {
				*odd = append(*odd, fs.Oddity{Path: at, Text: "the copy of a prompt whose job is not on record"})
			}
		case e.Mode == iofs.ModeDir && depth < maxDepth:
			if err := t.inspect(c, at, jobs, odd, depth+1); err != nil {
				return err
			}
		case e.Mode == 0 && strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".tmp") && t.Now().Sub(e.Changed) > staleTemp:
			*odd = append(*odd, fs.Oddity{Path: at, Text: "a temporary file that somebody left", Fix: remove})
		}
	}
	return nil
}
