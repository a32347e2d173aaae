package fs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// waits returns a job that waits for an artifact that nobody makes.
func waits(n int, a kernel.Artifact) kernel.Job {
	j := plain(n)
	j.Spec.Needs = []kernel.Artifact{a}
	j.State.Status, j.State.Wait = kernel.WaitingOnDeps, kernel.WaitReason{Kind: kernel.OnDependencies, Detail: "awaiting producer for " + a.String()}
	return j
}

// readBy returns the refs that the answer of Reads has with their digests, and the elided types.
func readBy(t *testing.T, s *Store) (refs map[string]string, elided []string) {
	t.Helper()
	tx := begin(t, s)
	defer closeTx(t, tx)
	rec, err := tx.Load(kernel.Scope{Near: []kernel.Near{}, Reads: true})
	if err != nil {
		t.Fatal(err)
	}
	refs = map[string]string{}
	for n, fact := range rec.Reads {
		if !fact.Awaited {
			t.Errorf("%v is not awaited", n)
		}
		refs[n.Artifact.Ref] = fact.Judged
	}
	return refs, rec.Elided
}

// judged lets a tick judge by facts.
func judgedBy(t *testing.T, s *Store, facts map[kernel.Near]string) {
	t.Helper()
	tx := begin(t, s)
	defer closeTx(t, tx)
	load(t, tx)
	tx.JudgedBy(facts)
	if err := tx.Commit(kernel.Plan{Judged: "limits"}); err != nil {
		t.Fatal(err)
	}
}

// A store that is asked for the facts that jobs read leaves out absent artifacts of a type that
// many jobs wait for. It has those that somebody may have made, by hand too, in whatever
// directory their markers are, and those that a tick has not judged as absent.
func TestManyAwaitedArtifacts(t *testing.T) {
	const many = 40
	long := strings.Repeat("long", 50)
	for name, few := range map[string]int{"in a list": many, "by search": 1} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open := func() *Store { s := newStore(t, dir); s.few = few; return s }
			s := open()
			if err := os.MkdirAll(s.MarkerDir(custom("other", "k")), 0o700); err != nil { // later ones change nothing in the directory of the jobs
				t.Fatal(err)
			}
			refs := []string{long + "1", long + "2"}
			for i := range many {
				refs = append(refs, fmt.Sprint("ref", i))
			}
			var creates []kernel.Action
			none := map[kernel.Near]string{}
			for i, ref := range refs {
				j := waits(i+1, custom("t", ref))
				creates = append(creates, kernel.Create(j))
				none[kernel.Near{Kind: kernel.Readers, Artifact: j.Spec.Needs[0]}] = kernel.JudgedNone
			}
			commit(t, s, creates...)
			if got, elided := readBy(t, s); len(got) != len(refs) || len(elided) > 0 {
				t.Fatalf("of what no tick has judged there are %d of %d, elided is %v", len(got), len(refs), elided)
			}
			judgedBy(t, s, none)
			have := func(when string, want ...string) {
				t.Helper()
				for who, s := range map[string]*Store{"this process": s, "another": open()} {
					got, elided := readBy(t, s)
					if is := slices.Sorted(maps.Keys(got)); !slices.Equal(is, want) || !slices.Equal(elided, []string{"t"}) {
						t.Errorf("%s, %s reads %.20q and leaves out others of %v, want %.20q", when, who, is, elided, want)
					}
				}
			}
			have("nothing is made")
			for _, name := range []string{"ref7", long + "2", "unknown"} {
				if err := os.MkdirAll(s.MarkerDir(custom("t", name)), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(filepath.Join(s.TypeDir("t"), "no hex"), 0o700); err != nil {
				t.Fatal(err)
			}
			have("there are directories", long+"1", long+"2", "ref7") // the long ones share the first directory
			judgedBy(t, s, map[kernel.Near]string{{Kind: kernel.Readers, Artifact: custom("t", "ref3")}: "v3"})
			if got, _ := readBy(t, s); got["ref3"] != "v3" || got["ref7"] != kernel.JudgedNone {
				t.Errorf("judged by %v", got)
			}
			have("one was judged as made", long+"1", long+"2", "ref3", "ref7")
			judgedBy(t, s, nil)
			if got, elided := readBy(t, s); len(got) != len(refs) || len(elided) > 0 || got["ref3"] != "" {
				t.Errorf("after a tick that did not say what it judged by, there are %d of %d, elided is %v, one of them was judged by %q", len(got), len(refs), elided, got["ref3"])
			}

			judgedBy(t, s, none)
			if err := os.RemoveAll(s.TypeDir("t")); err != nil {
				t.Fatal(err)
			}
			have("the directory of the type is gone")
			if err := os.Symlink("t", s.TypeDir("t")); err != nil {
				t.Fatal(err)
			}
			if got, elided := readBy(t, s); len(got) != len(refs) || len(elided) > 0 {
				t.Errorf("of a directory that cannot be read %d of %d are known, elided is %v", len(got), len(refs), elided)
			}
			if err := os.Remove(s.TypeDir("t")); err != nil {
				t.Fatal(err)
			}
			none[kernel.Near{Kind: kernel.Readers, Artifact: custom("t", "ref3")}] = "v3"
			judgedBy(t, s, none)
			commit(t, s, kernel.Create(waits(99, custom("t", "new"))))
			have("no tick has judged the last one", "new", "ref3")
			var removes []kernel.Action
			for i := range refs {
				removes = append(removes, kernel.RemoveJob{Job: id(i + 1)})
			}
			commit(t, s, append(removes, kernel.RemoveJob{Job: id(99)})...)
			if got, elided := readBy(t, s); len(got)+len(elided) > 0 {
				t.Errorf("without readers: %v, %v", got, elided)
			}
			if keys, err := s.cache.keys(keySeen); err != nil || len(keys) > 0 {
				t.Errorf("the cache keeps %d facts that nobody reads, %v", len(keys), err)
			}
		})
	}
}

