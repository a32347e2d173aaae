//go:build !portable

package proc

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The end of a process is told once it comes, and that of one which has ended, or is another, not at all.
func TestTheEndOfAProcessIsTold(t *testing.T) {
	if fd, err := unix.PidfdOpen(1, 0); err != nil {
		t.Skip(err)
	} else {
		_ = unix.Close(fd)
	}
	cmd := exec.Command("/bin/sh", "-c", "read -r line")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	id, never := Identify(cmd.Process.Pid), func() { t.Error("an end is told of what is not watched") }
	other := id
	other.Start++
	if stop, ok := watchExit(other, never); ok || stop != nil {
		t.Error("it watches another process of that number")
	}
	stop, ok := watchExit(id, never)
	if !ok {
		t.Fatal("it does not watch")
	}
	stop()
	ended := make(chan struct{})
	if _, ok := watchExit(id, func() { close(ended) }); !ok {
		t.Fatal("it does not watch again")
	}
	select {
	case <-ended:
		t.Error("it has ended too early")
	default:
	}
	_ = in.Close()
	_ = cmd.Wait()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the end is not told")
	}
	if _, ok := watchExit(id, never); ok {
		t.Error("it watches what has ended")
	}
}
