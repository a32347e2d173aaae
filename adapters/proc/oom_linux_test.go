//go:build !portable

package proc

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
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
