//go:build !portable

package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// oomFile returns the file in which the kernel counts the processes of this
// control group that it killed for lack of memory, or "".
var oomFile = sync.OnceValue(func() string {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return oomFileOf(string(groups), "/sys/fs/cgroup")
})

// oomFileOf is oomFile of a process in these control groups, whose directories are below root.
func oomFileOf(groups, root string) string {
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		path := ""
		switch f[1] {
		case "":
			path = filepath.Join(root, f[2], "memory.events")
		case "memory":
			path = filepath.Join(root, "memory", f[2], "memory.oom_control")
		default:
			continue
		}
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// oomEvents returns that file, open, or nil if there is none. It is read twice
// for each command.
var oomEvents = sync.OnceValue(func() *os.File {
	if oomFile() == "" {
		return nil
	}
	f, _ := openFile(oomFile(), os.O_RDONLY)
	return f
})

func oomKills() uint64 {
	f := oomEvents()
	if f == nil {
		return 0
	}
	b := make([]byte, 512)
	n, _ := f.ReadAt(b, 0) // reads the whole file, which is shorter than b
	return countOOM(b[:n])
}

// countOOM parses the oom_kill line of memory.events or memory.oom_control.
func countOOM(b []byte) uint64 {
	for line := range bytes.Lines(b) {
		if n, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			count, _ := strconv.ParseUint(string(bytes.TrimSpace(n)), 10, 64)
			return count
		}
	}
	return 0
}
