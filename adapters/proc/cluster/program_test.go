package cluster

import (
	"errors"
	"strings"
	"testing"
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
