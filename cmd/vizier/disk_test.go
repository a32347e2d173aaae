package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/disktest"
)

// onASmallDisk returns a repository on a disk of its own, and a function that runs vizier there
// and returns what it prints.
func onASmallDisk(t *testing.T) (root string, vizier func(args ...string) string) {
	t.Helper()
	root = disktest.Small(t, 4<<20)
	vizier = func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "vizier", args...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "HOME="+t.TempDir(), "VIZIER_SCHEDULER_RESIDENT=false")
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return root, vizier
}

// A full disk is told of by every command that looks, and by the doctor.
func TestAFullDiskIsToldOf(t *testing.T) {
	root, vizier := onASmallDisk(t)
	vizier("submit", "--approval", "--", "true")
	told := func() (commands []string) {
		for _, args := range [][]string{{"status"}, {"ls"}, {"why", "1"}, {"show", "1"}, {"doctor"}} {
			if strings.Contains(vizier(args...), diskFull) {
				commands = append(commands, args[0])
			}
		}
		return commands
	}
	if got := told(); len(got) > 0 {
		t.Errorf("%v say that the disk is full, and it is not", got)
	}
	fill := filepath.Join(root, "fill")
	if err := os.WriteFile(fill, make([]byte, 8<<20), 0o600); err == nil {
		t.Fatal("the disk does not fill")
	}
	if got := told(); len(got) != 5 {
		t.Errorf("only %v say that the disk is full", got)
	}
	for _, args := range [][]string{{"submit", "--", "true"}, {"jobs", "approve", "1"}, {"cancel", "1"}, {"jobs", "gc", "--keep"}} {
		if out := vizier(args...); !strings.Contains(out, "vizier: the file system of the store "+root+"/.vizier is full, so nothing can be changed here: make room on it (") {
			t.Errorf("%q: %s", args, out)
		}
	}
}

// A file system that is read-only is told of by every command that would change something.
func TestAReadOnlyFileSystemIsToldOf(t *testing.T) {
	root, vizier := onASmallDisk(t)
	vizier("submit", "--approval", "--", "true")
	disktest.ReadOnly(t, root)
	for _, args := range [][]string{{"submit", "--", "true"}, {"jobs", "approve", "1"}, {"cancel", "1"}, {"jobs", "gc"}, {"jobs", "gc", "--keep"}} {
		if out := vizier(args...); !strings.Contains(out, "vizier: the store "+root+"/.vizier is read-only for you, so nothing can be changed here: make it writable (") {
			t.Errorf("%q: %s", args, out)
		}
	}
}

// A disk with room for the journal alone, so that what is on record cannot be
// written out, keeps the doctor from no check.
func TestTheDoctorOnADiskWithRoomForTheJournal(t *testing.T) {
	root, vizier := onASmallDisk(t)
	vizier("submit", "--approval", "--", "true")
	torn := filepath.Join(root, ".vizier/jobs/0123456789abcdef0123456789abcdef")
	if err := os.Mkdir(torn, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(torn, "job.json"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	fill := filepath.Join(root, "fill")
	if err := os.WriteFile(fill, make([]byte, 8<<20), 0o600); err == nil {
		t.Fatal("the disk does not fill")
	}
	said := ""
	for !strings.Contains(said, "it is on record") {
		info, err := os.Stat(fill)
		if err == nil {
			err = os.Truncate(fill, info.Size()-4096)
		}
		if said = vizier("cancel", "1"); err != nil || said == "Job 1 cancelled\n" {
			t.Skipf("no amount of room is enough for the journal alone: %s", said)
		}
	}
	if strings.Count(said, "it is on record") != 1 || !strings.Contains(said, "no space left on device): make room on ") {
		t.Error(said)
	}
	for _, args := range [][]string{{"doctor"}, {"doctor", "--fix"}} {
		has(t, vizier(args...), "what is on record cannot be written out", diskFull, "the record cannot be read", "0123456789abcdef0123456789abcdef/job.json")
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if out := vizier("doctor"); strings.Contains(out, "disk:") || !strings.Contains(out, "the record cannot be read") {
		t.Error(out)
	}
	has(t, vizier("ls", "-a"), "cancelled")
}

// A command that wrote on while the disk was full has not failed for it, and
// show and tail say that its output may not be all.
func TestOutputThatAFullDiskRefused(t *testing.T) {
	root, vizier := onASmallDisk(t)
	vizier("submit", "--", "sh", "-c", "cat /dev/zero >fill; seq 100000; true")
	for end := time.Now().Add(time.Minute); !strings.Contains(vizier("status"), diskFull); {
		if time.Now().After(end) {
			t.Fatal("the disk does not fill")
		}
	}
	for writing := true; writing; { // the runner looks a last time, and closes the log
		open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
		writing = slices.ContainsFunc(open, func(fd string) bool {
			to, _ := os.Readlink(fd)
			return strings.HasPrefix(to, root) && strings.HasSuffix(to, "/stdout.log")
		})
	}
	if err := os.Remove(filepath.Join(root, "fill")); err != nil {
		t.Fatal(err)
	}
	vizier("submit", "--", "true")
	has(t, vizier("wait", "1", "2"), "1 succeeded", "2 succeeded")
	const missing = "output may be missing: the disk was full"
	for _, args := range [][]string{{"show", "1"}, {"tail", "1"}, {"tail", "-n", "1", "1", "2"}} {
		if out := vizier(args...); !strings.Contains(out, missing) {
			t.Errorf("%q: %s", args, out)
		}
	}
	for _, args := range [][]string{{"show", "2"}, {"tail", "2"}} {
		if out := vizier(args...); strings.Contains(out, missing) {
			t.Errorf("%q: %s", args, out)
		}
	}
}
