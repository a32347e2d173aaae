package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// RepositoryFile is the repository's configuration, relative to its root.
const RepositoryFile = ".vizier/config.toml"

// Foreign are the settings of the repository's own file that name something to
// run, say when, or name who is told of it. What the user's own file or the environment says is not among
// them.
func (c *Config) Foreign() []Setting {
	var out []Setting
	for _, s := range c.Settings() {
		if strings.HasPrefix(s.Origin, filepath.FromSlash(RepositoryFile)+":") && runs(s.Key) {
			out = append(out, s)
		}
	}
	return out
}

// runs reports that the setting of that key names something to run.
func runs(key string) bool {
	table, _, _ := strings.Cut(key, ".")
	switch table {
	case "hooks", "executors", "containers", "otel": // the last names who is told of all that runs
		return true
	case "agents":
		return strings.HasSuffix(key, ".command") || strings.HasSuffix(key, ".filter")
	default:
		return key == "release.gate.script"
	}
}

// Digest stands for settings and their values, in their order.
func Digest(settings []Setting) string {
	var b bytes.Buffer
	for _, s := range settings {
		fmt.Fprintf(&b, "%q = %q\n", s.Key, fmt.Sprint(s.Value))
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:])
}

// StateDir is the directory of what the user has decided: $XDG_STATE_HOME or
// $HOME/.local/state, and vizier in it. "" when neither is set.
func StateDir(env func(string) string) string {
	if base := env("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "vizier")
	}
	if home := env("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "vizier")
	}
	return ""
}

// trustFile is the file that says that the user trusts these settings of a
// repository.
func trustFile(env func(string) string, root string, settings []Setting) string {
	dir := StateDir(env)
	if dir == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(root + "\x00" + Digest(settings)))
	return filepath.Join(dir, "trust", hex.EncodeToString(sum[:]))
}

// Trusted reports that the user said once that these very settings of the
// repository at root may run.
func Trusted(env func(string) string, root string, settings []Setting) bool {
	path := trustFile(env, root, settings)
	if path == "" {
		return false
	}
	b, err := sys.ReadRegular(path, 64<<10)
	return err == nil && strings.HasPrefix(string(b), Digest(settings)+"\n")
}

// Trust has Trusted say so from now on.
func Trust(env func(string) string, root string, settings []Setting) error {
	path := trustFile(env, root, settings)
	if path == "" {
		return errors.New("neither XDG_STATE_HOME nor HOME is set: there is no place to remember it")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(Digest(settings) + "\n" + root + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
