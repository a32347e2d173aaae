package torture

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// seed returns the seed of a test's random choices, and prints it, so that they can
// be repeated. Their effect still depends on the machine's timing.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := rand.Uint64()
	if given, err := strconv.ParseUint(os.Getenv("VIZIER_TORTURE_SEED"), 10, 64); err == nil {
		s = given
	}
	t.Logf("VIZIER_TORTURE_SEED=%d", s)
	return s
}

// long asks for the long form of the tests.
var long = os.Getenv("VIZIER_LONG") != ""

// size returns the value of an environment variable or, without that, everyDay, or
// atLength in the long form.
func size(variable string, everyDay, atLength int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > 0 {
		return n
	}
	if long {
		return atLength
	}
	return everyDay
}

// kills returns how many processes a storm kills.
func kills(everyDay, atLength int) int64 { return int64(size("VIZIER_TORTURE", everyDay, atLength)) }

// storm kills processes of a repository at random moments until it is calmed.
type storm struct {
	r       *repo
	seed    uint64
	left    atomic.Int64 // kills to come
	tally   sync.Map     // what was killed: kind to *atomic.Int64
	waves   uint64
	calm    chan struct{}
	threads sync.WaitGroup
}

func newStorm(r *repo, seed uint64, kills int64) *storm {
	s := &storm{r: r, seed: seed}
	s.left.Store(kills)
	return s
}

func (s *storm) killed(kind string) {
	s.left.Add(-1)
	n, _ := s.tally.LoadOrStore(kind, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// counts returns what was killed so far.
func (s *storm) counts() map[string]int64 {
	all := map[string]int64{}
	s.tally.Range(func(kind, n any) bool {
		all[kind.(string)] = n.(*atomic.Int64).Load()
		return true
	})
	return all
}

// rage calls each of gusts in a goroutine of its own, again and again until rest.
func (s *storm) rage(gusts ...func(*rand.Rand)) {
	s.calm = make(chan struct{})
	for _, gust := range gusts {
		s.waves++
		rng := rand.New(rand.NewPCG(s.seed, s.waves))
		s.threads.Add(1)
		go func() {
			defer s.threads.Done()
			for s.left.Load() > 0 {
				select {
				case <-s.calm:
					return
				default:
					gust(rng)
				}
			}
		}()
	}
}

// rest ends the storm, and continues stopped processes.
func (s *storm) rest() {
	close(s.calm)
	s.threads.Wait()
	for _, p := range s.r.processes() {
		s.r.signal(p, syscall.SIGCONT)
	}
}

// nap waits for a random moment up to most milliseconds.
func nap(rng *rand.Rand, most int) {
	time.Sleep(time.Duration(rng.IntN(most*1000)) * time.Microsecond)
}

// kill runs a command of vizier and kills it at a random moment within most
// milliseconds, unless it ends before.
func (s *storm) kill(rng *rand.Rand, kind string, most int, args ...string) {
	cmd := s.r.command(args...)
	if cmd.Start() != nil {
		return
	}
	nap(rng, most)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() < 0 {
		s.killed(kind)
	}
}

// schedulers kills commands that tick, and the resident scheduler.
func (s *storm) schedulers(rng *rand.Rand) {
	switch rng.IntN(6) {
	case 0:
		for _, p := range s.r.processes() {
			if p.runner == "resident" && s.r.signal(p, syscall.SIGKILL) {
				s.killed("resident")
			}
		}
	case 1, 2:
		s.kill(rng, "list", 12, "jobs", "list", "--all")
	default:
		s.kill(rng, "wait", 40, "jobs", "wait", "@last")
	}
}

// jobs kills runners and commands, and stops some of them for a while before.
func (s *storm) jobs(rng *rand.Rand) {
	nap(rng, 60)
	all := s.r.processes()
	if len(all) == 0 {
		return
	}
	p := all[rng.IntN(len(all))]
	kind := "child"
	if p.runner == "resident" {
		kind = p.runner
	} else if p.runner != "" && !forked(p.pid) {
		kind = "runner"
	}
	if rng.IntN(4) == 0 && s.r.signal(p, syscall.SIGSTOP) {
		nap(rng, 30)
		if rng.IntN(2) == 0 {
			s.r.signal(p, syscall.SIGCONT)
			return
		}
		kind += ", stopped"
	}
	if s.r.signal(p, syscall.SIGKILL) {
		s.killed(kind)
	}
}
