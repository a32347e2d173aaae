//go:build portable

package watch

import (
	"errors"

	"github.com/fsnotify/fsnotify"
)

// newNotifier fails, as on a system that allows no watches; callers then poll.
func newNotifier() (*fsnotify.Watcher, error) { return nil, errors.ErrUnsupported }
