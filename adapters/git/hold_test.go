package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// prune removes everything from the repository that git does not count as needed, as a person may in the main working tree.
func (o *owned) prune() {
	o.Helper()
	o.git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
	o.git("gc", "--quiet", "--prune=now")
}

// unheld removes the refs that keep what the worktree notes, as if an earlier version had noted that.
func (o *owned) unheld() {
	o.Helper()
	for ref := range strings.FieldsSeq(o.git("for-each-ref", "--format=%(refname)", heldRefs)) {
		o.git("update-ref", "-d", ref)
	}
}

func (o *owned) held() string { return o.git("for-each-ref", "--format=%(refname)", heldRefs) }

// newConflict begins a merge in the worktree, in conflict about file, of a branch that is gone. A person has resolved and staged
// that, has changed it since, and has made a file.
func newConflict(t *testing.T) *owned {
	t.Helper()
	o := newOwned(t, Open)
	main := o.commit("file", "ours")
	o.tree.commit("file", "theirs")
	theirs := o.tree.rev("HEAD")
	o.tree.git("switch", "--quiet", "--detach", string(main))
	o.git("branch", "--quiet", "-D", "draft/a")
	if err := o.repo.Merge(t.Context(), o.tree.dir, theirs, false); err != nil {
		t.Fatal(err)
	}
	if err := o.repo.SetMergeState(t.Context(), o.tree.dir, theirs, main, ""); err != nil {
		t.Fatal(err)
	}
	o.tree.write("file", "staged by hand")
	o.tree.git("add", "file")
	o.tree.write("file", "by hand")
	o.tree.write("made", "by hand")
	return o
}

// half leaves what a program does that then fails.
func (o *owned) half(confined bool) {
	o.Helper()
	o.tree.write("file", "half")
	o.tree.write("made", "half")
	if !confined {
		o.tree.git("add", "--all")
	}
}

// What is to be put back survives a git gc in the main working tree, also what was only staged, and so do the commits of the merge.
func TestWhatIsToBePutBackSurvivesAGC(t *testing.T) {
	for _, confined := range []bool{true, false} {
		o := newConflict(t)
		if err := o.repo.Remember(t.Context(), o.tree.dir, confined); err != nil {
			t.Fatal(err)
		}
		o.half(confined)
		o.prune()
		if changed, err := o.repo.PutBack(t.Context(), o.tree.dir); !changed || err != nil {
			t.Fatal(changed, err)
		}
		file, _ := os.ReadFile(o.tree.path("file"))
		made, _ := os.ReadFile(o.tree.path("made"))
		if got := string(file) + ", " + string(made) + ", " + o.tree.git("show", ":file"); got != "by hand, by hand, staged by hand" {
			t.Errorf("confined %v: put back as %q", confined, got)
		}
		o.tree.git("show", "MERGE_HEAD:file") // it is there
		o.tree.git("fsck", "--connectivity-only", "--no-dangling")
		if ref := o.parked[len(o.parked)-1].Ref; o.git("show", ref+":file") != "half" {
			t.Errorf("confined %v: parked %+v", confined, o.parked)
		}
		if got := o.held(); strings.Contains(got, "before") || !strings.Contains(got, "source") {
			t.Errorf("held: %s", got)
		}
	}
}

// What an earlier version noted, which no ref holds, is put back, and is held from the next time on.
func TestWhatAnEarlierVersionNotedIsPutBack(t *testing.T) {
	o := newConflict(t)
	if err := o.repo.Remember(t.Context(), o.tree.dir, false); err != nil {
		t.Fatal(err)
	}
	o.half(false)
	o.unheld()
	if changed, err := o.repo.PutBack(t.Context(), o.tree.dir); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if got := o.tree.git("show", ":file"); got != "staged by hand" {
		t.Errorf("put back as %q", got)
	}
	if err := o.repo.Remember(t.Context(), o.tree.dir, false); err != nil {
		t.Fatal(err)
	}
	if got := o.held(); !strings.Contains(got, "draft-1/before") || !strings.Contains(got, "draft-1/source") || !strings.Contains(got, "draft-1/target") {
		t.Errorf("held: %s", got)
	}
}

