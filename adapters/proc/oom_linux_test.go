//go:build !portable

package proc

import "testing"

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
