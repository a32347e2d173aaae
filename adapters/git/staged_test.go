package git

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What only the index of a worktree has is kept beside its files, and nothing more if the index has nothing of its own.
func TestWhatIsOnlyStagedIsParked(t *testing.T) {
	// stage stages a file's text, and leaves another ("": none) in its place.
	stage := func(w fixture, name, text, left string) {
		w.write(name, text)
		w.git("add", "--force", name)
		if left == "" {
			if err := os.Remove(w.path(name)); err != nil {
				w.Fatal(err)
			}
		} else {
			w.write(name, left)
		}
	}
	// merge begins a merge of what the worktree has on its branch into main, with file in conflict.
	merge := func(o *owned) {
		o.tree.commit("theirs", "theirs")
		o.tree.commit("file", "theirs")
		theirs := o.tree.rev("HEAD")
		o.tree.git("switch", "--quiet", "--detach", string(o.commit("file", "ours")))
		if err := o.repo.Merge(o.Context(), o.tree.dir, theirs, true); err != nil {
			o.Fatal(err)
		}
		if err := o.repo.SetMergeState(o.Context(), o.tree.dir, theirs, o.tree.rev("HEAD"), ""); err != nil {
			o.Fatal(err)
		}
	}
	for _, c := range []struct {
		name         string
		do           func(o *owned)
		files, index string // what is parked of each, as git diff shows it
	}{
		{"nothing else", func(o *owned) {
			stage(o.tree, "new", "staged", "")
			stage(o.tree, "file", "staged", "x")
		}, "", "M file A new"},
		{"beside changed files", func(o *owned) {
			stage(o.tree, "new", "staged", "")
			stage(o.tree, "file", "staged", "y")
			o.tree.write("made", "x")
		}, "M file A made", "M file A new"},
		{"with what the files have", func(o *owned) {
			stage(o.tree, "new", "staged", "")
			stage(o.tree, "file", "y", "y")
		}, "M file", "M file A new"},
		{"on no branch", func(o *owned) {
			o.tree.git("switch", "--quiet", "--detach")
			stage(o.tree, "new", "staged", "")
		}, "", "A new"},
		{"staged, and in the files", func(o *owned) {
			stage(o.tree, "file", "y", "y")
			stage(o.tree, "new", "x", "x")
			o.tree.write("made", "x")
		}, "M file A made A new", ""},
		{"a removal", func(o *owned) {
			o.tree.git("rm", "--quiet", "--cached", "file")
			o.tree.write("made", "x")
		}, "A made", ""},
		{"announced", func(o *owned) {
			o.tree.write("made", "x")
			o.tree.git("add", "--intent-to-add", "made")
		}, "A made", ""},
		{"a resolution", func(o *owned) {
			merge(o)
			stage(o.tree, "file", "both", "<<<<<<<")
		}, "M file A theirs", "M file A theirs"},
		{"beside a conflict", func(o *owned) {
			merge(o)
			stage(o.tree, "new", "staged", "")
		}, "M file A theirs", "M file A new A theirs"},
		{"what the merge brings", func(o *owned) {
			merge(o)
			o.tree.write("theirs", "changed")
		}, "M file A theirs", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOwned(t, Open)
			c.do(o)
			head := o.tree.git("rev-parse", "HEAD")
			o.rehearsedRemove()
			o.gone()
			var files, index string
			for _, p := range o.parked {
				got := strings.Join(strings.Fields(o.git("diff", "--name-status", head, p.Ref)), " ")
				says := p.String()
				if p.Staged {
					index = got
				} else {
					files = got
				}
				if strings.HasPrefix(says, "what was staged in worktree ") != p.Staged || strings.HasSuffix(p.Ref, ".staged") != p.Staged || strings.Count(says, "`git show "+p.Ref+"`") != 1 {
					t.Errorf("%+v says %q", p, says)
				}
			}
			lines, err := o.repo.ParkedOf(t.Context(), func() ([]kernel.JobID, error) { return []kernel.JobID{"1"}, nil })
			if staged := strings.Count(strings.Join(lines, "\n"), "what was only staged in draft is kept as "); err != nil || len(lines) != len(o.parked) || staged == 1 != (c.index != "") {
				t.Errorf("of the job: %q, %v", lines, err)
			}
			if files != c.files || index != c.index {
				t.Errorf("parked of files %q, of the index %q", files, index)
			}
		})
	}
}

