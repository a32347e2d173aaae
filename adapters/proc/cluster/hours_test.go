package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// limited is a place whose job ends some time from now.
type limited struct{ left time.Duration }

func (l limited) Job() (name, id string, known bool) { return "", "", false }
func (l limited) Stands(context.Context) (State, time.Duration, error) {
	return Running, l.left, nil
}
func (l limited) Cores() int { return 1 }

// A pilot claims nothing more shortly before its end, and leaves what may take longer than it has.
func TestHours(t *testing.T) {
	ago := func(h Hours, d time.Duration) Hours { return Hours{h.Fresh.Add(-d), h.End.Add(-d)} }
	hour := HoursOf(t.Context(), limited{time.Hour})
	for name, c := range map[string]struct {
		hours   Hours
		limit   time.Duration
		tooLong bool
		over    bool
	}{
		"fresh":                     {hour, 0, false, false},
		"fresh, longer than it all": {hour, 5 * time.Hour, false, false},
		"half, no limit":            {ago(hour, 30*time.Minute), 0, false, false},
		"half, short":               {ago(hour, 30*time.Minute), 28 * time.Minute, false, false},
		"half, long":                {ago(hour, 30*time.Minute), 30 * time.Minute, true, false},
		"nearly over":               {ago(hour, 59*time.Minute+time.Second), 0, true, true},
		"no limit of the pilot":     {HoursOf(t.Context(), limited{Endless}), 1000 * time.Hour, false, false},
	} {
		if got := c.hours.tooLong(c.limit); got != c.tooLong {
			t.Errorf("%s: too long is %v", name, got)
		}
		if got := c.hours.Over(); got != c.over {
			t.Errorf("%s: over is %v", name, got)
		}
	}
}

// A pilot that has too little time left for an attempt leaves it as it was.
func TestAPilotLeavesWhatIsTooLong(t *testing.T) {
	f := newFakeCluster(t, takes("7"))
	f.Settings.Pack, f.Asked = 2, func(kernel.JobID) ([]string, time.Duration, error) { return nil, time.Hour, nil }
	a := f.start(1)[0]
	now := time.Now()
	late := Hours{now.Add(-time.Minute), now.Add(time.Minute)}
	if _, err := f.BeginPacked(a, limited{}, "p", late); !errors.Is(err, ErrTooLong) {
		t.Errorf("too late: %v", err)
	}
	if due := f.Due(); len(due) != 1 || due[0] != a {
		t.Errorf("due: %v", due)
	}
	n, err := f.BeginPacked(a, limited{}, "p", Hours{now.Add(time.Minute), now.Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}
