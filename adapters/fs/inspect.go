package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Oddity is a file of the store that should not be there, or not like this.
type Oddity struct {
	Path, Text string
	Next       string       // the next step: a command, or what to do; "": look at the file
	Fix        func() error // nil: a person has to repair it
}

// staleTemp is the age from which a temporary file counts as left by a dead writer.
const staleTemp = time.Hour

// Inspect looks for leftovers of crashes and of manual edits below .vizier/jobs: torn
// records that the journal still has, damaged files of attempts, lost markers of artifacts, wrong state files,
// directories without a record, links in place of files, something in the place of the event log, of artifacts or of what the
// resident scheduler and hooks lock, a damaged
// journal or history, temporary files of dead processes, and manifests of runs that runs does not name. The caller holds the
// scheduler lock during Inspect and when it calls a Fix.
func (s *Store) Inspect(runs map[kernel.RunID]bool) ([]Oddity, error) {
	if err := s.open(false); err != nil {
		if errors.Is(err, iofs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	ids, err := s.jobIDs()
	if err != nil {
		return nil, err
	}
	out := append(append(s.inspectJournal(), s.inspectHistory()...), s.links(jobsDir)...)
	out = append(append(append(out, s.inspectEvents()...), s.inspectLocks()...), s.inspectConflicts()...)
	places := s.inspectArtifacts() // before the jobs, whose markers are put back once the way is free
	out = append(out, places...)
	for _, id := range ids {
		found := append(s.inspectJob(id), s.links(jobPath(id, ""))...)
		if why := s.quarantineReason(id); why != "" && len(found) == 0 && !s.heldBy(id, places) {
			found = []Oddity{{Path: vizierDir + "/" + jobPath(id, recordName), Text: why}}
		}
		out = append(out, found...)
	}
	manifests, err := s.manifests(runs)
	return append(append(out, s.temps(jobsDir, 0)...), manifests...), err
}

func (s *Store) inspectJob(id kernel.JobID) []Oddity {
	dir, name := vizierDir+"/"+jobPath(id, ""), vizierDir+"/"+s.fileOf(id, recordName)
	j, _, err := s.readRecord(id)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return []Oddity{s.inspectUnrecorded(id, dir)}
	case err != nil && s.base.isLink(jobPath(id, "")):
		return nil // reported with the links of the directory
	case err != nil && s.isFile(jobPath(id, "")):
		return []Oddity{s.inspectFileOfDir(id, dir)}
	case err != nil:
		odd := Oddity{Path: name, Text: "the record cannot be read: " + err.Error()}
		if errors.Is(err, iofs.ErrPermission) { // what is there is not wrong, and cannot be written over either
			odd.Next = "chmod -R u+rwX " + dir + ", as the user whom it belongs to"
			return []Oddity{odd}
		}
		if b, _ := s.journalled(id); b != nil && !errors.Is(err, ErrNewer) && !errors.Is(err, errPack) {
			odd.Fix = func() error { return s.writeInPlace(jobPath(id, recordName), b) }
		}
		return []Oddity{odd}
	}
	out := append(s.inspectFiles(&j), s.inspectMarkers(&j)...)
	if word := j.State.Status.Coarse(); !s.stateFileSays(id, word) && s.Packed(id) == "" {
		out = append(out, Oddity{Path: vizierDir + "/" + jobPath(id, stateName), Text: fmt.Sprintf("the record means %q, and it does not say so", word),
			Fix: func() error { return s.writeInPlace(jobPath(id, stateName), []byte(word+"\n")) }})
	}
	return out
}

// journalUnread is what to do if it cannot be told from the journal what became of a job.
const journalUnread = "see why that cannot be read, and run `vizier doctor` again"

// inspectUnrecorded reports a job's directory without a record. The journal may still have the record. If it has
// not, the job is lost, and a repair keeps what is left of it.
func (s *Store) inspectUnrecorded(id kernel.JobID, dir string) Oddity {
	files, err := s.base.names(jobPath(id, ""))
	if err != nil {
		return Oddity{Path: dir, Text: err.Error()}
	}
	odd := Oddity{Path: dir, Text: "a job's directory without a record"}
	lock := jobPath(id, lockName)
	there, err := s.base.exists(lock)
	switch b, unread := s.journalled(id); {
	case unread != nil:
		odd.Text += ", and it is not known whether the journal has the record: " + unread.Error()
		odd.Next = journalUnread
	case err != nil || there && s.locked(lock):
		odd.Next = "a runner is at work in it: wait for its end, and run `vizier doctor` again"
	case b != nil:
		odd.Text += "; the journal has the record"
		odd.Fix = func() error { return s.restore(id, b) }
	case empty(files):
		odd.Text += ", and with nothing in it"
		odd.Fix = func() error { return s.removeTree(string(id)) }
	default:
		odd.Text += ": job " + string(id) + " is lost, and if it was open it will not run. A repair moves what is left of it to " + vizierDir + "/" + asideDir
		odd.Fix = func() error { return s.setAside(jobPath(id, "")) }
	}
	return odd
}

// inspectFileOfDir reports that no directory is in the place of a job's directory. A repair moves away what is, and
// puts back what the journal still has.
func (s *Store) inspectFileOfDir(id kernel.JobID, dir string) Oddity {
	odd := Oddity{Path: dir, Text: "a file is in the place of a job's directory"}
	b, err := s.journalled(id)
	if err != nil {
		odd.Text += ", and it is not known whether the journal has the record: " + err.Error()
		odd.Next = journalUnread
		return odd
	}
	if b == nil {
		odd.Text += ": job " + string(id) + " is lost, and if it was open it will not run"
	} else {
		odd.Text += "; the journal has the record"
	}
	odd.Text += movesAside
	odd.Fix = func() error {
		if err := s.setAside(jobPath(id, "")); err != nil || b == nil {
			return err
		}
		made, err := s.base.make(jobPath(id, ""))
		if err != nil {
			return err
		}
		made.close()
		if err := s.restore(id, b); err != nil {
			return err
		}
		return repair(s.inspectJob(id))
	}
	return odd
}

// restore puts the record of a job back whose directory is there. That changes neither the journal nor the jobs
// directory, by which other processes learn of it, so it touches that directory: first, since nobody would do it later.
func (s *Store) restore(id kernel.JobID, record []byte) error {
	mark := jobsDir + "/.restored." + string(id) + ".tmp"
	if err := errors.Join(s.base.write(mark, nil, false), s.base.remove(mark)); err != nil { // one that is left from before is replaced
		return err
	}
	s.dropCache() // else this process might save one which knows that the record was gone
	return s.base.write(jobPath(id, recordName), record, true)
}

// writeInPlace writes a file durably. It first moves aside what is in its place.
func (s *Store) writeInPlace(name string, b []byte) error {
	if s.base.inPlaceOf(name) != "" {
		if err := s.setAside(name); err != nil {
			return err
		}
	}
	return s.base.write(name, b, true)
}

// inTheWay reports that something is at path that should not be there, as text says. A repair moves it aside.
func (s *Store) inTheWay(path, text string) Oddity {
	return Oddity{Path: vizierDir + "/" + path, Text: text + movesAside, Fix: func() error { return s.setAside(path) }}
}

// inspectConflicts reports marks of merge conflicts that nothing can be read of. The conflict is still there.
func (s *Store) inspectConflicts() (out []Oddity) {
	names, err := s.base.names(sentinelsDir)
	if err != nil {
		return []Oddity{{Path: vizierDir + "/" + sentinelsDir, Text: err.Error()}}
	}
	for _, name := range names {
		at := path.Join(sentinelsDir, name)
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		b, err := s.base.read(at, maxRecord)
		if err == nil && !json.Valid(b) {
			err = errors.New("it was cut short or is damaged")
		}
		if ignoreMissing(err) != nil {
			out = append(out, Oddity{Path: vizierDir + "/" + at, Text: "the mark of an open merge conflict cannot be read: " + err.Error(),
				Next: "move it away, and retry the merge of this plan: it marks the conflict anew"})
		}
	}
	return out
}

// inspectEvents reports what is in the place of the event log and of its full files. Links are reported with the others.
func (s *Store) inspectEvents() (out []Oddity) {
	look := func(at, so string) {
		if what := s.base.inPlaceOf(at); what != "" && !s.base.isLink(at) {
			out = append(out, s.inTheWay(at, what+" "+errMisplaced.Error()+so))
		}
	}
	look(eventsFile, ", so no event is recorded")
	old, err := s.rotatedEvents()
	if err != nil {
		out = append(out, Oddity{Path: vizierDir + "/" + jobsDir, Text: "it cannot be listed: " + err.Error()})
	}
	for _, r := range old {
		look(r.name, ", so events cannot be read")
	}
	return out
}

// inspectLocks reports what is in the place of files without which some work is not done although every command goes on. All of
// them are made anew, but what a link to the note of lost runners leads to may count: that link is reported with the others.
func (s *Store) inspectLocks() (out []Oddity) {
	for _, f := range []struct{ path, so string }{
		{residentFile, ", so no resident scheduler can start"}, {drainFile, ", so no hook is called"}, {lostFile, ", so no job goes on whose runner was lost"},
	} {
		if what := s.base.inPlaceOf(f.path); what != "" && (f.path != lostFile || !s.base.isLink(f.path)) {
			out = append(out, s.inTheWay(f.path, what+" "+errMisplaced.Error()+f.so))
		}
	}
	return out
}

// inspectJournal reports an entry that was changed after it was written. No job is
// lost by that: the records have its content.
func (s *Store) inspectJournal() []Oddity {
	pos, _, err := s.log.position()
	for at := int64(0); at < pos.end && err == nil; {
		_, at, err = s.log.body(at, nil)
	}
	if err == nil || errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if unread(err) {
		return []Oddity{{Path: vizierDir + "/" + plansFile, Text: "it cannot be read: " + err.Error()}}
	}
	return []Oddity{{Path: vizierDir + "/" + plansFile, Text: errEntry.Error() + ": no job is lost, but part of the history is", Next: "vizier history verify"}}
}

// inspectHistory reports sealed files that were changed after they were written. What is in them is for
// Verify.
func (s *Store) inspectHistory() (out []Oddity) {
	all, err := s.segments()
	if ignoreMissing(err) != nil {
		return []Oddity{{Path: vizierDir + "/" + historyDir, Text: err.Error()}}
	}
	for _, g := range all {
		b, err := s.base.read(g.file(), 1<<32)
		if err == nil {
			_, _, err = wholeSegment(b)
		}
		lost := false
		if err == nil && g.opening {
			var head segmentHead
			head, err = s.segmentHead(g)
			lost = err == nil && head.Lost
		}
		switch name := vizierDir + "/" + g.file(); {
		case lost:
			out = append(out, Oddity{Path: name, Text: lostEntries(g.first-1).Text + "; no job is lost by that", Next: "vizier history verify says what is missing; the rest goes on from there"})
		case errors.Is(err, errSegment):
			out = append(out, Oddity{Path: name, Text: err.Error() + "; no job is lost, but part of the history is, and the oldest part is no longer removed", Next: "vizier history verify"})
		case ignoreMissing(err) != nil && !errors.Is(err, ErrNewer):
			out = append(out, Oddity{Path: name, Text: err.Error()})
		}
	}
	return out
}

// links reports symbolic links among the files of a directory. Vizier follows none, and
// so cannot use the files that they point to. That of the resident scheduler's lock is for inspectLocks.
func (s *Store) links(dir string) (out []Oddity) {
	names, _ := s.base.names(dir) // a directory that cannot be listed is reported elsewhere
	for _, name := range names {
		if name := path.Join(dir, name); s.base.isLink(name) && name != residentFile {
			out = append(out, linkAt(name))
		}
	}
	return out
}

func linkAt(name string) Oddity {
	return Oddity{Path: vizierDir + "/" + name, Text: "a symbolic link, which Vizier does not follow", Next: "move what it leads to here, or the link away if it is none of Vizier's"}
}

// empty reports that nothing in a job's directory is worth keeping.
func empty(files []string) bool {
	for _, f := range files {
		if f != "job.lock" && f != stateName && !isTemp(f) {
			return false
		}
	}
	return true
}

func isTemp(name string) bool {
	return strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".tmp")
}

