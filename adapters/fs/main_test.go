package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// roleEnv makes the test binary play a process of its own: a writer to be
// killed, a holder of the lock.
const roleEnv = "VIZIER_FS_TEST_ROLE"

func TestMain(m *testing.M) {
	if role, args, ok := strings.Cut(os.Getenv(roleEnv), ":"); ok {
		play(role, args)
		return
	}
	os.Exit(m.Run())
}

// detector reports whether this binary has the race detector, long whether the long
// form of the tests is wanted.
var (
	detector = false
	long     = os.Getenv("VIZIER_LONG") != ""
)

// oneGoroutine skips tests whose processes have one goroutine each if the race detector
// is on: it finds nothing in them and makes them up to ten times as slow.
func oneGoroutine(t *testing.T) {
	t.Helper()
	if detector {
		t.Skip("runs without the race detector")
	}
}

func play(role, args string) {
	var err error
	switch role {
	case "hold":
		err = playHolder(args)
	case "write":
		err = playWriter(args)
	case "small":
		err = playSmallFiles(args)
	case "events":
		err = playEvents(args)
	case "umask":
		err = playUmask(args)
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

var t0 = time.Date(2026, 3, 4, 5, 6, 7, 890123000, time.UTC)

// id returns the n-th job id.
func id(n int) kernel.JobID { return kernel.JobID(fmt.Sprintf("%032x", n)) }

func options() Options {
	return Options{Boot: "boot-1", Who: "test", Now: func() time.Time { return t0.Add(time.Hour) }}
}

// storeDirs has the directories of the stores of all tests.
var storeDirs sync.Map

// newStore returns a store of dir that is closed with the test. Then none of its files may be open.
func newStore(t testing.TB, dir string) *Store {
	t.Helper()
	return newStoreWith(t, dir, options())
}

func newStoreWith(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s := NewStore(dir, o)
	s.pause = 0                                               // else it depends on the machine's speed which transactions patrol
	if _, again := storeDirs.LoadOrStore(dir, true); !again { // the cleanup of the first store comes last
		t.Cleanup(func() {
			if open := openBelow(dir); len(open) > 0 {
				t.Errorf("still open: %v", open)
			}
		})
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func begin(t testing.TB, s *Store) *Tx {
	t.Helper()
	tx, err := s.Begin(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// commit is one whole transaction: begin, load all, commit, done.
func commit(t testing.TB, s *Store, actions ...kernel.Action) {
	t.Helper()
	tx := begin(t, s)
	defer closeTx(t, tx)
	load(t, tx)
	if err := tx.Commit(kernel.NewPlan(actions...)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Done(); err != nil {
		t.Fatal(err)
	}
}

func closeTx(t testing.TB, tx *Tx) {
	t.Helper()
	if err := tx.Close(); err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, tx *Tx) kernel.Records {
	t.Helper()
	rec, err := tx.Load(kernel.Scope{All: true})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func read(t testing.TB, s *Store) kernel.Records {
	t.Helper()
	rec, err := s.Read(soon(t), kernel.Scope{All: true})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// find returns the job of that id among the readable records.
func find(t testing.TB, rec kernel.Records, id kernel.JobID) kernel.Job {
	t.Helper()
	for _, j := range rec.Jobs {
		if j.ID == id {
			return j
		}
	}
	t.Fatalf("job %s is not among the %d read (unreadable: %v)", id, len(rec.Jobs), rec.Unreadable)
	return kernel.Job{}
}

// plain returns a queued job.
func plain(n int) kernel.Job {
	return kernel.Job{ID: id(n), Created: t0, Rev: 1, Spec: kernel.Spec{Name: fmt.Sprintf("job %d", n),
		Task: kernel.Task{Args: []string{"true"}}}}
}

func put(j kernel.Job, change func(*kernel.State)) kernel.PutState {
	st := j.State
	change(&st)
	return kernel.PutState{Job: j.ID, If: j.Rev, State: st}
}

func custom(name, key string) kernel.Artifact {
	return kernel.Artifact{Kind: kernel.Custom, Name: name, Ref: key}
}

// tree returns every file below dir/.vizier with its content, except the lock, the
// journal, the cache and the history. Directories end in a slash.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	base := filepath.Join(dir, vizierDir)
	err := filepath.WalkDir(base, func(path string, d iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		switch {
		case slices.Contains([]string{lockFile, plansFile, markFile}, rel), strings.HasPrefix(rel, cacheFile), strings.HasPrefix(rel, historyDir):
			return nil
		case d.IsDir():
			out[rel+"/"] = ""
			return nil
		}
		b, err := os.ReadFile(path)
		out[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// copyTree copies the store of from, as a crash would leave it.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(to, vizierDir), os.DirFS(filepath.Join(from, vizierDir))); err != nil {
		t.Fatal(err)
	}
}

// file returns a path below dir/.vizier.
func file(dir string, parts ...string) string {
	return filepath.Join(append([]string{dir, vizierDir}, parts...)...)
}

func writeAt(t testing.TB, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func contentOf(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// openBelow returns the files below dir that this process has open; none where the system does not tell. It leaves out
// the lock: a wait for it that was given up may still go on.
func openBelow(dir string) (names []string) {
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		if name, _ := os.Readlink("/proc/self/fd/" + fd.Name()); (name == dir || strings.HasPrefix(name, dir+"/")) && !strings.HasSuffix(name, lockFile) {
			names = append(names, name)
		}
	}
	return names
}
