package view

import (
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
