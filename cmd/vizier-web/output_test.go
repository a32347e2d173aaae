package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// serveRole is the argument after which a process of this test is the program; the directory of the page's files follows.
const serveRole = "serve-from"

func serveFrom(dir string, args []string) {
	own := func() (assets, error) {
		files, err := os.ReadDir(dir)
		a := assets{}
		for _, f := range files {
			text, bad := os.ReadFile(filepath.Join(dir, f.Name()))
			a[f.Name()], err = text, errors.Join(err, bad)
		}
		return a, err
	}
	if err := run(own, args, os.Environ(), os.Stdin, os.Stdout); err != nil {
		os.Exit(exitCode(err))
	}
}

// Output that nobody reads does not keep the program: a signal ends it.
func TestBlockedOutput(t *testing.T) {
	a := files(t)
	f := newField(t)
	f.vizier("", "submit", "--", "true")
	dir := t.TempDir()
	for name, text := range a {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	free.Close()
	for _, c := range []struct {
		args []string
		full bool        // the output is from the start
		soon func() bool // whether it is about to write, or writes
	}{
		{[]string{"--html"}, false, func() bool { return true }},
		{[]string{"--listen", at}, true, func() bool {
			conn, err := net.Dial("tcp", at)
			if err != nil {
				return false
			}
			conn.Close()
			return true
		}},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			defer write.Close()
			full := func() bool {
				n, err := unix.Poll([]unix.PollFd{{Fd: int32(write.Fd()), Events: unix.POLLOUT}}, 0)
				return n == 0 && err == nil
			}
			for c.full && !full() {
				if _, err := write.Write(make([]byte, 4096)); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(ctx, os.Args[0], append([]string{serveRole, dir}, c.args...)...)
			cmd.Stdout, cmd.Stderr = write, os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for ctx.Err() == nil && !(full() && c.soon()) {
				time.Sleep(10 * time.Millisecond)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil || ctx.Err() != nil || err.Error() != "signal: terminated" {
				t.Errorf("after SIGTERM: %v", err)
			}
		})
	}
}

// lost is a writer that takes everything and says that it could not.
type lost struct{ bytes.Buffer }

func (l *lost) Write(p []byte) (int, error) {
	l.Buffer.Write(p)
	return 0, syscall.ENOSPC
}

// A page whose address cannot be printed is not served. The name of the repository cannot act on a terminal.
func TestTheAddressIsPrinted(t *testing.T) {
	f := newField(t)
	odd := filepath.Join(f.dir, "a\x1b[31m\nThe page is at http:evil.example")
	if err := errors.Join(os.Mkdir(odd, 0o700), exec.Command("git", "init", "-q", odd).Run()); err != nil {
		t.Fatal(err)
	}
	t.Chdir(odd)
	var out lost
	err := run(func() (assets, error) { return assets{}, nil }, nil, os.Environ(), nil, &out)
	if !errors.Is(err, syscall.ENOSPC) || exitCode(err) != 1 {
		t.Errorf("an address that cannot be printed: %v", err)
	}
	if line, _, _ := strings.Cut(out.String(), "\n"); line != `The page of a\x1b[31m\nThe page is at http:evil.example is at` {
		t.Errorf("%q", out.String())
	}
}
