package proc

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A process is starved where its limit lets it open fewer files than a tick takes.
func TestStarved(t *testing.T) {
	if Starved() {
		t.Fatal("this process is")
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	next, err := unix.Dup(0) // the lowest that is free
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(next)
	low := was
	for low.Cur = spareFiles - 1; next > 0; next-- { // its type is another on each system
		low.Cur++
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	starved := Starved()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if !starved || Starved() {
		t.Errorf("with a low limit %v, with that of before %v", starved, Starved())
	}
}
