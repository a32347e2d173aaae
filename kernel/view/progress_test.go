package view_test

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel/view"
)

func TestProgressInOneLine(t *testing.T) {
	t.Parallel()
	n := func(i int64) *int64 { return &i }
	for _, c := range []struct {
		p    view.Progress
		want string
	}{
		{view.Progress{}, ""},
		{view.Progress{Text: "linking"}, "linking"},
		{view.Progress{Done: n(12)}, "12 done"},
		{view.Progress{Total: n(12)}, "12 to do"},
		{view.Progress{Done: n(3), Total: n(10)}, "3 of 10 (30%)"},
		{view.Progress{Done: n(3), Total: n(10), Text: "linking"}, "3 of 10 (30%): linking"},
		{view.Progress{Done: n(10), Total: n(10)}, "10 of 10 (100%)"},
		{view.Progress{Done: n(11), Total: n(10)}, "11 of 10"},
		{view.Progress{Done: n(0), Total: n(0)}, "0 of 0"},
		{view.Progress{Done: n(0), Total: n(1)}, "0 of 1 (0%)"},
		{view.Progress{Done: n(-2), Total: n(-1)}, "-2 of -1"},
	} {
		if got := c.p.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		if c.p.Empty() != (c.want == "") {
			t.Errorf("%q: empty %v", c.want, c.p.Empty())
		}
	}
}
