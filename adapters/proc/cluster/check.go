package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Finding is something that keeps a cluster from running jobs, and what to do.
type Finding struct{ Problem, Next string }

// probed is what a node found out about what it shares with this host, and what this
// host found out about the node's file.
type probed struct {
	Host string    `json:"host"`
	Now  time.Time `json:"now"`            // by the node's clock
	Held bool      `json:"held"`           // it saw that this host holds a lock
	Lock string    `json:"lock,omitempty"` // why it could not find that out

	lag    time.Duration // how long after the node's write this host still did not see it, by the file server's clock
	unseen time.Time     // when this host last looked before it saw the write, by its own clock
}

const (
	probePatience = time.Minute     // for the probe to begin, and to end
	unseenAfter   = 2 * time.Second // what an ended job wrote is seen within this time, or perhaps never
	mostSkew      = 5 * time.Second // of a node's clock
	mostLag       = 5 * time.Second // of this host's caches
)

// The first and the longest pause between two looks at a job of the doctor. Each look may ask
// the cluster.
const (
	firstLook = 100 * time.Millisecond
	mostLook  = time.Second
)

// nextLook returns the pause that follows pause.
func nextLook(pause time.Duration) time.Duration { return min(pause*3/2, mostLook) }

// Check looks for what would keep jobs of this cluster from running: what this host
// lacks, an engine that does not answer, the configuration and, by a job of its own,
// whether a node sees this host's files, its locks and its time. It stops at a finding
// that makes further checks impossible.
func (c *Cluster) Check(ctx context.Context) []Finding {
	if f := c.Engine.Missing(); f != nil {
		return []Finding{*f}
	}
	made := os.MkdirAll(c.Files.ClusterDir(), 0o700)
	if _, err := c.refresh(ctx); err != nil {
		return []Finding{{err.Error(), c.Engine.Mend(Listing)}}
	}
	if made == nil {
		if f := ownShare.try(c.Files.ClusterDir()); f != nil {
			return []Finding{*f}
		}
	}
	if r, can := c.Engine.(rehearser); can {
		if err := c.ask(ctx, r.Rehearse); err != nil {
			return []Finding{{"a job that asks for nothing besides the configuration would be refused: " + err.Error(), "change [executors." + c.Name + "]"}}
		}
	}
	each := [][]string{nil}
	if s, is := c.Engine.(scattered); is {
		each = s.Each()
	}
	var found []Finding
	for _, options := range each {
		found = append(found, c.checkNode(ctx, options)...)
	}
	return found
}

// checkNode looks at a node that a job with these options runs on.
func (c *Cluster) checkNode(ctx context.Context, options []string) []Finding {
	dir, err := c.probeDir()
	if err != nil {
		return []Finding{{"the probe of a node cannot be made: " + err.Error(), "make room, or mend the directory's owner and mode"}}
	}
	defer func() { _ = sys.RemoveTree(dir) }()
	lock, err := proc.TryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return []Finding{{"flock does not work here: " + err.Error(), "put the repository on a file system that has locks"}}
	}
	defer lock.Close()
	seen, finding := c.probe(ctx, dir, options)
	if finding != nil {
		return []Finding{*finding}
	}
	return c.compare(seen, time.Now())
}

// compare returns what is wrong with what a node saw.
func (c *Cluster) compare(seen probed, now time.Time) []Finding {
	var found []Finding
	if skew := max(seen.unseen.Sub(seen.Now), seen.Now.Sub(now)); skew > mostSkew {
		found = append(found, Finding{fmt.Sprintf("the clock of node %s is %s off this host's", seen.Host, skew.Round(time.Second)),
			"let NTP set both; times on records are those of whoever wrote them"})
	}
	if seen.lag > mostLag {
		found = append(found, Finding{fmt.Sprintf("what node %s writes is seen here %s later: this host's caches of the shared file system are that old", seen.Host, seen.lag.Round(time.Second)),
			"mount it with caches of a few seconds at most (actimeo, for NFS)"})
	}
	switch {
	case c.Settings.NoLocks || seen.Held:
	case seen.Lock != "":
		found = append(found, Finding{"flock does not work on node " + seen.Host + ": " + seen.Lock, "set locks = false in [executors." + c.Name + "]"})
	default:
		found = append(found, Finding{"a lock of this host's does not hold on node " + seen.Host + ": flock does not cross the shared file system",
			"set locks = false in [executors." + c.Name + "], or mount it so that locks are the server's"})
	}
	return found
}

