package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A client that reads no answer does not keep the server: closing the input or a signal ends it.
func TestAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	for how, end := range map[string]func(in io.Closer, p *os.Process) error{
		"closed input": func(in io.Closer, _ *os.Process) error { return in.Close() },
		"SIGTERM":      func(_ io.Closer, p *os.Process) error { return p.Signal(syscall.SIGTERM) },
		"SIGINT":       func(_ io.Closer, p *os.Process) error { return p.Signal(os.Interrupt) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(programs, "vizier"), "mcp")
			cmd.Dir, cmd.Stderr = dir, os.Stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, unread, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			cmd.Stdout = unread
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			defer unread.Close()
			ask := func(id int, method, params string) {
				if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
					t.Error(err)
				}
			}
			ask(0, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
			for id := range 100 {
				ask(1+id, "tools/list", "{}")
			}
			for full := []unix.PollFd{{Fd: int32(unread.Fd()), Events: unix.POLLOUT}}; ; time.Sleep(10 * time.Millisecond) {
				if n, err := unix.Poll(full, 0); n == 0 || ctx.Err() != nil {
					break // no more can be written
				} else if err != nil && !errors.Is(err, unix.EINTR) {
					t.Fatal(err)
				}
			}
			if err := end(in, cmd.Process); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if ctx.Err() != nil {
				t.Error("it goes on: ", cmd.ProcessState)
			}
		})
	}
}
