package fs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"reflect"
	"sync"
	"syscall"

	"github.com/vizier-scheduler/vizier/kernel"
)

// index is what a process knows of the records. In memory it follows the
// journal; on the disk it saves a new process from reading every record ever
// written. It is a cache: deleting its files changes nothing but time, and the
// records on disk win over it (docs/formats/index.md).
//
// Jobs that succeeded and that no open job refers to leave it for the archive,
// so that its cost follows the open jobs and not the history.
type index struct {
	caught  bool // it stands for the store at epoch, end
	epoch   uint64
	end     int64
	dir     int64 // modification time of the jobs directory
	live    map[kernel.JobID]known
	unread  map[kernel.JobID]string
	archive archive
	size    int64                 // of the file, in bytes
	written int64                 // journal end that the file stands for
	file    uint64                // which file this continues
	begun   uint64                // the first file that counts on this archive; an earlier one counts on another
	served  bool                  // a transaction loaded its jobs, and they are still all there is to load
	changed []kernel.JobID        // what following the journal changed since
	settled []kernel.JobID        // what went to the archive since
	brought map[kernel.JobID]bool // the archive's jobs that were loaded with the others
}

type known struct {
	job     *kernel.Job
	foreign *foreign
	file    fileStamp // of job.json when it was last known to agree; zero: not looked at
}

// fileStamp tells whether a file was replaced or edited.
type fileStamp struct {
	modified int64
	size     int64
	inode    uint64
}

const (
	indexFile  = journalDir + "/index"
	indexMagic = "vizier index 3\n"
	// indexEvery is how many bytes of journal a new process may have to go
	// through on top of an index of less than twice that.
	indexEvery = 128 << 10
	// never is a journal end that no index stands for.
	never = -1 << 40
)

func stampOf(path string) fileStamp {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return fileStamp{}
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileStamp{}
	}
	return fileStamp{info.ModTime().UnixNano(), info.Size(), st.Ino}
}

func (s *Store) jobsStamp() int64 {
	info, err := os.Stat(s.abs(jobsDir))
	if err != nil {
		return 0
	}
	return info.ModTime().UnixNano()
}

// scan builds the index from every record.
func (s *Store) scan(pos position, dir int64) error {
	ids, err := s.jobIDs()
	if err != nil {
		return fmt.Errorf("list jobs: %w", err)
	}
	s.warm = index{caught: true, epoch: pos.epoch, end: pos.end, dir: dir, file: pos.index, begun: pos.index + 1, written: never,
		live: make(map[kernel.JobID]known, len(ids)), unread: map[kernel.JobID]string{}}
	for _, id := range ids {
		s.reread(id)
	}
	return nil
}

// reread takes the record of id from the disk.
func (s *Store) reread(id kernel.JobID) {
	delete(s.warm.live, id)
	delete(s.warm.unread, id)
	file := stampOf(s.RecordFile(id))
	j, f, err := s.readRecord(id)
	switch {
	case err == nil:
		s.warm.live[id] = known{&j, f, file}
	case ignoreMissing(err) != nil:
		s.warm.unread[id] = err.Error()
	}
}

// leaveArchive notes that job id is about to be live or gone. A job with a
// record that is neither live nor unreadable is in the archive.
func (s *Store) leaveArchive(id kernel.JobID) {
	if !s.warm.holds(id) {
		s.warm.archive.drop(id)
		delete(s.warm.brought, id)
	}
}

// holds reports that job id is live, or has a record that makes no sense.
func (x *index) holds(id kernel.JobID) bool {
	_, live := x.live[id]
	_, unread := x.unread[id]
	return live || unread
}

// records picks what scope asks for out of the index.
func (s *Store) records(scope kernel.Scope) (kernel.Records, error) {
	x := &s.warm
	rec := kernel.Records{Jobs: make([]kernel.Job, 0, len(x.live)+8), Unreadable: map[kernel.JobID]string{}}
	wanted := map[kernel.JobID]bool{}
	needed := map[kernel.Artifact]bool{}
	want := func(id kernel.JobID) {
		if _, ok := x.live[id]; !ok {
			wanted[id] = true
		}
	}
	for _, k := range x.live {
		rec.Jobs = append(rec.Jobs, *k.job)
		if k.job.Open() {
			s.refersTo(k.job, want, needed)
		}
	}
	for _, id := range scope.Jobs {
		want(id)
	}
	for _, a := range scope.Artifacts {
		needed[a] = true
	}
	for id, why := range x.unread {
		rec.Unreadable[id] = why
	}
	rec.Succeeded = x.archive.len()
	archived, err := s.archived(scope.All, needed, scope.Keys)
	if err != nil {
		return rec, err
	}
	for _, j := range archived {
		delete(wanted, j.ID)
		rec.Jobs = append(rec.Jobs, j)
		rec.Succeeded--
	}
	for id := range wanted {
		if !kernel.ValidJobID(string(id)) {
			continue
		}
		j, f, err := s.readRecord(id)
		switch {
		case err == nil:
			rec.Jobs = append(rec.Jobs, j)
			rec.Succeeded--
			s.leaveArchive(id)
			x.live[id] = known{job: &j, foreign: f}
			x.served = false // it is among what was loaded from now on
		case ignoreMissing(err) != nil:
			rec.Unreadable[id] = err.Error()
		}
	}
	s.hideHeld(&rec)
	return rec, nil
}

