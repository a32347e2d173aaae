package fs

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// nearNothing runs a transaction of a new process about no job in particular. It returns
// the jobs that the transaction takes for changed, and those that it knows.
func nearNothing(t *testing.T, dir string) (dirty, all []kernel.JobID) {
	t.Helper()
	s := newStore(t, dir)
	s.pause = time.Hour // it finds nothing by going through other records
	tx := begin(t, s)
	s.patrolled = time.Now()
	rec, err := tx.Load(kernel.Scope{Near: []kernel.Near{}})
	if err != nil || !rec.Narrow {
		t.Fatalf("%v, narrow: %v", err, rec.Narrow)
	}
	all = idsOf(load(t, tx).Jobs)
	if err := tx.Commit(kernel.Plan{Judged: "x"}); err != nil {
		t.Fatal(err)
	}
	closeTx(t, tx)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return rec.Dirty, all
}

func idsOf(jobs []kernel.Job) (ids []kernel.JobID) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	return ids
}

// After a change of the jobs directory that no commit made, the next transaction reads the
// records of the jobs that it concerns, and no other.
func TestAChangeOfTheJobsDirectoryConcernsFewJobs(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	var actions []kernel.Action
	for n := range 6 {
		j := plain(n + 1)
		if n == 5 {
			j.State.Status = kernel.Succeeded
		}
		actions = append(actions, kernel.Create(j))
	}
	commit(t, s, actions...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	nearNothing(t, dir)
	jobs := file(dir, jobsDir)
	away := t.TempDir()
	later := func() { // stamps have the time of the file system, which may stand still for some milliseconds
		t.Helper()
		at := time.Now().Add(time.Hour)
		if err := os.Chtimes(jobs, at, at); err != nil {
			t.Fatal(err)
		}
	}
	everyone := []kernel.JobID{id(1), id(2), id(3), id(4), id(5), id(6)}
	without := func(n int) []kernel.JobID { return slices.Concat(everyone[:n-1], everyone[n:]) }
	for _, c := range []struct {
		what       string
		change     func() error
		dirty, all []kernel.JobID
	}{
		{"a file of no job", func() error { return os.WriteFile(jobs+"/resident.lock", nil, 0o600) }, nil, everyone},
		{"a job is gone", func() error { return os.Rename(jobs+"/"+string(id(2)), away+"/2") }, []kernel.JobID{id(2)}, without(2)},
		{"one that succeeded is gone", func() error { return os.Rename(jobs+"/"+string(id(6)), away+"/6") }, []kernel.JobID{id(6)}, slices.Concat(everyone[:1], everyone[2:5])},
		{"both are back", func() error {
			return errors.Join(os.Rename(away+"/2", jobs+"/"+string(id(2))), os.Rename(away+"/6", jobs+"/"+string(id(6))))
		}, []kernel.JobID{id(2), id(6)}, everyone},
		{"a job is replaced", func() error {
			if err := errors.Join(os.CopyFS(away+"/3", os.DirFS(jobs+"/"+string(id(3)))), os.RemoveAll(jobs+"/"+string(id(3)))); err != nil {
				return err
			}
			record := contentOf(t, away+"/3/"+recordName)
			writeAt(t, away+"/3/"+recordName, strings.Replace(record, `"queued"`, `"failed"`, 2))
			return os.Rename(away+"/3", jobs+"/"+string(id(3)))
		}, []kernel.JobID{id(3)}, everyone},
		{"a directory without a record", func() error { return os.Mkdir(jobs+"/"+string(id(9)), 0o700) }, nil, everyone},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		later()
		dirty, all := nearNothing(t, dir)
		if slices.Sort(dirty); !slices.Equal(dirty, c.dirty) || !slices.Equal(all, c.all) {
			t.Errorf("%s: changed %q, want %q; there %q, want %q", c.what, dirty, c.dirty, all, c.all)
		}
		if dirty, _ := nearNothing(t, dir); len(dirty) > 0 {
			t.Errorf("%s: the next transaction takes %q for changed again", c.what, dirty)
		}
		s := newStore(t, dir)
		if tx := begin(t, s); tx.pos.dir != s.jobsStamp() {
			t.Errorf("%s: the next transaction looks at the directory again", c.what)
		} else {
			closeTx(t, tx)
		}
		_ = s.Close()
	}
}

// A pack is a change that the cache knows of: nobody looks at the directory because of it.
func TestAPackIsNoForeignChange(t *testing.T) {
	dir, s := packStore(t, options())
	at := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file(dir, jobsDir), at, at); err != nil {
		t.Fatal(err)
	}
	nearNothing(t, dir)
	packAll(t, s)
	tx := begin(t, newStore(t, dir))
	defer closeTx(t, tx)
	if s.Packed(id(1)) == "" || tx.pos.dir != s.jobsStamp() {
		t.Errorf("packed %q; the next transaction looks at the directory again: %v", s.Packed(id(1)), tx.pos.dir != s.jobsStamp())
	}
}
