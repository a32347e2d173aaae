package watch

import (
	"maps"
	"os"
	"path/filepath"
	"time"

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
	config []string
	wanted chan interest

	changed, touched chan struct{}
}

// interest says which events matter. It is immutable once sent.
type interest struct {
	on    map[string]bool // paths whose change matters: files, and the directories above them
	below map[string]bool // directories in which every change matters
	dirs  map[string]bool // directories to watch
	index string          // path of git's index if its changes matter; else ""

	config map[string]bool // paths of configuration files
	spare  map[string]bool // those of dirs that are watched only for config
}

// settleTime is how long a configuration file must be at rest: an editor empties it
// before it writes it, and nothing may be decided in between.
const settleTime = 100 * time.Millisecond

// NewWatcher returns a Watcher that watches only the lock file of the resident
// scheduler and the files config, which it always watches as far as it can. If the
// system allows no more watches, it reports nothing, and Watch says so.
func NewWatcher(layout fs.Layout, gitDir string, config ...string) *Watcher {
	w := &Watcher{layout: layout, gitDir: gitDir, config: config, wanted: make(chan interest),
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
	w.Watch(kernel.Probes{})
	return w
}

// Changed receives a value when something that is watched may have changed, or
// the resident scheduler is woken.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Touched receives a value when git's index was written.
func (w *Watcher) Touched() <-chan struct{} { return w.touched }

// Watch watches what p names from now on, and nothing else but the configuration.
// fresh reports whether a directory was not watched before, so that a change may have
// been missed; complete reports whether everything that p names is watched.
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
			complete = complete && want.spare[dir] // gone again, or the system allows no more watches
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
	want := interest{on: map[string]bool{}, below: map[string]bool{}, dirs: map[string]bool{}, config: map[string]bool{}, spare: map[string]bool{}}
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
	below := func(dir string) {
		want.below[dir] = true
		watch(dir)
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
		below(w.layout.MarkerDir(a))
	}
	for _, name := range p.Types {
		below(w.layout.TypeDir(name))
	}
	needed := maps.Clone(want.dirs)
	for _, path := range w.config {
		want.config[path] = true
		watch(filepath.Dir(path))
		if to, err := filepath.EvalSymlinks(path); err == nil && to != path {
			want.config[to] = true
			watch(filepath.Dir(to))
		}
	}
	for dir := range want.dirs {
		want.spare[dir] = !needed[dir]
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
	var settled <-chan time.Time
	for {
		select {
		case want = <-w.wanted:
		case <-settled:
			signal(w.changed)
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
			case want.config[e.Name]: // also if its mode changed: it may be readable now
				settled = time.After(settleTime)
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
