package fs

import (
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A run is followed until its last follower closes, and then no file of that is left.
func TestFollowRun(t *testing.T) {
	root := t.TempDir()
	run := kernel.RunID("run_" + strings.Repeat("a", 32))
	mine, other := NewStore(root, Options{}), NewStore(root, Options{})
	if other.Followed(run) {
		t.Error("followed by nobody")
	}
	hold, err := mine.FollowRun(run)
	if err != nil {
		t.Fatal(err)
	}
	second, err := other.FollowRun(run)
	if err != nil {
		t.Fatal(err)
	}
	for _, follower := range []io.Closer{hold, second} {
		if !other.Followed(run) || !mine.Followed(run) {
			t.Error("not followed")
		}
		if err := follower.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(root, ".vizier/jobs/runs/*")); other.Followed(run) || len(left) > 0 || err != nil {
		t.Errorf("still followed: %v %v", left, err)
	}
	if _, err := mine.FollowRun("../run"); err == nil {
		t.Error("a path passed for a run")
	}
}

// Only the plan states of the given jobs are removed, and none outside behind a link.
func TestPlanStates(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	plans := filepath.Join(root, ".vizier/state/plans")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := NewStore(root, Options{})
	if n, err := s.PlanStates([]kernel.JobID{"a"}, true); n != 0 || err != nil {
		t.Errorf("where there is nothing: %d %v", n, err)
	}
	if err := os.MkdirAll(plans, 0o700); err != nil {
		t.Fatal(err)
	}
	const ofA = `{"work_ref":"workflow-job:a"}`
	write(filepath.Join(plans, "one.json"), ofA)
	write(filepath.Join(plans, "two.json"), `{"work_ref":"workflow-job:b"}`)
	write(filepath.Join(plans, "bad.json"), `{`)
	write(filepath.Join(outside, "out.json"), ofA)
	if err := os.Symlink(filepath.Join(outside, "out.json"), filepath.Join(plans, "link.json")); err != nil {
		t.Fatal(err)
	}
	if n, err := s.PlanStates([]kernel.JobID{"a"}, false); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	n, err := s.PlanStates([]kernel.JobID{"a"}, true)
	left, _ := filepath.Glob(plans + "/*")
	if n != 1 || err != nil || len(left) != 3 {
		t.Errorf("%d, %v, left %v", n, err, left)
	}
	if _, err := os.Stat(filepath.Join(outside, "out.json")); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(plans); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, plans); err != nil {
		t.Fatal(err)
	}
	if n, err := s.PlanStates([]kernel.JobID{"a"}, true); n != 0 || err == nil {
		t.Errorf("through a link: %d %v", n, err)
	}
}

