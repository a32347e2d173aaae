package git

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DropStaleLocks removes the lock files that a killed git left in the git
// directory of the linked worktree at dir before that time. Whoever calls it
// knows that no git of before then runs there. Anywhere else it does nothing:
// in the main working tree a person may be at work, and the locks of branches
// are everybody's.
func (r *Repo) DropStaleLocks(dir string, before time.Time) error {
	w, err := worktreeAt(r.root.CommonDir, dir)
	if err != nil || w.Name == "" {
		return err
	}
	err = filepath.WalkDir(w.gitDir, func(path string, d iofs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "modules": // repositories of their own
			return filepath.SkipDir
		case !d.Type().IsRegular() || !strings.HasSuffix(d.Name(), ".lock"):
			return nil
		}
		info, err := d.Info()
		if err == nil && info.ModTime().Before(before) {
			err = os.Remove(path)
		}
		if errors.Is(err, iofs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("drop stale locks of worktree %s: %w", w.Name, err)
	}
	return nil
}
