package fs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A job that ended some time ago is packed: its files become one, a gzipped tar
// archive beside where its directory was. Each file of a job is read from the
// directory or, if it is not there, from the pack. So a reader without the lock finds
// it while the directory is removed or restored. Nothing in the directory changes
// before the pack is removed: while there is a pack, it has everything
// (docs/formats/layout.md).

const (
	// maxPackable is how many bytes the files of a job that is packed have at most.
	// Packing saves the unused rest of each file's last block; larger files gain
	// little by that.
	maxPackable = 1 << 20
	// maxUnpacked bounds what a pack is read into.
	maxUnpacked = 64 << 20
)

// errPack is a pack that cannot be read.
var errPack = errors.New("the pack of the job's files is damaged")

// jobFile is a file of a job; its name is relative to the job's directory.
type jobFile struct {
	name    string
	data    []byte
	changed time.Time
}

// encodePack returns a pack. z compresses it, and is used for many packs because it is large.
func encodePack(z *gzip.Writer, files []jobFile) ([]byte, error) {
	var b bytes.Buffer
	z.Reset(&b)
	w := tar.NewWriter(z)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{Name: f.name, Mode: fileMode, Size: int64(len(f.data)), ModTime: f.changed.Truncate(time.Second)})
		if err == nil {
			_, err = w.Write(f.data)
		}
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	err := errors.Join(w.Close(), z.Close())
	return b.Bytes(), err
}

// decodePack reads a pack to its end, which checks its checksum.
func decodePack(b []byte) (files []jobFile, err error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	all := &io.LimitedReader{R: z, N: maxUnpacked}
	for r := tar.NewReader(all); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if head.Typeflag != tar.TypeReg || !filepath.IsLocal(head.Name) || path.Clean(head.Name) != head.Name {
			return nil, fmt.Errorf("%q is no file of a job", head.Name)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		files = append(files, jobFile{head.Name, data, head.ModTime})
	}
	_, err = io.Copy(io.Discard, all)
	if err == nil && all.N == 0 {
		err = fmt.Errorf("it has more than %d bytes", maxUnpacked)
	}
	return files, err
}

// readPack returns the files in the pack of a job; fs.ErrNotExist: it has none. A damaged
// pack counts as none if the directory has the record: a power failure left it before it
// was durable.
func (s *Store) readPack(id kernel.JobID) ([]jobFile, error) {
	b, err := s.base.read(packFile(id), maxUnpacked)
	if err != nil {
		return nil, err
	}
	files, err := decodePack(b)
	if err != nil && s.base.stamp(jobPath(id, recordName)) != (fileStamp{}) {
		return nil, failed("open", packFile(id), iofs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path.Join(vizierDir, packFile(id)), errPack, err)
	}
	return files, nil
}

// readJobFile reads a file of a job, packed or not.
func (s *Store) readJobFile(id kernel.JobID, name string, limit int64) ([]byte, error) {
	b, missing := s.base.read(jobPath(id, name), limit)
	if !errors.Is(missing, iofs.ErrNotExist) {
		return b, missing
	}
	var files []jobFile
	err := missing
	if !s.base.lacks(packFile(id)) {
		files, err = s.readPack(id)
	}
	if errors.Is(err, iofs.ErrNotExist) { // perhaps it has just been unpacked
		if s.base.lacks(jobPath(id, name)) {
			return nil, missing
		}
		return s.base.read(jobPath(id, name), limit)
	}
	for _, f := range files {
		if f.name == name {
			return f.data, nil
		}
	}
	if err == nil {
		err = missing
	}
	return nil, err
}

// jobFileNames lists the files in a directory of a job, packed or not.
func (s *Store) jobFileNames(id kernel.JobID, name string) ([]string, error) {
	names, err := s.base.names(jobPath(id, name))
	if err != nil {
		return nil, err
	}
	files, err := s.readPack(id)
	switch {
	case errors.Is(err, iofs.ErrNotExist): // perhaps it is just being packed, or has been unpacked
		more, err := s.base.names(jobPath(id, name))
		names = append(names, more...)
		slices.Sort(names)
		return slices.Compact(names), err
	case err != nil:
		return nil, err
	}
	for _, f := range files {
		if dir, base := path.Split(f.name); dir == name+"/" && !slices.Contains(names, base) {
			names = append(names, base)
		}
	}
	return names, nil
}

// fileOf returns the path of a job's file, or of the pack that has it.
func (s *Store) fileOf(id kernel.JobID, name string) string {
	if own := jobPath(id, name); s.base.stamp(own) != (fileStamp{}) || s.base.stamp(packFile(id)) == (fileStamp{}) {
		return own
	}
	return packFile(id)
}

// Packed returns the pack of a job's files, "" if they are in its directory.
func (s *Store) Packed(id kernel.JobID) string {
	if s.open(false) != nil || !kernel.ValidJobID(string(id)) || s.fileOf(id, recordName) != packFile(id) {
		return ""
	}
	return s.PackFile(id)
}

