package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"golang.org/x/sys/unix"
)

// age makes a link look as if it had been made so long ago.
func age(t *testing.T, link string, by time.Duration) {
	t.Helper()
	at := unix.NsecToTimespec(time.Now().Add(-by).UnixNano())
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, link, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		t.Fatal(err)
	}
}

// taken is a turn of h's.
func taken(t *testing.T, h Hosts) *Turn {
	t.Helper()
	turn, err := h.Admit(ended(), false, false)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// die is what becomes of a turn whose process is killed.
func (t *Turn) die() { t.renews.Stop() }

// Hosts whose locks do not hold on each other write one at a time, whichever of them are killed at it.
func TestOneHostWritesAtATime(t *testing.T) {
	draw := drawtest.Of(t)
	a, b := hosts(t)
	c := a
	c.Self = Host{"c", "3"}
	var writing, turns atomic.Int32
	var all sync.WaitGroup
	for _, h := range []Hosts{a, b, c} {
		lock := new(sync.Mutex) // the scheduler lock, as this host sees it
		for range 2 {           // processes
			random := rand.New(rand.NewPCG(draw.Uint64(), 0))
			all.Go(func() {
				for range 100 {
					lock.Lock()
					turn, err := h.Admit(context.Background(), false, false)
					if err != nil {
						t.Error(err)
					} else if n := writing.Add(1); n != 1 {
						t.Errorf("%d write at the same time", n)
					}
					turns.Add(1)
					time.Sleep(time.Duration(random.IntN(100)) * time.Microsecond)
					writing.Add(-1)
					switch random.IntN(8) {
					case 0:
						turn.die()
					case 1:
						turn.die()
						age(t, h.Turn, 4*time.Minute)
					default:
						turn.Leave()
					}
					lock.Unlock()
					time.Sleep(time.Duration(random.IntN(300)) * time.Microsecond)
				}
				lock.Lock() // nobody is left to come after one that is killed last
				defer lock.Unlock()
				if turn, err := h.Admit(context.Background(), false, false); err != nil {
					t.Error(err)
				} else {
					turn.Leave()
				}
			})
		}
	}
	all.Wait()
	if turns.Load() != 600 {
		t.Errorf("%d turns", turns.Load())
	}
	if left, err := os.Readlink(a.Turn); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a turn is left: %s, %v", left, err)
	}
}

// The turn of a process that was killed is over at once for its own host, and for others whose locks
// hold there; else when it was not heard of for long.
func TestATurnThatWasLeftBehind(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, a, b Hosts) Hosts // who wants the turn of a's
		refused bool
	}{
		"another host":              {func(_ *testing.T, _, b Hosts) Hosts { return b }, true},
		"the same host":             {func(_ *testing.T, a, _ Hosts) Hosts { return a }, false},
		"the same host, next boot":  {func(_ *testing.T, a, _ Hosts) Hosts { a.Self.Boot = "9"; return a }, false},
		"a container of it":         {func(_ *testing.T, a, _ Hosts) Hosts { a.Self.Name = "box"; return a }, false},
		"one whose locks hold":      {func(_ *testing.T, _, b Hosts) Hosts { b.note("a"); return b }, false},
		"one that a saw hold locks": {func(_ *testing.T, a, b Hosts) Hosts { a.note("b"); return b }, false},
		"another, after long":       {func(t *testing.T, a, b Hosts) Hosts { age(t, a.Turn, 4*time.Minute); return b }, false},
		"another, not yet":          {func(t *testing.T, a, b Hosts) Hosts { age(t, a.Turn, 2*time.Minute); return b }, true},
		"after long, while a third ends it": {func(t *testing.T, a, b Hosts) Hosts {
			age(t, a.Turn, 4*time.Minute)
			return ending(t, b, "c/3")
		}, true},
		"after long, and a third was killed at it": {func(t *testing.T, a, b Hosts) Hosts {
			age(t, a.Turn, 4*time.Minute)
			b = ending(t, b, "c/3")
			age(t, a.Turn+endSuffix, 4*time.Minute)
			return b
		}, false},
		"the same host, killed at it before": {func(t *testing.T, a, _ Hosts) Hosts { return ending(t, a, "a/1") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := hosts(t)
			taken(t, a).die()
			h := c.prepare(t, a, b)
			patience := time.Minute
			if c.refused {
				patience = 20 * time.Millisecond
			}
			ctx, stop := context.WithTimeout(context.Background(), patience)
			defer stop()
			turn, err := h.Admit(ctx, false, false)
			var other *HostError
			if errors.As(err, &other) != c.refused || c.refused && (!other.Writes || other.Other != "a") {
				t.Fatalf("refused: %v", err)
			}
			if c.refused {
				if said := err.Error(); !strings.Contains(said, "host a is changing something here, or was killed at it") || strings.Contains(said, "in -") {
					t.Error(err)
				}
				return
			}
			if turn == nil || turn.Holds() != nil {
				t.Fatalf("no turn: %v", err)
			}
			turn.Leave()
			if _, err := os.Lstat(a.Turn); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("left behind: %v", err)
			}
			if _, err := os.Lstat(a.Turn + endSuffix); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("left behind: %v", err)
			}
		})
	}
}

