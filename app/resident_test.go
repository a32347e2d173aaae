package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// shed is a store, a repository and a post in memory. Time is synctest's.
type shed struct {
	mu     sync.Mutex // guards what a story reads or changes beside the resident
	job    kernel.Job
	fail   error // of transactions
	clean  bool
	heads  map[string]kernel.CommitID
	ticks  []time.Duration // when, since the start
	looks  int             // at the working tree
	begun  time.Time
	held   bool
	lost   bool // another took the post
	said   *kernel.Wakes
	onTake func()        // when the post is given up
	ran    bool          // the job was launched
	long   bool          // the job does not end at once
	slow   time.Duration // how long a tick takes

	changed, touched, ended chan struct{}
	blind                   bool
	fresh                   int  // how many more watches are new
	claimed                 bool // it began a transaction while its announcement stood
}

func newShed(o kernel.Spec, st kernel.State) *shed {
	o.Task.Args = []string{"true"}
	return &shed{job: kernel.Job{ID: "a", Rev: 1, Spec: o, State: st}, heads: map[string]kernel.CommitID{}, begun: time.Now(), held: true,
		changed: make(chan struct{}, 1), touched: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
}

// sleep lets time pass, and waits until everything that is due by then is done.
func (s *shed) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// noted returns what the resident has done so far.
func (s *shed) noted() (ticks []time.Duration, looks int, said *kernel.Wakes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ticks), s.looks, s.said
}

func (s *shed) resident() *Resident {
	return &Resident{Scheduler: &Scheduler{Store: s, Observers: []Observer{s}, Executor: s, Now: time.Now}, Lock: s,
		Watcher: watcherOf{s}, Runners: runnersOf{s}, Linger: 5 * time.Second, Outdated: func() bool { return false }}
}

func (s *shed) Begin(context.Context) (Tx, error) {
	s.mu.Lock()
	s.ticks = append(s.ticks, time.Since(s.begun))
	s.claimed = s.claimed || s.said != nil
	s.mu.Unlock()
	time.Sleep(s.slow)
	return s, s.fail
}

func (s *shed) Read(context.Context, kernel.Scope) (kernel.Records, error) {
	return s.Load(kernel.Scope{})
}
func (s *shed) Load(kernel.Scope) (kernel.Records, error) {
	return kernel.Records{Jobs: []kernel.Job{s.job}}, nil
}
func (s *shed) Commit(p kernel.Plan) error {
	s.job = *kernel.NewSnapshot(kernel.Observation{Jobs: []kernel.Job{s.job}}).Apply(p).Jobs()[0]
	return nil
}
func (s *shed) Unfinished() []kernel.WorldAction { return nil }
func (s *shed) Done() error                      { return nil }
func (s *shed) Close() error                     { return nil }

func (s *shed) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range p.Branches {
		f.Heads[b] = kernel.Seen(s.heads[b])
	}
	if p.Clean {
		s.looks++
		f.Clean = kernel.Seen(s.clean)
	}
}

// Start runs the job. When Start returns, the job and its runner have ended, unless long
// is set.
func (s *shed) Start(context.Context, kernel.AttemptID) error {
	s.ran = true
	if !s.long {
		s.job.State.Status = kernel.Succeeded
		s.ended <- struct{}{}
	}
	return nil
}
func (s *shed) Alive(context.Context, []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	return nil
}
func (s *shed) Stop(context.Context, kernel.AttemptID) error  { return nil }
func (s *shed) Sweep(context.Context, kernel.AttemptID) error { return nil }

func (s *shed) Held() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}
func (s *shed) Announce(w *kernel.Wakes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = w
}
func (s *shed) Reacquire() bool { s.held = !s.lost; return s.held }
func (s *shed) Release() {
	s.held = false
	if s.onTake != nil {
		s.onTake()
		s.onTake = nil
	}
}

type watcherOf struct{ s *shed }

func (o watcherOf) Watch(kernel.Probes) (bool, bool) {
	o.s.fresh--
	return o.s.fresh >= 0, !o.s.blind
}
func (o watcherOf) Changed() <-chan struct{} { return o.s.changed }
func (o watcherOf) Touched() <-chan struct{} { return o.s.touched }