// The marks of merge conflicts go with the jobs that made them.
func TestDropConflicts(t *testing.T) {
	root := t.TempDir()
	s := NewStore(root, Options{})
	defer s.Close()
	if err := s.DropConflicts([]kernel.JobID{"a"}); err != nil {
		t.Errorf("where there is no store: %v", err)
	}
	makeBase(t, root)
	if err := s.DropConflicts([]kernel.JobID{"a"}); err != nil {
		t.Errorf("where there is nothing: %v", err)
	}
	marks := map[string]string{"of-a": `{"job_id":"a"}`, "of-b": `{"job_id":"b"}`, "of-c": `{"job_id":"c"}`, "odd": `{`}
	for slug, text := range marks {
		if err := s.WriteSentinel(slug, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(root, ".vizier", sentinelsDir, "of-a.txt")
	writeAt(t, other, marks["of-a"])
	if err := s.DropConflicts([]kernel.JobID{"a", "b"}); err != nil {
		t.Error(err)
	}
	for slug, text := range marks {
		want := text
		if slug == "of-a" || slug == "of-b" {
			want = ""
		}
		if got, err := s.Sentinel(slug); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", slug, got, err)
		}
	}
	if contentOf(t, other) != marks["of-a"] {
		t.Error("what is no mark is gone")
	}
	d := &faulty{at: 1, only: "of-c.json", is: unix.EACCES}
	s = newStore(t, root)
	s.disk = d
	if err := s.DropConflicts([]kernel.JobID{"c"}); err != nil || d.where == "" {
		t.Errorf("one that cannot be read: %v", err)
	}
	d.at, d.n = 3, 0 // after its opening and its reading
	if err := s.DropConflicts([]kernel.JobID{"c"}); !errors.Is(err, unix.EACCES) || !strings.HasPrefix(err.Error(), "drop the marks of merge conflicts: ") {
		t.Errorf("one that cannot be removed: %v", err)
	}
	if got, err := s.Sentinel("of-c"); err != nil || got == nil {
		t.Errorf("%q, %v", got, err)
	}
}

// What there is of a run is asked for by its name alone.
func TestARunThatIsMissing(t *testing.T) {
	root := t.TempDir()
	run := kernel.RunID("run_" + strings.Repeat("a", 32))
	s := newStore(t, root)
	if m, p := s.CountArtifacts(id(1), []kernel.Artifact{custom("t", "k")}); m != 0 || p != 0 {
		t.Errorf("without a store: %d markers, %d payloads", m, p)
	}
	if _, err := s.Run(run); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("without a store: %v", err)
	}
	makeBase(t, root)
	if b, err := s.Run(run); b != nil || !errors.Is(err, kernel.ErrNotFound) || err.Error() != (kernel.Missing{What: "run " + string(run)}).Error() {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := s.Run("../run"); err == nil {
		t.Error("a path passed for a run")
	}
	if err := s.WritePayload(id(1), custom("t", "k"), []byte("p")); err != nil {
		t.Fatal(err)
	}
	if m, p := s.CountArtifacts(id(1), []kernel.Artifact{{Kind: kernel.PlanBranch}, custom("t", "k"), custom("t", "l")}); m != 0 || p != 1 {
		t.Errorf("%d markers, %d payloads", m, p)
	}
}

// However followers come and go, a run that one has is followed.
func TestFollowersComeAndGo(t *testing.T) {
	root := t.TempDir()
	run := kernel.RunID("run_" + strings.Repeat("a", 32))
	var all errgroup.Group
	for range 8 {
		s := NewStore(root, Options{})
		all.Go(func() error {
			for range 100 {
				hold, err := s.FollowRun(run)
				if err != nil {
					return err
				}
				if !s.Followed(run) {
					return errors.New("not followed by one that has it")
				}
				if err := hold.Close(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
}

// The mark of a merge conflict goes with the job that it is of and with a job of the same run, not with
// another one that has no run either.
func TestDropConflict(t *testing.T) {
	for name, row := range map[string]struct {
		mark string
		run  kernel.RunID
		left bool
	}{
		"of the job":                     {`{"job_id":"a"}`, "", false},
		"of another job of its run":      {`{"job_id":"b","run_id":"r"}`, "r", false},
		"of another run":                 {`{"job_id":"b","run_id":"q"}`, "r", true},
		"of another job, both alone":     {`{"job_id":"b"}`, "", true},
		"that makes no sense":            {`{`, "r", false},
		"of its earlier run, by its own": {`{"job_id":"a","run_id":"q"}`, "r", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore(t.TempDir(), Options{})
			if err := s.WriteSentinel("plan", []byte(row.mark)); err != nil {
				t.Fatal(err)
			}
			j := &kernel.Job{ID: "a"}
			j.Spec.Origin.Run = row.run
			err := s.DropConflict("plan", j)
			left, gone := s.Sentinel("plan")
			if err != nil || gone != nil || (left != nil) != row.left {
				t.Errorf("%v, left %q %v", err, left, gone)
			}
		})
	}
}

// Markers and payloads are counted separately.
func TestCountArtifacts(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	there, marked := kernel.Artifact{Kind: kernel.Custom, Name: "a", Ref: "1"}, kernel.Artifact{Kind: kernel.Custom, Name: "b", Ref: "1"}
	patch := kernel.Artifact{Kind: kernel.CommandPatch, Name: string(id(1))}
	if err := errors.Join(s.WritePayload(id(1), there, []byte("data")), s.put(artifactFile(markersDir, marked, id(1)), nil), s.put(artifactFile(markersDir, there, id(1)), nil)); err != nil {
		t.Fatal(err)
	}
	if markers, payloads := s.CountArtifacts(id(1), []kernel.Artifact{there, marked, patch}); markers != 2 || payloads != 1 {
		t.Errorf("%d markers, %d payloads", markers, payloads)
	}
	if markers, payloads := s.CountArtifacts(id(2), []kernel.Artifact{there, marked}); markers != 0 || payloads != 0 {
		t.Errorf("of another job: %d markers, %d payloads", markers, payloads)
	}
}

// A digest is its 64 hexadecimal digits and nothing else.
func TestDigestText(t *testing.T) {
	text := strings.Repeat("0a", len(digest{}))
	var d digest
	if err := d.UnmarshalText([]byte(text)); err != nil || d.String() != text {
		t.Errorf("%v, %s", err, d)
	}
	for _, no := range []string{"", text[1:], text + "0", text + text, "zz" + text[2:]} {
		if err := d.UnmarshalText([]byte(no)); err == nil {
			t.Errorf("%q is a digest", no)
		}
	}
}
