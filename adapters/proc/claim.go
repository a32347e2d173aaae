package proc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// claim is the content of a claim file, one JSON object. It leaves room for the
// command's process, which claimChild fills in once the command runs.
type claim struct {
	Identity        // the runner
	Lock     inode  `json:"lock"`       // of the job's lock file
	Spaces   Spaces `json:"namespaces"` // of the runner

	// Directories outside of the store that belong to the attempt, and its
	// container.
	Private   sys.Path `json:"private,omitempty"`   // contains its secrets
	Temporary sys.Path `json:"temporary,omitempty"` // its own temporary directory, in a sandbox or a container
	Container string   `json:"container,omitempty"` // the name of the container it runs in

	Began time.Time `json:"began,omitzero"`  // when it was made
	Void  string    `json:"void,omitempty"`  // why the attempt must not be run; then there is no runner
	Child *Identity `json:"child,omitempty"` // the command, which is its session's leader
}

// noChild stands in a claim for its command's process. Blanks that leave room
// for the process follow it.
const noChild = `"child":null`

// encode returns c as the content of a file, with room for the command's
// process if c has none yet.
func (c claim) encode() []byte {
	b, _ := json.Marshal(c) // strings, numbers and the present time can always be encoded
	if c.Child != nil || c.Void != "" {
		return append(b, '\n')
	}
	longest := c.Identity
	longest.PID, longest.Start = math.MaxInt32, math.MaxUint64
	room, _ := json.Marshal(longest)
	b = append(bytes.TrimSuffix(b, []byte("}")), ","+noChild...)
	return append(append(b, bytes.Repeat([]byte(" "), len(room)-len("null"))...), "}\n"...)
}

// inode identifies a file. It distinguishes a claim from its copy in a copied
// repository.
type inode struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

func inodeOf(path string) inode {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return inode{}
	}
	return inode{uint64(st.Dev), st.Ino}
}

// Claim makes this process the only runner of a, for ever. A second claim fails
// with kernel.ErrStale.
func (l *Local) Claim(a kernel.AttemptID) error {
	own, now := l.provided.of(a), l.now()
	c := claim{Identity: Self(), Lock: inodeOf(l.Files.LockFile(a.Job)), Spaces: spaces(), Private: sys.Path(own.dir), Temporary: sys.Path(own.tmp), Container: own.container, Began: now}
	if err := l.writeClaimOnce(a, c); err != nil {
		return err
	}
	l.began.attempt, l.began.at = a, now
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[a.Job]; h != nil && h.attempt == a {
		h.claimed = true
	}
	return nil
}

// Void claims a for no process, so that it can never be run. It fails with
// kernel.ErrStale if a is claimed already.
func (l *Local) Void(a kernel.AttemptID, why string) error {
	return l.writeClaimOnce(a, claim{Identity: Identity{Host: here().Host}, Void: why})
}

// Taken is what an attempt's claim says of it. The zero value means that there is no claim.
type Taken struct {
	Host  string    // where it runs or ran; "": nowhere
	Void  string    // why it was voided; "": it was not
	Began time.Time // when it was claimed; zero: voided, or claimed by an earlier version
}

// Claimed reads the claim of a.
func (l *Local) Claimed(a kernel.AttemptID) (Taken, error) {
	c, err := readClaim(l.Files.ClaimFile(a))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Taken{}, nil
	case err != nil:
		return Taken{}, err
	case c.Void != "":
		return Taken{Void: c.Void}, nil
	}
	return Taken{Host: cmp.Or(c.Host, "a host without a name"), Began: c.Began}, nil
}

// writeClaimOnce writes c as the claim of a. It fails with kernel.ErrStale if a
// has one.
func (l *Local) writeClaimOnce(a kernel.AttemptID, c claim) error {
	path := l.Files.ClaimFile(a)
	info, err := os.Lstat(filepath.Dir(path))
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("claim %s: %s is not a directory (a symbolic link is not followed): move it away", label(a), filepath.Dir(path))
	case errors.Is(err, fs.ErrNotExist):
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("claim %s: %w", label(a), err)
		}
	}
	temp, err := writeClaim(path, c)
	if err != nil {
		return fmt.Errorf("claim %s: %w", label(a), err)
	}
	if err = moveNew(temp, path); err != nil {
		_ = os.Remove(temp)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("claim %s: claimed before: %w", label(a), kernel.ErrStale)
	}
	if err != nil {
		return fmt.Errorf("claim %s: %w", label(a), err)
	}
	return nil
}

