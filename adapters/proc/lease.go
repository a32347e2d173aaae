package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Lease configures how long a runner without a sign of life is believed to be
// alive (systems-and-unification 4.5). On one host a lock tells at once whether
// it lives; leases are for runners on other hosts, and for people.
type Lease struct {
	TTL     time.Duration // after this time a runner on another host counts as gone; 0: DefaultLease
	Stalled time.Duration // after this time a runner on this host is shown as stalled; 0: DefaultStalled
	Locks   bool          // locks of other hosts are visible here, so that a free one means the end of a runner there, too
}

// The defaults of a Lease.
const (
	DefaultLease   = 30 * time.Second
	DefaultStalled = time.Minute
)

// Beat renews a's lease. A lease begins with the claim, so short attempts need
// no heartbeat.
func (l *Local) Beat(a kernel.AttemptID) error {
	if err := sys.Touch(l.Files.HeartbeatFile(a)); err != nil {
		return fmt.Errorf("heartbeat of %s: %w", label(a), err)
	}
	return nil
}

// Alive returns what is known of the runner of each attempt.
func (l *Local) Alive(_ context.Context, attempts []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	facts := make(map[kernel.AttemptID]kernel.Fact[kernel.Runner], len(attempts))
	for _, a := range attempts {
		if l.runs(a) {
			facts[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Alive})
		} else if r, err := l.alive(a); err != nil {
			facts[a] = kernel.Unseen[kernel.Runner](err.Error())
		} else {
			facts[a] = kernel.Seen(r)
		}
	}
	return facts
}

// alive goes by the claim or, before there is one, by the note in the lock file
// that was made when the runner was started.
func (l *Local) alive(a kernel.AttemptID) (kernel.Runner, error) {
	lock := l.Files.LockFile(a.Job)
	held, err := locked(lock)
	if err != nil {
		return kernel.Runner{}, err
	}
	sign := l.Files.ClaimFile(a)
	by, text, err := claimedBy(sign)
	unclaimed := errors.Is(err, fs.ErrNotExist)
	if unclaimed {
		var n int
		if n, by = notedAttempt(lock); n != a.N {
			by = Identity{}
		}
		sign = lock
	}
	switch {
	case unreadable(err) && held:
		return kernel.Runner{Liveness: kernel.Alive, Stuck: true,
			Remark: "its claim cannot be read: " + err.Error() + "; once its command has ended, the job waits until it can be"}, nil
	case by.Boot == "" && held: // it is being started, or its claim makes no sense: the lock decides
		return kernel.Runner{Liveness: kernel.Alive}, nil
	case by.Boot == "", by.Boot != here().Boot && by.Host == here().Host: // in the second case it ran before the last boot
		return kernel.Runner{Liveness: kernel.Dead}, nil
	case by.elsewhere() && (held || !l.Lease.Locks):
		return l.leaseLiveness(a, by.Host, sign)
	case !held && unclaimed: // nothing is executed before the claim
		return kernel.Runner{Liveness: kernel.NeverStarted, Remark: "its runner ended before it began: see stderr.log"}, nil
	case !held && !l.unlocked(a, lock):
		return kernel.Runner{Liveness: kernel.Dead}, nil
	}
	if why := l.waitsToRead(a, bytes.Contains(text, []byte(`"private":`))); why != "" {
		return kernel.Runner{Liveness: kernel.Alive, Remark: why, Stuck: true}, nil
	}
	last, err := l.lastSign(a, sign)
	if silent := time.Since(last); err == nil && silent > orDefault(l.Lease.Stalled, DefaultStalled) {
		r := kernel.Runner{Liveness: kernel.Stalled, Heard: last.UTC(), Remark: "stalled: not heard of for " + silent.Truncate(time.Second).String()}
		if pid := l.stoppedRunner(a); pid != 0 {
			r.Stuck = true
			r.Remark += fmt.Sprintf(", since its runner (pid %d) is stopped, as by SIGSTOP or a debugger: `kill -CONT %d` lets it continue", pid, pid)
		}
		return r, nil
	}
	r := kernel.Runner{Liveness: kernel.Alive}
	if bytes.Contains(text, []byte(`"container":`)) && bytes.Contains(text, []byte(noChild)) {
		r.Remark = l.waitsForRemoval(a)
	}
	return r, nil
}

