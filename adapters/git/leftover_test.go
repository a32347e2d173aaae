package git

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// Of the files that were in conflict, those count that are staged with a conflict that no side of the merge had.
func TestLeftover(t *testing.T) {
	const about = "<<<<<<< A\n=======\n>>>>>>> B\n"
	f := newFixture(t)
	for _, side := range []string{"main", "theirs"} {
		if side == "theirs" {
			f.git("switch", "--quiet", "--create", "theirs", "HEAD~5")
		} else {
			f.commit("first", "x")
		}
		f.commit("left", side)
		f.commit("resolved", side)
		f.commit("about", about+side)
		f.commit("left too", side)
		f.commit("unstaged", side)
	}
	f.mayFail("merge", "main")
	both := func(names ...string) (all []string) {
		for _, name := range names {
			if text := f.content(name); !strings.HasPrefix(text, "<<<<<<<") {
				t.Fatalf("%s is not in conflict: %q", name, text)
			}
		}
		return names
	}
	left := both("left", "left too")
	f.write("resolved", "both")
	f.write("about", about+"both")
	f.write("new", about)
	f.git("add", "left", "left too", "resolved", "about", "new")
	both("unstaged")
	r := Open(f.root())
	if got, err := r.Leftover(t.Context(), f.dir); err != nil || !slices.Equal(got, left) {
		t.Errorf("left over are %q, %v", got, err)
	}
	calls := brittle(r, 0)
	if _, err := r.Leftover(t.Context(), f.dir); err != nil {
		t.Fatal(err)
	}
	for k, n := 1, *calls; k <= n; k++ {
		brittle(r, k)
		if got, err := r.Leftover(t.Context(), f.dir); err == nil {
			t.Errorf("process %d of %d fails: %q", k, n, got)
		}
	}
	brittle(r, 0)
	if err := r.checkLeftover(t.Context(), f.dir); err == nil || !strings.Contains(err.Error(), "left, left too") {
		t.Errorf("%v", err)
	}
	if err := errors.Join(os.Remove(f.path(".git/index")), os.Mkdir(f.path(".git/index"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Leftover(t.Context(), f.dir); err == nil {
		t.Errorf("of an index that cannot be read: %q", got)
	}
}

// A conflict is whole and its marks have the length that the file's attributes say.
func TestConflictsInAText(t *testing.T) {
	whole := "<<<<<<< ours\n1\n=======\n2\n>>>>>>> theirs\n"
	for text, want := range map[string][]string{
		"":                                      nil,
		whole:                                   {whole},
		"before\n" + whole + "after\n" + whole:  {whole, whole},
		strings.TrimSuffix(whole, "\n"):         {strings.TrimSuffix(whole, "\n")},
		strings.ReplaceAll(whole, "\n", "\r\n"): {strings.ReplaceAll(whole, "\n", "\r\n")},
		"<<<<<<<\n=======\n>>>>>>>":             {"<<<<<<<\n=======\n>>>>>>>"},
		"Title\n=======\n" + whole:              {whole},
		strings.Replace(whole, "=======\n", "", 1):   nil,
		strings.Replace(whole, ">>>>>>>", ">>", 1):   nil,
		strings.Replace(whole, "<<<<", "<<<<<", 1):   nil,
		strings.Replace(whole, "< ours", "<ours", 1): nil,
		"x" + whole: nil,
	} {
		if got := conflictsIn([]byte(text), defaultMarkerSize); !slices.Equal(got, want) {
			t.Errorf("%q has %q", text, got)
		}
	}
	if got := conflictsIn([]byte(whole), 8); got != nil {
		t.Errorf("of another length: %q", got)
	}
}

// Vizier's own files are no changes of the tree; all else below .vizier is.
func TestWhatIsScratch(t *testing.T) {
	for path, want := range map[string]bool{
		".vizier/jobs": true, ".vizier/jobs/1/job.json": true, ".vizier/sessions/x": true, ".vizier/tmp": true, ".vizier/tmp-worktrees/a": true, ".vizier/state/": true,
		".vizier/inbox/x.prompt.md": true, ".vizier/processed/a/b/main/j/prompt.md": true, ".vizier/finished/x.done.md": true, ".vizier/failed": true, ".vizier/inbox.md": false,
		"": false, ".vizier": false, ".vizier/config.toml": false, ".vizier/jobs.md": false, ".vizier/tmpfile": false, "a/.vizier/jobs": false, "vizier/jobs": false, "/x": false,
	} {
		if got := isScratch(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}
