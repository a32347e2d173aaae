package view

import (
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Figures are as short as they can be without a loss that matters.
func TestFigures(t *testing.T) {
	const mega, giga = 1 << 20, 1 << 30
	for _, c := range []struct{ got, want string }{
		{memory(kernel.Used{}), ""}, {memory(kernel.Used{Memory: 1}), "1M"}, {memory(kernel.Used{Memory: mega}), "1M"}, {memory(kernel.Used{Memory: mega + 1}), "2M"},
		{memory(kernel.Used{Memory: giga - 1}), "1024M"}, {memory(kernel.Used{Memory: giga}), "1.0G"}, {memory(kernel.Used{Memory: giga * 5 / 2}), "2.5G"},
		{processorTime(kernel.Used{}), ""}, {processorTime(kernel.Used{Memory: 1}), "0.0s"}, {processorTime(kernel.Used{CPU: 1500 * time.Millisecond}), "1.5s"}, {processorTime(kernel.Used{CPU: time.Minute}), kernel.Brief(time.Minute)},
		{dollars(0.0999), "$0.0999"}, {dollars(0.1), "$0.10"}, {dollars(12.345), "$12.35"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// The rest takes as long as what was done, in proportion, if both are known and something is left.
func TestTheRestOfAProgress(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	for _, c := range []struct {
		p    Progress
		want int64
	}{
		{Progress{}, 0}, {Progress{Done: n(1)}, 0}, {Progress{Total: n(4)}, 0}, {Progress{Done: n(1), Total: n(4)}, 30}, {Progress{Done: n(3), Total: n(4)}, 3},
		{Progress{Done: n(0), Total: n(4)}, 0}, {Progress{Done: n(-1), Total: n(4)}, 0}, {Progress{Done: n(4), Total: n(4)}, 0}, {Progress{Done: n(5), Total: n(4)}, 0},
	} {
		if got := c.p.remaining(10 * time.Second); got != c.want {
			t.Errorf("%s: %d, want %d", c.p, got, c.want)
		}
	}
}
