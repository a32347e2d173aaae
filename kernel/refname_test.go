package kernel_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A branch has one name: refs that git would take for another branch, and what is no branch, are
// refused with what to write.
func TestCheckBranch(t *testing.T) {
	for name, why := range map[string]string{
		"plan": "", "heads/x": "", "draft/refs/x": "", "refs": "", "HEAD/x": "",
		"refs/heads/a/b": "write a/b", "refs/heads/": "no branch", "refs/tags/v1": "no branch", "HEAD": "no branch", "-x": "like an option", "a b": "a space", "": "names nothing",
	} {
		if err := kernel.CheckBranch(name); why == "" && err != nil || why != "" && (!errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), why)) {
			t.Errorf("%q: got %v, want %q", name, err, why)
		}
	}
}

// CheckRef refuses what git refuses as the name of a branch.
func TestCheckRef(t *testing.T) {
	for name, good := range map[string]bool{
		"plan": true, "a/b": true, "v1.2": true, "ünï": true, "a-b": true, "a@b": true, "x.lockable": true,
		"": false, "@": false, "../../x": false, "a..b": false, ".git": false, "a/.b": false, "a//b": false, "/a": false, "a/": false,
		"a.lock": false, "a.lock/b": false, "a b": false, "a\x00": false, "a\n": false, "a~1": false, "a^": false, "a:b": false, "a?": false, "a*": false,
		"a[b": false, `a\b`: false, "a@{1}": false, "a.": false, "-a": false, "\x7f": false,
	} {
		if err := kernel.CheckRef(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
		if name == "a\x00" || name == "@" {
			continue // "" cannot be passed to git, and @ stands for HEAD
		}
		if err := exec.Command("git", "check-ref-format", "--branch", name).Run(); (err == nil) != good {
			t.Errorf("git says %v of %q", err, name)
		}
	}
}

// A new plan gets a branch and a document of its name.
func TestCheckPlan(t *testing.T) {
	for name, why := range map[string]string{
		"one": "", "a.b_2": "", "ü1": "", strings.Repeat("a", 200): "",
		"a/b": "has no /", strings.Repeat("a", 201): "at most 200 bytes", "ü": "a letter from a to z", "_": "a letter from a to z", "a..b": "git takes no such name", ".a": "git takes no such name",
	} {
		if err := kernel.CheckPlan(name); why == "" && err != nil || why != "" && (!errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), why)) {
			t.Errorf("%q: got %v, want %q", name, err, why)
		}
	}
}
