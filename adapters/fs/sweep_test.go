package fs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
		job + "/.job.json.-99999.e.tmp":                                   {2 * time.Minute, false}, // no process has that number
		job + "/.tmp":                                                     {2 * time.Hour, true},
		job + "/checkpoint/.download.tmp":                                 {2 * time.Hour, false}, // the job's own
		fmt.Sprintf("%s/checkpoint/d/.part.%d.3.tmp", job, gone):          {2 * time.Hour, false},
		job + "/.keep":    {2 * time.Hour, false},
		job + "/work.tmp": {2 * time.Hour, false},
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

// Whichever call of the disk fails, what is left of the temporary files goes the next time, and each counts once.
func TestWhicheverCallOfTheDiskFailsTemporaryFilesGo(t *testing.T) {
	oneGoroutine(t)
	dir := t.TempDir()
	commit(t, newStore(t, dir), kernel.Create(plain(1)))
	at := time.Now().Add(-2 * time.Hour)
	stale := []string{"jobs/.a.1.1.tmp", jobPath(id(1), ".job.json.1.2.tmp"), jobPath(id(1), "attempts/.1.json.1.3.tmp"), planStatesDir + "/.p.json.1.4.tmp", sentinelsDir + "/.s.1.5.tmp"}
	for k, calls := 0, 1; k <= calls; k++ { // at first none fails
		for _, name := range stale {
			writeAt(t, file(dir, name), "half of")
			if err := os.Chtimes(file(dir, name), at, at); err != nil {
				t.Fatal(err)
			}
		}
		s, d := newStore(t, dir), &faulty{at: k, stats: true}
		s.disk = d
		n, err := s.DropTemporary()
		if k == 0 {
			calls = d.n
		}
		if err != nil && !errors.Is(err, unix.EIO) {
			t.Errorf("%s fails: %v", d.where, err)
		}
		again, failed := s.DropTemporary()
		if n+again != len(stale) || failed != nil || err == nil && n < len(stale) && !strings.HasPrefix(d.where, "stat") {
			t.Errorf("%s fails: %d of %d are dropped, %v, and then %d, %v", d.where, n, len(stale), err, again, failed)
		}
		for _, name := range stale {
			if exists(file(dir, name)) {
				t.Errorf("%s fails, and %s is left", d.where, name)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
