package foresight

import (
	"github.com/vizier-scheduler/vizier/kernel"
)

// assumed returns s with every probe answered by assumption: an artifact that
// jobs of s produce exists if one of them has succeeded, and everything else is
// as the jobs require it. With stale, the artifacts that jobs of s produce in
// git already exist there from an earlier run.
func assumed(s *kernel.Snapshot, stale bool) *kernel.Snapshot {
	for {
		asked := s.Probes()
		if asked.Attempts = nil; asked.Empty() {
			return s
		}
		f := kernel.NewFacts()
		made, by := map[kernel.Artifact]bool{}, map[kernel.Artifact][]kernel.JobID{}
		pinned := map[string]kernel.CommitID{}
		for _, j := range s.Jobs() {
			for _, a := range j.Spec.Produces {
				if made[a] = true; j.State.Status == kernel.Succeeded {
					by[a] = append(by[a], j.ID)
				}
			}
			pinned[j.Spec.Pinned.Branch] = j.Spec.Pinned.Commit
		}
		for _, a := range asked.Artifacts {
			left := stale && a.Kind != kernel.CommandPatch && a.Kind != kernel.MergeSentinel
			f.Present[a] = kernel.Seen(!made[a] || len(by[a]) > 0 || left)
		}
		for _, a := range asked.Markers {
			if owners := by[a]; made[a] {
				f.Markers[a] = kernel.Seen(owners)
			} else {
				f.Markers[a] = kernel.Seen([]kernel.JobID{"elsewhere"})
			}
		}
		for _, b := range asked.Branches {
			at := unborn
			if pinned[b] != "" {
				at = pinned[b]
			}
			f.Heads[b] = kernel.Seen(at)
		}
		f.Head, f.Clean, f.Merging, f.Sandbox = kernel.Seen("main"), kernel.Seen(true), kernel.Seen(""), kernel.Seen(kernel.Enforcement{})
		s = s.WithFacts(f)
	}
}
