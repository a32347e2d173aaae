package fs

import (
	iofs "io/fs"
	"path"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// inspectArtifacts reports what is in the place of the directories of artifacts, of their markers and of their payloads.
// A repair moves that aside. A link is moved only if it is in the place of a marker, whose content does not count.
func (s *Store) inspectArtifacts() []Oddity {
	if s.base.isLink(artifactsDir) {
		return nil // reported with the links of the directory above
	}
	return s.inspectArtifactDir(artifactsDir)
}

func (s *Store) inspectArtifactDir(dir string) (out []Oddity) {
	switch e, err := (Confined{*s.base}).Stat(dir); {
	case err != nil:
		return nil // it is gone
	case e.Mode == iofs.ModeSymlink:
		return []Oddity{linkAt(dir)}
	case e.Mode != iofs.ModeDir:
		return []Oddity{s.inTheWay(dir, "a file is in the place of a directory of artifacts, so no job can make one there")}
	}
	names, _ := s.base.names(dir) // a directory that cannot be listed is reported elsewhere
	slices.Sort(names)
	for _, name := range names {
		at := path.Join(dir, name)
		if id, is := strings.CutSuffix(name, ".json"); is && kernel.ValidJobID(id) {
			out = append(out, s.inspectArtifact(at, kernel.JobID(id))...)
		} else if at == markersDir || at == payloadsDir || isHexName(name) {
			out = append(out, s.inspectArtifactDir(at)...)
		}
	}
	return out
}

// inspectArtifact reports what is in the place of a marker or a payload of a job.
func (s *Store) inspectArtifact(at string, id kernel.JobID) []Oddity {
	what, marker := s.base.inPlaceOf(at), strings.HasPrefix(at, markersDir+"/")
	switch {
	case what == "":
		return nil
	case !marker && s.base.isLink(at):
		return []Oddity{linkAt(at)}
	case !marker:
		return []Oddity{s.inTheWay(at, what+" is in the place of an artifact's payload")}
	}
	return []Oddity{{Path: vizierDir + "/" + at, Text: what + " is in the place of an artifact's marker" + movesAside + ", and writes the marker anew if the job has made the artifact",
		Fix: func() error {
			if err := s.setAside(at); err != nil {
				return err
			}
			j, _, err := s.readRecord(id)
			if err != nil {
				return nil // reported with the job
			}
			return repair(s.inspectMarkers(&j))
		}}}
}

// isHexName reports that a name is one of those that hexName gives a directory.
func isHexName(name string) bool {
	digits := strings.TrimSuffix(name, "_")
	return digits != "" && strings.Trim(digits, "0123456789abcdef") == ""
}

// heldBy reports that one of places is in the way of a change of a job that cannot be written.
func (s *Store) heldBy(id kernel.JobID, places []Oddity) bool {
	for _, h := range s.quarantine {
		if h.job != id {
			continue
		}
		for _, op := range h.group.ops {
			if slices.ContainsFunc(places, func(p Oddity) bool { return strings.HasPrefix(vizierDir+"/"+op.path+"/", p.Path+"/") }) {
				return true
			}
		}
	}
	return false
}

// inspectMarkers reports that j's latest attempt made an artifact, as its outcome says, and its marker is gone: who
// needs the artifact does not find it. A repair writes the marker anew.
func (s *Store) inspectMarkers(j *kernel.Job) (out []Oddity) {
	if !j.State.Status.Terminal() || j.State.Retired || !j.State.Removed.IsZero() || !slices.ContainsFunc(j.Spec.Produces, func(a kernel.Artifact) bool {
		return a.Kind == kernel.Custom && s.lacksMarker(artifactFile(markersDir, a, j.ID))
	}) {
		return nil
	}
	r, err := s.outcome(j.ID, outcomeName)
	if err != nil || r == nil || r.Attempt != j.Attempt() {
		return nil
	}
	for _, a := range r.Produced {
		at := artifactFile(markersDir, a, j.ID)
		if a.Kind != kernel.Custom || !s.lacksMarker(at) {
			continue
		}
		out = append(out, Oddity{Path: vizierDir + "/" + at, Text: "the marker of " + a.String() + " is missing, which the job has made: no other job finds that. A repair writes the marker anew", Fix: func() error {
			b, err := newMarker(r.Attempt, a, j.State.Finished)
			if err != nil {
				return err
			}
			return s.put(at, b)
		}})
	}
	return out
}

// lacksMarker reports that nothing is in the place of a marker, and no link is on the way there: what a link leads to
// is reported with that.
func (s *Store) lacksMarker(at string) bool {
	return s.base.lacks(at) && !s.base.behindLink(path.Dir(at))
}