// journalled returns the last record of a job in the journal, if it still has one. The error says that the journal
// cannot be read now; of a damaged one nothing is known any more.
func (s *Store) journalled(id kernel.JobID) ([]byte, error) {
	var last []byte
	if err := s.eachJournalled(id, func(g group) {
		switch {
		case g.does(opRemoveJob):
			last = nil
		case g.record != nil && !g.does(opPack):
			last = g.record
		}
	}); err != nil {
		return nil, ifUnread(err)
	}
	if _, _, err := decodeRecord(id, last); err != nil {
		return nil, nil //nolint:nilerr // there is none
	}
	return last, nil
}

// eachJournalled calls f with each part of the journal about a job.
func (s *Store) eachJournalled(id kernel.JobID, f func(group)) error {
	log := s.log
	if log == nil { // the store is not acted on, or cannot be written
		var err error
		if log, err = s.lookJournal(); err != nil {
			return err
		}
		defer log.close() //nolint:errcheck // it was only read
	}
	pos, fresh, err := log.position()
	for at := int64(0); err == nil && (fresh || at < pos.end); {
		var e entry
		if e, at, err = log.read(at); err == nil {
			for _, g := range e.groups {
				if g.job == id {
					f(g)
				}
			}
		}
	}
	if fresh && errors.Is(err, io.ErrUnexpectedEOF) { // the end of the journal
		return nil
	}
	return err
}

