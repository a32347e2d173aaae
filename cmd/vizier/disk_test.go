package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
)

// A full disk is told of by every command that looks, and by the doctor.
func TestAFullDiskIsToldOf(t *testing.T) {
	root := disktest.Small(t, 4<<20)
	vizier := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "vizier", args...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "HOME="+t.TempDir(), "VIZIER_SCHEDULER_RESIDENT=false")
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
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
}
