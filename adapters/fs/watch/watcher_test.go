package watch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/kernel"
)

// field is a set of repository directories with a watcher.
type field struct {
	t   *testing.T
	dir string
	*Watcher
}

func newField(t *testing.T) *field {
	t.Helper()
	f := &field{t: t, dir: t.TempDir()}
	layout := fs.NewLayout(f.dir)
	f.put(strings.TrimPrefix(layout.ResidentFile(), f.dir), "")
	f.put(".git/HEAD", "ref: refs/heads/main\n")
	f.put(".git/refs/heads/main", "c0\n")
	f.Watcher = NewWatcher(layout, filepath.Join(f.dir, ".git"))
	if f.notify == nil {
		t.Skip("the system allows no more watches")
	}
	t.Cleanup(func() { _ = f.notify.Close() })
	return f
}

// put replaces a file as git does, by renaming a new one to its name.
func (f *field) put(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path+".lock", []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(path+".lock", path); err != nil {
		f.t.Fatal(err)
	}
}

func (f *field) watch(p kernel.Probes) {
	f.t.Helper()
	if _, complete := f.Watch(p); !complete {
		f.t.Fatal("not all can be watched")
	}
}

func (f *field) news(what string) {
	f.t.Helper()
	select {
	case <-f.Changed():
	case <-time.After(time.Minute):
		f.t.Fatalf("no news of %s", what)
	}
}

// quiet fails if there was a signal for events before catchUp returned.
func (f *field) quiet(what string) {
	f.t.Helper()
	select {
	case <-f.Changed():
		f.t.Errorf("news of %s", what)
	default:
	}
}

// catchUp waits until all earlier events have been handled. It writes git's
// index, which is watched, and waits for that event.
func (f *field) catchUp() {
	f.t.Helper()
	f.put(".git/index", "")
	select {
	case <-f.Touched():
	case <-time.After(time.Minute):
		f.t.Fatal("no event of git's index")
	}
}

// drain waits until all earlier events have been handled and discards their
// signals.
func (f *field) drain() {
	f.t.Helper()
	f.catchUp()
	select {
	case <-f.Changed():
	default:
	}
}