type runnersOf struct{ s *shed }

func (r runnersOf) Watch([]kernel.AttemptID) bool { return true }
func (r runnersOf) Ended() <-chan struct{}        { return r.s.ended }

func pinnedTo(c kernel.CommitID) kernel.Spec {
	return kernel.Spec{Pinned: kernel.PinnedHead{Branch: "main", Commit: c}}
}

// serve runs the resident beside a story until it leaves, and returns how long it stayed.
func serve(t *testing.T, s *shed, story func()) (stayed time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 24*time.Hour)
	defer stop()
	done := make(chan struct{})
	go func() { defer close(done); s.resident().Serve(ctx) }()
	synctest.Wait()
	story()
	<-done
	if ctx.Err() != nil {
		t.Error("it never left")
	}
	if s.claimed {
		t.Error("it looked while it said that it knew")
	}
	return time.Since(s.begun)
}

func TestResidentTicksWhenARetryIsDueAndLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShed(kernel.Spec{}, kernel.State{Status: kernel.FailedRetryable, RetryAt: time.Now().Add(30 * time.Second)})
		stayed := serve(t, s, func() {
			if _, _, said := s.noted(); said == nil || said.At.IsZero() {
				t.Errorf("announced %+v", said)
			}
		})
		if !s.ran || len(s.ticks) != 3 || s.ticks[1] != 30*time.Second || stayed.Truncate(time.Second) != 35*time.Second {
			t.Errorf("ran %v after ticks at %v, stayed %v", s.ran, s.ticks, stayed)
		}
	})
}

// The resident stays while a job runs, since its runner may die.
func TestResidentStaysWhileAJobRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShed(kernel.Spec{}, kernel.State{Status: kernel.FailedRetryable, RetryAt: time.Now()})
		s.long = true
		stayed := serve(t, s, func() {
			s.sleep(time.Hour)
			if !s.Held() {
				t.Fatal("it has left")
			}
			s.mu.Lock()
			s.job.State.Status = kernel.Succeeded
			s.mu.Unlock()
			s.ended <- struct{}{}
		})
		if stayed < time.Hour || stayed > time.Hour+10*time.Second {
			t.Errorf("it stayed %v", stayed)
		}
	})
}

// The resident ticks when a time limit is over and the runner did not end the attempt. If
// the tick does not end it either, the resident does not tick again and again.
func TestResidentLooksWhenALimitIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShed(kernel.Spec{Task: kernel.Task{Timeout: 3 * time.Second, Grace: 2 * time.Second}}, kernel.State{Status: kernel.FailedRetryable, RetryAt: time.Now()})
		s.long = true
		serve(t, s, func() {
			s.sleep(time.Minute)
			if ticks, _, _ := s.noted(); len(ticks) != 2 || ticks[1] != 15*time.Second {
				t.Errorf("ticks at %v", ticks)
			}
			s.mu.Lock()
			s.job.State.Status = kernel.Succeeded
			s.mu.Unlock()
			s.ended <- struct{}{}
		})
	})
}

// Without news the resident only ticks once a minute.
func TestResidentSleepsUntilThereIsNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShed(pinnedTo("c1"), kernel.State{})
		serve(t, s, func() {
			s.sleep(10*time.Minute + time.Second)
			if ticks, _, _ := s.noted(); len(ticks) != 11 {
				t.Errorf("%d ticks in ten minutes: %v", len(ticks), ticks)
			}
			s.heads["main"] = "c1"
			s.changed <- struct{}{}
			synctest.Wait()
			if !s.ran {
				t.Errorf("%s after the news", s.job.State.Status)
			}
		})
	})
}

// A change between a tick and the watch that it leads to is not missed.
func TestResidentLooksAgainWhenAWatchIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShed(pinnedTo("c1"), kernel.State{})
		s.fresh = 1
		serve(t, s, func() {
			if ticks, _, said := s.noted(); len(ticks) != 2 || said == nil {
				t.Errorf("ticks at %v, announced %v", ticks, said)
			}
			s.heads["main"] = "c1"
			s.changed <- struct{}{}
		})
	})
}

