package inbox

import (
	"path"
	"strings"

	"github.com/fsnotify/fsnotify"

	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// Notices reports changes of an inbox. If the system allows no more watches it
// reports nothing, so users have to poll as well.
type Notices struct {
	tree    Tree
	notify  *fsnotify.Watcher
	changed chan struct{}
}

// NewNotices returns a Notices that watches nothing yet.
func NewNotices(t Tree) *Notices {
	n := &Notices{tree: t, changed: make(chan struct{}, 1)}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return n
	}
	n.notify = w
	go n.listen()
	return n
}

// Changed receives a value when a prompt or a directory may have appeared,
// changed or disappeared.
func (n *Notices) Changed() <-chan struct{} { return n.changed }

// Watch watches these directories of the inbox and no others. It reports
// whether one of them was not watched before.
func (n *Notices) Watch(dirs []string) (fresh bool) {
	if n.notify == nil {
		return false
	}
	want, have := map[string]bool{}, map[string]bool{}
	for _, d := range dirs {
		want[path.Join(n.tree.Inbox(), d)] = true
	}
	for _, d := range n.notify.WatchList() {
		have[d] = true
		if !want[d] {
			_ = n.notify.Remove(d)
		}
	}
	for d := range want {
		if !have[d] && n.notify.Add(d) == nil {
			fresh = true
		}
	}
	return fresh
}

// Close stops watching.
func (n *Notices) Close() {
	if n.notify != nil {
		_ = n.notify.Close()
	}
}

func (n *Notices) listen() {
	for {
		select {
		case e, ok := <-n.notify.Events:
			if !ok {
				return
			}
			name := path.Base(e.Name)
			if strings.HasPrefix(name, ".") && name != inbox.BranchMarker {
				continue // a file being written, the lock
			}
		case _, ok := <-n.notify.Errors: // events were lost: anything may have changed
			if !ok {
				return
			}
		}
		select {
		case n.changed <- struct{}{}:
		default:
		}
	}
}
