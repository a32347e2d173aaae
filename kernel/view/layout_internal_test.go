package view

import (
	"fmt"
	"testing"
)

// What is not connected is laid out side by side, on shelves that all begin at the left.
func TestShelvesBeginAtTheLeft(t *testing.T) {
	d := &diagram{index: map[string]int{}}
	for n := range 30 {
		d.node(fmt.Sprint(n), node{title: fmt.Sprint(n)})
	}
	l := layoutOf(d)
	begins := map[int]int{} // by height, where the first node is
	for _, p := range l.at {
		if x, there := begins[p.y]; !there || p.x < x {
			begins[p.y] = p.x
		}
	}
	first := l.at[0].x
	for y, x := range begins {
		if x != first {
			t.Errorf("the shelf at %d begins at %d, the first one at %d", y, x, first)
		}
	}
	if n := len(begins); n < 3 || n > 20 {
		t.Errorf("%d shelves", n)
	}
}
