package fs

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"os"
	"reflect"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// archive is the part of the index that decisions hardly ever need: jobs that
// succeeded and that no open job refers to. Its file only grows; jobs that
// left it again, rewound or removed, are listed, and when they are many it is
// written anew.
type archive struct {
	size  int64                 // bytes of the file that count
	sum   uint32                // of these bytes
	count int                   // jobs in them
	gone  map[kernel.JobID]bool // jobs in them that are not the archive's any more

	producers map[kernel.Artifact][]kernel.Job // of the artifacts asked for so far
}

const (
	archiveFile = journalDir + "/archive"
	// archiveGone is how many jobs may have left before the file is rewritten.
	archiveGone = 256
)

var errArchive = errors.New("the archive does not agree with the index")

// len is how many jobs are in the archive.
func (a *archive) len() int { return a.count - len(a.gone) }

// drop notes that a job of the archive is not its any more.
func (a *archive) drop(id kernel.JobID) {
	if a.count == 0 {
		return
	}
	if a.gone == nil {
		a.gone = map[kernel.JobID]bool{}
	}
	a.gone[id] = true
}

func (a *archive) append(b []byte) []byte {
	b = binary.AppendVarint(b, a.size)
	b = binary.AppendUvarint(b, uint64(a.sum))
	b = binary.AppendUvarint(b, uint64(a.count))
	b = binary.AppendUvarint(b, uint64(len(a.gone)))
	for _, id := range slices.Sorted(maps.Keys(a.gone)) {
		b = putBytes(b, []byte(id))
	}
	return b
}

func (a *archive) read(r *reader) error {
	a.size, a.sum, a.count = r.int(), uint32(r.uint()), int(r.uint())
	for n := r.count(); n > 0 && r.err == nil; n-- {
		a.drop(kernel.JobID(r.bytes()))
	}
	return r.err
}

// eachArchived calls f with every job of the archive.
func (s *Store) eachArchived(f func(kernel.Job)) error {
	a := &s.warm.archive
	if a.len() == 0 {
		return nil
	}
	return s.readArchive(archive{}, *a, func(j kernel.Job) {
		if !a.gone[j.ID] {
			f(j)
		}
	})
}

// readArchive calls f with every job that the archive's file got between two
// states of it.
func (s *Store) readArchive(from, to archive, f func(kernel.Job)) error {
	if from.size == to.size {
		return nil
	}
	file, err := s.base.file(archiveFile, os.O_RDONLY)
	if err != nil {
		return errors.Join(errArchive, err)
	}
	defer file.Close()
	b := make([]byte, to.size-from.size)
	if _, err := file.ReadAt(b, from.size); err != nil {
		return errors.Join(errArchive, err)
	}
	if crc32.Update(from.sum, castagnoli(), b) != to.sum {
		return errArchive
	}
	r := &reader{b: b}
	for len(r.b) > 0 && r.err == nil {
		body := &reader{b: r.bytes()}
		var j kernel.Job
		jobCodec.get(body, reflect.ValueOf(&j).Elem())
		if body.err != nil {
			return errArchive
		}
		f(j)
	}
	if r.err != nil {
		return errArchive
	}
	return nil
}

// archived are the archive's jobs: all of them, or the producers of what is
// needed and those with an idempotency key of keys. Producers once looked for
// are remembered.
func (s *Store) archived(all bool, needed map[kernel.Artifact]bool, keys []string) ([]kernel.Job, error) {
	a := &s.warm.archive
	if a.len() == 0 {
		return nil, nil
	}
	var out []kernel.Job
	if all {
		err := s.eachArchived(func(j kernel.Job) { out = append(out, j) })
		return out, err
	}
	if err := s.findProducers(needed); err != nil {
		return nil, err
	}
	seen := map[kernel.JobID]bool{}
	for n := range needed {
		for _, j := range a.producers[n] {
			if !seen[j.ID] && !a.gone[j.ID] {
				seen[j.ID] = true
				out = append(out, j)
			}
		}
	}
	if len(keys) == 0 {
		return out, nil
	}
	err := s.eachArchived(func(j kernel.Job) {
		if j.Spec.IdempotencyKey != "" && !seen[j.ID] && slices.Contains(keys, j.Spec.IdempotencyKey) {
			out = append(out, j)
		}
	})
	return out, err
}

