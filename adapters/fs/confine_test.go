package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

// all returns every file below dir with its content.
func all(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			out[path] = "directory"
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// useAll uses a store in every way. Errors are fine, but nothing outside the store
// may be touched.
func useAll(t *testing.T, dir string) (errs []string) {
	t.Helper()
	note := func(err error) {
		if err != nil {
			errs = append(errs, err.Error())
		}
	}
	s := newStore(t, dir)
	rec, err := s.Read(soon(t), kernel.Scope{All: true})
	note(err)
	for _, j := range rec.Jobs {
		if j.Spec.Name == "secret" {
			t.Error("a record outside was read")
		}
	}
	_, err = s.Job(id(1))
	note(err)
	note(s.Conclude(someResult(id(1))))
	note(s.ClearSentinel("plan"))
	f := kernel.NewFacts()
	art, attempt := custom("t", "1"), kernel.AttemptID{Job: id(1), N: 3}
	s.Observe(context.Background(), kernel.Probes{Markers: []kernel.Artifact{art}, Attempts: []kernel.AttemptID{attempt},
		Artifacts: []kernel.Artifact{{Kind: kernel.MergeSentinel, Name: "plan"}, {Kind: kernel.CommandPatch, Name: string(id(1))}}}, &f)
	if r := f.Results[attempt].Value; r != nil && r.Reason == "secret" {
		t.Error("an outcome outside was read")
	}
	if len(f.Markers[art].Value) > 0 {
		t.Error("a marker outside was seen")
	}
	for _, action := range []kernel.Action{
		kernel.Publish{Attempt: attempt, Artifacts: []kernel.Artifact{art}},
		kernel.Reset{Attempt: attempt, Produces: []kernel.Artifact{art}},
		kernel.PurgeFiles{Job: id(1), Produces: []kernel.Artifact{art}},
		put(plain(1), func(st *kernel.State) { st.Reason = "x" }),
		kernel.Create(plain(7)),
		kernel.RemoveJob{Job: id(1), Produces: []kernel.Artifact{art}},
	} {
		tx, err := s.Begin(soon(t))
		if note(err); err != nil {
			continue
		}
		_, err = tx.Load(kernel.Scope{All: true})
		note(err)
		note(tx.Commit(kernel.NewPlan(action)))
		note(tx.Close())
	}
	return errs
}

// Nothing follows a symbolic link out of .vizier, wherever one stands
// (semantics 2, decision 15).
func TestLinksLeadNowhere(t *testing.T) {
	for _, at := range []string{"", "jobs", "jobs/journal", "jobs/journal/plans", "jobs/journal/mark", "jobs/journal/index",
		"jobs/scheduler.lock", "jobs/" + string(id(1)), "jobs/" + string(id(1)) + "/job.json", "jobs/" + string(id(1)) + "/state",
		"jobs/" + string(id(1)) + "/outcome.json", "jobs/" + string(id(1)) + "/stdout.log", "jobs/" + string(id(1)) + "/command.patch",
		"jobs/" + string(id(7)), "jobs/artifacts", "jobs/artifacts/custom", "jobs/artifacts/custom/" + hexName("t"),
		"jobs/artifacts/custom/" + hexName("t") + "/" + hexName("1"), "jobs/artifacts/data", "tmp", "tmp/merge-conflicts"} {
		t.Run(strings.ReplaceAll("at "+at, "/", ":"), func(t *testing.T) {
			dir, outside := t.TempDir(), t.TempDir()
			s := newStore(t, dir)
			commit(t, s, kernel.Create(plain(1)))
			for _, d := range []string{"tmp/merge-conflicts", artifactDir(markersDir, custom("t", "1")), artifactDir(payloadsDir, custom("t", "1"))} {
				writeAt(t, file(dir, d, "plan.json"), "{}")
			}

			// Outside is a valid target for the link: only the store's refusal can keep it from being used.
			target := filepath.Join(outside, "target")
			if at == "" || filepath.Ext(at) == "" && !strings.Contains(at, "journal/") && filepath.Base(at) != "state" {
				secret := newStore(t, target)
				j := plain(1)
				j.Spec.Name = "secret"
				if err := os.Mkdir(target, 0o700); err != nil {
					t.Fatal(err)
				}
				commit(t, secret, kernel.Create(j), kernel.Publish{Attempt: j.Attempt(), Artifacts: []kernel.Artifact{custom("t", "1")}})
				r := someResult(id(1))
				r.Reason = "secret"
				if err := secret.Conclude(r); err != nil {
					t.Fatal(err)
				}
				writeAt(t, file(target, "tmp/merge-conflicts/plan.json"), "{}")
				target = file(target, at)
				if !exists(target) {
					target = filepath.Join(outside, "target")
				}
			} else {
				writeAt(t, target, "precious")
			}
			before := all(t, outside)
			link(t, target, file(dir, at))
			errs := useAll(t, dir)
			if d := cmp.Diff(before, all(t, outside)); d != "" {
				t.Errorf("changed outside:\n%s", d)
			}
			if len(errs) == 0 && (at == "" || at == "jobs") {
				t.Error("nobody said that the store is a link")
			}
		})
	}
}

// Of a store that this user may not enter it is said whose it is, if it is another's.
func TestAStoreThatMayNotBeEntered(t *testing.T) {
	dir := t.TempDir()
	commit(t, newStore(t, dir), kernel.Create(plain(1)))
	refused := func() string {
		s := newStore(t, dir)
		s.disk = barred{}
		_, err := s.Begin(t.Context())
		if !errors.Is(err, unix.EACCES) {
			t.Fatalf("it was entered: %v", err)
		}
		return err.Error()
	}
	if said := refused(); strings.Contains(said, "belongs to") {
		t.Errorf("one's own: %s", said)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give it to somebody else")
	}
	if err := os.Chown(file(dir, jobsDir), 4711, -1); err != nil {
		t.Fatal(err)
	}
	if said := refused(); !strings.Contains(said, "it belongs to user 4711, and you are 0") {
		t.Errorf("another's: %s", said)
	}
}

// barred is a disk that refuses to open the directory of the jobs.
type barred struct{ machine }

func (c barred) open(at int, path string, flags int) (int, error) {
	if path == jobsDir {
		return -1, unix.EACCES
	}
	return c.machine.open(at, path, flags)
}

// Names that people or templates choose never become paths.
func TestWildNamesStayInTheStore(t *testing.T) {
	wild := []string{"", ".", "..", "../..", "../../x", "/etc/x", "a/b", "a\nb", "a\x00b", strings.Repeat("f", 31), strings.Repeat("F", 32),
		strings.Repeat("0", 31) + "/", "../" + strings.Repeat("0", 29), string(id(1)) + "/..", string(id(1)) + "\n"}
	outer := t.TempDir()
	dir := filepath.Join(outer, "a", "b")
	writeAt(t, filepath.Join(outer, "a", "job.json"), "precious")
	writeAt(t, filepath.Join(dir, "job.json"), "precious")
	writeAt(t, filepath.Join(dir, "outcome.json"), "precious")
	writeAt(t, file(dir, "outcome.json"), "precious")
	writeAt(t, file(dir, "job.json"), "precious")
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	before := all(t, outer)
	for _, name := range wild {
		bad := kernel.JobID(name)
		j := plain(1)
		j.ID = bad
		attempt := kernel.AttemptID{Job: bad, N: 1}
		for _, a := range []kernel.Action{kernel.Create(j), put(j, func(*kernel.State) {}), kernel.RemoveJob{Job: bad},
			kernel.Publish{Attempt: attempt, Artifacts: []kernel.Artifact{custom("t", "k")}}, kernel.Reset{Attempt: attempt}, kernel.Rotate{Attempt: attempt}} {
			tx := begin(t, s)
			load(t, tx)
			if err := tx.Commit(kernel.NewPlan(a)); err == nil {
				t.Errorf("%T of job %q was committed", a, name)
			}
			closeTx(t, tx)
		}
		if _, err := s.Job(bad); err == nil {
			t.Errorf("read job %q", name)
		}
		if err := s.Conclude(kernel.Result{Attempt: attempt, Outcome: kernel.OutcomeSucceeded}); err == nil {
			t.Errorf("recorded an outcome of job %q", name)
		}
		if strings.ContainsAny(name, "/\x00") || name == "" || name == "." || name == ".." {
			if err := s.ClearSentinel(name); err == nil {
				t.Errorf("cleared sentinel %q", name)
			}
		}
		f := kernel.NewFacts()
		patch := kernel.Artifact{Kind: kernel.CommandPatch, Name: name}
		s.Observe(context.Background(), kernel.Probes{Attempts: []kernel.AttemptID{attempt}, Artifacts: []kernel.Artifact{patch}}, &f)
		if f.Results[attempt].Value != nil || f.Present[patch].Value {
			t.Errorf("observed something of job %q", name)
		}
		if _, err := s.Payload(bad, custom("t", "k")); err == nil {
			t.Errorf("read a payload of job %q", name)
		}
		if err := s.WritePayload(bad, custom("t", "k"), nil); err == nil {
			t.Errorf("wrote a payload of job %q", name)
		}
		if _, err := s.Read(soon(t), kernel.Scope{Jobs: []kernel.JobID{bad}}); err != nil {
			t.Errorf("a scope with job %q: %v", name, err)
		}
	}
	after := all(t, outer)
	for _, m := range []map[string]string{before, after} {
		for _, bookkeeping := range []string{plansFile, markFile, lockFile, cacheFile} {
			delete(m, file(dir, bookkeeping))
		}
	}
	if d := cmp.Diff(before, after); d != "" {
		t.Error(d)
	}
}

func TestDirectoriesHaveNoParent(t *testing.T) {
	base, err := openRoot(t.TempDir(), machine{})
	if err != nil {
		t.Fatal(err)
	}
	defer base.close()
	for _, path := range []string{"..", "a/..", "../x", "a/../../x"} {
		if d, err := base.open(path); err == nil {
			d.close()
			t.Errorf("opened %s", path)
		}
		if d, err := base.make(path); err == nil {
			d.close()
			t.Errorf("made %s", path)
		}
		if _, err := base.read(path+"/x", 10); err == nil || strings.Contains(err.Error(), "no such file") {
			t.Errorf("reading in %s: %v", path, err)
		}
	}
}

// One lookup of a path finds what the lookup of its elements finds, and refuses what that refuses.
func TestALookupIsThatOfItsElements(t *testing.T) {
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	if err := os.MkdirAll(at("base/a/b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"outside", "base/a/file", "base/a/b/file"} {
		writeAt(t, at(name), name)
	}
	for name, to := range map[string]string{"base/up": "..", "base/a/link": "b", "base/a/b/out": "../../../outside", "base/a/b/abs": at("outside")} {
		if err := os.Symlink(to, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	base, err := openRoot(at("base"), machine{})
	if err != nil {
		t.Fatal(err)
	}
	defer base.close()
	opened := func(fd int, err error) string {
		if err != nil {
			return err.Error()
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint("file ", st.Ino)
	}
	for _, path := range []string{
		"a/b", "a/b/file", "a/file", "a/none", "none/file", "a/file/x", "a/link/file", "up/outside", "a/b/out", "a/b/abs",
		"a/../../outside", "a/..", "../outside", at("outside"),
	} {
		for _, flags := range []int{unix.O_RDONLY | unix.O_NONBLOCK, dirFlags} {
			once := opened(machine{}.open(base.fd, path, flags))
			each := opened(machine{}.walk(base.fd, path, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC))
			if once != each {
				t.Errorf("%s with flags %#x: %s, by its elements: %s", path, flags, once, each)
			}
		}
	}
}

// playUmask uses a store under the umask given before the colon.
func playUmask(args string) error {
	mask, dir, _ := strings.Cut(args, ":")
	var umask int
	if _, err := fmt.Sscanf(mask, "%o", &umask); err != nil {
		return err
	}
	syscall.Umask(umask)
	s := NewStore(dir, options())
	for n := 1; n <= 2; n++ {
		tx, err := s.Begin(context.Background())
		if err != nil {
			return err
		}
		if _, err := tx.Load(kernel.Scope{All: true}); err != nil {
			return err
		}
		j := plain(n)
		if err := tx.Commit(kernel.NewPlan(kernel.Create(j),
			kernel.Publish{Attempt: kernel.AttemptID{Job: j.ID, N: 1}, Artifacts: []kernel.Artifact{custom("t", strings.Repeat("k", 300))}},
			kernel.Reset{Attempt: kernel.AttemptID{Job: j.ID, N: 1}})); err != nil {
			return err
		}
		if err := tx.Close(); err != nil {
			return err
		}
		if err := s.Conclude(someResult(j.ID)); err != nil {
			return err
		}
	}
	return nil
}

func TestModesWhateverTheUmask(t *testing.T) {
	oneGoroutine(t)
	for _, umask := range []string{"000", "022", "077", "277", "777"} {
		dir := t.TempDir()
		a := cast(t, "umask", umask+":"+dir)
		if err := a.cmd.Wait(); err != nil {
			t.Errorf("umask %s: %v", umask, err)
		}
		a.done = true
		files := 0
		err := filepath.WalkDir(file(dir, "jobs"), func(path string, d iofs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			files++
			info, err := d.Info()
			want := os.FileMode(0o600)
			if d.IsDir() {
				want = 0o700
			}
			if err == nil && info.Mode().Perm() != want {
				t.Errorf("umask %s: %s has mode %o", umask, path, info.Mode().Perm())
			}
			return err
		})
		if err != nil || files < 12 {
			t.Errorf("umask %s: %d files, %v", umask, files, err)
		}
	}
}

// An empty directory outside stays empty, although a link in the store leads to it.
func TestNothingIsMadeOutside(t *testing.T) {
	for _, at := range []string{"jobs", "jobs/journal", "jobs/" + string(id(1)), "jobs/" + string(id(7)), "jobs/artifacts", "tmp"} {
		dir, outside := t.TempDir(), t.TempDir()
		commit(t, newStore(t, dir), kernel.Create(plain(1)))
		link(t, outside, file(dir, at))
		useAll(t, dir)
		if made := all(t, outside); len(made) != 1 {
			t.Errorf("through %s: %v", at, made)
		}
	}
}
