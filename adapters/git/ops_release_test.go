package git

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

func TestRelease(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	first := f.commit("a", "1")
	f.git("tag", "v0.1.0")
	f.git("branch", "other")
	f.git("commit", "--quiet", "--allow-empty", "-m", "feat: b\n\n# kept")
	head := f.rev("HEAD")
	f.git("tag", "v9.0.0", string(f.rev("HEAD^{tree}")))
	f.write("a", "dirty")
	r := Open(f.root())
	branch, err := r.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}

	if tags, err := r.Tags(ctx, head); err != nil || !slices.Equal(tags, []string{"v0.1.0"}) {
		t.Errorf("tags %q, %v", tags, err)
	}
	for since, want := range map[string][]string{"v0.1.0": {string(head)}, "": {string(head), string(first)}} {
		log, err := r.History(ctx, since, head)
		var ids []string
		for _, e := range log {
			ids = append(ids, e[0])
		}
		if err != nil || !slices.Equal(ids, want) || !strings.HasPrefix(log[0][1], "feat: b") {
			t.Errorf("history since %q: %q, %v", since, log, err)
		}
	}
	if log, err := r.History(ctx, "v0.1.0", first); err != nil || len(log) > 0 {
		t.Errorf("history of nothing: %q, %v", log, err)
	}

	made, err := r.EmptyCommit(ctx, head, "chore: x\n\n# notes")
	if err != nil {
		t.Fatal(err)
	}
	if f.rev("HEAD") != head {
		t.Error("the branch has moved")
	}
	if err := r.UpdateRef(ctx, "refs/heads/"+branch, made, head); err != nil {
		t.Fatal(err)
	}
	if f.rev("HEAD") != made || f.rev("HEAD^") != head || f.rev("HEAD^{tree}") != f.rev("HEAD^^{tree}") {
		t.Error("not one commit without changes on top of the branch")
	}
	if got := f.git("log", "-1", "--format=%B"); got != "chore: x\n\n# notes" {
		t.Errorf("message %q", got)
	}
	if got := f.git("status", "--porcelain"); strings.TrimSpace(got) != "M a" {
		t.Errorf("the working tree was touched: %q", got)
	}

	object, err := r.CreateTag(ctx, "v0.2.0", made, "v0.2.0\n\n# notes")
	if err != nil || string(f.rev("v0.2.0")) != object || f.rev("v0.2.0^{commit}") != made || kernel.CommitID(object) == made {
		t.Fatalf("tag object %s, %v", object, err)
	}
	if _, err := r.CreateTag(ctx, "v0.2.0", first, "z"); err == nil {
		t.Error("a tag was replaced")
	}
	f.git("tag", "--force", "v0.2.0", string(first))
	if err := r.DeleteTag(ctx, "v0.2.0", object); !errors.Is(err, ErrMoved) {
		t.Errorf("deleting another tag of the name: %v", err)
	}
	f.git("update-ref", "refs/tags/v0.2.0", object)
	if err := r.DeleteTag(ctx, "v0.2.0", object); err != nil {
		t.Error(err)
	}
	if there, err := r.TagExists(ctx, "v0.2.0"); err != nil || there {
		t.Errorf("the tag is still there: %t, %v", there, err)
	}
	if there, err := r.TagExists(ctx, "v0.1.0"); err != nil || !there {
		t.Errorf("v0.1.0 is not there: %t, %v", there, err)
	}
}

// Vizier's own files never make a working tree dirty, ignored or not.
func TestCleanPassesOverVizier(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func(Root) engine) {
		f := newFixture(t)
		f.commit("a", "1")
		for _, dir := range []string{"jobs", "sessions", "tmp", "tmp-worktrees", "state"} {
			f.write(".vizier/"+dir+"/x", "1")
		}
		if clean, err := open(f.root()).Clean(t.Context()); !clean || err != nil {
			t.Errorf("clean %t, %v", clean, err)
		}
		f.write(".vizier/statement", "1")
		if clean, err := open(f.root()).Clean(t.Context()); clean || err != nil {
			t.Errorf("with another file: clean %t, %v", clean, err)
		}
	})
}
