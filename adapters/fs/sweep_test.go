package fs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The temporary files of killed processes go. Those that are being written stay, and so
// do all other files.
func TestDropTemporary(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	if n, err := s.DropTemporary(); n != 0 || err != nil {
		t.Errorf("without a store: %d, %v", n, err)
	}
	makeBase(t, dir)
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	gone, alive := dead.Process.Pid, os.Getpid()
	want := tree(t, dir)
	outside := t.TempDir()
	writeAt(t, filepath.Join(outside, ".job.json.1.1.tmp"), "not ours")
	job := "jobs/" + string(id(1))
	drop := 0
	for name, c := range map[string]struct {
		age  time.Duration
		goes bool
	}{
		fmt.Sprintf("%s/.job.json.%d.a.tmp", job, gone):                   {2 * time.Minute, true},
		fmt.Sprintf("%s/.outcome.json.%d.1z.tmp", job, gone):              {time.Second, false},
		fmt.Sprintf("%s/.job.json.%d.b.tmp", job, alive):                  {2 * time.Minute, false},
		fmt.Sprintf("%s/.job.json.%d.c.tmp", job, alive):                  {2 * time.Hour, true},
		fmt.Sprintf("%s/.state.%d.d.tmp", job, gone):                      {-time.Hour, false}, // the clock stepped back
		job + "/attempts/.1.json.12345678.tmp":                            {2 * time.Hour, true},
		job + "/attempts/.2.json.12345678.tmp":                            {2 * time.Minute, false},
		fmt.Sprintf("%s/a/b/.%s.json.%d.9.tmp", payloadsDir, id(1), gone): {2 * time.Minute, true},
		fmt.Sprintf("%s/.index.%d.1.tmp", journalDir, gone):               {2 * time.Minute, true},
		planStatesDir + "/.p.json.tmp":                                    {2 * time.Hour, true},
		job + "/.tmp":                                                     {2 * time.Hour, true},
		job + "/.keep":                                                    {2 * time.Hour, false},
		job + "/work.tmp":                                                 {2 * time.Hour, false},
	} {
		path, at := file(dir, name), time.Now().Add(-c.age)
		writeAt(t, path, "half of")
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		if c.goes {
			drop++
		} else {
			want[name] = "half of"
		}
	}
	if err := os.Symlink(outside, file(dir, job, "link")); err != nil {
		t.Fatal(err)
	}
	n, err := s.DropTemporary()
	if n != drop || err != nil {
		t.Errorf("dropped %d of %d: %v", n, drop, err)
	}
	for name, content := range want {
		if path := file(dir, name); name[len(name)-1] != '/' && contentOf(t, path) != content {
			t.Errorf("%s changed", name)
		}
	}
	if !exists(filepath.Join(outside, ".job.json.1.1.tmp")) {
		t.Error("a link led out")
	}
	if left, _ := filepath.Glob(file(dir, job, "attempts", ".*.tmp")); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	if n, err := s.DropTemporary(); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	commit(t, s, kernel.Create(plain(8)))
}
