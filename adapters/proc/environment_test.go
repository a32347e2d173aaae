package proc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A directory for temporary files that is gone, or is none, is forgotten; one that is there or is relative is not.
func TestForgetTemporary(t *testing.T) {
	defer func(was string) { temporaryGone = was }(temporaryGone)
	dir := t.TempDir()
	gone, file := filepath.Join(dir, "gone"), filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", gone)
	t.Setenv("TMP", file)
	t.Setenv("TEMP", dir)
	t.Setenv("TEMPDIR", "relative")
	want := "TMPDIR=" + gone + ", TMP=" + file + ": there is no such directory any more, so temporary files are made in /tmp"
	if got := ForgetTemporary(); got != want || temporaryGone != want {
		t.Errorf("%q, kept %q, want %q", got, temporaryGone, want)
	}
	for name, want := range map[string]string{"TMPDIR": "", "TMP": "", "TEMP": dir, "TEMPDIR": "relative"} {
		if got, set := os.LookupEnv(name); got != want || set != (want != "") {
			t.Errorf("%s is %q, set %v", name, got, set)
		}
	}
	if got := ForgetTemporary(); got != "" || temporaryGone != want {
		t.Errorf("again: %q, kept %q", got, temporaryGone)
	}
}

// Where the original limit on the size of files cannot be had, nothing is started.
func TestTheOriginalFileSize(t *testing.T) {
	defer func(was bool, limit unix.Rlimit) { fileSizes.changed, fileSizes.was = was, limit }(fileSizes.changed, fileSizes.was)
	starts := 0
	start := func() (int, error) { starts++; return 7, errors.ErrUnsupported }
	fileSizes.changed = false
	if pid, err := withOwnFileSize(start); pid != 7 || !errors.Is(err, errors.ErrUnsupported) || starts != 1 {
		t.Errorf("%d, %v, started %d times", pid, err, starts)
	}
	fileSizes.changed, fileSizes.was = true, unix.Rlimit{Cur: 2, Max: 1}
	if pid, err := withOwnFileSize(start); pid != 0 || !errors.Is(err, unix.EINVAL) || starts != 1 {
		t.Errorf("%d, %v, started %d times", pid, err, starts)
	}
}

// A process is another host's only if it has another name and another boot.
func TestWhichProcessesAreElsewhere(t *testing.T) {
	for _, c := range []struct {
		host, boot string
		want       bool
	}{{"far", "other", true}, {here().Host, "other", false}, {"far", here().Boot, false}, {here().Host, here().Boot, false}, {"far", "", false}} {
		if got := (Identity{Host: c.host, Boot: c.boot}).elsewhere(); got != c.want {
			t.Errorf("%s/%s: %v", c.host, c.boot, got)
		}
	}
}

// What git tells a hook of the commit it runs for is not about what a job
// commits; without a hook it is the user's own setting.
func TestTheCommitOfAHookIsNotTheJobs(t *testing.T) {
	outer := []string{"GIT_AUTHOR_NAME=Zed", "GIT_AUTHOR_DATE=@1 +0000", "GIT_SSH_COMMAND=ssh"}
	if got := environment(nil, outer...); len(got) != 3 {
		t.Errorf("without a hook: %q", got)
	}
	got := environment([]string{"A=b"}, append([]string{"GIT_INDEX_FILE=.git/index"}, outer...)...)
	if !slices.Equal(got, []string{"A=b", "GIT_SSH_COMMAND=ssh"}) {
		t.Errorf("in a hook: %q", got)
	}
	named := append([]string{"GIT_INDEX_FILE=.git/index", "GIT_COMMITTER_NAME=Ann"}, outer...)
	if got := environment(nil, named...); slices.Contains(got, "GIT_AUTHOR_DATE=@1 +0000") || !slices.Contains(got, "GIT_AUTHOR_NAME=Zed") {
		t.Errorf("where the environment says who commits: %q", got)
	}
}
