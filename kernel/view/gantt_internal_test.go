package view

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The lines of an axis are at times that people count by, and there are ten at most.
func TestDistanceOfLines(t *testing.T) {
	for long, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, 10 * time.Second: time.Second, 11 * time.Second: 2 * time.Second, 21 * time.Second: 5 * time.Second,
		100 * time.Second: 10 * time.Second, 101 * time.Second: 15 * time.Second, 151 * time.Second: 30 * time.Second,
		5 * time.Minute: 30 * time.Second, 301 * time.Second: time.Minute, 5*time.Hour + 1: time.Hour, 31 * 24 * time.Hour: 5 * 24 * time.Hour,
		301 * 24 * time.Hour: 301*24*time.Hour/10 + time.Second,
	} {
		if got := tick(long); got != want || got*10 < long {
			t.Errorf("over %s they are %s apart, want %s", long, got, want)
		}
	}
}

// A bar stands where its times are, in its row; what was before now is left out. The shortest has a width.
func TestWhereBarsStand(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	svg := Gantt("x", now, []Bar{{Row: "a", Start: at(-10), End: at(5)}, {Row: "b", Start: at(5), End: at(10)}, {Row: "a", Start: at(10), End: at(20), Critical: true}, {Row: "b", Start: at(20), End: at(20)}})
	var got []string
	for part := range strings.SplitSeq(svg, "<rect ") {
		var x, y, width float64
		var high int
		if n, _ := fmt.Sscanf(part, `x="%f" y="%f" width="%f" height="%d"`, &x, &y, &width, &high); n == 4 {
			got = append(got, fmt.Sprint(x, y, width, high, strings.Contains(part, `stroke-width="3"`)))
		}
	}
	if got, want := strings.Join(got, "\n"), "210 57 225 16 false\n435 79 225 16 false\n660 57 450 16 true\n1110 79 1 16 false"; got != want {
		t.Errorf("they stand at\n%s\nwant\n%s", got, want)
	}
}