func (s *Store) findProducers(needed map[kernel.Artifact]bool) error {
	a := &s.warm.archive
	missing := false
	for n := range needed {
		_, ok := a.producers[n]
		missing = missing || !ok
	}
	if !missing {
		return nil
	}
	found := make(map[kernel.Artifact][]kernel.Job, len(needed)+len(a.producers))
	for n := range needed {
		found[n] = nil
	}
	for n := range a.producers {
		found[n] = nil
	}
	err := s.eachArchived(func(j kernel.Job) { remember(found, j) })
	a.producers = found
	return err
}

func remember(producers map[kernel.Artifact][]kernel.Job, j kernel.Job) {
	for _, p := range j.Spec.Produces {
		if have, ok := producers[p]; ok {
			producers[p] = append(have, j)
		}
	}
}

// archiveOld moves the jobs that succeeded and that no open job refers to from
// the live ones to the archive. next is the number of the index file that will
// say so.
func (s *Store) archiveOld(next uint64) error {
	x := &s.warm
	keep := map[kernel.JobID]bool{}
	needed := map[kernel.Artifact]bool{}
	runs := map[kernel.RunID]bool{} // a route may rewind any job of a run that is not over
	for _, k := range x.live {
		if k.job.Open() {
			runs[k.job.Spec.Origin.Run] = runs[k.job.Spec.Origin.Run] || k.job.Spec.Origin.Run != "" && k.job.State.Status.Active()
			s.refersTo(k.job, func(id kernel.JobID) { keep[id] = true }, needed)
		}
	}
	rewrite := len(x.archive.gone) > archiveGone
	var b []byte
	if rewrite {
		var err error
		if b, err = s.withoutGone(); err != nil {
			return err
		}
	}
	var body []byte
	var moved []*kernel.Job
	for id, k := range x.live {
		if k.job.State.Status != kernel.Succeeded || k.job.HoldsPrompt() || k.job.Spec.Origin.Ephemeral || keep[id] || runs[k.job.Spec.Origin.Run] || x.archive.gone[id] || !k.foreign.empty() || s.heldOf(id) != "" ||
			slices.ContainsFunc(k.job.Spec.Produces, func(a kernel.Artifact) bool { return needed[a] }) {
			continue
		}
		body = jobCodec.put(body[:0], reflect.ValueOf(k.job).Elem())
		b = putBytes(b, body)
		moved = append(moved, k.job)
	}
	if len(b) == 0 {
		return nil
	}
	if x.archive.size == 0 { // written over: what an older index says of it is not so any more
		if err := s.base.remove(indexFile); err != nil {
			return err
		}
	}
	f, err := s.base.file(archiveFile, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	err = s.base.disk.writeAt(int(f.Fd()), b, x.archive.size)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if x.archive.size == 0 {
		x.begun = next
	}
	for _, j := range moved {
		x.settle(j.ID)
		remember(x.archive.producers, *j)
	}
	x.archive.size += int64(len(b))
	x.archive.sum = crc32.Update(x.archive.sum, castagnoli(), b)
	x.archive.count += len(moved)
	return nil
}

// settle notes that a job went to the archive.
func (x *index) settle(id kernel.JobID) {
	delete(x.live, id)
	if x.served {
		x.settled = append(x.settled, id)
	}
}

// withoutGone starts the archive anew, in place of the old file, and returns
// what stays. The index file that still counts on the old one goes first.
func (s *Store) withoutGone() ([]byte, error) {
	a := &s.warm.archive
	var b []byte
	n := 0
	err := s.eachArchived(func(j kernel.Job) {
		b = putBytes(b, jobCodec.put(nil, reflect.ValueOf(&j).Elem()))
		n++
	})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{indexFile, archiveFile} {
		if err := s.base.remove(name); err != nil {
			return nil, err
		}
	}
	a.size, a.sum, a.count, a.gone = 0, 0, n, nil
	return b, nil
}
