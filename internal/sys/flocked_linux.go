//go:build !portable

package sys

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Flocked returns a living process that has taken the flock of the file at path, or 0 if the
// system names none. It is likely if it can be that one.
func Flocked(path string, likely int) int {
	var file unix.Stat_t
	if unix.Lstat(path, &file) != nil {
		return 0
	}
	// Some file systems give a file another device than the table does, which is in question
	// only for a process that nothing else speaks for.
	inode := fmt.Sprintf(":%d", file.Ino)
	whole := fmt.Sprintf("%02x:%02x%s", unix.Major(file.Dev), unix.Minor(file.Dev), inode)
	for range 3 { // a table that is read in pieces lacks lines if other locks come and go meanwhile
		table, err := os.ReadFile("/proc/locks")
		if err != nil { // not mounted
			return living(likely)
		}
		if pid := holder(string(table), inode, whole, likely); pid != 0 {
			return pid
		}
	}
	return 0
}

// holder returns a living process that holds a flock in a table of locks, or 0; likely if it is among them.
func holder(table, inode, whole string, likely int) (found int) {
	for line := range strings.Lines(table) {
		f := strings.Fields(line) // 1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], inode) {
			continue
		}
		switch pid, _ := strconv.Atoi(f[4]); {
		case living(pid) == 0: // it has handed the lock on, and has ended
		case pid == likely:
			return pid
		case f[5] == whole:
			found = pid
		}
	}
	return found
}
