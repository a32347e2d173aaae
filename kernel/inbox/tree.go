package inbox

import (
	"cmp"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// PromptFile is a file of an inbox that has one of a prompt's names.
type PromptFile struct {
	Rel      string // the path as it was dropped, below the inbox
	Name     kernel.PromptName
	Size     int64
	Inode    uint64
	Modified time.Time
	Changed  time.Time // also by a rename
}

// Same reports whether f and g are one file, and nobody wrote to it between the two looks.
func (f PromptFile) Same(g PromptFile) bool {
	return f.Inode == g.Inode && f.Size == g.Size && f.Modified.Equal(g.Modified)
}

// Stray is a file in an inbox that is not a prompt and looks misplaced, and
// why.
type Stray struct{ Path, Why string }

// Listing is the contents of an inbox at one moment.
type Listing struct {
	Files    []PromptFile
	Dirs     []string          // all directories, "" for the inbox itself
	Branches map[string]string // the content of the branch marker, by directory
	Strays   []Stray
	Others   []PromptFile // regular files without a prompt's name; Rel is the path that each has
}

// Odd returns the strays, and the files of jobs' prompts to which somebody gave a
// name that shows no state.
func (l Listing) Odd(jobs []*kernel.Job) []Stray {
	out := l.renamed(jobs)
	for _, s := range l.Strays {
		if !slices.ContainsFunc(out, func(known Stray) bool { return known.Path == s.Path }) {
			out = append(out, s)
		}
	}
	return out
}

func (l Listing) renamed(jobs []*kernel.Job) (out []Stray) {
	for _, f := range l.Others {
		if slices.ContainsFunc(l.Files, func(p PromptFile) bool { return p.Inode == f.Inode }) {
			continue // a link to a prompt
		}
		var last *kernel.Job // a file that ran several times has several
		for _, j := range jobs {
			if in := j.Spec.Prompt; in != nil && in.Inode == f.Inode && !f.Modified.After(in.Claimed) && (last == nil || last.Compare(j) < 0) {
				last = j
			}
		}
		switch {
		case last == nil:
		case last.Open():
			out = append(out, Stray{f.Rel, "it is the prompt of job " + string(last.ID) + ", which is not over: rename it to " + NameOf(kernel.RunningPrompt, last.Spec.Prompt.Rel)})
		default:
			out = append(out, Stray{f.Rel, "it was the prompt of job " + string(last.ID) + ", which is over (" + last.State.Status.String() + "): to run it again, rename it to " + last.Spec.Prompt.Rel})
		}
	}
	return out
}

// Sighting is the state of a new prompt when a pass first saw it.
type Sighting struct {
	File  PromptFile
	Since time.Time
}

// Ready returns the new prompts that may be claimed, ordered by time of the
// last change and then by name. A file is ready once it has not changed for
// debounce, by its modification time or as observed over several passes; for a
// file with a modification time in the future the system's change time counts. After
// the clock was set back, a file counts as first seen.
// seen is the memory of the pass before, next that for the following one. wait
// is how long until the next prompt may be ready. A prompt is held back while
// an earlier prompt of the same name is running.
func (l Listing) Ready(now time.Time, debounce time.Duration, seen map[string]Sighting) (ready []PromptFile, next map[string]Sighting, wait time.Duration) {
	running := map[string]bool{}
	for _, f := range l.Files {
		if f.Name == kernel.RunningPrompt {
			running[f.Rel] = true
		}
	}
	next = map[string]Sighting{}
	for _, f := range l.Files {
		if f.Name != kernel.NewPrompt || running[f.Rel] {
			continue
		}
		s, before := seen[f.Rel]
		if !before || s.Since.After(now) || !s.File.Same(f) {
			s = Sighting{f, now}
		}
		still := f.Modified
		if still.After(now) {
			still = f.Changed
		}
		if s.Since.Before(still) {
			still = s.Since
		}
		if left := debounce - now.Sub(still); left > 0 {
			next[f.Rel] = s
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		ready = append(ready, f)
	}
	slices.SortFunc(ready, PromptFile.compare)
	return ready, next, wait
}

// compare orders prompts as they are to be run.
func (f PromptFile) compare(g PromptFile) int {
	return cmp.Or(f.Modified.Compare(g.Modified), cmp.Compare(f.Rel, g.Rel))
}

// Expired returns the prompts that have shown their end for at least visible,
// and how long it is until the next one has.
func (l Listing) Expired(now time.Time, visible time.Duration) (gone []PromptFile, wait time.Duration) {
	for _, f := range l.Files {
		if f.Name != kernel.DonePrompt && f.Name != kernel.ErrorPrompt {
			continue
		}
		if left := visible - now.Sub(f.Changed); left > 0 && left <= visible {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		gone = append(gone, f)
	}
	return gone, wait
}

// OfName returns the files with name n, in the order of compare.
func (l Listing) OfName(n kernel.PromptName) []PromptFile {
	var out []PromptFile
	for _, f := range l.Files {
		if f.Name == n {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, PromptFile.compare)
	return out
}
