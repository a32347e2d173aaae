package fs

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Sizes returns the bytes that the files of jobs take on the disk. It looks at every
// file of theirs without the lock, and stops when ctx ends.
func (s *Store) Sizes(ctx context.Context, ids []kernel.JobID) map[kernel.JobID]int64 {
	sizes := make(map[kernel.JobID]int64, len(ids))
	if s.open(false) != nil {
		return sizes
	}
	jobs, err := s.base.open(jobsDir)
	if err != nil {
		return sizes
	}
	defer jobs.close()
	for _, id := range ids {
		if ctx.Err() != nil {
			break
		}
		if kernel.ValidJobID(string(id)) {
			sizes[id] = jobs.size(string(id), map[uint64]bool{}) + jobs.size(string(id)+packSuffix, map[uint64]bool{})
		}
	}
	return sizes
}

// leastRoom is how many bytes a few small files need.
const leastRoom = 64 << 10

// Full reports that the store's file system has no bytes or inodes for another few small
// files. If that cannot be found out, it is not full.
func (s *Store) Full() bool {
	var st unix.Statfs_t
	return s.open(false) == nil && unix.Fstatfs(s.base.fd, &st) == nil &&
		full(int64(st.Blocks), int64(st.Bavail)*int64(st.Bsize), int64(st.Files), int64(st.Ffree)) //nolint:unconvert // the types differ between systems
}

// full is Full of a file system with that many blocks and inodes. One that counts no blocks, or no inodes, is not full of them.
func full(blocks, freeBytes, inodes, freeInodes int64) bool {
	return blocks > 0 && (freeBytes < leastRoom || inodes > 0 && freeInodes == 0)
}

// size returns the bytes that name in d takes on the disk, with all that is in it. A
// file with several names counts once; one that cannot be looked at does not count.
func (d dir) size(name string, seen map[uint64]bool) int64 {
	st, err := d.disk.stat(d.fd, name)
	if err != nil || seen[st.Ino] {
		return 0
	}
	seen[st.Ino] = st.Nlink > 1
	size := int64(st.Blocks) * 512
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return size
	}
	below, err := d.open(name)
	if err != nil {
		return size
	}
	defer below.close()
	names, _ := below.names(".")
	for _, name := range names {
		size += below.size(name, seen)
	}
	return size
}

// Collected returns when files that need not be kept were last removed; zero: it is
// not known.
func (s *Store) Collected() time.Time {
	if s.open(false) != nil {
		return time.Time{}
	}
	b, err := s.base.read(collectedFile, 64)
	if err != nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339+"\n", string(b))
	if err != nil {
		return time.Time{}
	}
	return at
}

// NoteCollected records now as the time of Collected. It is not synced: a crash
// costs only one needless removal.
func (s *Store) NoteCollected() error {
	if err := s.open(true); err != nil {
		return err
	}
	return s.unwritable(s.base.write(collectedFile, []byte(s.opts.Now().UTC().Format(time.RFC3339)+"\n"), false))
}
