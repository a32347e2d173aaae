package fs

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// In this model a power cut leaves:
//
//   - Everything that was synced: a file with its data, a directory with its
//     names. A sync of either also keeps the names that lead to it, as journaling
//     file systems do for new files.
//   - Any of the changes of names that were not synced, whatever came after
//     them; with a new name the new directories above it are kept. A rename is
//     one change, also between two directories, until one of the two is synced,
//     which keeps only its own side.
//   - The first of the writes to a file that were not synced. The next one may
//     be kept in part, or as zeros.
//
// The model is as bad as any file system and worse than most.

// node is a file or a directory, whatever names it has.
type node struct {
	up    *node            // the directory that it was made in
	names map[string]*node // of a directory, as programs see it; nil: it is a file
}

// edit is a change of one name or of one file's data.
type edit struct {
	call int // the number of the call that makes it
	in   *node

	name string
	to   *node // what has the name from now on; nil: nothing

	data   []byte
	offset int64
	cut    bool // the file ends at offset from now on
}

// call is one call of the store to the disk: what it changes or syncs.
type call struct {
	what  string
	edits []edit
	sync  *node
	all   bool
}

// idle is this machine's disk without its syncs, which take time.
type idle struct{ machine }

func (idle) sync(int) error     { return nil }
func (idle) syncData(int) error { return nil }
func (idle) syncAll(int) error  { return nil }

// recorder is a disk that records its calls.
type recorder struct {
	idle
	mu     sync.Mutex
	path   string // of the root
	root   *node
	inodes map[uint64]*node
	calls  []call
	odd    []string // what it did not understand
}

// newRecorder returns a recorder for a store's directory, which it makes.
func newRecorder(t *testing.T, dir string) *recorder {
	t.Helper()
	r := &recorder{path: filepath.Join(dir, vizierDir), root: &node{names: map[string]*node{}}, inodes: map[uint64]*node{}}
	if err := os.Mkdir(r.path, 0o700); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(r.path, &st); err != nil {
		t.Fatal(err)
	}
	r.inodes[st.Ino] = r.root
	return r
}

func (r *recorder) of(fd int) *node {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		r.odd = append(r.odd, err.Error())
	}
	n := r.inodes[st.Ino]
	if n == nil {
		r.odd = append(r.odd, fmt.Sprintf("a file that it did not see made: inode %d", st.Ino))
		n = &node{}
	}
	return n
}

// did records a call that succeeded.
func (r *recorder) did(c call) {
	for i, e := range c.edits {
		c.edits[i].call = len(r.calls)
		switch {
		case e.name == "":
		case e.to == nil:
			delete(e.in.names, e.name)
		default:
			e.in.names[e.name] = e.to
		}
	}
	r.calls = append(r.calls, c)
}

func (r *recorder) made(at int, name string, n *node) {
	n.up = r.of(at)
	var st unix.Stat_t
	if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		r.odd = append(r.odd, err.Error())
	}
	r.inodes[st.Ino] = n
	r.did(call{what: "make " + name, edits: []edit{{in: n.up, name: name, to: n}}})
}

func (r *recorder) create(at int, name string, flags int) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fd, err := r.idle.create(at, name, flags)
	if err == nil && r.of(at).names[name] == nil {
		r.made(at, name, &node{})
	}
	return fd, err
}

func (r *recorder) mkdir(at int, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.idle.mkdir(at, name)
	if err == nil {
		r.made(at, name, &node{names: map[string]*node{}})
	}
	return err
}

// write writes at a file's end: every file is either new or appended to.
func (r *recorder) write(fd int, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	err := r.idle.write(fd, data)
	if err == nil {
		r.did(call{what: "write", edits: []edit{{in: r.of(fd), data: bytes.Clone(data), offset: st.Size}}})
	}
	return err
}

func (r *recorder) writeAt(fd int, data []byte, offset int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.idle.writeAt(fd, data, offset)
	if err == nil {
		r.did(call{what: "write at", edits: []edit{{in: r.of(fd), data: bytes.Clone(data), offset: offset}}})
	}
	return err
}

