package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/kernel/view"
)

// Everything that is set is shown, also keys of tables that are not settings of
// their own, with the lines that set them.
func TestWhatIsSetIsShown(t *testing.T) {
	c, err := load(layers(t, "", `[agents.default]
agent = "a"
command = ["c", "d"]
progress_filter = ["f"]
model = "m"
flags = ["--g", "--h"]
permissions = "all"
timeout = "1h"
silence = "2m"
[agents.commands.draft]
command = "one"
[agents.templates."x@v1"]
model = "n"
[hooks.a-b_1]
on = ["failed", "blocked"]
command = "x"
timeout = "3s"
[executors.far]
kind = "slurm"
partition = "p"
account = "q"
qos = "r"
time = "s"
memory = "t"
gres = "u"
program = "/v"
options = ["w", "x"]
cpus = 1
max_running = 2
lease = "5s"
poll = "100ms"
timeout = "100ms"
locks = false
pack = 3
submit_rate = 4
max_submitted = 5
[executors.near]
kind = "slurm"
container = "i"
pack = "auto"
[inbox.repositories]
"acme/web" = "../web"
[pools]
gpu = 0
[commands]
d = "t@v1"
[jobs]
timeout = ""
`, nil))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range c.Settings() {
		if s.Origin != "default" {
			got = append(got, fmt.Sprintf("%s %s", strings.TrimPrefix(s.Origin, ".vizier/config.toml:"), s.TOML()))
		}
	}
	want := strings.Split(`44 pools.gpu = 0
48 jobs.timeout = ""
16 hooks.a-b_1.command = "x"
15 hooks.a-b_1.on = "failed blocked"
17 hooks.a-b_1.timeout = "3s"
11 agents.commands.draft.command = "one"
2 agents.default.agent = "a"
3 agents.default.command = "c d"
6 agents.default.flags = "--g --h"
5 agents.default.model = "m"
7 agents.default.permissions = "all"
4 agents.default.progress_filter = "f"
9 agents.default.silence = "2m0s"
8 agents.default.timeout = "1h0m0s"
13 agents.templates."x@v1".model = "n"
46 commands.d = "t@v1"
21 executors.far.account = "q"
28 executors.far.cpus = "1"
25 executors.far.gres = "u"
19 executors.far.kind = "slurm"
30 executors.far.lease = "5s"
33 executors.far.locks = "false"
29 executors.far.max_running = "2"
36 executors.far.max_submitted = "5"
24 executors.far.memory = "t"
27 executors.far.options = "w x"
34 executors.far.pack = "3"
20 executors.far.partition = "p"
31 executors.far.poll = "100ms"
26 executors.far.program = "/v"
22 executors.far.qos = "r"
35 executors.far.submit_rate = "4"
23 executors.far.time = "s"
32 executors.far.timeout = "100ms"
39 executors.near.container = "i"
38 executors.near.kind = "slurm"
40 executors.near.pack = "auto"
42 inbox.repositories."acme/web" = "../web"`, "\n")
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if near, far := c.Executors["near"], c.Executors["far"]; near.Pack != PackAuto || far.Pack != 3 || far.SubmitRate != 4 || far.MaxSubmitted != 5 {
		t.Errorf("%+v, %+v", near, far)
	}
	if h := c.Hooks["a-b_1"]; h.Timeout != 3*time.Second {
		t.Errorf("%+v", h)
	}
	if c.Inbox.Repositories["acme/web"] != "../web" {
		t.Errorf("%v", c.Inbox.Repositories)
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[inbox.repositories]\n\"web\" = \"x\"":                           `inbox.repositories.web: expected a name such as "acme/web", found "web"`,
		"[inbox.repositories]\n\"/web\" = \"x\"":                          `expected a name such as "acme/web", found "/web"`,
		"[inbox.repositories]\n\"acme/\" = \"x\"":                         `expected a name such as "acme/web", found "acme/"`,
		"[inbox.repositories]\n\"acme/web/x\" = \"x\"":                    `expected a name such as "acme/web", found "acme/web/x"`,
		"[inbox.repositories]\n\"acme/web\" = \"\"":                       `expected a path, found ""`,
		"[inbox.repositories]\n\"acme/web\" = 3":                          `expected a path, found 3`,
		"[commands]\nd = \"\"":                                            `expected a template: a path, or ID@VERSION, found ""`,
		"[inbox]\ndebounce = \"0s\"":                                      `expected a duration such as "30s" or "1h30m", found "0s"`,
		"[inbox]\ndebounce = \"\"":                                        `expected a duration such as "30s" or "1h30m", found ""`,
		"[inbox]\ndebounce = \"-1s\"":                                     `found "-1s"`,
		"[inbox]\nlayout = 3":                                             `inbox.layout: expected a string, found 3`,
		"[inbox]\nlayout = true":                                          `expected a string, found true`,
		"[inbox]\nlayout = 1.5":                                           `expected a string, found 1.5`,
		"[inbox]\nlayout = [[1]]":                                         `expected a string, found an array`,
		"[inbox]\nlayout = {a = 1}":                                       `expected a string, found a table`,
		"[[inbox.layout]]\na = 1":                                         `expected a string, found a table`,
		"[inbox]\nlayout = 2026-01-01":                                    `expected a string, found a date`,
		"[executors.\"a/b\"]\nkind = \"slurm\"":                           `"a/b" cannot be the name of an executor`,
		"[executors.\"a=b\"]\nkind = \"slurm\"":                           `"a=b" cannot be the name of an executor`,
		"[executors.lab]\nkind = 3":                                       "kind: expected a string, found 3",
		"[executors.lab]\nkind = \"slurm\"\nqos = \" \"":                  `qos: expected a string that is not empty, found " "`,
		"[executors.lab]\nkind = \"slurm\"\nqos = 3":                      `qos: expected a string that is not empty, found 3`,
		"[executors.lab]\nkind = \"slurm\"\nqos = \"a\\nb\"":              `qos: expected a string that is not empty, found "a\nb"`,
		"[executors.lab]\nkind = \"slurm\"\ntimeout = \"99ms\"":           "timeout: expected a duration of at least 100ms",
		"[executors.lab]\nkind = \"slurm\"\npoll = \"99ms\"":              "poll: expected a duration of at least 100ms",
		"[executors.lab]\nkind = \"slurm\"\nlease = \"4999ms\"":           "lease: expected a duration of at least 5s",
		"[executors.lab]\nkind = \"slurm\"\nlease = 5":                    "lease: expected a duration of at least 5s, found 5",
		"[executors.lab]\nkind = \"slurm\"\nmax_running = \"3\"":          `max_running: expected a whole number, found "3"`,
		"[executors.lab]\nkind = \"slurm\"\nprogram = 3":                  "program: expected a string that is not empty, found 3",
		"[executors.lab]\nkind = \"slurm\"\npack = \"many\"":              `pack: expected a whole number or "auto", found "many"`,
		"[executors.lab]\nkind = \"ssh\"\nhosts = 3":                      `hosts: expected hosts such as ["a", "b:4"], found 3`,
		"[merge.cicd_gate]\nsandbox = \"strict\"":                         `merge.cicd_gate.sandbox: unknown sandbox "strict"`,
		"[merge.cicd_gate]\nsandbox = 3":                                  `merge.cicd_gate.sandbox: expected a string, found 3`,
		"[approvals]\nrequired_from = 3":                                  "approvals.required_from: expected an array of strings, found 3",
		"[approvals]\nrequired_from = [3]":                                "approvals.required_from: expected an array of strings, found an array",
		"[approvals]\nfrom_jobs = 3":                                      "approvals.from_jobs: expected true or false, found 3",
		"[containers]\nrun = 3":                                           "containers.run: expected an array of strings, found 3",
		"[workflow.global_workflows]\ndir = \"a/b\"":                      `workflow.global_workflows.dir: expected an absolute path, found "a/b"`,
		"[workflow.global_workflows]\ndir = \"~/b\"":                      `workflow.global_workflows.dir: expected an absolute path, found "~/b"`,
		"[otel]\nendpoint = 3":                                            "otel.endpoint: expected a string, found 3",
		"[otel]\nendpoint = \"ftp://a\"":                                  `otel.endpoint: expected an address such as "http://localhost:4318", found "ftp://a"`,
		"[otel]\nendpoint = \"http://\"":                                  `found "http://"`,
		"[otel]\nendpoint = \"https://a?b\"":                              `found "https://a?b"`,
		"[otel]\nendpoint = \"http://a#b\"":                               `found "http://a#b"`,
		"[otel]\nendpoint = \"http://a b\"":                               `found "http://a b"`,
		"[otel]\nendpoint = \"localhost:4318\"":                           `found "localhost:4318"`,
		"agents = 3":                                                      "agents: expected a table, found 3",
		"[agents]\ncommands = 3":                                          "agents.commands: expected a table, found 3",
		"[agents]\ndefault = 3":                                           "agents.default: expected a table, found 3",
		"[agents]\ncommand = 3":                                           "unknown key (did you mean commands?)",
		"[agents.commands]\na = 3":                                        "expected a table, found 3",
		"[agents.default]\nagent = 3":                                     "default.agent: expected a string, found 3",
		"[agents.default]\ncommand = []":                                  "default.command: expected a command: an array of strings, or one word, found an array",
		"[agents.default]\ncommand = \" \"":                               `default.command: expected a command: an array of strings, or one word, found " "`,
		"[agents.default]\ncommand = [\"\"]":                              "default.command: expected a command",
		"[agents.default]\ncommand = [\"a\", 3]":                          "default.command: expected a command",
		"[agents.default]\ncommand = 3":                                   "default.command: expected a command",
		"[agents.default]\nprogress_filter = 3":                           "default.progress_filter: expected a command",
		"[agents.default]\ntimeout = \"0s\"":                              `default.timeout: expected a duration such as "30m", found "0s"`,
		"[agents.default]\nflags = [\"a\", 3, \"b\"]":                     "default.flags: expected an array of strings",
		"[hooks.\"\"]\non = [\"failed\"]\ncommand = \"c\"":                `unknown key hooks.`,
		"[hooks]\nx = 3":                                                  "hooks.x: expected a table, found 3",
		"[hooks.x]\non = [\"failed\"]\ncommand = 3":                       "command: expected a string, found 3",
		"[hooks.x]\non = []\ncommand = \"c\"":                             "on is missing",
		"[hooks.x]\non = [3]\ncommand = \"c\"":                            "on: expected one of succeeded, failed, cancelled, blocked, approval.pending, approval.granted, approval.rejected, run.succeeded, run.failed, run.blocked, job.stalled, attention, found 3",
		"[hooks.x]\non = [\"failed\"]\ncommand = \"c\"\ntimeout = \"0s\"": `timeout: expected a duration such as "30s", found "0s"`,
	} {
		if _, err := load(layers(t, "", text+"\n", nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// The shortest durations count, and an empty one takes back that of another file.
func TestDurationsAtTheBound(t *testing.T) {
	c, err := load(layers(t, "[jobs]\ntimeout = \"10s\"\n", "[jobs]\ntimeout = \"\"\ngrace = \"1ns\"\n[agents.default]\ntimeout = \"1ns\"\n[hooks.x]\non = [\"failed\"]\ncommand = \"c\"\ntimeout = \"1ns\"\n", nil))
	if err != nil || c.Jobs.Timeout != 0 || c.Jobs.Grace != 1 || c.Agents.Default.Timeout != 1 || c.Hooks["x"].Timeout != 1 {
		t.Errorf("%v, %+v, %+v, %+v", err, c.Jobs, c.Agents.Default, c.Hooks)
	}
}

// Every key is listed with its default; one that stands for many names has none.
func TestKeys(t *testing.T) {
	values := map[string]any{}
	for _, k := range Keys() {
		if k.Origin != "default" || k.Doc == "" {
			t.Errorf("%+v", k)
		}
		values[k.Key] = k.Value
	}
	if len(values) != len(settings()) || values["scheduler.lock_timeout"] != "30s" || values["store.durability"] != "full" || values["pools.NAME"] != nil || values["hooks.NAME"] != nil {
		t.Errorf("%d keys of %d: %v", len(values), len(settings()), values)
	}
}

// The user's own templates are beside the user's file, unless they are elsewhere or switched off.
func TestWhereOwnTemplatesAre(t *testing.T) {
	for _, c := range []struct {
		w    Workflow
		home string
		want string
	}{
		{Workflow{true, ""}, "/h", filepath.Join("/h", ".config", "vizier", "workflows")},
		{Workflow{true, ""}, "", ""},
		{Workflow{true, "/own"}, "/h", "/own"},
		{Workflow{true, "/own"}, "", "/own"},
		{Workflow{false, "/own"}, "/h", ""},
	} {
		got := c.w.Global(func(name string) string {
			if name == "HOME" {
				return c.home
			}
			return ""
		})
		if got != c.want {
			t.Errorf("%+v at %q: %q, want %q", c.w, c.home, got, c.want)
		}
	}
}

// Every field is found by its key and by its label, and by nothing that another one is called.
func TestNamesOfFields(t *testing.T) {
	for name, all := range map[string][]view.Field{"ls": view.ListFields(), "show": view.ShowFields()} {
		of := map[string]string{}
		for _, f := range all {
			for _, called := range []string{f.Key, keyOf(f.Label)} {
				if other, there := of[called]; there && other != f.Key {
					t.Errorf("%s: %s and %s are both called %s", name, other, f.Key, called)
				}
				of[called] = f.Key
			}
			got, err := Pick(all, []string{strings.ToUpper(f.Label), f.Key})
			if err != nil || len(got) != 2 || got[0].Key != f.Key || got[1].Key != f.Key {
				t.Errorf("%s: %s and %s are %+v, %v", name, f.Label, f.Key, got, err)
			}
		}
	}
	got, err := Pick([]view.Field{{Key: "a", Label: "A"}, {Key: "b", Label: "A"}}, []string{"a"})
	if err != nil || got[0].Key != "a" {
		t.Errorf("a label comes before a key: %+v, %v", got, err)
	}
}

// Only fields that there are can be chosen.
func TestFieldsThatAreUnknown(t *testing.T) {
	for field, want := range map[string]string{
		`["statuss"]`:    `display.lists.jobs.fields: unknown field "statuss" (did you mean status?)`,
		`["xyzzyplugh"]`: `display.lists.jobs.fields: unknown field "xyzzyplugh" (the fields are `,
	} {
		if _, err := load(layers(t, "", "[display.lists.jobs]\nfields = "+field+"\n", nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", field, err, want)
		}
	}
}

// Spans can be sent to any base address of HTTP, or to none.
func TestAddressesOfCollectors(t *testing.T) {
	for _, at := range []string{"", "http://localhost:4318", "https://collector.example/base"} {
		c, err := load(layers(t, "", fmt.Sprintf("[otel]\nendpoint = %q\n", at), nil))
		if err != nil || c.OTel.Endpoint != at {
			t.Errorf("%q: %q, %v", at, c.OTel.Endpoint, err)
		}
	}
}

// A hook's name consists of letters, digits, dashes and underscores.
func TestNamesOfHooks(t *testing.T) {
	for name, good := range map[string]bool{"a": true, "A-1_z": true, "9": true, "a b": false, "a.b": false, "é": false} {
		_, err := load(layers(t, "", fmt.Sprintf("[hooks.%q]\non = [\"failed\"]\ncommand = \"c\"\n", name), nil))
		if (err == nil) != good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The value of a variable is text and is parsed as the key demands.
func TestVariables(t *testing.T) {
	c, err := load(layers(t, "", "[scheduler]\nresident = false\n", map[string]string{"VIZIER_SCHEDULER_RESIDENT": "true", "VIZIER_LOGS_KEEP_ATTEMPTS": "12", "VIZIER_JOBS_TIMEOUT": "90s",
		"VIZIER_INBOX_LAYOUT": "single_owner", "VIZIER_INBOX_OWNER": "me", "VIZIER_LOGS_MAX_BYTES": "0", "VIZIER_APPROVALS_FROM_JOBS": "false", "VIZIER_INBOX_DEBOUNCE": "1s"}))
	if err != nil || !c.Scheduler.Resident || c.Logs.KeepAttempts != 12 || c.Jobs.Timeout != 90*time.Second || c.Inbox.Layout != "single_owner" || c.Inbox.Owner != "me" ||
		c.Logs.MaxBytes != 0 || c.Approvals.FromJobs || c.Inbox.Debounce != time.Second {
		t.Errorf("%+v, %v", c, err)
	}
	for name, value := range map[string]string{"VIZIER_SCHEDULER_RESIDENT": "True", "VIZIER_LOGS_KEEP_ATTEMPTS": "-1", "VIZIER_LOGS_MAX_BYTES": "0x10", "VIZIER_INBOX_LAYOUT": "odd", "VIZIER_INBOX_DEBOUNCE": "soon"} {
		if _, err := load(layers(t, "", "", map[string]string{name: value})); err == nil || !strings.HasPrefix(err.Error(), "env "+name+": expected ") {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}

// One heartbeat may be late. The finding names whichever of the two keys was
// set.
func TestHeartbeatsOfLeases(t *testing.T) {
	for text, want := range map[string]string{
		"heartbeat = \"15s\"":              "",
		"heartbeat = \"15001ms\"":          ".vizier/config.toml:2: leases.heartbeat = 15.001s is too seldom for leases.ttl = 30s",
		"ttl = \"19s\"":                    ".vizier/config.toml:2: leases.heartbeat = 10s is too seldom for leases.ttl = 19s",
		"ttl = \"1s\"\nheartbeat = \"2s\"": ".vizier/config.toml:3: ",
		"ttl = \"1s\"\nheartbeat = \"2\"":  ".vizier/config.toml:3: leases.heartbeat: expected a duration",
		"ttl = \"4s\"\nheartbeat = \"2s\"": "",
	} {
		_, err := load(layers(t, "", "[leases]\n"+text+"\n", nil))
		if (want == "") != (err == nil) || err != nil && (!strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A file that cannot be read is not taken for a missing one.
func TestAFileThatCannotBeRead(t *testing.T) {
	src := layers(t, "", "", nil)
	if err := os.MkdirAll(filepath.Join(src.Root, ".vizier", "config.toml"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(src.Root, ".vizier", "config.toml")
	told := func(how string) {
		t.Helper()
		_, err := load(src)
		u, is := errors.AsType[*UnreadableError](err)
		if !is || !strings.HasPrefix(err.Error(), "read configuration: ") || !strings.Contains(err.Error(), file) || !strings.Contains(u.Next(), file) {
			t.Errorf("%s: %v", how, err)
		}
	}
	told("a directory")
	if err := errors.Join(os.Remove(file), os.Symlink("nowhere", file)); err != nil {
		t.Fatal(err)
	}
	told("a link that leads nowhere")
	for _, path := range []string{filepath.Join(src.Root, "absent.toml"), src.Root} {
		_, err := load(Sources{File: path, Env: src.Env})
		if u, is := errors.AsType[*UnreadableError](err); !is || !strings.HasPrefix(u.Next(), "name a file that you can read, or leave out -C") {
			t.Errorf("asked for %s: %v", path, err)
		}
	}
	src.Root = ""
	if _, err := load(src); err != nil {
		t.Errorf("outside of a repository: %v", err)
	}
	if dir := UserDir(func(string) string { return "" }); dir != "" {
		t.Errorf("of nobody: %s", dir)
	}
}

// The command lines of containers need the words that nothing else says; an empty one, which
// takes back that of another file, needs none.
func TestCommandLinesOfContainers(t *testing.T) {
	for text, want := range map[string]string{
		"run = [\"podman\", \"{image}\", \"{command}\"]": "",
		"run = [\"podman\", \"{image}\"]":                "expected {command} in it",
		"run = [\"podman\"]":                             "expected {image} in it",
		"run = [\"{image}\", \"{command}\", \"{odd}\"]":  "{odd} is unknown",
		"run = []":                           "",
		"remove = [\"podman\", \"{name}\"]":  "",
		"remove = [\"podman\"]":              "expected {name} in it",
		"remove = [\"{name}\", \"{image}\"]": "{image} is unknown",
		"remove = []":                        "",
	} {
		user := "[containers]\nrun = [\"{image}\", \"{command}\"]\nremove = [\"{name}\"]\n"
		c, err := load(layers(t, user, "[containers]\n"+text+"\n", nil))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if empty := strings.HasSuffix(text, "[]"); empty && len(c.Containers.Run)*len(c.Containers.Remove) != 0 {
			t.Errorf("%s: %+v", text, c.Containers)
		}
	}
}

// Tables that only dotted keys imply have the line of the first of the keys.
func TestLinesOfImpliedTables(t *testing.T) {
	for text, want := range map[string]string{
		"\n\nodd.b = 1\nodd.a = 2\n":   ".vizier/config.toml:3: unknown key odd",
		"\nodd.x.y = 1\n":              ".vizier/config.toml:2: unknown key odd",
		"\n[odd]\n\nb = 1\n":           ".vizier/config.toml:",
		"jobs.grace = 1\nodd = 2\n":    ".vizier/config.toml:1: jobs.grace: expected a duration such as \"30s\", found 1\n.vizier/config.toml:2: unknown key odd",
		"zzzzzzzzzzzzzzzzzzzzzz = 1\n": ".vizier/config.toml:1: unknown key zzzzzzzzzzzzzzzzzzzzzz",
	} {
		_, err := load(layers(t, "", text, nil))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(want, "zzz") && strings.Contains(err.Error(), "mean") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"alpha", "alphabet", "beta", "gamma"}
	for word, want := range map[string]string{"alpha": "alpha", "alpah": "alpha", "alphabe": "alphabet", "bet": "beta", "be": "", "ba": "", "etab": "beta", "gammma": "gamma", "gmm": "gamma", "gm": "", "": "", "delta": "beta",
		"alphabetic": "alphabet", "xalphabetsxx": "alphabet", "xyzbeta": "beta"} {
		if got := Nearest(word, names); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"ab", "ba", 2}, {"abc", "abc", 0}, {"abcd", "bcd", 1}, {"flaw", "lawn", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%s, %s: %d", c.a, c.b, got)
		}
	}
}
