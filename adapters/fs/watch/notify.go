//go:build !portable

package watch

import "github.com/fsnotify/fsnotify"

// newNotifier returns the system's notifier: inotify or kqueue.
func newNotifier() (*fsnotify.Watcher, error) { return fsnotify.NewWatcher() }
