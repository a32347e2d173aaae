//go:build !portable

package git

import (
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tellsWhere says whether atWorkSince can tell in which repository a git
// program is at work.
const tellsWhere = true

// atWorkSince reports whether a git program that was already running at then is
// still at work in the repository or in one of its working trees. It also
// returns true if that cannot be determined. It reads the process table of
// Linux.
func (r *Repo) atWorkSince(then time.Time) bool {
	all, err := os.ReadDir("/proc")
	trees, err2 := r.Worktrees()
	boot, known := booted()
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
		dir := filepath.Join("/proc", p.Name())
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
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
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err != nil {
			return true
		}
		for _, home := range homes {
			if rel, err := filepath.Rel(home, at); err == nil && filepath.IsLocal(rel) {
				return true
			}
		}
	}
	return false
}

// booted returns when the system was started.
func booted() (time.Time, bool) {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return time.Time{}, false
	}
	text, _, _ := strings.Cut(string(b), " ")
	up, err := strconv.ParseFloat(text, 64)
	return time.Now().Add(-time.Duration(up * float64(time.Second))), err == nil
}
