package proc

import (
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A resident scheduler is not started where it could not open the files it needs.
func TestTooFewFiles(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if why := TooFewFiles(); (why == "") != (limit.Max >= fewestFiles) {
		t.Errorf("with a limit of %d: %q", limit.Max, why)
	}
	for most, want := range map[string]string{"255": "too few: it would inherit a limit of 255 open files (`ulimit -n`), and needs 256\n" +
		"start the resident scheduler: it would inherit a limit of 255 open files (`ulimit -n`), and needs 256", "256": "too few:"} {
		out, err := exec.Command("/bin/sh", append([]string{"-c", "ulimit -n " + most + ` && exec "$@"`, "sh"}, as("tooFewFiles")...)...).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("of %s: %q, %v", most, got, err)
		}
	}
}

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
