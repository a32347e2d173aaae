//go:build !portable

package watch

import "github.com/fsnotify/fsnotify"

// newNotifier is the system's way to tell of changes: inotify or kqueue.
func newNotifier() (*fsnotify.Watcher, error) { return fsnotify.NewWatcher() }