func TestNewsOfBranches(t *testing.T) {
	f := newField(t)
	f.watch(kernel.Probes{Branches: []string{"main", "team/topic"}, Clean: true})
	f.put(".git/refs/heads/main", "c1\n")
	f.news("a branch")
	f.put(".git/packed-refs", "c1 refs/heads/main\n")
	f.news("packed branches")
	f.put(".git/refs/heads/other", "c1\n")
	f.put(".git/config", "")
	f.put(".git/HEAD", "c1\n")
	f.catchUp()
	f.quiet("what nobody asked for")

	// The directories above a branch's file are created one by one, and may be
	// removed.
	if err := os.Mkdir(filepath.Join(f.dir, ".git/refs/heads/team"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.news("a directory on the way")
	if fresh, _ := f.Watch(kernel.Probes{Branches: []string{"team/topic"}, Clean: true}); !fresh {
		t.Error("a directory that was not watched before is nothing new")
	}
	f.put(".git/refs/heads/team/topic", "c1\n")
	f.news("the branch")
	for _, gone := range []string{".git/refs/heads/team/topic", ".git/refs/heads/team"} {
		f.drain()
		if err := os.Remove(filepath.Join(f.dir, gone)); err != nil {
			t.Fatal(err)
		}
		f.news("the end of " + gone)
	}
	f.drain()
	if fresh, _ := f.Watch(kernel.Probes{Branches: []string{"team/topic"}, Clean: true}); !fresh {
		t.Error("what is above it is not watched")
	}
	f.put(".git/refs/heads/team/topic", "c2\n")
	f.news("the directory again")
}

// Of a type of artifacts, the first marker of each is news, and no marker of another type.
func TestNewsOfATypeOfArtifacts(t *testing.T) {
	f := newField(t)
	marker := func(name, ref string) string {
		return strings.TrimPrefix(f.layout.MarkerDir(kernel.Artifact{Kind: kernel.Custom, Name: name, Ref: ref}), f.dir) + "/m.json"
	}
	for _, ref := range []string{"first", "second"} {
		f.watch(kernel.Probes{Types: []string{"t"}, Clean: true})
		f.drain()
		f.put(marker("t", ref), "")
		f.news("the " + ref + " marker")
		f.catchUp()
	}
	f.watch(kernel.Probes{Types: []string{"t"}, Clean: true})
	f.drain()
	f.put(marker("u", "x"), "")
	f.quiet("a marker of another type")
}

func TestNewsOfTheCheckoutAndOfArtifacts(t *testing.T) {
	f := newField(t)
	marker := kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: "x"}
	sentinel, plan := kernel.Artifact{Kind: kernel.MergeSentinel, Name: "p"}, kernel.Artifact{Kind: kernel.PlanDoc, Name: "q", Ref: "draft/q"}
	job := kernel.JobID(strings.Repeat("a", 32))
	patch := kernel.Artifact{Kind: kernel.CommandPatch, Name: string(job)}
	all := kernel.Probes{Head: true, Clean: true, Markers: []kernel.Artifact{marker}, Artifacts: []kernel.Artifact{sentinel, plan, patch}}
	for what, path := range map[string]string{
		"HEAD": ".git/HEAD", "a marker": strings.TrimPrefix(f.layout.MarkerDir(marker), f.dir) + "/m.json",
		"a sentinel": strings.TrimPrefix(f.layout.SentinelFile("p"), f.dir), "a plan": ".git/refs/heads/draft/q",
		"a patch": strings.TrimPrefix(f.layout.PatchFile(job), f.dir), "reftable": ".git/reftable/tables.list",
	} {
		f.watch(all)
		f.put(path, "x")
		f.news(what)
		f.catchUp()
		f.watch(all) // directories that have appeared since
		f.drain()
		f.put(path, "y")
		f.news(what + " again")
		f.catchUp()
	}
	f.watch(kernel.Probes{Clean: true})
	f.put(".git/HEAD", "c2\n")
	f.drain()
	f.put(".git/HEAD", "c3\n")
	f.catchUp()
	f.quiet("what is not asked for any more")
}

// The configuration is always watched: through links, also a file that is yet to come.
// An editor that empties the file first is waited for.
func TestNewsOfTheConfiguration(t *testing.T) {
	f := newField(t)
	home := t.TempDir()
	own, shared := filepath.Join(home, "vizier", "config.toml"), filepath.Join(f.dir, ".vizier", "config.toml")
	if err := errors.Join(os.WriteFile(filepath.Join(home, "dotfile"), nil, 0o600), os.Symlink(filepath.Join(home, "dotfile"), shared)); err != nil {
		t.Fatal(err)
	}
	f.Watcher = NewWatcher(f.layout, f.gitDir, own, shared)
	t.Cleanup(func() { _ = f.notify.Close() })
	if fresh, complete := f.Watch(kernel.Probes{Clean: true}); !complete {
		t.Errorf("fresh %v, complete %v", fresh, complete)
	}
	write := func(path string) {
		t.Helper()
		begun, told := time.Now(), false
		for _, text := range []string{"", "[pools]\n"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			f.catchUp()
			select {
			case <-f.Changed():
				if told = true; time.Since(begun) < settleTime {
					t.Error("news of a file that is being written")
				}
			default:
				told = false
			}
		}
		if !told {
			f.news(path)
		}
	}
	write(filepath.Join(home, "dotfile"))
	if err := os.Mkdir(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	f.news("a directory")
	f.watch(kernel.Probes{Clean: true})
	write(own)
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	f.news("a file that is gone")
}

// A wake-up is signalled; the holder's own announcements are not.
func TestNewsOfACall(t *testing.T) {
	f := newField(t)
	f.watch(kernel.Probes{Clean: true})
	path := f.layout.ResidentFile()
	p := take(t, path)
	p.Announce(&soon)
	f.drain()
	p.Announce(nil)
	p.Announce(&soon)
	f.catchUp()
	f.quiet("what it said itself")
	if err := Wake(path, kernel.Wakes{}, func(*os.File) error { return nil }); err != nil {
		t.Fatal(err)
	}
	f.news("a call")
	if err := os.RemoveAll(filepath.Join(f.dir, ".vizier")); err != nil {
		t.Fatal(err)
	}
	f.news("the end of the repository")
}
