package app

import (
	"testing"
	"time"
)

// A runner rests while its command runs, and is done with it before it goes on.
func TestARunnerRests(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	rests := 0
	r := &Runner{Rest: func() {
		close(begun)
		<-finish
		rests++
	}}
	over := r.rest()
	<-begun
	go func() {
		time.Sleep(10 * time.Millisecond)
		close(finish)
	}()
	over()
	if rests != 1 {
		t.Errorf("it rested %d times", rests)
	}
	r.rest()() // the command was quick
	if rests != 1 {
		t.Errorf("after a quick command it rested %d times", rests)
	}
}
