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

// oomFile is where the kernel counts the processes of this one's control group
// that it killed for want of memory, or "".
var oomFile = sync.OnceValue(func() string {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		path := ""
		switch f[1] {
		case "":
			path = filepath.Join("/sys/fs/cgroup", f[2], "memory.events")
		case "memory":
			path = filepath.Join("/sys/fs/cgroup/memory", f[2], "memory.oom_control")
		default:
			continue
		}
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
})

// oomEvents is that file, open; nil: there is none. It is asked twice for each
// command.
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
	n, _ := f.ReadAt(b, 0) // up to the end of the file, which is shorter
	return countOOM(b[:n])
}

// countOOM reads the oom_kill line of memory.events or memory.oom_control.
func countOOM(b []byte) uint64 {
	for line := range bytes.Lines(b) {
		if n, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			count, _ := strconv.ParseUint(string(bytes.TrimSpace(n)), 10, 64)
			return count
		}
	}
	return 0
}
