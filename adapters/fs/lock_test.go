package fs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// actor is the test binary playing a role in a process of its own.
type actor struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	done bool
}

func cast(t *testing.T, role, args string) *actor {
	t.Helper()
	a := &actor{t: t, cmd: exec.Command(os.Args[0])}
	a.cmd.Env = append(os.Environ(), roleEnv+"="+role+":"+args)
	a.cmd.Stderr = os.Stderr
	in, err := a.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.in, a.out = in, bufio.NewReader(out)
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.kill)
	return a
}

// hear returns the next line that the actor prints.
func (a *actor) hear() string {
	a.t.Helper()
	line, err := a.out.ReadString('\n')
	if err != nil {
		a.t.Fatalf("the other process said %q and ended: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (a *actor) kill() {
	if !a.done {
		a.done = true
		_ = a.cmd.Process.Kill()
		_ = a.cmd.Wait()
	}
}

// playHolder takes the lock, prints that, and keeps it until its input ends.
func playHolder(dir string) error {
	o := options()
	o.Who = "vizier tick 4711"
	tx, err := NewStore(dir, o).Begin(context.Background())
	if err != nil {
		return err
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return tx.Close()
}

func shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func mustBeBusy(t *testing.T, err error) {
	t.Helper()
	var busy *BusyError
	if !errors.As(err, &busy) {
		t.Fatalf("got %v, want a BusyError", err)
	}
	if !strings.Contains(err.Error(), "4711") || !strings.Contains(err.Error(), "busy") {
		t.Errorf("error %q does not name the holder", err)
	}
}

func TestLockExcludesAnotherProcess(t *testing.T) {
	dir := disktest.Dir(t)
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	holder := cast(t, "hold", dir)
	if said := holder.hear(); said != "held" {
		t.Fatal(said)
	}
	// More than once with one store: a try that was given up leaves nothing behind.
	for range 3 {
		_, err := s.Begin(shortly(t))
		mustBeBusy(t, err)
	}
	_, err := newStore(t, dir).Read(shortly(t), kernel.Scope{All: true})
	mustBeBusy(t, err)
	if _, err := s.Job(id(1)); err != nil {
		t.Errorf("a read of one record waits for the lock: %v", err)
	}
	if err := s.Conclude(someResult(id(1))); err != nil {
		t.Errorf("an outcome waits for the lock: %v", err)
	}

	waited := make(chan error, 1)
	go func() {
		waits := NewStore(dir, options())
		tx, err := waits.Begin(context.Background())
		if err == nil {
			err = tx.Close()
		}
		waited <- errors.Join(err, waits.Close())
	}()
	holder.kill()
	tx := begin(t, s) // at once: nothing has to expire
	closeTx(t, tx)
	if err := <-waited; err != nil {
		t.Errorf("who waited got %v", err)
	}
}

// Whoever holds the lock without a note is not taken for the process that wrote the last one.
func TestAHolderThatHasEndedIsNotNamed(t *testing.T) {
	dir := disktest.Dir(t)
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	last := cast(t, "hold", dir)
	last.hear()
	last.kill()
	held := flock.New(s.abs(lockFile))
	if err := held.Lock(); err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	_, err := s.Begin(shortly(t))
	busy, ok := errors.AsType[*BusyError](err)
	if !ok || strings.Contains(busy.Error(), "vizier tick 4711") {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("pid %d, ", os.Getpid()); busy.Holder != "" && !strings.HasPrefix(busy.Holder, want) {
		t.Errorf("%q, want %q, or nothing where the system does not tell", busy.Holder, want)
	} else if busy.Holder == "" && !strings.Contains(busy.Error(), "fuser") {
		t.Error(busy)
	}
}

// A try for the lock that was given up, and succeeds later, takes the lock from nobody.
func TestAnAbandonedTryDoesNotReleaseALaterLock(t *testing.T) {
	dir := disktest.Dir(t)
	s := newStore(t, dir)
	holder := cast(t, "hold", dir)
	holder.hear()
	for range 20 {
		if _, err := s.Begin(shortly(t)); err == nil {
			t.Fatal("got a lock that is held")
		}
	}
	holder.kill()
	tx := begin(t, s)
	for range 20 { // gives the abandoned tries every chance to succeed
		if other, err := newStore(t, dir).Begin(shortly(t)); err == nil {
			closeTx(t, other)
			t.Fatal("two hold the lock")
		}
	}
	closeTx(t, tx)
	closeTx(t, begin(t, newStore(t, dir)))
}

// A store in the middle of a transaction begins no other one, and does not lose its own
// by a read.
func TestOneTransactionAtATime(t *testing.T) {
	dir := disktest.Dir(t)
	s := newStore(t, dir)
	tx := begin(t, s)
	if _, err := s.Begin(shortly(t)); err == nil {
		t.Error("began twice")
	}
	_, _ = s.Read(shortly(t), kernel.Scope{All: true})
	if _, err := newStore(t, dir).Begin(shortly(t)); err == nil {
		t.Error("a read inside a transaction released its lock")
	}
	closeTx(t, tx)
	closeTx(t, begin(t, s))
}
