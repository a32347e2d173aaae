package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

var update = flag.Bool("update", false, "rewrite docs/config.md")

// load reads and parses all layers.
func load(src Sources) (Config, error) {
	texts, err := src.read()
	if err != nil {
		return Config{}, err
	}
	return parse(src, texts)
}

// layers writes the user's and the repository's file and returns their sources.
// An empty text means no file.
func layers(t *testing.T, user, repo string, env map[string]string) Sources {
	t.Helper()
	dir := t.TempDir()
	put := func(path, text string) {
		if text == "" {
			return
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(dir, "home", ".config", "vizier", "config.toml"), user)
	put(filepath.Join(dir, "repo", ".vizier", "config.toml"), repo)
	return Sources{Root: filepath.Join(dir, "repo"), Env: func(name string) string {
		if name == "HOME" {
			return filepath.Join(dir, "home")
		}
		return env[name]
	}}
}

func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	c, err := load(layers(t, "", "", nil))
	if err != nil {
		t.Fatal(err)
	}
	if c.Scheduler.MaxRunning != 0 || c.Scheduler.LockTimeout != 30*time.Second || c.Store.Durability != "full" ||
		c.Jobs.Grace != 10*time.Second || c.Jobs.Timeout != 0 || c.Logs.KeepAttempts != 5 || c.Logs.MaxBytes != 64<<20 ||
		c.Display.Jobs.Format != "list" || c.GC.Keep != (Keep{90 * 24 * time.Hour, 20_000, 2 << 30}) || c.Approvals.FromJobs {
		t.Errorf("defaults: %+v", c)
	}
	for _, s := range c.Settings() {
		if s.Origin != "default" || s.Doc == "" {
			t.Errorf("%s: origin %q, doc %q", s.Key, s.Origin, s.Doc)
		}
	}
}

