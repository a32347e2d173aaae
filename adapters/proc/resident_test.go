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
	if why := TightLimit(); (why == "") != (limit.Max >= fewestFiles) {
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

// The same where it could not have the processes it needs.
func TestTooFewProcesses(t *testing.T) {
	was := heldToProcesses
	defer func() { heldToProcesses = was }()
	if was(0) || !was(1) {
		t.Error("who is held to the limit")
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Max < fewestProcesses {
		t.Skipf("the limit here is %d", limit.Max)
	}
	heldToProcesses = func(int) bool { return true }
	if why := TightLimit(); why != "" {
		t.Errorf("without a limit: %q", why)
	}
	role := as("tooFewProcesses")
	out, err := exec.Command(role[0], role[1:]...).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "it would inherit a limit of 255 processes (`ulimit -u`), and needs 256 <nil>" {
		t.Errorf("%q, %v", got, err)
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
