package config

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestExecutors(t *testing.T) {
	c, err := load(layers(t, "[executors.lab]\nkind = \"slurm\"\npartition = \"main\"\n", `
[executors.lab]
kind = "slurm"
account = "us"
time = "2h"
cpus = 4
memory = "8G"
gres = "gpu:1"
qos = "low"
options = ["--exclusive", "--constraint=a b"]
max_running = 50
locks = false
lease = "30s"
poll = "2s"
timeout = "7s"
program = "/opt/vizier"
[executors.other]
kind = "slurm"
[executors.own]
kind = "command"
submit = ["bin/submit", "--fast"]
list = "bin/list"
cancel = ["bin/cancel"]
options = ["queue=a"]
[executors.few]
kind = "ssh"
hosts = ["a", "me@b.example:4", "c:1"]
ssh = ["ssh", "-F", "near"]
[executors.one]
kind = "ssh"
hosts = ["a"]
`, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Executor{
		"lab": {Kind: "slurm", Partition: "main", Account: "us", QOS: "low", Time: "2h", CPUs: 4, Memory: "8G", Gres: "gpu:1",
			Options: []string{"--exclusive", "--constraint=a b"}, MaxRunning: 50, Lease: 30 * time.Second, Poll: 2 * time.Second, Timeout: 7 * time.Second, Program: "/opt/vizier"},
		"other": {Kind: "slurm", Locks: true},
		"own":   {Kind: "command", Submit: []string{"bin/submit", "--fast"}, List: []string{"bin/list"}, Cancel: []string{"bin/cancel"}, Options: []string{"queue=a"}, Locks: true},
		"few":   {Kind: "ssh", Hosts: []Host{{"a", 1}, {"me@b.example", 4}, {"c", 1}}, SSH: []string{"ssh", "-F", "near"}, Locks: true},
		"one":   {Kind: "ssh", Hosts: []Host{{"a", 1}}, Locks: true},
	}
	if !reflect.DeepEqual(c.Executors, want) {
		t.Errorf("got %+v, want %+v", c.Executors, want)
	}
	for _, s := range c.Settings() {
		if s.Key == "executors.lab.lease" && (s.Value != "30s" || !strings.HasSuffix(s.Origin, "config.toml:13")) {
			t.Errorf("%+v", s)
		}
	}
}

// What is not set is not shown.
func TestWhatIsNotSetIsNotShown(t *testing.T) {
	far := Executor{Kind: "ssh", Hosts: []Host{{"a", 1}, {"b", 2}}, Pack: 1, Locks: true}
	want := map[string]string{"near.kind": "slurm", "far.kind": "ssh", "far.hosts": "a b:2", "far.pack": "1"}
	if got := shownExecutors(map[string]Executor{"near": {Kind: "slurm", Locks: true}, "far": far}); !maps.Equal(got, want) {
		t.Errorf("executors: %q, want %q", got, want)
	}
	a := Agents{Default: Agent{Label: "a"}, Commands: map[string]Agent{"draft": {Timeout: 1, Silence: 1}}}
	want = map[string]string{"default.agent": "a", "commands.draft.timeout": "1ns", "commands.draft.silence": "1ns"}
	if got := a.shown(); !maps.Equal(got, want) {
		t.Errorf("agents: %q, want %q", got, want)
	}
}

// What is refused has no value.
func TestWhatIsRefusedHasNoValue(t *testing.T) {
	for _, v := range []any{"x", fromEnv("x"), 1.5, int64(-1)} {
		if n, err := wholeNumber(v); n != 0 || err == nil {
			t.Errorf("%v is the number %d, %v", v, n, err)
		}
		if b, err := boolean(v); b || err == nil {
			t.Errorf("%v is %v, %v", v, b, err)
		}
		if d, err := positiveDuration(v); d != 0 || err == nil {
			t.Errorf("%v is the duration %d, %v", v, d, err)
		}
	}
}

func TestBadExecutors(t *testing.T) {
	for text, want := range map[string]string{
		"[executors.lab]":                                                     `executors.lab: kind: expected "slurm", "command" or "ssh", found nothing`,
		"[executors.lab]\nkind = \"pbs\"":                                     `kind: expected "slurm", "command" or "ssh", found "pbs"`,
		"[executors.local]\nkind = \"slurm\"":                                 "local is this machine",
		"[executors.\"a b\"]\nkind = \"slurm\"":                               "a name has no spaces",
		"[executors.lab]\nkind = \"slurm\"\npartion = \"x\"":                  "partion: unknown key (did you mean partition?)",
		"[executors.lab]\nkind = \"slurm\"\ncpus = -1":                        "cpus: expected 0 or more, found -1",
		"[executors.lab]\nkind = \"slurm\"\nlease = \"1s\"":                   "lease: expected a duration of at least 5s",
		"[executors.lab]\nkind = \"slurm\"\nlocks = \"no\"":                   "locks: expected true or false",
		"[executors.lab]\nkind = \"slurm\"\nprogram = \"vizier\"":             "program: expected an absolute path",
		"[executors.lab]\nkind = \"slurm\"\noptions = 3":                      "options: expected",
		"[executors.lab]\nkind = \"command\"\nsubmit = \"s\"\nlist = \"l\"":   `cancel: expected one, since the kind is "command", found nothing`,
		"[executors.lab]\nkind = \"command\"\nsubmit = \"s\"\ncancel = \"l\"": `list: expected one, since the kind is "command", found nothing`,
		"[executors.lab]\nkind = \"command\"\nlist = \"s\"\ncancel = \"l\"":   `submit: expected one, since the kind is "command", found nothing`,
		"[executors.lab]\nkind = \"ssh\"":                                     `hosts: expected one, since the kind is "ssh", found nothing`,
		"[executors.lab]\nkind = \"ssh\"\nhosts = [\"a:0\"]":                  `"a:0": expected a host, or HOST:SLOTS with a number of at least 1`,
		"[executors.lab]\nkind = \"ssh\"\nhosts = [\"-oProxyCommand=x\"]":     "cannot be the name of a host",
		"[executors.lab]\nkind = \"ssh\"\nhosts = [\"a\", \"a:2\"]":           "host a stands there twice",
		"[executors.lab]\nkind = \"ssh\"\nhosts = [\"a\"]\npartition = \"x\"": `partition: an executor of the kind "ssh" has no such key, which is one of "slurm"`,
		"[executors.lab]\nkind = \"slurm\"\nsubmit = \"x\"":                   `submit: an executor of the kind "slurm" has no such key, which is one of "command"`,
		"executors = 3":        "executors: expected a table",
		"[executors]\nlab = 3": "executors.lab: expected a table, found 3",
	} {
		_, err := load(layers(t, "", text, nil))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
