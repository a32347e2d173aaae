package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whoever takes a repository over decides once about what its file makes run. The user's own file and the environment
// are not asked about, and neither is what runs nothing.
func TestWhatARepositoryMakesRun(t *testing.T) {
	c, err := load(layers(t, "[hooks.own]\non = [\"failed\"]\ncommand = \"x\"\n[agents.default]\ncommand = \"mine\"\n", `[scheduler]
max_running = 3
[agents.default]
model = "m"
progress_filter = "filter"
[agents.commands.draft]
command = ["a", "b"]
[hooks.theirs]
on = ["failed"]
command = "y"
[executors.lab]
kind = "slurm"
[containers]
run = ["podman", "{image}", "{command}"]
[otel]
endpoint = "http://localhost:4318"
[release.gate]
script = "make check"
[merge.cicd_gate]
script = "not asked about"
`, map[string]string{"VIZIER_LOGS_KEEP_ATTEMPTS": "12"}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range c.Foreign() {
		if !strings.HasPrefix(s.Origin, ".vizier/config.toml:") {
			t.Errorf("%s is from %s", s.Key, s.Origin)
		}
		got = append(got, s.Key)
	}
	want := []string{"agents.commands.draft.command", "agents.default.progress_filter", "containers.run", "executors.lab.kind", "hooks.theirs.command", "hooks.theirs.on",
		"otel.endpoint", "release.gate.script"}
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// One word with a blank is not two words, for who reads the settings and for what is trusted. Settings whose words
// need no quotes stay trusted: their digest is that of the words with blanks between them.
func TestTrustTellsWordsApart(t *testing.T) {
	at := func(words string) map[string]Setting {
		t.Helper()
		c, err := load(layers(t, "", fmt.Sprintf(`[executors.own]
kind = "command"
submit = ["s", "{script}", "$HOME", "a;b"]
list = %[1]s
cancel = ["c"]
[agents.default]
command = %[1]s
[containers]
remove = %[1]s
`, words), nil))
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]Setting{}
		for _, s := range c.Foreign() {
			all[s.Key] = s
		}
		return all
	}
	seen := map[string]string{}
	for words, want := range map[string]string{
		`["e", "{name}", "x"]`:       `e {name} x`,
		`["e", "{name} x"]`:          `e '{name} x'`,
		`["e", "'{name}", "x'"]`:     `e ''\''{name}' 'x'\'''`,
		`["e", "{name}", "x", ""]`:   `e {name} x ''`,
		`["e", "{name}\tx"]`:         `e $'{name}\tx'`,
		`["e", "$'{name}\\tx'"]`:     `e '$'\''{name}\tx'\'''`,
		`["e", "{name}\u200b", "x"]`: `e $'{name}\u200b' x`,
	} {
		settings := at(words)
		if got := settings["executors.own.submit"].Value; got != "s {script} $HOME a;b" {
			t.Errorf("shown as %v", got)
		}
		for _, key := range []string{"executors.own.list", "agents.default.command", "containers.remove"} {
			if got := settings[key].Value; got != want && key != "containers.remove" { // that is a list of words itself
				t.Errorf("%s: %s is shown as %v, want %s", words, key, got, want)
			}
			digest := Digest([]Setting{settings[key]})
			if other := seen[digest]; other != "" {
				t.Errorf("%s is the same for %s and %s", key, words, other)
			}
			seen[digest] = words
		}
	}
	plain, was := Setting{Key: "k", Value: []string{"a", "{b}"}}, Setting{Key: "k", Value: "[a {b}]"}
	if Digest([]Setting{plain}) != Digest([]Setting{was}) {
		t.Error("words that need no quotes are not trusted any more")
	}
}

// A decision is about exactly these settings of this repository.
func TestTrust(t *testing.T) {
	state, home := t.TempDir(), t.TempDir()
	nowhere := func(string) string { return "" }
	at := func(name, dir string) func(string) string {
		return func(n string) string {
			if n == name {
				return dir
			}
			return ""
		}
	}
	env := at("XDG_STATE_HOME", state)
	for want, e := range map[string]func(string) string{
		filepath.Join(state, "vizier"):                   env,
		filepath.Join(home, ".local", "state", "vizier"): at("HOME", home),
		"": at("XDG_STATE_HOME", "relative"),
	} {
		if got := StateDir(e); got != want {
			t.Errorf("decisions are in %q, want %q", got, want)
		}
	}
	settings := []Setting{{Key: "a", Value: "1"}, {Key: "b", Value: 2}}
	if Trusted(env, "/repo", settings) || Trusted(nowhere, "/repo", settings) {
		t.Error("trusted before anybody decided")
	}
	if err := Trust(nowhere, "/repo", settings); err == nil || err.Error() != "neither XDG_STATE_HOME nor HOME is set: there is no place to remember it" {
		t.Error(err)
	}
	if Trusted(nowhere, "/repo", settings) {
		t.Error("there is no place to remember it")
	}
	for range 2 { // the second time changes nothing
		if err := Trust(env, "/repo", settings); err != nil {
			t.Fatal(err)
		}
	}
	for what, trusted := range map[string]bool{
		"the same":       Trusted(env, "/repo", []Setting{{Key: "a", Value: "1"}, {Key: "b", Value: 2, Origin: "elsewhere"}}),
		"another value":  !Trusted(env, "/repo", []Setting{{Key: "a", Value: "1"}, {Key: "b", Value: 3}}),
		"another key":    !Trusted(env, "/repo", []Setting{{Key: "a", Value: "1"}, {Key: "c", Value: 2}}),
		"fewer":          !Trusted(env, "/repo", settings[:1]),
		"another place":  !Trusted(env, "/repo2", settings),
		"another person": !Trusted(at("HOME", home), "/repo", settings),
	} {
		if !trusted {
			t.Errorf("%s: wrong", what)
		}
	}
	dir := filepath.Join(state, "vizier", "trust")
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others can look at it: %v, %v", info.Mode(), err)
	}
	file := filepath.Join(dir, files[0].Name())
	b, err := os.ReadFile(file)
	if want := fmt.Sprintf("%s\n/repo\n", Digest(settings)); err != nil || string(b) != want {
		t.Errorf("%q, %v; want %q", b, err, want)
	}
	for _, wrong := range []string{"", "torn", Digest(settings)} { // somebody wrote into it, or power went
		if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
			t.Fatal(err)
		}
		if Trusted(env, "/repo", settings) {
			t.Errorf("the file has %q", wrong)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(file, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Trust(env, "/repo", settings); err == nil || Trusted(env, "/repo", settings) {
		t.Errorf("a directory is in the way: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("a file is left behind: %v, %v", files, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc", dir); err != nil { // where no file can be made
		t.Fatal(err)
	}
	if err := Trust(env, "/repo", settings); err == nil {
		t.Error("no file can be made")
	}
	if err := os.WriteFile(filepath.Join(home, ".local"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Trust(at("HOME", home), "/repo", settings); err == nil {
		t.Error("a file is in the place of a directory")
	}
}