// claimChild adds the command to the claim, for signals and for people, with
// one write into the room left for it. A partial write after a crash does not
// count. If it cannot be written, a sweep has to rely on ancestry and
// environments alone.
func (l *Local) claimChild(a kernel.AttemptID, command Identity) {
	child, _ := json.Marshal(command)
	f, err := openFile(l.Files.ClaimFile(a), os.O_RDWR|unix.O_NOFOLLOW)
	if err != nil {
		return
	}
	defer f.Close()
	var have [4 << 10]byte
	n, _ := f.ReadAt(have[:], 0)
	if at := bytes.Index(have[:n], []byte(noChild)); at >= 0 {
		_, _ = f.WriteAt(child, int64(at+len(noChild)-len("null")))
	}
}

// writeClaim writes c to a new file beside path. It is not synced: after a
// power failure there is no runner left that a claim could keep out.
func writeClaim(path string, c claim) (temp string, err error) {
	var f *os.File
	for { // a name may have been left by a killed process of the same pid
		name := "." + filepath.Base(path) + "." + strconv.Itoa(os.Getpid()) + "." + strconv.FormatUint(claims.Add(1), 36) + ".tmp"
		f, err = openFile(filepath.Join(filepath.Dir(path), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	_, err = f.Write(c.encode())
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
	}
	return f.Name(), err
}

// claims makes file names unique within the process.
var claims atomic.Uint64

// moveNew renames a file, and fails with fs.ErrExist if the new name is taken.
func moveNew(from, to string) error {
	err := sys.RenameNew(unix.AT_FDCWD, from, unix.AT_FDCWD, to)
	if errors.Is(err, errors.ErrUnsupported) {
		return moveLinked(from, to)
	}
	return err
}

// moveLinked is moveNew for a system or a file system that has no such call: the file has
// both names for a moment.
func moveLinked(from, to string) error {
	err := os.Link(from, to)
	if err == nil {
		_ = os.Remove(from)
	}
	return err
}

func readClaim(path string) (claim, error) {
	b, err := readFile(path)
	if err != nil {
		return claim{}, err
	}
	return decodeClaim(path, b)
}

func decodeClaim(path string, b []byte) (claim, error) {
	var c claim
	values := json.NewDecoder(bytes.NewReader(b))
	err := values.Decode(&c)
	if before, _, found := bytes.Cut(b, []byte(`,"child":`)); err != nil && found { // the child is being written, or was never written in full
		err = json.Unmarshal(append(bytes.Clone(before), '}'), &c)
	}
	if err != nil {
		return claim{}, fmt.Errorf("%s: %w", path, err)
	}
	var more claim // earlier versions wrote the command as a second value
	if c.Child == nil && values.Decode(&more) == nil {
		c.Child = more.Child
	}
	return c, nil
}

// claimOf returns a's claim. ours is false if the claim was copied with the
// repository: then its processes have nothing to do with this repository.
func (l *Local) claimOf(a kernel.AttemptID) (c claim, ours bool, err error) {
	if c, err = readClaim(l.Files.ClaimFile(a)); err != nil {
		return claim{}, false, err
	}
	ours = c.Lock == inodeOf(l.Files.LockFile(a.Job))
	if p, runs := c.process(); !ours && runs && !c.Spaces.away() { // its lock file may have been replaced
		ours = p.worksIn(l.Root)
	}
	return c, ours, nil
}

// unlockable reports that the lock that a's runner holds is not that of the lock file here: the file was removed or
// replaced, or it is seen by another mount, which does not pass locks on. That it looks free says nothing then.
func (c claim) unlockable(ours bool, lock string) bool {
	now := inodeOf(lock)
	return c.Lock != inode{} && now != c.Lock && (ours || now.Ino == c.Lock.Ino)
}

func claimed(path string) (bool, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if err == unix.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("claim %s: %w", path, err)
	}
	return true, nil
}
