package watch

import "github.com/fsnotify/fsnotify"

// File tells when one file that is written to or replaced may have changed.
type File struct {
	path    string
	notify  *fsnotify.Watcher
	changed chan struct{}
}

// NewFile watches the file at path as soon as Look is called and it is there.
// Where the system allows no more watches there is no news.
func NewFile(path string) *File {
	f := &File{path: path, changed: make(chan struct{}, 1)}
	n, err := newNotifier()
	if err != nil {
		return f
	}
	f.notify = n
	go func() {
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
	}()
	return f
}

// Look watches the file that is at the path now. It is to be called before
// what is there is read.
func (f *File) Look() {
	if f.notify != nil && len(f.notify.WatchList()) == 0 { // one that is moved away is not watched any more
		_ = f.notify.Add(f.path)
	}
}

// Changed has a value when the file may have changed.
func (f *File) Changed() <-chan struct{} { return f.changed }

// Close ends the watching.
func (f *File) Close() error {
	if f.notify == nil {
		return nil
	}
	return f.notify.Close()
}
