package fs

import (
	"errors"
	"fmt"
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
// records that the journal still has, wrong state files, directories without a
// record, links in place of files, a damaged journal or history, temporary files of dead
// processes, and manifests of runs that runs does not name. The caller holds the
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
	for _, id := range ids {
		out = append(append(out, s.inspectJob(id)...), s.links(jobPath(id, ""))...)
	}
	temps, err := s.temps(jobsDir, 0)
	if err != nil {
		return nil, err
	}
	manifests, err := s.manifests(runs)
	return append(append(out, temps...), manifests...), err
}

func (s *Store) inspectJob(id kernel.JobID) []Oddity {
	dir, name := vizierDir+"/"+jobPath(id, ""), vizierDir+"/"+s.fileOf(id, recordName)
	j, _, err := s.readRecord(id)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		files, err := s.base.names(jobPath(id, ""))
		if err != nil {
			return []Oddity{{Path: dir, Text: err.Error()}}
		}
		odd := Oddity{Path: dir, Text: "a job's directory without a record"}
		if empty(files) {
			odd.Fix = func() error { return s.removeTree(string(id)) }
		}
		return []Oddity{odd}
	case err != nil:
		odd := Oddity{Path: name, Text: "the record cannot be read: " + err.Error()}
		if b := s.journalled(id); b != nil && !errors.Is(err, ErrNewer) && !errors.Is(err, errPack) {
			odd.Fix = func() error { return s.base.write(jobPath(id, recordName), b, true) }
		}
		return []Oddity{odd}
	}
	if word := j.State.Status.Coarse(); !s.stateFileSays(id, word) && s.Packed(id) == "" {
		return []Oddity{{Path: vizierDir + "/" + jobPath(id, stateName), Text: fmt.Sprintf("the record means %q, and it does not say so", word),
			Fix: func() error { return s.base.write(jobPath(id, stateName), []byte(word+"\n"), true) }}}
	}
	return nil
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
		switch name := vizierDir + "/" + g.file(); {
		case errors.Is(err, errSegment):
			out = append(out, Oddity{Path: name, Text: err.Error() + "; no job is lost, but part of the history is", Next: "vizier history verify"})
		case ignoreMissing(err) != nil && !errors.Is(err, ErrNewer):
			out = append(out, Oddity{Path: name, Text: err.Error()})
		}
	}
	return out
}

// links reports symbolic links among the files of a directory. Vizier follows none, and
// so cannot use the files that they point to.
func (s *Store) links(dir string) (out []Oddity) {
	names, _ := s.base.names(dir) // a directory that cannot be listed is reported elsewhere
	for _, name := range names {
		if name := path.Join(dir, name); s.base.isLink(name) {
			out = append(out, Oddity{Path: vizierDir + "/" + name, Text: "a symbolic link, which Vizier does not follow", Next: "move what it leads to here"})
		}
	}
	return out
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

// journalled returns the last record of a job in the journal, if it still has one.
func (s *Store) journalled(id kernel.JobID) []byte {
	pos, _, err := s.log.position()
	if err != nil {
		return nil
	}
	var last []byte
	for at := int64(0); at < pos.end; {
		e, next, err := s.log.read(at)
		if err != nil {
			return nil
		}
		for _, g := range e.groups {
			if g.job == id && !g.does(opPack) {
				last = g.record
			}
		}
		at = next
	}
	if _, _, err := decodeRecord(id, last); err != nil {
		return nil
	}
	return last
}

// temps returns the temporary files below a directory whose writers are dead.
func (s *Store) temps(dir string, depth int) ([]Oddity, error) {
	names, err := s.base.names(dir)
	if err != nil || depth > 12 {
		return nil, err
	}
	var out []Oddity
	for _, name := range names {
		at := path.Join(dir, name)
		e, err := Confined{*s.base}.Stat(at)
		switch {
		case err != nil:
			continue // it is gone, or reported elsewhere
		case e.Mode == iofs.ModeDir:
			more, err := s.temps(at, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		case isTemp(name) && s.opts.Now().Sub(e.Changed) > staleTemp:
			out = append(out, Oddity{Path: vizierDir + "/" + at, Text: "a temporary file that somebody left",
				Fix: func() error { return s.base.remove(at) }})
		}
	}
	return out, nil
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
