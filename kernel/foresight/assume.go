package foresight

import (
	"github.com/vizier-scheduler/vizier/kernel"
)

// assumed returns s with every probe answered by assumption: an artifact that
// jobs of s produce does not exist, since gates ask for it before any of them
// runs, and everything else is as the jobs require it. With stale, the artifacts
// that jobs of s produce in git already exist there from an earlier run.
func assumed(s *kernel.Snapshot, stale bool) *kernel.Snapshot {
	for {
		asked := unanswered(s)
		if asked.Empty() {
			return s
		}
		f := kernel.NewFacts()
		made := map[kernel.Artifact]bool{}
		pinned := map[string]kernel.CommitID{}
		for _, j := range s.Jobs() {
			for _, a := range j.Spec.Produces {
				made[a] = true
			}
			pinned[j.Spec.Pinned.Branch] = j.Spec.Pinned.Commit
		}
		for _, a := range asked.Artifacts {
			f.Present[a] = kernel.Seen(!made[a] || stale && outlives(a))
		}
		for _, a := range asked.Markers {
			var owners []kernel.JobID
			if !made[a] {
				owners = append(owners, "elsewhere")
			}
			f.Markers[a] = kernel.Seen(owners)
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

// unanswered returns the facts that gates ask s for in vain.
func unanswered(s *kernel.Snapshot) kernel.Probes {
	asked := s.Probes()
	asked.Attempts = nil
	return asked
}
