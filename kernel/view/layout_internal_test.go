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

// What XML does not allow or would read as markup does not stand in a picture as it is.
func TestEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"<>&\"'": "&#60;&#62;&#38;&#34;&#39;", "a\nb": "a&#10;b", " ~\u00a0\ufffd\U00010000": " ~\u00a0\ufffd\U00010000",
		"\x00\t\x1f": "\ufffd\ufffd\ufffd", "\x7f\u0080\u009f": "\ufffd\ufffd\ufffd", "\ufffe\uffff": "\ufffd\ufffd",
	} {
		if got := escaped(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