// An agent that fails leaves the index as it was, so what was staged before is not parked. What it staged is.
func TestWhatIsOnlyStagedIsPutBack(t *testing.T) {
	for _, confined := range []bool{true, false} {
		o := newOwned(t, Open)
		o.tree.write("file", "by hand")
		o.tree.git("add", "file")
		if err := o.repo.Remember(t.Context(), o.tree.dir, confined); err != nil {
			t.Fatal(err)
		}
		o.tree.write("file", "half")
		if !confined {
			o.tree.write("new", "staged")
			o.tree.git("add", "new")
			o.tree.write("new", "half")
		}
		if changed, err := o.repo.PutBack(t.Context(), o.tree.dir); !changed || err != nil {
			t.Fatal(changed, err)
		}
		if got := o.tree.git("status", "--porcelain") + o.tree.git("show", ":file"); got != "M  fileby hand" {
			t.Errorf("put back as %q", got)
		}
		got := []string{o.git("show", o.parked[len(o.parked)-1].Ref+":file")}
		want := []string{"half"}
		if !confined {
			got, want = append(got, o.git("show", o.parked[0].Ref+":new")), append(want, "staged")
		}
		if len(o.parked) != len(want) || !slices.Equal(got, want) {
			t.Errorf("parked %+v, %q", o.parked, got)
		}
	}
}

// What is put back is staged as it was, also if git writes the file with other ends of lines than it was staged with. What differed
// from what was staged still does.
func TestWhatIsPutBackWithOtherEndsOfLinesIsStaged(t *testing.T) {
	for _, confined := range []bool{true, false} {
		o := newOwned(t, Open)
		o.git("config", "core.autocrlf", "true")
		for _, name := range []string{"by hand", "kept", "edited"} {
			o.tree.write(name, "one\ntwo\n")
		}
		o.tree.git("add", "by hand", "kept", "edited")
		o.tree.write("edited", "mine\n")
		if err := o.repo.Remember(t.Context(), o.tree.dir, confined); err != nil {
			t.Fatal(err)
		}
		o.tree.write("by hand", "one\ntwo\nhalf\n")
		o.tree.write("edited", "mine\nhalf\n")
		photo := o.tree.git("ls-files", "--stage")
		if changed, err := o.repo.PutBack(t.Context(), o.tree.dir); !changed || err != nil {
			t.Fatal(changed, err)
		}
		tracked, _, err := o.repo.Unstaged(t.Context(), o.tree.dir)
		if err != nil || !slices.Equal(tracked, []string{"edited"}) {
			t.Errorf("confined %v: not staged are %q, %v", confined, tracked, err)
		}
		if got := o.tree.git("ls-files", "--stage"); got != photo {
			t.Errorf("the index has %q, want %q", got, photo)
		}
		if got := o.tree.content("by hand") + o.tree.content("kept") + o.tree.content("edited"); got != "one\r\ntwo\r\none\ntwo\nmine\r\n" {
			t.Errorf("the files are %q", got)
		}
	}
}

// Before everything in a job's worktree is staged, what is staged there and is not what the files have is kept.
func TestStagingKeepsWhatWasOnlyStaged(t *testing.T) {
	for name, stage := range map[string]func(o *owned, dir string) error{
		"all":             func(o *owned, dir string) error { return o.repo.Stage(o.Context(), dir, nil, nil) },
		"what is tracked": func(o *owned, dir string) error { return o.repo.StageTracked(o.Context(), dir) },
	} {
		t.Run(name, func(t *testing.T) {
			eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
				o := newOwned(t, open)
				in := func(w fixture) {
					w.write("file", "staged")
					w.write("new", "same")
					w.write("gone", "staged")
					w.git("add", "file", "new", "gone")
					w.write("file", "later")
					if err := os.Remove(w.path("gone")); err != nil {
						t.Fatal(err)
					}
				}
				in(o.fixture)
				if err := stage(o, o.dir); err != nil || len(o.parked) != 0 {
					t.Errorf("in the main working tree: %v, parked %+v", err, o.parked)
				}
				in(o.tree)
				for range 2 {
					if err := stage(o, o.tree.dir); err != nil {
						t.Fatal(err)
					}
				}
				p := o.saved()
				if got := strings.Join(strings.Fields(o.git("diff", "--name-status", string(p.Commit)+"^", string(p.Commit))), " "); got != "M file A gone A new" || !p.Staged {
					t.Errorf("parked %s: %+v", got, p)
				}
				if got := o.git("show", p.Ref+":file") + ", " + o.tree.git("show", ":file"); got != "staged, later" {
					t.Errorf("file: %s", got)
				}
			})
		})
	}
}

// What was only staged is not kept for ever. Work is, and so is what was staged since.
func TestWhatIsOnlyStagedIsForgottenOneDay(t *testing.T) {
	o := newOwned(t, Open)
	o.tree.write("file", "staged")
	o.tree.git("add", "file")
	o.tree.write("file", "left")
	o.remove(kernel.CleanupDone)
	if len(o.parked) != 2 {
		t.Fatalf("%+v", o.parked)
	}
	for _, c := range []struct {
		before time.Duration
		staged int // refs that are left
	}{{-time.Hour, 1}, {time.Hour, 0}, {time.Hour, 0}} {
		if err := o.repo.DropStaged(t.Context(), time.Now().Add(c.before)); err != nil {
			t.Fatal(err)
		}
		if refs := o.git("for-each-ref", "--format=%(refname)", parkedRefs); strings.Count(refs, "refs/") != 1+c.staged || strings.Count(refs, stagedSuffix) != c.staged {
			t.Errorf("before %s from now: %q are left", c.before, refs)
		}
	}
}
