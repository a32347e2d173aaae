//go:build !linux || portable

package git

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A git that is as old as the lock may hold it, in whatever repository it is.
func TestGitsAtWork(t *testing.T) {
	f := newFixture(t)
	f.commit("a.txt", "1\n")
	r := Open(f.root())
	lock := f.path(".git/packed-refs.lock")
	tools := t.TempDir()
	for name, c := range map[string]struct {
		table string
		stays bool
	}{
		"none":        {"Ss 2-01:00:00 /sbin/init\nR+ 00:00 ps\n", false},
		"older":       {"S 02:00:00 git\n", true},
		"elsewhere":   {"S    3-02:00:00 /Some where/usr/bin/git-remote-https\n", true},
		"younger":     {"S 05:00 git\n", false},
		"dead":        {"Z 02:00:00 git <defunct>\n", false},
		"no git":      {"S 02:00:00 legit\n", false},
		"no sense":    {"S later git\n", true},
		"not allowed": {"", true},
	} {
		script := "#!/bin/sh\ncat <<'END'\n" + c.table + "END\n"
		if c.table == "" {
			script = "#!/bin/sh\nexit 1\n"
		}
		then := time.Now().Add(-time.Hour)
		err := errors.Join(os.WriteFile(filepath.Join(tools, "ps"), []byte(script), 0o700), os.WriteFile(lock, nil, 0o600), os.Chtimes(lock, then, then))
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
		if err := r.DropStaleRefLocks(nil, time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(lock); (err == nil) != c.stays {
			t.Errorf("%s: %v, want it to stay: %v", name, err, c.stays)
		}
	}
}

func TestParseElapsed(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"00:00":       0,
		"05:07":       5*time.Minute + 7*time.Second,
		"13:05:07":    13*time.Hour + 5*time.Minute + 7*time.Second,
		"2-03:05:07":  51*time.Hour + 5*time.Minute + 7*time.Second,
		"412-23:59:9": (412*24+23)*time.Hour + 59*time.Minute + 9*time.Second,
	} {
		if got, err := parseElapsed(text); got != want || err != nil {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "7", "x:y", "d-01:02:03", "::"} {
		if got, err := parseElapsed(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}