func (r *recorder) truncate(fd int, size int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.idle.truncate(fd, size)
	if err == nil {
		r.did(call{what: "truncate", edits: []edit{{in: r.of(fd), cut: true, offset: size}}})
	}
	return err
}

func (r *recorder) moved(what string, from int, old string, to int, name string) {
	a, b := r.of(from), r.of(to)
	n := a.names[old]
	if n == nil {
		r.odd = append(r.odd, "a name that it does not know: "+old)
	}
	edits := []edit{{in: b, name: name, to: n}}
	if what != "link" {
		edits = append(edits, edit{in: a, name: old})
	}
	r.did(call{what: what + " " + old + " " + name, edits: edits})
}

func (r *recorder) rename(from int, old string, to int, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.idle.rename(from, old, to, name)
	if err == nil {
		r.moved("rename", from, old, to, name)
	}
	return err
}

func (r *recorder) renameNew(from int, old string, to int, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.idle.renameNew(from, old, to, name)
	if err == nil {
		r.moved("rename", from, old, to, name)
	}
	return err
}

func (r *recorder) link(from int, old string, to int, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.idle.link(from, old, to, name)
	if err == nil {
		r.moved("link", from, old, to, name)
	}
	return err
}

func (r *recorder) unlink(at int, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.idle.unlink(at, name)
	if err == nil {
		r.did(call{what: "unlink " + name, edits: []edit{{in: r.of(at), name: name}}})
	}
	return err
}

// removeAll records a call for each name, so that a cut may come between any two.
func (r *recorder) removeAll(dir, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.idle.removeAll(dir, name)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(r.path, filepath.Join(dir, name))
	if err != nil {
		return err
	}
	at := r.root
	for part := range strings.SplitSeq(filepath.Dir(rel), "/") {
		if at = at.names[part]; at == nil {
			return nil // it was not there
		}
	}
	r.gone(at, filepath.Base(rel))
	return nil
}

func (r *recorder) gone(in *node, name string) {
	n := in.names[name]
	if n == nil {
		return
	}
	for _, below := range slices.Sorted(maps.Keys(n.names)) {
		r.gone(n, below)
	}
	r.did(call{what: "remove " + name, edits: []edit{{in: in, name: name}}})
}

func (r *recorder) sync(fd int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.did(call{what: "sync", sync: r.of(fd)})
	return nil
}

func (r *recorder) syncData(fd int) error { return r.sync(fd) }

func (r *recorder) syncAll(int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.did(call{what: "sync all", all: true})
	return nil
}

