//go:build portable

package watch

import (
	"errors"

	"github.com/fsnotify/fsnotify"
)

// newNotifier fails as where the system allows no watches: then everybody asks
// from time to time.
func newNotifier() (*fsnotify.Watcher, error) { return nil, errors.ErrUnsupported }
