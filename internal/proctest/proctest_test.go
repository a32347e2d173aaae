package proctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Each process starts the next one and ends at once, so one list of /proc often has none that lives.
func TestAllSeesWhatProcessesPassOn(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no /proc")
	}
	dir := t.TempDir()
	mark := "PROCTEST_MARK=" + dir
	end := filepath.Join(dir, "end")
	link := filepath.Join(dir, "link")
	script := "#!/bin/sh\nif test $1 = 0; then : >" + end + "; else " + link + " $(($1 - 1)) & fi\n"
	if err := os.WriteFile(link, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link, "500")
	cmd.Env = append(os.Environ(), mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	for {
		lives := slices.ContainsFunc(All(), func(p Process) bool { return slices.Contains(p.Environ, mark) })
		_, err := os.Stat(end)
		switch {
		case !lives && err != nil:
			t.Fatal("no process is seen, and the last one has not ended")
		case !lives:
			return
		}
	}
}
