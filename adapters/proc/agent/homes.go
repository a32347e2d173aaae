package agent

import (
	"os"
	"path/filepath"
)

// homesOf returns the files and directories in which an agent keeps its
// settings and sessions: dir, which is created if necessary, or names in the
// user's home directory.
func homesOf(dir string, names ...string) []string {
	out := []string{}
	if dir != "" {
		out = append(out, dir)
	} else if home, err := os.UserHomeDir(); err == nil {
		for _, name := range names {
			out = append(out, filepath.Join(home, name))
		}
	}
	if len(out) > 0 {
		_ = os.MkdirAll(out[0], 0o700) // the agent would create it, but may not be allowed to in its sandbox
	}
	return out
}
