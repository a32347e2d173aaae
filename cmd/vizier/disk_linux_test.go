package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A node whose result finds no room waits until it does, as the runner of any job waits with the
// end of its command.
func TestANodesResultWaitsForRoom(t *testing.T) {
	root, vizier := onASmallDisk(t)
	flow := "id = \"t\"\nversion = \"v1\"\n[[nodes]]\nid = \"a\"\nkind = \"shell\"\nuses = \"cap.env.shell.command.run\"\n" +
		"args = { script = \"touch at; until test -e go; do sleep 0.02; done; cat /dev/zero >fill; true\" }\n"
	if err := os.WriteFile(filepath.Join(root, "flow.toml"), []byte(flow), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Log(vizier("run", "file:flow.toml"))
	end := time.Now().Add(time.Minute)
	for _, err := os.Stat(filepath.Join(root, "at")); err != nil; _, err = os.Stat(filepath.Join(root, "at")) {
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	attempts, err := filepath.Glob(filepath.Join(root, ".vizier/jobs/*/attempts"))
	if err != nil || len(attempts) != 1 {
		t.Fatal(attempts, err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, attempts[0], unix.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for tries := 0; tries < 2; { // at the second one, the node has been refused the first
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(end).Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if err != nil || ready == 0 {
			t.Fatalf("the node has tried to write its result %d times: %v\n%s", tries, err, vizier("show", "1/a"))
		}
		buf := make([]byte, 4096)
		n, err := unix.Read(fd, buf)
		if err != nil {
			t.Fatal(err)
		}
		for b := buf[:n]; len(b) > 0; {
			e := (*unix.InotifyEvent)(unsafe.Pointer(&b[0]))
			name := unix.ByteSliceToString(b[unix.SizeofInotifyEvent:][:e.Len])
			if strings.HasPrefix(name, "1.result.json.") {
				tries++
			}
			b = b[unix.SizeofInotifyEvent+int(e.Len):]
		}
	}
	if err := os.Remove(filepath.Join(root, "fill")); err != nil {
		t.Fatal(err)
	}
	has(t, vizier("wait", "--timeout", "1m", "1"), "1/a succeeded")
}