// What is in the way of a turn, or of its end, is an error, and whoever ends a turn ends no other.
func TestWhatIsInTheWayOfATurn(t *testing.T) {
	a, b := hosts(t)
	if err := os.WriteFile(a.Turn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if turn, err := a.take(ended(), false); turn != nil || !errors.Is(err, unix.EINVAL) {
		t.Errorf("a file: %v, %v", turn, err)
	}
	if done, err := a.end(mark{}, time.Now()); done || !errors.Is(err, unix.EINVAL) {
		t.Errorf("a file is ended: %v, %v", done, err)
	}
	if err := os.Remove(a.Turn); err != nil {
		t.Fatal(err)
	}
	if done, err := a.end(mark{}, time.Now()); !done || err != nil {
		t.Errorf("one that is gone: %v, %v", done, err)
	}
	taken(t, b).die()
	m, err := readMark(b.Turn)
	if err != nil {
		t.Fatal(err)
	}
	other := m
	other.at++
	if done, err := a.end(other, time.Now()); !done || err != nil {
		t.Errorf("one that is another's by now: %v, %v", done, err)
	}
	if now, err := readMark(b.Turn); err != nil || now != m {
		t.Errorf("it ended another's: %v, %v", now, err)
	}
	if done, err := a.end(m, time.Now()); !done || err != nil {
		t.Errorf("one that is over: %v, %v", done, err)
	}
	for _, link := range []string{a.Turn, a.Turn + endSuffix} {
		if _, err := os.Lstat(link); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("left behind: %v", err)
		}
	}
	long := a
	long.Turn = filepath.Join(filepath.Dir(a.Turn), strings.Repeat("t", 252)) // with the suffix it is too long a name
	taken(t, long).die()
	if turn, err := long.take(ended(), false); turn != nil || !errors.Is(err, unix.ENAMETOOLONG) {
		t.Errorf("a turn that cannot be ended: %v, %v", turn, err)
	}
}

// ending has a process of by's be about to end the turn.
func ending(t *testing.T, h Hosts, by string) Hosts {
	t.Helper()
	if err := os.Symlink(by, h.Turn+endSuffix); err != nil {
		t.Fatal(err)
	}
	return h
}

// Who only looks does not wait for another host's turn, and one that leaves gives way.
func TestWhoWaitsForATurn(t *testing.T) {
	a, b := hosts(t)
	turn := taken(t, a)
	age(t, a.Record, 2*time.Minute)
	if _, err := b.Admit(context.Background(), false, true); !errors.As(err, new(*HostError)) {
		t.Fatalf("who looks: %v", err)
	}
	left := make(chan struct{})
	time.AfterFunc(20*time.Millisecond, func() {
		defer close(left)
		turn.Leave()
	})
	next, err := b.Admit(context.Background(), false, false)
	if err != nil {
		t.Fatal(err)
	}
	<-left
	turn.Leave()
	if m, err := readMark(b.Turn); err != nil || m.Host != b.Self {
		t.Errorf("who leaves twice leaves another's turn: %v, %v", m, err)
	}
	next.Leave()
	if s, err := b.look(); err != nil || s.record.Host != b.Self {
		t.Errorf("on record is %v, %v", s.record, err)
	}
}

// While a host waits for its turn the other one's resident scheduler may have begun.
func TestWhatATurnWaitedFor(t *testing.T) {
	a, b := hosts(t)
	if err := admit(b, false, false); err != nil {
		t.Fatal(err)
	}
	turn := taken(t, a)
	if err := a.write(hostRecord{b.Self, false}); err != nil { // as b saw it before
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() {
		_ = a.write(hostRecord{a.Self, true})
		turn.Leave()
	})
	_, err := b.Admit(context.Background(), false, false)
	var other *HostError
	if !errors.As(err, &other) || other.Writes {
		t.Fatalf("%v", err)
	}
	if _, err := os.Lstat(a.Turn); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("who is refused keeps its turn: %v", err)
	}
}

// A process that stood still for long finds out whether its turn is another's before it writes, and leaves
// that one alone.
func TestATurnAfterStandingStill(t *testing.T) {
	a, b := hosts(t)
	turn := taken(t, a)
	age(t, a.Turn, 2*time.Minute)
	turn.heard = time.Now().Round(0).Add(-time.Hour)
	if err := turn.Holds(); err != nil {
		t.Fatalf("its own: %v", err)
	}
	if m, err := readMark(a.Turn); err != nil || time.Since(time.Unix(0, m.at)) > time.Minute || turn.silent() {
		t.Errorf("not renewed: %v, %v", m, err)
	}
	age(t, a.Turn, 4*time.Minute)
	turn.heard = time.Now().Round(0).Add(-4 * time.Minute)
	next := taken(t, b)
	if err := turn.Holds(); err == nil || !strings.Contains(err.Error(), "another host took it for gone") {
		t.Errorf("another's: %v", err)
	}
	turn.Leave()
	if m, err := readMark(b.Turn); err != nil || m.Host != b.Self {
		t.Errorf("it left another's turn: %v, %v", m, err)
	}
	next.Leave()
}

// A living process renews its turn; a file system without links has none, and is no obstacle.
func TestTurnsAreRenewed(t *testing.T) {
	a, _ := hosts(t)
	turn := taken(t, a)
	age(t, a.Turn, 4*time.Minute)
	turn.renews.Stop()
	turn.renew()
	if m, err := readMark(a.Turn); err != nil || time.Since(time.Unix(0, m.at)) > time.Minute {
		t.Errorf("not renewed: %v, %v", m, err)
	}
	if !turn.renews.Stop() {
		t.Error("it is renewed once")
	}
	turn.Leave()
	a.Turn += "/none/of/these"
	none := taken(t, a)
	if err := none.Holds(); err != nil {
		t.Error(err)
	}
	none.Leave()
}