// unpackedFiles are copies of packed files, for readers that need an open file. There
// is one copy of each, so that a reader recognises it when it opens it again.
type unpackedFiles struct {
	mu    sync.Mutex
	files []unpackedFile // the one that was opened last comes last
}

type unpackedFile struct {
	at   string
	pack fileStamp // a job that is packed again has another
	*os.File
}

// maxUnpackedFiles is how many copies are kept for the next time that they are opened.
const maxUnpackedFiles = 16

func (u *unpackedFiles) open(s *Store, id kernel.JobID, name string) (*os.File, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := unpackedFile{at: jobPath(id, name), pack: s.base.stamp(packFile(id))}
	if i := slices.IndexFunc(u.files, func(have unpackedFile) bool { return have.at == f.at }); i >= 0 {
		if u.files[i].pack == f.pack {
			f.File = u.files[i].File
		} else {
			_ = u.files[i].Close()
		}
		u.files = slices.Delete(u.files, i, i+1)
	}
	if f.File == nil {
		files, err := s.readPack(id)
		if errors.Is(err, iofs.ErrNotExist) { // perhaps it has just been unpacked
			return s.base.file(f.at, unix.O_RDONLY)
		}
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(files, func(f jobFile) bool { return f.name == name })
		if i < 0 {
			return nil, failed("open", f.at, iofs.ErrNotExist)
		}
		if f.File, err = unnamed(files[i].data); err != nil {
			return nil, err
		}
	}
	if u.files = append(u.files, f); len(u.files) > maxUnpackedFiles {
		_ = u.files[0].Close()
		u.files = slices.Delete(u.files, 0, 1)
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	return os.NewFile(uintptr(fd), f.at), failed("open", f.at, err)
}

// unnamed returns a file without a name that has data.
func unnamed(data []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "vizier-")
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(data); err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()), f.Close())
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (u *unpackedFiles) close() (err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, f := range u.files {
		err = errors.Join(err, f.Close())
	}
	u.files = nil
	return err
}

// endedAt returns when a job ended or, if it never ran, was created; zero: it is open.
func endedAt(j *kernel.Job) time.Time {
	switch {
	case j.Open():
		return time.Time{}
	case j.State.Finished.IsZero():
		return j.Created
	}
	return j.State.Finished
}

// packable returns the files of a job, the record first. It returns none if the job
// cannot be packed: some files are too large, or programs other than Vizier's read
// them, such as a patch.
func (s *Store) packable(id kernel.JobID) ([]jobFile, error) {
	if s.quarantineReason(id) != "" {
		return nil, nil
	}
	files, err := s.readPack(id) // a crash may have left one
	if ignoreMissing(err) != nil {
		return nil, err
	}
	d, err := s.base.open(jobPath(id, ""))
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer d.close()
	room := int64(maxPackable)
	own, err := d.packable("", &room)
	if err != nil || room < 0 {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(f jobFile) bool {
		return slices.ContainsFunc(own, func(o jobFile) bool { return o.name == f.name })
	})
	files = append(files, own...)
	slices.SortFunc(files, func(a, b jobFile) int { return strings.Compare(packOrder(a.name), packOrder(b.name)) })
	if len(files) == 0 || files[0].name != recordName {
		return nil, nil
	}
	return files, nil
}

func packOrder(name string) string {
	if name == recordName {
		return ""
	}
	return name
}

// packable returns the files in and below d, which is the directory of of a job. room is
// how many bytes they may have; less than 0: they cannot be packed.
func (d dir) packable(of string, room *int64) (files []jobFile, err error) {
	names, err := d.names(".")
	if err != nil {
		return nil, err
	}
	for _, base := range names {
		name := path.Join(of, base)
		entry, err := Confined{d}.Stat(base)
		switch {
		case err != nil:
			return nil, err
		case name == lockName, name == waitName, isTemp(base): // of a process that was killed
			continue
		case entry.Mode == iofs.ModeDir && packsBelow(name):
			below, err := d.open(base)
			if err != nil {
				return nil, err
			}
			more, err := below.packable(name, room)
			below.close()
			if err != nil {
				return nil, err
			}
			files = append(files, more...)
			continue
		case !entry.Mode.IsRegular(), !packs(name):
			*room = -1
		default:
			*room -= entry.Size
		}
		if *room < 0 {
			return nil, nil
		}
		data, err := d.read(base, maxPackable)
		if err != nil {
			return nil, err
		}
		files = append(files, jobFile{name, data, entry.Modified})
	}
	return files, nil
}

func packsBelow(dir string) bool {
	return slices.Contains([]string{attemptsDir, effectsDir, hooksDir}, dir)
}

// packs reports that only Vizier's programs read a file of a job by its name. Commands of
// jobs may read the others: a patch, or what a job keeps for its next attempt.
func packs(name string) bool {
	dir, _ := path.Split(name)
	switch {
	case dir != "":
		return true
	case name == recordName, name == stateName, name == outcomeName, name == noInputName:
		return true
	}
	return strings.HasSuffix(name, ".log")
}