// refersTo calls want with the jobs whose records an open job's gates read, and
// notes the artifacts whose producers they read or its end changes.
func (s *Store) refersTo(j *kernel.Job, want func(kernel.JobID), needed map[kernel.Artifact]bool) {
	for _, id := range j.Spec.After {
		want(id)
	}
	for _, r := range j.Spec.Routes {
		want(r.To)
	}
	for _, a := range j.Spec.Closes() {
		needed[a] = true
	}
	for _, a := range j.Spec.Needs {
		needed[a] = true
		if a.Kind == kernel.CommandPatch {
			want(kernel.JobID(a.Name))
		}
	}
}

// readIndex loads the index file and brings it to pos.
func (s *Store) readIndex(pos position) error {
	b, err := s.base.read(indexFile, 1<<31)
	if err != nil {
		return err
	}
	x := &s.warm
	r := &reader{b: b}
	if err := x.readHead(r, pos); err != nil {
		return err
	}
	x.size = int64(len(b))
	n := r.count()
	x.live, x.unread = make(map[kernel.JobID]known, n), map[kernel.JobID]string{}
	var again []kernel.JobID
	for ; n > 0 && r.err == nil; n-- {
		id := kernel.JobID(r.bytes())
		file := fileStamp{r.int(), r.int(), r.uint()}
		body := &reader{b: r.bytes()}
		if stampOf(s.RecordFile(id)) != file || len(body.b) == 0 {
			again = append(again, id)
			continue
		}
		var j kernel.Job
		jobCodec.get(body, reflect.ValueOf(&j).Elem())
		if body.err != nil {
			return body.err
		}
		x.live[id] = known{job: &j, file: file}
	}
	if r.err != nil {
		return r.err
	}
	for _, id := range again {
		s.reread(id)
	}
	return s.follow(x.end, pos, false, again...)
}

// readHead reads the index file's head, if pos says that this is the file.
func (x *index) readHead(r *reader, pos position) error {
	rest, ok := bytes.CutPrefix(r.b, []byte(indexMagic))
	if !ok {
		return errShort
	}
	if len(rest) < 4 || sumOf(rest[4:]) != binary.LittleEndian.Uint32(rest) {
		return errShort
	}
	r.b = rest[4:]
	if boot, print := string(r.bytes()), r.uint(); boot != pos.boot || print != jobFingerprint {
		return errShort
	}
	x.epoch, x.end, x.file, x.begun = r.uint(), r.int(), r.uint(), r.uint()
	if x.epoch != pos.epoch || x.end > pos.end || x.file != pos.index {
		return errShort
	}
	x.written = x.end
	return x.archive.read(r)
}

// writeIndex writes the index file, after the jobs that no longer matter to
// any decision have gone to the archive. It returns the position that names
// the new file.
func (s *Store) writeIndex(pos position) (position, error) {
	x := &s.warm
	if err := s.archiveOld(pos.index + 1); err != nil {
		return pos, err
	}
	pos.index++
	b := append(make([]byte, 0, x.size+x.size/8+(16<<10)), indexMagic...)
	b = append(b, 0, 0, 0, 0)
	b = putBytes(b, []byte(pos.boot))
	b = binary.AppendUvarint(b, jobFingerprint)
	b = binary.AppendUvarint(b, pos.epoch)
	b = binary.AppendVarint(b, pos.end)
	b = binary.AppendUvarint(b, pos.index)
	b = binary.AppendUvarint(b, x.begun)
	b = x.archive.append(b)
	b = binary.AppendUvarint(b, uint64(len(x.live)+len(x.unread)))
	var body []byte
	for id, k := range x.live {
		if k.file == (fileStamp{}) {
			k.file = stampOf(s.RecordFile(id))
			x.live[id] = k
		}
		body = body[:0]
		if k.foreign.empty() { // a record with foreign fields is read each time
			body = jobCodec.put(body, reflect.ValueOf(k.job).Elem())
		}
		b = appendEntry(b, id, k.file, body)
	}
	for id := range x.unread {
		b = appendEntry(b, id, fileStamp{}, nil)
	}
	binary.LittleEndian.PutUint32(b[len(indexMagic):], sumOf(b[len(indexMagic)+4:]))
	if err := s.base.write(indexFile, b, false); err != nil {
		return pos, err
	}
	x.size, x.written, x.file = int64(len(b)), pos.end, pos.index
	return pos, s.log.setPosition(pos)
}

// castagnoli is the polynomial that processors compute by themselves. Its table
// takes longer to make than a whole small store to read.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// sumOf tells whether a cache is the one that was written.
func sumOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli()) }

func appendEntry(b []byte, id kernel.JobID, f fileStamp, body []byte) []byte {
	b = putBytes(b, []byte(id))
	b = binary.AppendVarint(b, f.modified)
	b = binary.AppendVarint(b, f.size)
	b = binary.AppendUvarint(b, f.inode)
	return putBytes(b, body)
}

// indexDue reports that a new process would have too far to go. A large index
// is written less often: what it costs follows the journal's length and not the
// number of jobs.
func (s *Store) indexDue(pos position) bool {
	x := &s.warm
	return x.caught && pos.end-x.written >= max(indexEvery, x.size/2)
}