// Where watches stay new, the resident looks again soon.
func TestResidentLooksAgainWhileWatchesAreNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShed(pinnedTo("c1"), kernel.State{})
		s.fresh = 3
		serve(t, s, func() {
			if ticks, _, said := s.noted(); len(ticks) != 3 || said != nil {
				t.Errorf("ticks at %v, announced %v", ticks, said)
			}
			s.sleep(time.Second)
			if ticks, _, said := s.noted(); len(ticks) != 4 || said == nil {
				t.Errorf("ticks at %v, announced %v", ticks, said)
			}
			s.heads["main"] = "c1"
			s.changed <- struct{}{}
		})
	})
}

// After a slow tick the resident rests, but less long once a runner has ended.
func TestResidentRestsAfterATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShed(pinnedTo("c1"), kernel.State{})
		s.slow = 200 * time.Millisecond
		serve(t, s, func() {
			s.sleep(210 * time.Millisecond)
			s.changed <- struct{}{}
			s.sleep(time.Second) // the next tick was from 1s to 1.2s
			s.ended <- struct{}{}
			s.sleep(time.Second) // and another from 1.3s to 1.5s
			s.changed <- struct{}{}
			s.sleep(20 * time.Millisecond) // a tick since 2.3s
			s.changed <- struct{}{}
			s.sleep(200 * time.Millisecond) // that one is over
			s.ended <- struct{}{}
			s.sleep(time.Second)
			want := []time.Duration{0, 1000, 1300, 2300, 2600}
			ticks, _, _ := s.noted()
			for i := range ticks {
				ticks[i] = ticks[i].Round(100*time.Millisecond) / time.Millisecond
			}
			if !slices.Equal(ticks, want) {
				t.Errorf("ticks at %d ms, want %d", ticks, want)
			}
			s.mu.Lock() // a tick may be under way
			s.heads["main"] = "c1"
			s.mu.Unlock()
			s.changed <- struct{}{}
		})
	})
}

// Many notices lead to few ticks, and the first one is not kept waiting.
func TestResidentTicksAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShed(pinnedTo("c1"), kernel.State{})
		serve(t, s, func() {
			time.Sleep(time.Second)
			for range 1000 {
				select {
				case s.ended <- struct{}{}:
				default:
				}
				time.Sleep(time.Millisecond)
			}
			s.sleep(time.Millisecond)
			if ticks, _, _ := s.noted(); len(ticks) < 20 || len(ticks) > 60 || ticks[1] != time.Second {
				t.Errorf("a thousand notices in a second: ticks at %v", ticks)
			}
			s.mu.Lock()
			s.held = false
			s.mu.Unlock()
			s.changed <- struct{}{}
		})
	})
}

// The resident looks at a dirty tree less and less often, without the lock, and at once
// when git's index was written.
func TestResidentLooksAtADirtyTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShed(kernel.Spec{Preconditions: []kernel.Precondition{{Kind: kernel.CleanWorktree}}}, kernel.State{})
		serve(t, s, func() {
			s.sleep(40 * time.Second)
			if ticks, looks, _ := s.noted(); looks != 6 || len(ticks) != 1 { // the tick's, and after 1, 3, 7, 15 and 31 seconds
				t.Errorf("%d looks, ticks at %v", looks, ticks)
			}
			s.touched <- struct{}{}
			s.sleep(1100 * time.Millisecond)
			if _, looks, _ := s.noted(); looks != 8 { // at once, and after a second
				t.Errorf("%d looks after git's index was written", looks)
			}
			s.clean = true
			s.touched <- struct{}{}
			s.sleep(100 * time.Millisecond)
			if !s.ran {
				t.Errorf("%s though the tree is clean", s.job.State.Status)
			}
		})
	})
}

