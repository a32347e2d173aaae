package cluster

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell is a client program of a user's.
func shell(script string) Program {
	return Program{Argv: []string{"/bin/sh", "-c", script}}
}

// What a program complains of becomes a job's reason, and a line in the record.
func TestComplaintsWithoutEndAreCutShort(t *testing.T) {
	looked := 0
	p := shell(`echo "the beginning" >&2; head -c 100000000 /dev/zero | tr '\0' x >&2; exit 3`)
	p.Enough = func(said string) bool { looked += len(said); return false }
	_, err := p.Run(t.Context())
	failed, is := errors.AsType[*ProgramError](err)
	if !is {
		t.Fatalf("it ended with %v", err)
	}
	if !strings.HasPrefix(failed.Stderr, "the beginning\n") || len(failed.Stderr) > 64<<10 {
		t.Errorf("%d bytes of its complaints are kept, from %.20q on", len(failed.Stderr), failed.Stderr)
	}
	if looked > 100_000_000 {
		t.Errorf("%d bytes were looked at for 100000000", looked)
	}
}

func TestAnAnswerWithoutEndIsNone(t *testing.T) {
	out, err := shell(`cat /dev/zero`).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "more than") || out != "" {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

// What a program leaves behind with its output open takes nothing from its answer.
func TestAnAnswerCountsWhateverIsLeftBehind(t *testing.T) {
	out, err := shell(`echo '{"id": "7"}'; sleep 3 &`).Run(t.Context())
	if err != nil || out != "{\"id\": \"7\"}\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// A program that is not waited for any longer ends with all it started.
func TestAProgramEndsWithItsChildren(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	pid := 0
	p := shell(`sleep 300 & echo $! >&2; wait`)
	p.Enough = func(said string) bool {
		pid, _ = strconv.Atoi(strings.TrimSpace(said))
		stop()
		return false
	}
	if _, err := p.Run(ctx); err == nil {
		t.Error("it ended well")
	}
	for end := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil && !defunct(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d goes on", pid)
		}
	}
}

// defunct reports that a process has ended and nobody has asked how.
func defunct(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(b), ") Z ")
}
