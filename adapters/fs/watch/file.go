package watch

import "github.com/fsnotify/fsnotify"

// File reports changes of one file that is written to or replaced.
type File struct {
	path    string
	notify  *fsnotify.Watcher
	changed chan struct{}
}

// NewFile returns a File for path. Call Look to begin watching. If the system
// allows no more watches, no changes are reported.
func NewFile(path string) *File { return &File{path: path, changed: make(chan struct{}, 1)} }

// Look watches the file that is at the path now. Call it before reading the
// file, and only if Changed is needed: a watch takes Linux milliseconds to end.
func (f *File) Look() {
	if f.notify == nil {
		n, err := newNotifier()
		if err != nil {
			return
		}
		f.notify = n
		go f.serve(n)
	}
	if len(f.notify.WatchList()) == 0 { // a watch ends when its file is moved away
		_ = f.notify.Add(f.path)
	}
}

func (f *File) serve(n *fsnotify.Watcher) {
	for {
		select {
		case _, ok := <-n.Errors:
			if !ok {
				return
			}
		case e, ok := <-n.Events:
			if !ok {
				return
			}
			if e.Op == fsnotify.Chmod {
				continue
			}
		}
		signal(f.changed)
	}
}

// Changed receives a value when the file may have changed.
func (f *File) Changed() <-chan struct{} { return f.changed }

// Close stops watching.
func (f *File) Close() error {
	if f.notify == nil {
		return nil
	}
	return f.notify.Close()
}