func (c *Cluster) probeDir() (string, error) {
	if err := os.MkdirAll(c.Files.ClusterDir(), 0o700); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(c.Files.ClusterDir(), "probe-")
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600)
}

// probe runs Probe on a node and returns what it found.
func (c *Cluster) probe(ctx context.Context, dir string, own []string) (seen probed, wrong *Finding) {
	name, log := c.ownPrefix()+filepath.Base(dir), filepath.Join(dir, "log")
	id, err := c.submit(ctx, name, log, own, "__probe", dir)
	if err != nil {
		return seen, &Finding{"the probe of a node was refused: " + err.Error(), "change [executors." + c.Name + "]"}
	}
	defer func() {
		if wrong != nil { // else it has ended
			_ = c.cancel(context.WithoutCancel(ctx), []Job{{ID: id, Name: name}})
		}
	}()
	var over time.Time                    // when its end was first seen
	pause, looked := firstLook, c.clock() // a look may take long
	seen.unseen = time.Now()
	for end := time.Now().Add(probePatience); ; pause = nextLook(pause) {
		time.Sleep(pause)
		b, err := os.ReadFile(filepath.Join(dir, "seen"))
		if err == nil && json.Unmarshal(b, &seen) == nil {
			if info, err := os.Stat(filepath.Join(dir, "seen")); err == nil {
				seen.lag = looked.Sub(info.ModTime())
			}
			return seen, nil
		}
		if ctx.Err() != nil {
			return seen, &Finding{"the probe of a node was cut off", "try again"}
		}
		looked, seen.unseen = c.clock(), time.Now()
		list, err := c.refresh(ctx)
		if err != nil {
			return seen, &Finding{err.Error(), c.Engine.Mend(Listing)}
		}
		j, known := list.jobs[name]
		switch {
		case known && j.ended():
			if over.IsZero() {
				over = time.Now()
			}
			if time.Since(over) < unseenAfter || j.State == Succeeded && time.Now().Before(end) { // the node's file may be seen late
				continue
			}
			if j.State == Succeeded {
				return seen, &Finding{fmt.Sprintf("what node %s writes is not seen here after %s: this host's caches of the shared file system are that old", j.Node, probePatience),
					"mount it with caches of a few seconds at most (actimeo, for NFS)"}
			}
			said, _ := os.ReadFile(log)
			return seen, &Finding{fmt.Sprintf("a job ended on node %s without having seen %s (%s%s) %s", j.Node, dir, j.called(), j.because(", "), strings.TrimSpace(string(said))),
				"put the repository, and Vizier's programs, where every node sees them under the same path, or set program in [executors." + c.Name + "]"}
		case time.Now().After(end):
			return seen, &Finding{fmt.Sprintf("a job did not begin within %s: %s%s", probePatience, j.called(), j.because(": ")),
				"see how the cluster stands; the checks of a node could not be made"}
		}
	}
}

// Probe runs on a node and writes to dir what it finds out.
func Probe(dir string) error {
	p := probed{}
	p.Host, _ = os.Hostname()
	lock, err := proc.TryLock(filepath.Join(dir, "lock"))
	switch {
	case errors.Is(err, kernel.ErrConflict):
		p.Held = true
	case err != nil:
		p.Lock = err.Error()
	default:
		_ = lock.Close()
	}
	p.Now = time.Now()
	return writeJSON(filepath.Join(dir, "seen"), p)
}
