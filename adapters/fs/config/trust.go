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

// RepositoryFile is the path of the repository's configuration, relative to its
// root.
const RepositoryFile = ".vizier/config.toml"

// Foreign returns the settings in the repository's own file that name something
// to run, say when to run it, or say who is told about it. Settings from the
// user's own file or the environment are not included.
func (c *Config) Foreign() []Setting {
	var out []Setting
	for _, s := range c.Settings() {
		if strings.HasPrefix(s.Origin, filepath.FromSlash(RepositoryFile)+":") && runs(s.Key) {
			out = append(out, s)
		}
	}
	return out
}

// runs reports whether the setting key is one of those that Foreign returns.
func runs(key string) bool {
	table, _, _ := strings.Cut(key, ".")
	switch table {
	case "hooks", "executors", "containers", "otel": // otel names who is told about everything that runs
		return true
	case "agents":
		return strings.HasSuffix(key, ".command") || strings.HasSuffix(key, ".progress_filter")
	default:
		return key == "release.gate.script"
	}
}

// Digest returns a digest of settings and their values, in order.
func Digest(settings []Setting) string {
	var b bytes.Buffer
	for _, s := range settings {
		value := fmt.Sprint(s.Value)
		if words, is := s.Value.([]string); is {
			value = "[" + shownWords(words) + "]"
		}
		fmt.Fprintf(&b, "%q = %q\n", s.Key, value)
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:])
}

// StateDir returns the directory of the user's decisions: vizier in
// $XDG_STATE_HOME or $HOME/.local/state, whichever is set first; "" if neither
// is.
func StateDir(env func(string) string) string {
	if base := env("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "vizier")
	}
	if home := env("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "vizier")
	}
	return ""
}

// trustFile returns the path of the file that says that the user trusts these
// settings of a repository.
func trustFile(env func(string) string, root string, settings []Setting) string {
	dir := StateDir(env)
	if dir == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(root + "\x00" + Digest(settings)))
	return filepath.Join(dir, "trust", hex.EncodeToString(sum[:]))
}

// Trusted reports whether the user has allowed exactly these settings of the
// repository at root to run.
func Trusted(env func(string) string, root string, settings []Setting) bool {
	path := trustFile(env, root, settings)
	if path == "" {
		return false
	}
	b, err := sys.ReadRegular(path, 64<<10)
	return err == nil && strings.HasPrefix(string(b), Digest(settings)+"\n")
}

// Trust records that the user allows these settings, so that Trusted reports
// true from now on.
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
