package watch

import (
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Watcher reports changes of the files from which facts are read. A file that
// does not exist is watched through its nearest existing parent directory.
type Watcher struct {
	notify *fsnotify.Watcher
	layout fs.Layout
	gitDir string // the git directory that all working trees share
	wanted chan interest

	changed, touched chan struct{}
}

// interest says which events matter. It is immutable once sent.
type interest struct {
	on    map[string]bool // paths whose change matters: files, and the directories above them
	below map[string]bool // directories in which every change matters
	dirs  map[string]bool // directories to watch
	index string          // path of git's index if its changes matter; else ""
}

// NewWatcher returns a Watcher that watches only the lock file of the resident
// scheduler. If the system allows no more watches, it reports nothing, and
// Watch says so.
func NewWatcher(layout fs.Layout, gitDir string) *Watcher {
	w := &Watcher{layout: layout, gitDir: gitDir, wanted: make(chan interest),
		changed: make(chan struct{}, 1), touched: make(chan struct{}, 1)}
	n, err := newNotifier()
	if err != nil {
		return w
	}
	if n.Add(layout.ResidentFile()) != nil {
		_ = n.Close()
		return w
	}
	w.notify = n
	go w.listen()
	return w
}

// Changed receives a value when something that is watched may have changed, or
// the resident scheduler is woken.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Touched receives a value when git's index was written.
func (w *Watcher) Touched() <-chan struct{} { return w.touched }

// Watch watches what p names from now on, and nothing else. fresh reports
// whether a directory was not watched before, so that a change may have been
// missed; complete reports whether everything is watched.
func (w *Watcher) Watch(p kernel.Probes) (fresh, complete bool) {
	if w.notify == nil {
		return false, p.Empty()
	}
	want := w.interest(p)
	w.wanted <- want
	have := map[string]bool{}
	for _, path := range w.notify.WatchList() {
		have[path] = true
	}
	complete = true
	for dir := range want.dirs {
		switch {
		case have[dir]:
		case w.notify.Add(dir) == nil:
			fresh = true
		default:
			complete = false // gone again, or the system allows no more watches
		}
	}
	for path := range have {
		if !want.dirs[path] && path != w.layout.ResidentFile() {
			_ = w.notify.Remove(path)
		}
	}
	return fresh, complete
}

// interest returns what to watch for the answers to p.
func (w *Watcher) interest(p kernel.Probes) interest {
	want := interest{on: map[string]bool{}, below: map[string]bool{}, dirs: map[string]bool{}}
	watch := func(dir string) {
		for !isDir(dir) && dir != filepath.Dir(dir) {
			want.on[dir] = true
			dir = filepath.Dir(dir)
		}
		want.dirs[dir] = true
	}
	file := func(path string) {
		want.on[path] = true
		watch(filepath.Dir(path))
	}
	branch := func(name string) {
		if filepath.IsLocal(name) {
			file(filepath.Join(w.gitDir, "refs", "heads", name))
			file(filepath.Join(w.gitDir, "packed-refs"))
			file(filepath.Join(w.gitDir, "reftable", "tables.list"))
		}
	}
	for _, name := range p.Branches {
		branch(name)
	}
	if p.Head {
		file(filepath.Join(w.gitDir, "HEAD"))
	}
	if p.Clean {
		want.index = filepath.Join(w.gitDir, "index")
		want.dirs[w.gitDir] = true
	}
	for _, a := range p.Artifacts {
		switch {
		case a.Kind == kernel.MergeSentinel && filepath.Base(a.Name) == a.Name:
			file(w.layout.SentinelFile(a.Name))
		case a.Kind == kernel.CommandPatch && kernel.ValidJobID(a.Name):
			file(w.layout.PatchFile(kernel.JobID(a.Name)))
		default:
			branch(a.Branch())
		}
	}
	for _, a := range p.Markers {
		dir := w.layout.MarkerDir(a)
		want.below[dir] = true
		watch(dir)
	}
	return want
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// listen turns events into signals. It never waits for a receiver.
func (w *Watcher) listen() {
	var want interest
	for {
		select {
		case want = <-w.wanted:
		case _, ok := <-w.notify.Errors:
			if !ok {
				return
			}
			signal(w.changed) // events were lost
		case e, ok := <-w.notify.Events:
			if !ok {
				return
			}
			switch {
			case e.Name == w.layout.ResidentFile():
				if e.Op != fsnotify.Write { // writes are the process's own announcements
					signal(w.changed)
				}
			case e.Op == fsnotify.Chmod:
			case want.on[e.Name] || want.below[filepath.Dir(e.Name)],
				want.dirs[e.Name] && e.Has(fsnotify.Remove|fsnotify.Rename): // watch a directory above it now
				signal(w.changed)
			case e.Name == want.index:
				signal(w.touched)
			}
		}
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
