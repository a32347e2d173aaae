//go:build !linux || portable

package git

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tellsWhere says whether atWorkSince can tell in which repository a git
// program is at work.
const tellsWhere = false

// atWorkSince reports whether a git program that was already running at then is
// still running. It also returns true if that cannot be determined. It cannot
// tell where a program is at work, so one in any repository counts.
func (r *Repo) atWorkSince(then time.Time, _ uint32) bool {
	cmd := exec.Command("ps", "-A", "-o", "stat=", "-o", "etime=", "-o", "comm=")
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	now := time.Now()
	table, err := cmd.Output()
	if err != nil {
		return true
	}
	const slack = 2 * time.Second // inaccuracy of clocks, and of ages in whole seconds
	for line := range strings.Lines(string(table)) {
		state, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		elapsed, program, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if strings.HasPrefix(state, "Z") || !strings.HasPrefix(filepath.Base(strings.TrimSpace(program)), "git") {
			continue
		}
		age, err := parseElapsed(elapsed)
		if err != nil || !now.Add(-age).After(then.Add(slack)) {
			return true
		}
	}
	return false
}

// opened reports whether a process has the file at path open. Without lsof(8) it does not know of any.
func opened(path string) bool { return exec.Command("lsof", "-t", "--", path).Run() == nil }

// parseElapsed parses an age in the format of ps(1):
// [[DAYS-]HOURS:]MINUTES:SECONDS.
func parseElapsed(s string) (time.Duration, error) {
	var days, hours, minutes, seconds int
	clock := s
	if d, rest, found := strings.Cut(s, "-"); found {
		if _, err := fmt.Sscanf(d, "%d", &days); err != nil {
			return 0, fmt.Errorf("age %q: %w", s, err)
		}
		clock = rest
	}
	if strings.Count(clock, ":") == 1 {
		clock = "0:" + clock
	}
	if _, err := fmt.Sscanf(clock, "%d:%d:%d", &hours, &minutes, &seconds); err != nil {
		return 0, fmt.Errorf("age %q: %w", s, err)
	}
	return time.Duration(((days*24+hours)*60+minutes)*60+seconds) * time.Second, nil
}
