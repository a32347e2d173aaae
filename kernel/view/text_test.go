package view

import "testing"

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 12_345: "12,345", 1_234_567: "1,234,567"} {
		if got := count(n); got != want {
			t.Errorf("%d is written %s", n, got)
		}
	}
}