// waitsToRead returns why a's runner, whose command has ended, cannot go on: what the
// command said cannot be read. It returns "" if that is not so. private says that the
// command has a directory of its own to say it in.
func (l *Local) waitsToRead(a kernel.AttemptID, private bool) string {
	err := l.saysInStore(a).unreadable()
	if err == nil && !private {
		return ""
	}
	c, ours, bad := l.claimOf(a)
	if bad != nil || !ours || c.Child == nil || c.Spaces.away() || c.Child.Running() {
		return ""
	}
	if err == nil && c.Private != "" {
		err = saysBelow(string(c.Private)).unreadable()
	}
	if err == nil {
		return ""
	}
	return "its command has ended, and what it left cannot be read: " + err.Error() + "; make it readable, or remove it, and the job goes on"
}

// unlocked reports that a's runner is at work although its lock looks free, see unlockable. Once its command has
// ended, that is assumed for the time of a lease: then it goes on with other jobs.
func (l *Local) unlocked(a kernel.AttemptID, lock string) bool {
	c, ours, err := l.claimOf(a)
	if err != nil || !c.Running() || c.Spaces.away() || !c.unlockable(ours, lock) {
		return false
	}
	if c.Child != nil && c.Child.Running() {
		return true
	}
	last, err := l.lastSign(a, l.Files.ClaimFile(a))
	return err == nil && time.Since(last) < orDefault(l.Lease.TTL, DefaultLease)
}

// claimedBy returns the process that wrote the claim at path, and the claim's text. The
// usual case, a runner of this host, is recognised without decoding the claim.
func claimedBy(path string) (by Identity, text []byte, err error) {
	if text, err = readFile(path); err != nil {
		return Identity{}, nil, err
	}
	if bytes.Contains(text, []byte(here().Boot)) {
		return here(), text, nil
	}
	c, err := decodeClaim(path, text)
	return c.Identity, text, err
}

// leaseLiveness returns whether a runner of another host is alive. Its lease
// decides, since not every shared file system shows the locks of other hosts.
func (l *Local) leaseLiveness(a kernel.AttemptID, host, sign string) (kernel.Runner, error) {
	last, err := l.lastSign(a, sign)
	if err != nil {
		return kernel.Runner{}, err
	}
	ttl := orDefault(l.Lease.TTL, DefaultLease)
	if time.Since(last) > ttl {
		now, err := clockOf(filepath.Dir(sign))
		if err != nil {
			return kernel.Runner{}, err
		}
		if now.Sub(last) > ttl {
			return kernel.Runner{Liveness: kernel.Dead, Remark: "its lease on host " + host + " has expired"}, nil
		}
	}
	return kernel.Runner{Liveness: kernel.Alive, Remark: "on host " + host}, nil
}

// lastSign returns the time of the last sign of life of a's runner: its
// heartbeat or, before the first one, the modification time of the file sign.
func (l *Local) lastSign(a kernel.AttemptID, sign string) (time.Time, error) {
	var last time.Time
	var found error
	for _, path := range []string{l.Files.HeartbeatFile(a), sign} {
		info, err := os.Lstat(path)
		if err == nil && info.ModTime().After(last) {
			last, found = info.ModTime(), nil
		} else if err != nil && last.IsZero() {
			found = err
		}
	}
	return last, found
}

// clockOf returns the time of the clock that sets the modification times of
// files in dir. The clocks of hosts that share a directory need not agree.
func clockOf(dir string) (time.Time, error) {
	f, err := os.CreateTemp(dir, ".clock.*.tmp")
	var info os.FileInfo
	if err == nil {
		info, err = f.Stat()
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read the clock of the file system: %w", err)
	}
	return info.ModTime(), nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}