func TestLayersOverrideKeyByKey(t *testing.T) {
	src := layers(t,
		"[scheduler]\nmax_running = 2\nlock_timeout = \"5s\"\n[pools]\ngpu = 1\nnet = 4\n",
		"[scheduler]\nmax_running = 3\n[pools]\ngpu = 2\n[commands]\ndraft = \"./draft.toml\"\n"+
			"[display.lists]\njobs = {format = \"table\", fields = [\"Job\", \"Status\"]}\n",
		map[string]string{"VIZIER_SCHEDULER_MAX_RUNNING": "9", "VIZIER_DISPLAY_LISTS_JOBS_SHOW_FIELDS": "Job, Status"})
	c, err := load(src)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range c.Settings() {
		if s.Origin != "default" {
			got[s.TOML()] = s.Origin
		}
	}
	user := filepath.Join(src.Env("HOME"), ".config", "vizier", "config.toml")
	want := map[string]string{
		`scheduler.max_running = 9`:                          "env VIZIER_SCHEDULER_MAX_RUNNING",
		`scheduler.lock_timeout = "5s"`:                      user + ":3",
		`pools.gpu = 2`:                                      ".vizier/config.toml:4",
		`pools.net = 4`:                                      user + ":6",
		`commands.draft = "./draft.toml"`:                    ".vizier/config.toml:6",
		`display.lists.jobs.format = "table"`:                ".vizier/config.toml:8",
		`display.lists.jobs.fields = ["Job", "Status"]`:      ".vizier/config.toml:8",
		`display.lists.jobs_show.fields = ["Job", "Status"]`: "env VIZIER_DISPLAY_LISTS_JOBS_SHOW_FIELDS",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestWhatTemplatesMayTake checks that each layer overrides the one before, and
// that a key which no layer sets is left to the template. An empty text counts
// as set.
func TestWhatTemplatesMayTake(t *testing.T) {
	c, err := load(layers(t,
		"[merge.cicd_gate]\nscript = \"user\"\nretries = 1\n[approve.stop_condition]\nscript = \"user\"\n",
		"[merge.cicd_gate]\nretries = 2\nauto_resolve = true\n[approve.stop_condition]\nscript = \"\"\nsandbox = \"required\"\n",
		map[string]string{"VIZIER_MERGE_CICD_GATE_RETRIES": "13"}))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]workflow.Setting{
		"merge.cicd_gate.script":              {Value: "user", Set: true},
		"merge.cicd_gate.auto_resolve":        {Value: "true", Set: true},
		"merge.cicd_gate.auto_resolve_script": {},
		"merge.cicd_gate.sandbox":             {}, "approve.stop_condition.sandbox": {Value: "required", Set: true}, "merge.cicd_gate.retries": {Value: "13", Set: true},
		"approve.stop_condition.script":  {Set: true},
		"approve.stop_condition.retries": {},
	}
	if d := cmp.Diff(want, c.Flows.Settings()); d != "" {
		t.Error(d)
	}
	for _, s := range c.Settings() {
		if s.Key == "merge.cicd_gate.retries" && (s.TOML() != "merge.cicd_gate.retries = 13" || s.Origin != "env VIZIER_MERGE_CICD_GATE_RETRIES") {
			t.Errorf("%s from %s", s.TOML(), s.Origin)
		}
	}
}

func TestOneFileReplacesTheOthers(t *testing.T) {
	src := layers(t, "", "[scheduler]\nmax_running = 3\n", nil)
	src.File = filepath.Join(t.TempDir(), "mine.toml")
	if _, err := load(src); err == nil || !strings.Contains(err.Error(), src.File) {
		t.Errorf("a missing -C file: %v", err)
	}
	if err := os.WriteFile(src.File, []byte("[jobs]\ngrace = \"1s\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := load(src)
	if err != nil || c.Scheduler.MaxRunning != 0 || c.Jobs.Grace != time.Second {
		t.Errorf("max_running %d, grace %s: %v", c.Scheduler.MaxRunning, c.Jobs.Grace, err)
	}
}

func TestEveryMistakeIsReportedWithItsPlace(t *testing.T) {
	for name, c := range map[string]struct {
		repo string
		env  map[string]string
		want []string
	}{
		"unknown keys": {
			repo: "[scheduler]\nmax_runing = 1\n\n[job]\ngrace = \"1s\"\n[agents.default]\nagnet = \"x\"\n[agents.templates.x]\ntimeout = 3\n",
			want: []string{
				".vizier/config.toml:2: unknown key scheduler.max_runing (did you mean scheduler.max_running?)",
				".vizier/config.toml:4: unknown key job (did you mean jobs?)",
				".vizier/config.toml:6: agents.default: unknown key default.agnet (did you mean agent?)",
				".vizier/config.toml:8: agents.templates: templates.x.timeout: expected a duration such as \"30m\", found 3",
			},
		},
		"keys of another table": {
			repo: "max_queue = 1\nmax_running = 1\n[store]\nfields = 1\n[jobs]\nmax_running = 1\n",
			want: []string{
				".vizier/config.toml:1: unknown key max_queue",
				".vizier/config.toml:2: unknown key max_running (did you mean scheduler.max_running?)",
				".vizier/config.toml:4: unknown key store.fields",
				".vizier/config.toml:6: unknown key jobs.max_running (did you mean scheduler.max_running?)",
			},
		},
		"wrong types": {
			repo: "scheduler = 3\n[store]\ndurability = \"fast\"\n[jobs]\ngrace = 10\ntimeout = \"10\"\ncancel.cleanup_worktree = \"yes\"\n" +
				"[logs]\nkeep_attempts = -1\nmax_bytes = \"1\"\n[pools]\ngpu = \"two\"\n[commands]\ndraft = 4\n[display.lists.jobs]\nfields = [1]\n",
			want: []string{
				`.vizier/config.toml:1: scheduler: expected a table, found 3`,
				`.vizier/config.toml:3: store.durability: expected one of full, relaxed, found "fast"`,
				`.vizier/config.toml:5: jobs.grace: expected a duration such as "30s", found 10`,
				`.vizier/config.toml:6: jobs.timeout: expected a duration such as "30s" or "1h30m", found "10"`,
				`.vizier/config.toml:7: jobs.cancel.cleanup_worktree: expected true or false, found "yes"`,
				`.vizier/config.toml:9: logs.keep_attempts: expected 0 or more, found -1`,
				`.vizier/config.toml:10: logs.max_bytes: expected a whole number, found "1"`,
				`.vizier/config.toml:12: pools.gpu: expected a whole number, found "two"`,
				`.vizier/config.toml:14: commands.draft: expected a template: a path, or ID@VERSION, found 4`,
				`.vizier/config.toml:16: display.lists.jobs.fields: expected an array of strings, found an array`,
			},
		},
		"variables": {
			env: map[string]string{"VIZIER_SCHEDULER_MAX_RUNNING": "many", "VIZIER_APPROVALS_FROM_JOBS": "1"},
			want: []string{
				`env VIZIER_SCHEDULER_MAX_RUNNING: expected a whole number, found "many"`,
				`env VIZIER_APPROVALS_FROM_JOBS: expected true or false, found "1"`,
			},
		},
		"gates": {
			repo: "[merge.cicd_gate]\nscript = [\"ci\"]\nauto_resolve = \"yes\"\nretries = -1\nretry = 1\n[approve.stop_condition]\nretries = \"3\"\n[approve.stop]\n",
			env:  map[string]string{"VIZIER_APPROVE_STOP_CONDITION_RETRIES": "often"},
			want: []string{
				`.vizier/config.toml:2: merge.cicd_gate.script: expected a string, found an array`,
				`.vizier/config.toml:3: merge.cicd_gate.auto_resolve: expected true or false, found "yes"`,
				`.vizier/config.toml:4: merge.cicd_gate.retries: expected 0 or more, found -1`,
				`.vizier/config.toml:5: unknown key merge.cicd_gate.retry (did you mean merge.cicd_gate.retries?)`,
				`.vizier/config.toml:7: approve.stop_condition.retries: expected a whole number, found "3"`,
				`.vizier/config.toml:8: unknown key approve.stop (did you mean approvals?)`,
				`env VIZIER_APPROVE_STOP_CONDITION_RETRIES: expected a whole number, found "often"`,
			},
		},
		"not TOML": {
			repo: "[jobs]\ngrace = \"1s\"\ngrace\n",
			want: []string{".vizier/config.toml:3: "},
		},
		"deeper than the library bears": {
			repo: "# a\n[" + strings.Repeat("a.", 60000) + "a]\nb = 1\n",
			want: []string{".vizier/config.toml:2: more than 64 levels of nesting"},
		},
		"longer than the library bears": {
			repo: strings.Repeat("# x\n", 1<<14) + "\n",
			want: []string{".vizier/config.toml: it has 65537 bytes, more than the 65536 that a configuration may have"},
		},
		"dotted": {
			repo: "\nworkflow.global_workflow.dir = \"x\"\n",
			want: []string{".vizier/config.toml:2: unknown key workflow.global_workflow (did you mean workflow.global_workflows?)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(layers(t, "", c.repo, c.env))
			if !errors.Is(err, kernel.ErrInvalid) {
				t.Fatalf("%v", err)
			}
			got := strings.Split(err.Error(), "\n")
			if len(got) != len(c.want) {
				t.Fatalf("got %d findings:\n%s", len(got), err)
			}
			for i, w := range c.want {
				if got[i] != w && !(strings.HasSuffix(w, ": ") && strings.HasPrefix(got[i], w)) {
					t.Errorf("finding %d:\n got %s\nwant %s", i, got[i], w)
				}
			}
		})
	}
}

func TestUserDir(t *testing.T) {
	env := map[string]string{"HOME": "/h"}
	get := func(n string) string { return env[n] }
	for _, step := range []struct{ name, value, want string }{
		{"HOME", "/h", "/h/.config/vizier"}, {"XDG_CONFIG_HOME", "/x", "/x/vizier"}, {"VIZIER_CONFIG_DIR", "/v", "/v/vizier"},
	} {
		env[step.name] = step.value
		if got := UserDir(get); got != step.want {
			t.Errorf("with %s: %s, want %s", step.name, got, step.want)
		}
	}
}

// TestDocsPage compares docs/config.md with the settings; -update rewrites it.
func TestDocsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Configuration\n\n" +
		"Each value comes from the first of these that has it: a command's own flag, the variable named below,\n" +
		"the repository's `.vizier/config.toml`, the user's `config.toml`, the default.\n" +
		"The user's file is in `vizier/` below `$VIZIER_CONFIG_DIR`, `$XDG_CONFIG_HOME` or `~/.config`.\n" +
		"`-C FILE` replaces both files for the command that has it; jobs use the files, as they are in the checkout when the value is needed, such as when an agent is asked. `vizier config show --origin` prints the source of each value.\n" +
		"An unknown key or a value of the wrong type is an error, as is a file of more than 64 KiB, or one that nests deeper than 64 levels.\n\n" +
		"In a variable, commas separate the values of a list, and spaces around them do not count; no quotes or backslashes protect a comma, so a value with one must be in a file.\n" +
		"A variable that is set but empty does not count. Where empty means that there is no limit, no bound or no script, only a file can say so.\n\n" +
		"| key | default | variable | meaning |\n|---|---|---|---|\n")
	c := defaults()
	for _, s := range settings() {
		if s.names != nil {
			b.WriteString("| `" + s.key + "` | – | – | " + s.doc + " |\n")
			continue
		}
		b.WriteString("| `" + s.key + "` | `" + literal(s.get(&c)) + "` | `" + s.env() + "` | " + s.doc + " |\n")
	}
	path := filepath.Join("..", "..", "..", "docs", "config.md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(b.String(), string(have)); d != "" {
		t.Errorf("docs/config.md is not current; run with -update:\n%s", d)
	}
}