// whole asserts that every change of a file went through the disk: otherwise the record
// is worth nothing.
func (r *recorder) whole(t *testing.T) {
	t.Helper()
	p := newPlatter()
	for _, c := range r.calls {
		p.do(c)
	}
	want := map[string]string{}
	p.with(func(int) bool { return true }, nil).walk(r.root, "", want)
	have := map[string]string{}
	err := filepath.WalkDir(r.path, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(r.path, path)
		if err != nil || rel == "." || rel == lockFile {
			return err
		}
		if d.IsDir() {
			have[rel+"/"] = ""
			return nil
		}
		b, err := os.ReadFile(path)
		have[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(want, have) || len(r.odd) > 0 {
		t.Fatalf("the disk's calls do not lead to what is on it: %v\n%v\n%v", r.odd,
			slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(have)))
	}
}

// platter is the state of a disk after some calls: the changes that will last, and those
// that are not synced yet, in order.
type platter struct {
	names map[*node]map[string]*node
	data  map[*node][]byte
	loose []edit
}

func newPlatter() *platter {
	return &platter{names: map[*node]map[string]*node{}, data: map[*node][]byte{}}
}

func (p *platter) do(c call) {
	p.loose = append(p.loose, c.edits...)
	switch {
	case c.all:
		p.keep(func(edit) bool { return true })
	case c.sync != nil:
		p.keep(func(e edit) bool { return e.in == c.sync })
		for n := c.sync; n != nil; n = n.up {
			p.keepName(n)
		}
	}
}

// keepName keeps the name that a node has now, with the earlier changes of that name.
func (p *platter) keepName(n *node) {
	for i, e := range slices.Backward(p.loose) {
		if e.to == n {
			at := 0
			p.keep(func(f edit) bool { at++; return at <= i+1 && f.in == e.in && f.name == e.name })
			return
		}
	}
}

// keep makes the edits that which selects survive a power failure.
func (p *platter) keep(which func(edit) bool) {
	p.loose = slices.DeleteFunc(p.loose, func(e edit) bool {
		if !which(e) {
			return false
		}
		p.apply(e)
		return true
	})
}

func (p *platter) apply(e edit) {
	switch {
	case e.name != "":
		if p.names[e.in] == nil {
			p.names[e.in] = map[string]*node{}
		}
		if p.names[e.in][e.name] = e.to; e.to == nil {
			delete(p.names[e.in], e.name)
		}
	case e.cut:
		p.data[e.in] = resized(p.data[e.in], e.offset)
	default:
		p.data[e.in] = resized(p.data[e.in], max(e.offset+int64(len(e.data)), int64(len(p.data[e.in]))))
		copy(p.data[e.in][e.offset:], e.data)
	}
}

// resized returns a copy of b of that size.
func resized(b []byte, size int64) []byte {
	c := make([]byte, size)
	copy(c, b)
	return c
}

// with returns the disk with the loose changes that a cut keeps: the names that the calls
// changed for which keep returns true, and of each file's writes as many as writes
// returns, with the next one torn. If writes is nil, all writes are kept.
func (p *platter) with(keep func(call int) bool, writes func(n int) (int, torn)) *platter {
	q := &platter{names: map[*node]map[string]*node{}, data: maps.Clone(p.data)}
	for n, names := range p.names {
		q.names[n] = maps.Clone(names)
	}
	pending := map[*node][]edit{}
	var files []*node
	above := map[*node]bool{} // directories above new names
	for _, e := range p.loose {
		if e.to != nil && keep(e.call) {
			for n := e.in; n != nil; n = n.up {
				above[n] = true
			}
		}
	}
	for _, e := range p.loose {
		switch {
		case e.name == "":
			if pending[e.in] == nil {
				files = append(files, e.in)
			}
			pending[e.in] = append(pending[e.in], e)
		case keep(e.call), above[e.to]:
			q.apply(e)
		}
	}
	for _, f := range files {
		n, tear := len(pending[f]), torn(nil)
		if writes != nil {
			n, tear = writes(n)
		}
		for i, e := range pending[f] {
			if i < n {
				q.apply(e)
			} else if i == n && tear != nil && !e.cut {
				e.data = tear(e.data)
				q.apply(e)
			}
		}
	}
	return q
}

// torn returns what is left of a write that was under way.
type torn func([]byte) []byte

var tears = []torn{
	nil,
	func(b []byte) []byte { return b[:len(b)/2] },
	func(b []byte) []byte { return make([]byte, len(b)) },
	func(b []byte) []byte { return append(make([]byte, len(b)/2), b[len(b)/2:]...) },
}

// nothing returns the disk with only what was synced.
func (p *platter) nothing() *platter {
	return p.with(func(int) bool { return false }, func(int) (int, torn) { return 0, nil })
}

func (p *platter) everything() *platter { return p.with(func(int) bool { return true }, nil) }

// drawn returns the disk with a random part of what was not synced.
func (p *platter) drawn(r *rand.Rand) *platter {
	most := []float64{0.1, 0.5, 0.9}[r.IntN(3)]
	fate := map[int]bool{}
	return p.with(func(call int) bool {
		if _, ok := fate[call]; !ok {
			fate[call] = r.Float64() < most
		}
		return fate[call]
	}, func(n int) (int, torn) { return r.IntN(n + 1), tears[r.IntN(len(tears))] })
}

// walk lists what is below a directory; directories end in a slash.
func (p *platter) walk(n *node, path string, out map[string]string) {
	for name, below := range p.names[n] {
		if at := filepath.Join(path, name); below.names != nil {
			out[at+"/"] = ""
			p.walk(below, at, out)
		} else {
			out[at] = string(p.data[below])
		}
	}
}

// lay writes files into a new store, in memory if possible.
func lay(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "vizier-power-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Mkdir(file(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path, err := file(dir, name), error(nil)
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o700)
		} else {
			err = os.WriteFile(path, []byte(files[name]), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
