package git

import (
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
)

// coreConfig is what FindRoot needs of a repository's own configuration.
type coreConfig struct {
	bare     bool
	worktree string
}

// readCore reads the [core] section of the common directory's config, and of
// its config.worktree where the repository uses one. Files that it includes
// are not read: git does not look for these two keys there either when it sets
// a repository up.
func readCore(common string) (coreConfig, error) {
	var c coreConfig
	perWorktree, err := c.read(filepath.Join(common, "config"))
	if err == nil && perWorktree {
		_, err = c.read(filepath.Join(common, "config.worktree"))
	}
	return c, err
}

// read overlays c with path's settings and reports whether it turns
// config.worktree on. A file that does not exist sets nothing.
func (c *coreConfig) read(path string) (perWorktree bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			name, rest, _ := strings.Cut(line[1:], "]")
			section, line = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(rest)
		}
		key, value, hasValue := strings.Cut(line, "=")
		value = configValue(value)
		switch section + "." + strings.ToLower(strings.TrimSpace(key)) {
		case "core.bare":
			c.bare = !hasValue || parseBool(value)
		case "core.worktree":
			c.worktree = value
		case "extensions.worktreeconfig":
			perWorktree = !hasValue || parseBool(value)
		}
	}
	return perWorktree, nil
}

// configValue undoes quotes, escapes and comments of one line's value.
func configValue(s string) string {
	var b strings.Builder
	quoted, escaped, end := false, false, 0
	for _, r := range strings.TrimSpace(s) {
		switch {
		case escaped:
			escaped = false
			b.WriteRune(r)
		case r == '\\':
			escaped = true
			continue
		case r == '"':
			quoted = !quoted
		case (r == '#' || r == ';') && !quoted:
			return b.String()[:end]
		default:
			b.WriteRune(r)
		}
		if quoted || r != ' ' && r != '\t' {
			end = b.Len()
		}
	}
	return b.String()[:end]
}

func parseBool(s string) bool {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1":
		return true
	}
	return false
}
