package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

func eventStore(t *testing.T, dir string, size int64, files int) *Store {
	t.Helper()
	o := options()
	o.EventBytes, o.EventFiles = size, files
	s := NewStore(dir, o)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func happens(t *testing.T, s *Store, names ...string) {
	t.Helper()
	var events []kernel.Event
	for _, n := range names {
		events = append(events, kernel.Event{At: t0, Kind: kernel.JobCreated, Job: id(1), Name: n})
	}
	if err := s.AppendEvents(events); err != nil {
		t.Fatal(err)
	}
}

// heard returns the names of the events that a reader has not handed out yet, with
// their numbers, and other lines as they are.
func heard(t *testing.T, r *EventReader) []string {
	t.Helper()
	var out []string
	err := r.Read(func(line []byte) error {
		var e eventRecord
		if json.Unmarshal(line, &e) != nil || e.Name == "" {
			out = append(out, string(line))
		} else {
			out = append(out, fmt.Sprintf("%d%s", e.Seq, e.Name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func expectHeard(t *testing.T, r *EventReader, want ...string) {
	t.Helper()
	if got := heard(t, r); !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}

func TestEventsAreNumberedAndReadOnce(t *testing.T) {
	dir := t.TempDir()
	s := eventStore(t, dir, 0, 8)
	early, newest := s.Events(0), s.NewestEvents()
	defer early.Close()
	defer newest.Close()
	expectHeard(t, early)
	expectHeard(t, newest)
	happens(t, s, "a", "b")
	expectHeard(t, early, "1a", "2b")
	expectHeard(t, newest, "1a", "2b")
	expectHeard(t, early)
	happens(t, eventStore(t, dir, 0, 8), "c") // another process
	expectHeard(t, early, "3c")
	expectHeard(t, s.Events(1), "2b", "3c")
	expectHeard(t, s.Events(9))
	expectHeard(t, s.NewestEvents(), "3c")
	if info, err := os.Stat(s.EventsFile()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A reader leaves out lines without JSON, such as one that a crash cut off, and loses
// no line after them. It hands on the lines that other programs wrote.
func TestTornAndForeignLines(t *testing.T) {
	s := eventStore(t, t.TempDir(), 0, 8)
	happens(t, s, "a")
	r := s.Events(0)
	defer r.Close()
	expectHeard(t, r, "1a")
	write := func(text string) {
		f, err := os.OpenFile(s.EventsFile(), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"seq":2,"event":"job.crea`)
	expectHeard(t, r)
	happens(t, s, "b")
	expectHeard(t, r, "2b")
	write("no JSON\n\n{\"note\":\"mine\"}\n" + `{"seq":3,"event":"of.the.future","name":"c","more":[1]}` + "\n" + strings.Repeat("x", 3*eventTail) + "\n")
	happens(t, s, "d")
	expectHeard(t, r, `{"note":"mine"}`, "3c", "4d")
	expectHeard(t, s.Events(0), "1a", "2b", `{"note":"mine"}`, "3c", "4d")
}

// X37: a full log is moved away, and a follower reads it to its end first: no event
// is lost or comes twice. The oldest files are removed.
func TestRotatedEventsAreDrainedFirst(t *testing.T) {
	dir := t.TempDir()
	s := eventStore(t, dir, 300, 3)
	always, sometimes := s.Events(0), s.Events(0)
	defer always.Close()
	defer sometimes.Close()
	var a, b []string
	want := []string{}
	for n := 1; n <= 40; n++ {
		happens(t, s, "n")
		want = append(want, fmt.Sprintf("%dn", n))
		a = append(a, heard(t, always)...)
		if n%4 == 0 { // three events fill a file: the log may have been moved while it had it open
			if b = append(b, heard(t, sometimes)...); !slices.Equal(b, want) {
				t.Errorf("heard %v", b)
			}
		}
	}
	if !slices.Equal(a, want) {
		t.Errorf("heard %v", a)
	}
	files, err := filepath.Glob(filepath.Join(dir, ".vizier/jobs/events*.jsonl"))
	if err != nil || len(files) > 3 {
		t.Errorf("%v, %v", files, err)
	}
	late := heard(t, s.Events(0))
	if len(late) < 4 || !slices.Equal(late, want[len(want)-len(late):]) {
		t.Errorf("who comes late hears %v", late)
	}
}

// The log may be deleted, or emptied. Its numbers begin again then, and who follows it hears all that is new, once.
func TestEventsOfALogThatBeganAnew(t *testing.T) {
	s := eventStore(t, t.TempDir(), 0, 8)
	happens(t, s, "a", "b", "c")
	r := s.Events(1)
	defer r.Close()
	expectHeard(t, r, "2b", "3c")
	lose := func() {
		t.Helper()
		if err := os.Remove(s.EventsFile()); err != nil {
			t.Fatal(err)
		}
	}
	lose()
	expectHeard(t, r)
	happens(t, s, "d")
	expectHeard(t, r, "1d")
	lose()
	happens(t, s, "e", "f", "g") // more than there was
	expectHeard(t, r, "1e", "2f", "3g")
	happens(t, s, "h")
	lose()
	happens(t, s, "i", "j", "k", "l")
	expectHeard(t, r, "4h", "1i", "2j", "3k", "4l")
	if err := os.Truncate(s.EventsFile(), 0); err != nil {
		t.Fatal(err)
	}
	expectHeard(t, r)
	happens(t, s, "m", "n")
	expectHeard(t, r, "1m", "2n")

	late := s.Events(9) // the number is of the log of before
	defer late.Close()
	expectHeard(t, late)
	happens(t, s, "o")
	expectHeard(t, late, "3o")
	lose()
	later := s.Events(9)
	defer later.Close()
	expectHeard(t, later)
	happens(t, s, "p")
	expectHeard(t, later, "1p")
	expectHeard(t, late, "1p")
}

// Whoever follows the log while its files are moved, removed and deleted hears each event once, and every event of a
// file that is there when it looks.
func TestEventsOfALogThatIsDeletedAtRandom(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Log("seed", seed)
	draw := rand.New(rand.NewPCG(uint64(seed), 0))
	for range 40 {
		dir := t.TempDir()
		s := eventStore(t, dir, 300, 4)
		always, sometimes := s.Events(0), s.Events(0)
		defer always.Close()
		defer sometimes.Close()
		var want, got, now []string
		unheard := map[string]bool{} // by sometimes, and in a file that is there
		said := 0
		hear := func(all bool) {
			names := func(heard []string) (out []string) {
				for _, h := range heard {
					out = append(out, strings.TrimLeft(h, "0123456789"))
				}
				return out
			}
			got = append(got, names(heard(t, always))...)
			if !all {
				return
			}
			more := names(heard(t, sometimes))
			for name := range unheard {
				if !slices.Contains(more, name) {
					t.Fatalf("%s is lost to who looks sometimes, after %v", name, now)
				}
			}
			if now = append(now, more...); len(slices.Compact(slices.Sorted(slices.Values(now)))) < len(now) {
				t.Fatalf("who looks sometimes heard %v", now)
			}
			clear(unheard)
		}
		for range 40 {
			switch files, _ := filepath.Glob(filepath.Join(dir, ".vizier/jobs/events*.jsonl")); draw.IntN(8) {
			case 0: // all of it
				for _, f := range files {
					_ = os.Remove(f)
				}
				clear(unheard)
			case 1: // what is written to now
				_ = os.Remove(s.EventsFile())
				clear(unheard)
			case 2, 3:
				hear(true)
			default:
				for range 1 + draw.IntN(3) {
					said++
					name := fmt.Sprintf("n%03d", said)
					happens(t, s, name)
					want = append(want, name)
					if unheard[name] = true; len(unheard) > 6 { // before files that are too many are removed
						hear(true)
					}
				}
			}
			hear(false)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("heard %v, want %v", got, want)
		}
	}
}

// A follower of the log is told at once that its store was moved or removed.
func TestEventsOfAStoreThatIsGone(t *testing.T) {
	parent := disktest.Dir(t)
	old, now := filepath.Join(parent, "old"), filepath.Join(parent, "new")
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	s := eventStore(t, old, 0, 8)
	happens(t, s, "a")
	r := s.Events(0)
	defer r.Close()
	expectHeard(t, r, "1a")
	expect := func(want error) {
		t.Helper()
		for _, r := range []*EventReader{r, s.Events(0)} {
			got := make(chan error, 1)
			go func() { got <- r.Read(func([]byte) error { return nil }) }()
			select {
			case err := <-got:
				if !errors.Is(err, want) {
					t.Errorf("the error is %v, want %v", err, want)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it reads for ever")
			}
		}
	}
	if err := os.Rename(old, now); err != nil {
		t.Fatal(err)
	}
	expect(kernel.ErrMoved)
	if err := errors.Join(os.Mkdir(old, 0o700), os.Mkdir(filepath.Join(old, ".vizier"), 0o700)); err != nil {
		t.Fatal(err)
	}
	expect(kernel.ErrMoved)
	if err := os.RemoveAll(now); err != nil {
		t.Fatal(err)
	}
	expect(iofs.ErrNotExist) // the other one at its path does not count
	if err := os.RemoveAll(old); err != nil {
		t.Fatal(err)
	}
	expect(iofs.ErrNotExist)
}

// Nobody compares the cache with the directory of the jobs because the log was moved there.
func TestEventsLeaveTheCacheAlone(t *testing.T) {
	s := eventStore(t, t.TempDir(), 200, 3)
	commit(t, s, kernel.Create(plain(1)))
	for range 6 {
		tx := begin(t, s)
		load(t, tx)
		happens(t, s, "a", "b")
		closeTx(t, tx)
		other := begin(t, s)
		if s.jobsStamp() != other.pos.dir {
			t.Error("the directory would be compared with the cache")
		}
		closeTx(t, other)
	}
}

// Writers that are killed leave whole lines with growing numbers, each once.
func TestEventWritersAreKilled(t *testing.T) {
	oneGoroutine(t)
	dir := t.TempDir()
	s := eventStore(t, dir, 2000, 200) // more than two rounds write: the follower may be that late
	happens(t, s, "a")
	follower := s.Events(0)
	defer follower.Close()
	var got []string
	for range 20 {
		var writers []*exec.Cmd
		for range 2 {
			cmd := exec.Command(os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), roleEnv+"=events:"+dir)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := out.Read(make([]byte, 1)); err != nil { // it has written something
				t.Fatal(err)
			}
			writers = append(writers, cmd)
		}
		got = append(got, heard(t, follower)...)
		for _, cmd := range writers {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	got = append(got, heard(t, follower)...)
	for i, line := range got {
		if want := fmt.Sprintf("%da", i+1); line != want {
			t.Fatalf("line %d is %s", i, line)
		}
	}
	if len(got) < 40 {
		t.Errorf("only %d events", len(got))
	}
}

// playEvents writes events until it is killed.
func playEvents(dir string) error {
	o := options()
	o.EventBytes, o.EventFiles = 2000, 200
	s := NewStore(dir, o)
	for n := 0; ; n++ {
		if err := s.AppendEvents([]kernel.Event{{At: t0, Kind: kernel.JobCreated, Job: id(1), Name: "a"}}); err != nil {
			return err
		}
		if n == 0 {
			fmt.Print(".")
		}
		if n > 300 {
			time.Sleep(time.Hour)
		}
	}
}

// The cost of the log for a transaction with two events, on top of its commit.
func BenchmarkAppendEvents(b *testing.B) {
	o := options()
	o.EventBytes, o.EventFiles = 4<<20, 8
	s := NewStore(b.TempDir(), o)
	defer s.Close()
	e := kernel.Event{At: t0, Kind: kernel.JobRunning, Job: id(1), Name: "a", Attempt: 1}
	for b.Loop() {
		if err := s.AppendEvents([]kernel.Event{e, e}); err != nil {
			b.Fatal(err)
		}
	}
}

// Whichever call of the disk fails, a reader that asks again hears every event once and in order, also those of the files
// that the log was moved to meanwhile.
func TestWhicheverCallOfTheDiskFailsEventsAreHeardOnce(t *testing.T) {
	oneGoroutine(t)
	for _, begun := range []bool{false, true} { // the reader has read the beginning already
		for k, calls := 0, 1; k <= calls; k++ { // at first none fails
			dir := t.TempDir()
			writer := eventStore(t, dir, 150, 8) // two events in each file
			var want []string
			happen := func(n int) {
				for range n {
					want = append(want, fmt.Sprintf("%de", len(want)+1))
					happens(t, writer, "e")
				}
			}
			happen(3)
			s, d := eventStore(t, dir, 150, 8), &faulty{stats: true}
			s.disk = d
			r := s.Events(0)
			var got []string
			listen := func() error {
				return r.Read(func(line []byte) error {
					var e eventRecord
					if err := json.Unmarshal(line, &e); err != nil {
						return err
					}
					got = append(got, fmt.Sprintf("%d%s", e.Seq, e.Name))
					return nil
				})
			}
			if begun {
				if err := listen(); err != nil {
					t.Fatal(err)
				}
				happen(4)
			}
			begin := d.n
			if k > 0 {
				d.at = begin + k
			}
			err := listen()
			if k == 0 {
				calls = d.n - begin
			}
			if err != nil && (d.where == "" || !errors.Is(err, unix.EIO)) {
				t.Errorf("%s fails: %v", d.where, err)
			}
			happen(2)
			if err := errors.Join(listen(), r.Close(), s.Close(), writer.Close()); err != nil {
				t.Errorf("%s failed, and then: %v", d.where, err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s fails: heard %q, want %q", d.where, got, want)
			}
			if open := openBelow(dir); len(open) > 0 {
				t.Errorf("%s fails, and %v is still open", d.where, open)
			}
		}
	}
}

// Whichever call of the disk fails, whoever appends an event hears of it, or it is in the log once, with the next number. Later
// ones follow it.
func TestWhicheverCallOfTheDiskFailsAnEventIsInTheLogOrItIsSaid(t *testing.T) {
	oneGoroutine(t)
	for name, log := range map[string]struct {
		size  int64
		begin func(t *testing.T, s *Store)
		last  uint64 // the number of the latest event before
	}{
		"a new log":           {0, func(*testing.T, *Store) {}, 0},
		"a log":               {0, func(t *testing.T, s *Store) { happens(t, s, "a", "b") }, 2},                                    //nolint:thelper // a case
		"files that are full": {1, func(t *testing.T, s *Store) { happens(t, s, "a"); happens(t, s, "b"); happens(t, s, "c") }, 3}, //nolint:thelper // a case
		"a log of no events":  {0, func(t *testing.T, s *Store) { happens(t, s); writeAt(t, s.EventsFile(), "{}\nno JSON\n") }, 0}, //nolint:thelper // a case
		"a torn log": {0, func(t *testing.T, s *Store) {
			happens(t, s, "a")
			writeAt(t, s.EventsFile(), contentOf(t, s.EventsFile())+`{"seq":2`)
		}, 1}, //nolint:thelper // a case
	} {
		for k, calls := 0, 1; k <= calls; k++ { // at first none fails
			dir := t.TempDir()
			first := eventStore(t, dir, log.size, 3)
			log.begin(t, first)
			s, d := eventStore(t, dir, log.size, 3), &faulty{}
			s.disk = d
			if err := s.open(true); err != nil {
				t.Fatal(err)
			}
			begun := d.n
			if k > 0 {
				d.at = begun + k
			}
			err := s.AppendEvents([]kernel.Event{{At: t0, Kind: kernel.JobCreated, Job: id(1), Name: "x"}})
			if k == 0 {
				calls = d.n - begun
			}
			if err != nil && !errors.Is(err, unix.EIO) || k == 0 && err != nil {
				t.Errorf("%s, %s fails: %v", name, d.where, err)
			}
			d.at = 0
			happens(t, s, "y")
			var got []string
			r := s.Events(log.last)
			for _, line := range heard(t, r) {
				if strings.HasSuffix(line, "x") || strings.HasSuffix(line, "y") {
					got = append(got, line)
				}
			}
			with := []string{fmt.Sprintf("%dx", log.last+1), fmt.Sprintf("%dy", log.last+2)}
			without := []string{fmt.Sprintf("%dy", log.last+1)}
			if !slices.Equal(got, with) && (err == nil || !slices.Equal(got, without)) {
				t.Errorf("%s, %s fails, %v: the log has %q", name, d.where, err, got)
			}
			if old, err := s.rotatedEvents(); err != nil || len(old) > 2 {
				t.Errorf("%s, %s fails: %d files stay, %v", name, d.where, len(old), err)
			}
			if err := errors.Join(r.Close(), first.Close(), s.Close()); err != nil {
				t.Error(err)
			}
			if open := openBelow(dir); len(open) > 0 {
				t.Errorf("%s, %s fails, and %v is still open", name, d.where, open)
			}
		}
	}
}

// As many files of the log stay as wanted, the newest ones, and the numbers go on.
func TestSoManyFilesOfEventsAreKept(t *testing.T) {
	for files, kept := range map[int]int{0: 0, 1: 0, 2: 1, 3: 2} {
		dir := t.TempDir()
		s := eventStore(t, dir, 1, files) // each event fills a file
		for range 4 {
			happens(t, s, "e")
		}
		old, err := s.rotatedEvents()
		if err != nil || len(old) != kept || kept > 0 && (old[kept-1].last != 4 || old[0].last != uint64(5-kept)) {
			t.Errorf("of %d files: %+v, %v", files, old, err)
		}
		happens(t, s, "e")
		if kept > 0 {
			if old, err = s.rotatedEvents(); err != nil || old[kept-1].last != 5 {
				t.Errorf("of %d files, after another event: %+v, %v", files, old, err)
			}
		}
	}
}