// A fact that lost its last reader is not known for the next one.
func TestAFactThatIsReadAgain(t *testing.T) {
	s, a := newStore(t, t.TempDir()), custom("t", "k")
	commit(t, s, kernel.Create(waits(1, a)))
	judgedBy(t, s, map[kernel.Near]string{{Kind: kernel.Readers, Artifact: a}: kernel.JudgedNone})
	commit(t, s, kernel.Create(waits(2, a)))
	if got, _ := readBy(t, s); got["k"] != kernel.JudgedNone {
		t.Errorf("beside a second reader: judged by %q", got["k"])
	}
	commit(t, s, kernel.RemoveJob{Job: id(1)}, kernel.RemoveJob{Job: id(2)})
	commit(t, s, kernel.Create(waits(3, a)))
	if got, _ := readBy(t, s); got["k"] != "" {
		t.Errorf("of a new reader: judged by %q", got["k"])
	}
}

// A tick that judges by a fact whose readers an earlier commit of its transaction ended leaves
// nothing behind.
func TestReadersEndBeforeTheTick(t *testing.T) {
	s, a := newStore(t, t.TempDir()), custom("t", "k")
	commit(t, s, kernel.Create(waits(1, a)))
	tx := begin(t, s)
	defer closeTx(t, tx)
	load(t, tx)
	if err := tx.Commit(kernel.NewPlan(kernel.RemoveJob{Job: id(1)})); err != nil {
		t.Fatal(err)
	}
	tx.JudgedBy(map[kernel.Near]string{{Kind: kernel.Readers, Artifact: a}: "v1"})
	if err := tx.Commit(kernel.Plan{Judged: "limits"}); err != nil {
		t.Fatal(err)
	}
	if keys, err := s.cache.keys(keySeen); err != nil || len(keys) > 0 {
		t.Errorf("the cache keeps %q, %v", keys, err)
	}
}

// What holds no job up is not left out: nothing need be watched for it.
func TestManyReadsThatNothingAwaits(t *testing.T) {
	s := newStore(t, t.TempDir())
	s.few = 1
	for n := range 3 {
		j := waits(n+1, custom("t", fmt.Sprint(n)))
		j.Spec.Needs = append(j.Spec.Needs, kernel.Artifact{Kind: kernel.PlanBranch, Name: "x"}) // it reads a fact, so all of its needs
		j.State.Status, j.State.Wait = kernel.FailedRetryable, kernel.WaitReason{}
		commit(t, s, kernel.Create(j))
	}
	judgedBy(t, s, map[kernel.Near]string{})
	tx := begin(t, s)
	rec, err := tx.Load(kernel.Scope{Near: []kernel.Near{}, Reads: true})
	if err != nil || len(rec.Reads) != 4 || len(rec.Elided) > 0 {
		t.Errorf("%v, %v, elided %v", err, rec.Reads, rec.Elided)
	}
	closeTx(t, tx)
	last := custom("t", "last")
	commit(t, s, kernel.Create(waits(9, last)))
	judgedBy(t, s, map[kernel.Near]string{{Kind: kernel.Readers, Artifact: last}: kernel.JudgedNone})
	if tx, err = s.Begin(soon(t)); err != nil {
		t.Fatal(err)
	}
	rec, err = tx.Load(kernel.Scope{Near: []kernel.Near{}, Reads: true})
	closeTx(t, tx)
	if _, there := rec.Reads[kernel.Near{Kind: kernel.Readers, Artifact: last}]; err != nil || there || len(rec.Elided) != 1 {
		t.Errorf("behind these, one is awaited: %v, %v, elided %v", err, rec.Reads, rec.Elided)
	}
}
