//go:build !portable

package proc

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

func TestCountOOM(t *testing.T) {
	for content, want := range map[string]uint64{
		"low 0\nhigh 0\nmax 5\noom 2\noom_kill 3\noom_group_kill 1\n": 3, // version 2
		"oom_kill_disable 0\nunder_oom 0\noom_kill 12\n":              12,
		"":              0,
		"oom_kill many": 0,
	} {
		if got := countOOM([]byte(content)); got != want {
			t.Errorf("%q: %d, want %d", content, got, want)
		}
	}
}

// Processes killed for lack of memory are counted by the control group, in the file of its version, that has one.
func TestWhereKillsAreCounted(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"new/memory.events", "memory/old/memory.oom_control"} {
		path := filepath.Join(root, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for groups, want := range map[string]string{
		"0::/new\n":                 "new/memory.events",
		"0::/new":                   "new/memory.events",
		"0::/none\n":                "",
		"4:memory:/old\n0::/none\n": "memory/old/memory.oom_control",
		"half\n5:cpu:/old\n0::/none\n4:memory:/old\n": "memory/old/memory.oom_control",
		"5:cpu:/old\n": "",
		"":             "",
	} {
		if want != "" {
			want = filepath.Join(root, want)
		}
		if got := oomFileOf(groups, root); got != want {
			t.Errorf("%q: %q", groups, got)
		}
	}
}

// A command is out of memory if it was killed and one more kill is counted.
func TestACommandOutOfMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.events")
	if err := os.WriteFile(path, []byte("oom_kill 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func(was func() *os.File) { oomEvents = was; _ = f.Close() }(oomEvents)
	oomEvents = func() *os.File { return f }
	for _, c := range []struct {
		status syscall.WaitStatus
		before uint64
		class  kernel.FailureClass
		reason string
	}{
		{9, 2, kernel.OutOfMemory, "ended by signal SIGKILL: out of memory"},
		{9, 3, kernel.Signal, "ended by signal SIGKILL"},
		{15, 2, kernel.Signal, "ended by signal SIGTERM"},
	} {
		if r := classify(c.status, c.before); r.Class != c.class || r.Reason != c.reason || r.Exit != 128+int(c.status) {
			t.Errorf("%d, with %d before: %+v", c.status, c.before, r)
		}
	}
	oomEvents = func() *os.File { return nil }
	if n := oomKills(); n != 0 {
		t.Errorf("where nothing counts them: %d", n)
	}
}