// temps returns the temporary files below a directory whose writers are dead.
func (s *Store) temps(dir string, depth int) (out []Oddity) {
	if depth > 12 || dir == asideDir {
		return nil
	}
	names, err := s.base.names(dir)
	if err != nil {
		return []Oddity{{Path: vizierDir + "/" + dir, Text: "it cannot be listed: " + err.Error(), Next: "make it a directory that you can read (chmod u+rwx)"}}
	}
	for _, name := range names {
		at := path.Join(dir, name)
		e, err := Confined{*s.base}.Stat(at)
		switch {
		case err != nil:
			continue // it is gone, or reported elsewhere
		case e.Mode == iofs.ModeDir:
			out = append(out, s.temps(at, depth+1)...)
		case isTemp(name) && s.opts.Now().Sub(e.Changed) > staleTemp:
			out = append(out, Oddity{Path: vizierDir + "/" + at, Text: "a temporary file that somebody left",
				Fix: func() error { return s.base.remove(at) }})
		}
	}
	return out
}

// manifests returns the manifests that no run needs.
func (s *Store) manifests(runs map[kernel.RunID]bool) ([]Oddity, error) {
	names, err := s.base.names(runsDir)
	if err != nil {
		return nil, err
	}
	var out []Oddity
	for _, name := range names {
		stem, ext, _ := strings.Cut(name, ".")
		at := runsDir + "/" + name
		remove := func() error { return s.base.remove(at) }
		switch {
		case ext == "json" && strings.HasPrefix(stem, "run_") && !runs[kernel.RunID(stem)]:
			out = append(out, Oddity{Path: vizierDir + "/" + at, Text: "the manifest of a run that has no job", Fix: remove})
		case ext == "follow" && !s.locked(at):
			out = append(out, Oddity{Path: vizierDir + "/" + at, Text: "somebody followed this run and is gone", Fix: remove})
		}
	}
	return out, nil
}

// locked reports that a process holds the flock on a file.
func (s *Store) locked(name string) bool {
	f, err := s.base.file(name, os.O_RDWR)
	if err != nil {
		return true
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}
