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

// Stray is what lies in an inbox and is nobody's, and why.
type Stray struct{ Path, Why string }

// Listing is what an inbox holds at a moment.
type Listing struct {
	Files    []PromptFile
	Dirs     []string          // all of them, "" for the inbox itself
	Branches map[string]string // by directory, what its marker says
	Strays   []Stray
}

// Sighting is a new prompt as it was first seen.
type Sighting struct {
	File  PromptFile
	Since time.Time
}

// Ready are the new prompts that may be claimed, in the order they were dropped
// in: by time of the last change, then by name. A file is ready when it has
// been still for as long as debounce, by its own time or over several looks;
// one whose time lies in the future by when the system says it changed. seen is
// what was seen before; what is to be remembered is returned. A prompt whose
// earlier namesake is still running is left for later.
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
		if !before || s.File.Inode != f.Inode || s.File.Size != f.Size || !s.File.Modified.Equal(f.Modified) {
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

// compare is the order in which prompts are run.
func (f PromptFile) compare(g PromptFile) int {
	return cmp.Or(f.Modified.Compare(g.Modified), cmp.Compare(f.Rel, g.Rel))
}

// Expired are the prompts that have said long enough how they ended, and how
// long it is until the next one has.
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

// OfName are the files with one of the names, in the order of Compare.
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