// If something of what is to be put back is gone, nothing is changed, as often as one tries. It says what to do, and that helps.
func TestWhatIsToBePutBackIsGone(t *testing.T) {
	for name, lose := range map[string]func(o *owned){
		"all of it": func(o *owned) { o.unheld(); o.prune() },
		"what is staged": func(o *owned) {
			before := o.tree.git("rev-parse", beforeRef)
			o.unheld()
			o.git("update-ref", "refs/heads/copy", before)
			o.prune()
		},
		"a file": func(o *owned) {
			made := o.tree.git("rev-parse", beforeRef+":made")
			if err := os.Remove(filepath.Join(o.root().CommonDir, "objects", made[:2], made[2:])); err != nil {
				o.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newConflict(t)
			if err := o.repo.Remember(t.Context(), o.tree.dir, false); err != nil {
				t.Fatal(err)
			}
			o.half(false)
			lose(o)
			status := o.tree.git("status", "--porcelain")
			for range 2 {
				changed, err := o.repo.PutBack(t.Context(), o.tree.dir)
				if changed || err == nil || !strings.Contains(err.Error(), "`git -C "+o.tree.dir+" update-ref -d "+beforeRef+"`") {
					t.Fatal(changed, err)
				}
			}
			if file, _ := os.ReadFile(o.tree.path("file")); string(file) != "half" || o.tree.git("status", "--porcelain") != status || len(o.parked) != 0 {
				t.Errorf("file is %q, parked %+v", file, o.parked)
			}
			o.tree.git("update-ref", "-d", beforeRef)
			if changed, err := o.repo.PutBack(t.Context(), o.tree.dir); changed || err != nil {
				t.Error(changed, err)
			}
			if err := o.repo.Remember(t.Context(), o.tree.dir, false); err != nil {
				t.Error(err)
			}
		})
	}
}

// A resolution whose staging was cut off is staged although git gc ran in between.
func TestASettleThatWasCutOffSurvivesAGC(t *testing.T) {
	o := newResolved(t, true)
	o.cutOff()
	o.prune()
	if changed, err := o.repo.PutBack(t.Context(), o.tree.dir); changed || err != nil {
		t.Fatal(changed, err)
	}
	if got := o.tree.git("show", ":file") + o.tree.git("show", ":lib/helper"); got != "bothnew" {
		t.Errorf("staged: %q", got)
	}
	if got := o.held(); got != "" {
		t.Errorf("held: %s", got)
	}
}

// A worktree is removed, and what is in it parked, also if the commit that is merged there is gone.
func TestTheCommitThatIsMergedIsGone(t *testing.T) {
	o := newConflict(t)
	o.unheld()
	o.prune()
	if merging, err := o.repo.Merging(t.Context(), o.tree.dir); !merging || err != nil {
		t.Error(merging, err)
	}
	source, _, _, err := o.repo.MergeState(t.Context(), o.tree.dir)
	if err != nil || source == "" {
		t.Fatal(source, err)
	}
	if has, err := o.repo.Has(t.Context(), source); has || err != nil {
		t.Error(has, err)
	}
	o.remove(kernel.CleanupDone)
	o.gone()
	var got []string
	for _, p := range o.parked {
		got = append(got, o.git("show", p.Ref+":file"))
	}
	if strings.Join(got, ", ") != "staged by hand, by hand" {
		t.Errorf("parked %q", got)
	}
}

// What holds a worktree's commits goes with it, also if a person has removed it.
func TestWhatAWorktreeHoldsGoesWithIt(t *testing.T) {
	for name, remove := range map[string]func(o *owned){
		"removed": func(o *owned) { o.remove(kernel.CleanupDone) },
		"by a person": func(o *owned) {
			o.git("worktree", "remove", "--force", o.tree.dir)
			if refs, err := o.repo.Unheld(o.Context()); len(refs) != 2 || err != nil {
				o.Error(refs, err)
			}
			if err := o.repo.DropHeld(o.Context()); err != nil {
				o.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newConflict(t)
			o.git("pack-refs", "--all")
			if err := o.repo.DropHeld(t.Context()); err != nil || len(strings.Fields(o.held())) != 2 {
				t.Fatalf("%v, held %q", err, o.held())
			}
			remove(o)
			if got := o.held(); got != "" {
				t.Errorf("held: %s", got)
			}
		})
	}
}
