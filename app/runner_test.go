package app

import (
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A runner rests while its command runs, and is done with it before it goes on.
func TestARunnerRests(t *testing.T) {
	s := &Scheduler{last: kernel.NewSnapshot(kernel.Observation{})}
	begun, finish := make(chan struct{}), make(chan struct{})
	rests := 0
	r := &Runner{Rest: func() {
		close(begun)
		<-finish
		rests++
	}}
	over := r.rest(s)
	<-begun
	go func() {
		time.Sleep(10 * time.Millisecond)
		close(finish)
	}()
	over()
	if rests != 1 || s.last != nil {
		t.Errorf("it rested %d times, and knows %v", rests, s.last)
	}
	s.last = kernel.NewSnapshot(kernel.Observation{})
	r.rest(s)() // the command was quick
	if rests != 1 || s.last == nil {
		t.Errorf("after a quick command it rested %d times, and knows %v", rests, s.last)
	}
}
