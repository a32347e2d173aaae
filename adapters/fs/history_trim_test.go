package fs

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What of a history exceeds its bounds.
func TestSurplus(t *testing.T) {
	now := t0.Add(100 * day)
	part := func(first uint64, age time.Duration, size int64) sealedFile {
		return sealedFile{segment{first: first}, size, now.Add(-age), false}
	}
	opening := func(first uint64, age time.Duration, size int64) sealedFile {
		f := part(first, age, size)
		f.opening = true
		return f
	}
	damaged := func(f sealedFile) sealedFile {
		f.ended, f.damaged = time.Time{}, true
		return f
	}
	three := []sealedFile{part(1, 9*day, 10), part(5, 6*day, 10), part(8, 3*day, 10)}
	trimmed := append([]sealedFile{opening(1, day, 10)}, three...)
	for name, c := range map[string]struct {
		files []sealedFile
		bytes int64
		age   time.Duration
		want  int
	}{
		"nothing":                           {nil, 1, 1, 0},
		"no bound":                          {three, 0, 0, 0},
		"room for all":                      {three, 30, 9 * day, 0},
		"room for two":                      {three, 29, 0, 1},
		"room for one":                      {three, 19, 0, 2},
		"never the newest":                  {three, 1, 1, 2},
		"one is old":                        {three, 0, 7 * day, 1},
		"one is old, and one is too large":  {three, 10, 7 * day, 2},
		"a new opening hides no old part":   {trimmed, 0, 7 * day, 2},
		"a new opening takes no room":       {trimmed, 30, 0, 0},
		"a new opening, and a part":         {trimmed, 29, 0, 2},
		"an opening of nothing sealed":      {[]sealedFile{opening(1, 9*day, 10), opening(5, 3*day, 10), part(5, day, 10)}, 0, 7 * day, 1},
		"an opening of nothing yet":         {[]sealedFile{opening(1, 9*day, 10)}, 1, 1, 0},
		"opening after opening, all of old": {[]sealedFile{opening(1, 9*day, 10), part(1, 9*day, 10), opening(5, 8*day, 10), part(5, 8*day, 10), part(9, day, 10)}, 0, 7 * day, 4},
		"the first is damaged":              {[]sealedFile{damaged(three[0]), three[1], three[2]}, 1, 1, 0},
		"the second is damaged":             {[]sealedFile{three[0], damaged(three[1]), three[2]}, 1, 1, 1},
	} {
		if got := surplus(c.files, c.bytes, c.age, now); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

const day = 24 * time.Hour

// No part of the history that is older than the bound says stays, however often it was trimmed.
func TestAHistoryIsTrimmedByAgeAgainAndAgain(t *testing.T) {
	l := emptyStore(t)
	at := t0
	l.s.opts.Now = func() time.Time { return at }
	l.app.Now = l.s.opts.Now
	l.submit(100)
	l.s.KeepHistory(0, 3*day)
	for n := 1; n <= 9; n++ {
		at = at.Add(day)
		l.seal(func() { l.submit(n) })
		if err := l.s.TrimHistory(t.Context()); err != nil {
			t.Fatal(err)
		}
		files, err := l.s.segments()
		if err != nil {
			t.Fatal(err)
		}
		parts := 0
		for _, g := range files {
			head, err := l.s.segmentHead(g)
			if err != nil {
				t.Fatal(err)
			}
			if age := at.Sub(time.Time(head.Ended)); !g.opening && age > 3*day {
				t.Errorf("day %d: entry %d is %s old", n, head.Last, age)
			}
			if !g.opening {
				parts++
			}
		}
		if parts != min(n, 3) {
			t.Errorf("day %d: %d parts are left", n, parts)
		}
	}
	l.finds()
}

// What a process that died had not removed of a trimmed history goes with the next trim, whatever the bounds are by then.
func TestWhatADeathLeftOfATrimmedHistoryGoes(t *testing.T) {
	l := newLivedStore(t)
	l.seal(func() { l.submit(4) })
	first := file(l.dir, segment{first: 1}.file())
	old := contentOf(t, first)
	l.s.KeepHistory(1, 0)
	for _, bytes := range []int64{1, 1 << 20, 0} {
		writeAt(t, first, old)
		if l.s.KeepHistory(bytes, 0); l.s.TrimHistory(t.Context()) != nil || exists(first) {
			t.Errorf("with a bound of %d it is there", bytes)
		}
	}
	l.finds()
}

// A history that cannot be trimmed says why: an error names the operation once, and the inspection names the damaged file.
func TestAHistoryThatCannotBeTrimmedSaysSo(t *testing.T) {
	l := newLivedStore(t)
	l.seal(func() { l.submit(4) })
	l.s.KeepHistory(1, 0)
	d := &faulty{at: 1, only: segmentSuffix}
	l.s.disk, l.s.base.disk = d, d
	if err := l.s.TrimHistory(t.Context()); !errors.Is(err, syscall.EIO) || strings.Count(err.Error(), "trim the history: ") != 1 {
		t.Error(err)
	}
	l.s.disk, l.s.base.disk = machine{}, machine{}
	first := file(l.dir, segment{first: 1}.file())
	content := []byte(contentOf(t, first))
	content[len(content)-1]++
	writeAt(t, first, string(content))
	if err := l.s.TrimHistory(t.Context()); err != nil || !exists(first) {
		t.Error(err)
	}
	found, err := l.s.Inspect(nil)
	if err != nil || len(found) != 1 || !strings.HasSuffix(found[0].Text, "the oldest part is no longer removed") || found[0].Next != "vizier history verify" {
		t.Errorf("%+v, %v", found, err)
	}
}