// If the resident cannot watch something or cannot read the store, it tries again.
func TestResidentTriesAgain(t *testing.T) {
	for name, s := range map[string]func(*shed){
		"blind": func(s *shed) { s.blind = true },
		"disk":  func(s *shed) { s.fail = errors.New("no") },
	} {
		synctest.Test(t, func(t *testing.T) {
			sh := newShed(pinnedTo("c1"), kernel.State{})
			s(sh)
			serve(t, sh, func() {
				sh.sleep(10 * time.Second)
				sh.mu.Lock()
				defer sh.mu.Unlock()
				if n := len(sh.ticks); n < 5 || n > 8 {
					t.Errorf("%s: ticks at %v", name, sh.ticks)
				}
				sh.fail, sh.blind, sh.heads["main"] = nil, false, "c1"
			})
			if !sh.ran {
				t.Errorf("%s: %s", name, sh.job.State.Status)
			}
		})
	}
}

// After news the resident again ticks often for what it cannot watch, however seldom before.
func TestNewsMakesTheResidentLookOften(t *testing.T) {
	for name, tell := range map[string]func(*shed){
		"a change": func(s *shed) { s.changed <- struct{}{} },
		"an end":   func(s *shed) { s.ended <- struct{}{} },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShed(pinnedTo("c1"), kernel.State{})
			s.blind = true
			serve(t, s, func() {
				s.sleep(10 * time.Minute)
				tell(s)
				before, _, _ := s.noted()
				s.sleep(3 * time.Second)
				s.mu.Lock()
				defer s.mu.Unlock()
				if n := len(s.ticks) - len(before); n < 3 {
					t.Errorf("%s: %d ticks in three seconds: %v", name, n, s.ticks[len(before):])
				}
				s.blind, s.heads["main"] = false, "c1"
			})
		})
	}
}

// The resident does the work that came while it gave up its post, unless another process
// took the post.
func TestResidentDoesNotLeaveWorkBehind(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newShed(kernel.Spec{}, kernel.State{Status: kernel.Succeeded})
			s.lost = lost
			s.onTake = func() {
				s.job.State = kernel.State{Status: kernel.FailedRetryable, RetryAt: time.Now().Add(time.Minute)}
			}
			serve(t, s, func() {})
			if s.ran == lost {
				t.Errorf("lost %v: %s", lost, s.job.State.Status)
			}
		})
	}
}

// A change while the resident has nothing to do makes it tick, and stay.
func TestAResidentIsWokenBeforeItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShed(kernel.Spec{}, kernel.State{Status: kernel.Succeeded})
		stayed := serve(t, s, func() {
			s.sleep(3 * time.Second)
			s.job.State = kernel.State{Status: kernel.FailedRetryable, RetryAt: time.Now().Add(time.Minute)}
			s.changed <- struct{}{}
			s.sleep(time.Second)
			if ticks, _, said := s.noted(); len(ticks) != 2 || said == nil || said.At.IsZero() {
				t.Errorf("ticks at %v, announced %+v", ticks, said)
			}
		})
		if !s.ran || stayed < 63*time.Second {
			t.Errorf("ran %v, stayed %v", s.ran, stayed)
		}
	})
}

// A resident that cannot start jobs any more leaves. The next command, which may be able
// to, starts another.
func TestAStarvedResidentLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShed(pinnedTo("c1"), kernel.State{})
		r := s.resident()
		r.Starved = func() bool { return len(s.ticks) >= 2 }
		if r.Serve(t.Context()) || s.held || len(s.ticks) != 2 {
			t.Errorf("held %v, ticks %v", s.held, s.ticks)
		}
	})
}

func TestResidentMakesRoomForANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShed(pinnedTo("c1"), kernel.State{})
		r := s.resident()
		r.Outdated = func() bool { return true }
		if !r.Serve(t.Context()) || s.held || len(s.ticks) > 0 {
			t.Errorf("held %v, ticks %v", s.held, s.ticks)
		}
	})
}

// Before it leaves it looks for a new configuration: not every system tells of one.
func TestResidentDoesNotLeaveANewConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShed(pinnedTo("c1"), kernel.State{Status: kernel.Cancelled})
		r, asked := s.resident(), 0
		r.Outdated = func() bool { asked++; return asked > 1 }
		if !r.Serve(t.Context()) || s.held {
			t.Errorf("held %v, ticks %v", s.held, s.ticks)
		}
	})
}
