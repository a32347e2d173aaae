package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// claim is the content of a claim file.
type claim struct {
	Identity           // the runner
	Child    *Identity `json:"child,omitempty"` // the command; its pid is its session, too
}

// Claim makes this process the only runner of a, for ever: another claim is
// kernel.ErrStale.
func (l *Local) Claim(a kernel.AttemptID) error {
	path := l.Files.ClaimFile(a)
	temp, err := writeClaim(path, claim{Identity: Self()}, l.Sync)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(filepath.Dir(path), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			temp, err = writeClaim(path, claim{Identity: Self()}, l.Sync)
		}
	}
	if err != nil {
		return fmt.Errorf("claim %s: %w", label(a), err)
	}
	err = os.Link(temp, path)
	_ = os.Remove(temp)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("claim %s: claimed before: %w", label(a), kernel.ErrStale)
	}
	if err == nil && l.Sync {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("claim %s: %w", label(a), err)
	}
	return nil
}

// claimChild adds the command to the claim, for signals and for people. It is
// as good as its use: if it cannot be written, a sweep has to go by the
// command's environment alone.
func (l *Local) claimChild(a kernel.AttemptID, pid int) {
	path := l.Files.ClaimFile(a)
	c, err := readClaim(path)
	if err != nil || c.Identity != Self() {
		return
	}
	child := identify(pid)
	c.Child = &child
	temp, err := writeClaim(path, c, false)
	if err != nil {
		return
	}
	if os.Rename(temp, path) != nil {
		_ = os.Remove(temp)
	}
}

var tempNumber atomic.Uint64

// writeClaim writes c whole to a new file beside path.
func writeClaim(path string, c claim, durable bool) (temp string, err error) {
	b, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	temp = fmt.Sprintf("%s/.%s.%d.%d.tmp", filepath.Dir(path), filepath.Base(path), os.Getpid(), tempNumber.Add(1))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(temp)
	}
	return temp, err
}

func readClaim(path string) (claim, error) {
	var c claim
	b, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return claim{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
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

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
