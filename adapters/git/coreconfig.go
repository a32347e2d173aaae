package git

import (
	"errors"
	iofs "io/fs"
	"path/filepath"
	"strings"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// coreConfig holds the settings of a repository's own configuration that
// FindRoot needs.
type coreConfig struct {
	bare     bool
	worktree string
}

// readCore reads the [core] section of the common directory's config and, if
// the repository uses it, of its config.worktree. Included files are not read:
// git ignores them for these two keys as well when it sets up a repository.
func readCore(common string) (coreConfig, error) {
	var c coreConfig
	perWorktree, err := c.read(filepath.Join(common, "config"))
	if err == nil && perWorktree {
		_, err = c.read(filepath.Join(common, "config.worktree"))
	}
	return c, err
}

// read overlays c with the settings in path. perWorktree reports whether they
// enable config.worktree. A file that does not exist sets nothing.
func (c *coreConfig) read(path string) (perWorktree bool, err error) {
	text, err := sys.ReadLinked(path, 16<<20) // a job may have made it
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

// configValue removes quotes, escapes and comments from the value of one line.
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
