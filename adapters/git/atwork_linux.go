//go:build !portable

package git

import (
	"bytes"
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tellsWhere says whether atWorkSince can tell in which repository a git
// program is at work.
const tellsWhere = true

// atWorkSince reports whether a git program that was already running at then is
// still at work in the repository or in one of its working trees, by its directory, arguments or environment. It also
// returns true if that cannot be determined, unless the program's files would not belong to owner. It reads the process table of
// Linux.
func (r *Repo) atWorkSince(then time.Time, owner uint32) bool {
	return r.atWorkIn("/proc", then, owner)
}

func (r *Repo) atWorkIn(proc string, then time.Time, owner uint32) bool {
	all, err := os.ReadDir(proc)
	trees, err2 := r.Worktrees()
	boot, known := booted(proc)
	if err != nil || err2 != nil || !known {
		return true
	}
	homes := []string{r.root.Dir, r.root.CommonDir}
	for _, w := range trees {
		homes = append(homes, w.Path)
	}
	const slack = time.Second // inaccuracy of clocks, and of start times
	for _, p := range all {
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		dir := filepath.Join(proc, p.Name())
		stat, _ := os.ReadFile(filepath.Join(dir, "stat")) // nothing of one that has ended
		name, rest, _ := strings.Cut(string(stat), ") ")
		if _, name, _ = strings.Cut(name, "("); !strings.HasPrefix(name, "git") {
			continue
		}
		const starttime, perSecond = 19, 100 // proc(5): field 22, counted from the third; in clock ticks
		fields := strings.Fields(rest)
		if len(fields) <= starttime {
			return true
		}
		if ticks, err := strconv.ParseInt(fields[starttime], 10, 64); err == nil &&
			boot.Add(time.Duration(ticks)*time.Second/perSecond).After(then.Add(slack)) {
			continue
		}
		at, err := os.Readlink(filepath.Join(dir, "cwd"))
		given, err2 := os.ReadFile(filepath.Join(dir, "cmdline")) // with --git-dir it may be at work from anywhere
		env, err3 := os.ReadFile(filepath.Join(dir, "environ"))   // and with GIT_DIR
		switch err := errors.Join(err, err2, err3); {
		case errors.Is(err, iofs.ErrNotExist), errors.Is(err, syscall.ESRCH): // it has ended
			continue
		case err != nil && !ofAnother(dir, owner):
			return true
		case err != nil: // such as a server's gitea
			continue
		}
		for _, home := range homes {
			rel, err := filepath.Rel(home, at)
			if err == nil && filepath.IsLocal(rel) || bytes.Contains(given, []byte(home)) || bytes.Contains(env, []byte("GIT_DIR="+home)) {
				return true
			}
		}
	}
	return false
}

// ofAnother reports whether what the process of that directory makes surely does not belong to owner.
func ofAnother(dir string, owner uint32) bool {
	status, _ := os.ReadFile(filepath.Join(dir, "status"))
	_, rest, _ := strings.Cut(string(status), "\nUid:")
	line, _, _ := strings.Cut(rest, "\n")
	ids := strings.Fields(line) // real, effective, saved, and that of new files
	return len(ids) == 4 && ids[3] != strconv.FormatUint(uint64(owner), 10)
}

// opened reports whether a process has the file at path open. Of processes of other users it does not know.
func opened(path string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/fd/*") // its only error is that of a bad pattern
	return slices.ContainsFunc(all, func(fd string) bool {
		at, err := os.Readlink(fd)
		return err == nil && at == path
	})
}

// booted returns when the system was started.
func booted(proc string) (time.Time, bool) {
	b, err := os.ReadFile(filepath.Join(proc, "uptime"))
	if err != nil {
		return time.Time{}, false
	}
	text, _, _ := strings.Cut(string(b), " ")
	up, err := strconv.ParseFloat(text, 64)
	return time.Now().Add(-time.Duration(up * float64(time.Second))), err == nil
}
