package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// setting is one key of the configuration: what it means, and where its value
// goes. A key that ends in a name in capitals stands for all names there.
type setting struct {
	key   string
	doc   string
	put   func(c *Config, name string, v any) error
	get   func(c *Config) any
	names func(c *Config) []string // for a key that stands for many
}

// Setting is one value of a configuration, for people.
type Setting struct {
	Key    string
	Value  any    // bool, int64, string or []string; durations are strings
	Origin string // "default", "env NAME" or "FILE:LINE"
	Doc    string // one sentence
}

// TOML returns the line that would set the value.
func (s Setting) TOML() string { return s.Key + " = " + literal(s.Value) }

func literal(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case []string:
		quoted := make([]string, len(v))
		for i, s := range v {
			quoted[i] = strconv.Quote(s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	default:
		return fmt.Sprint(v)
	}
}

// shownWords returns a list of words on one line, also where it counts as what a person has read and trusts. A word that
// looks like several, like none or like another one is quoted; what else a shell would want quoted, such as a placeholder
// in braces, stays as it is.
func shownWords(words []string) string {
	out := slices.Clone(words)
	for i, word := range out {
		if quoted := kernel.CommandLine(word); word == "" || strings.ContainsAny(word, ` '"\`) || strings.HasPrefix(quoted, "$'") {
			out[i] = quoted
		}
	}
	return strings.Join(out, " ")
}

// settings returns every key, in the order of the documentation.
func settings() []setting {
	all := []setting{
		number("scheduler.max_running", "How many jobs run at once in this repository; 0 means as many as there are CPUs.",
			func(c *Config) *int { return &c.Scheduler.MaxRunning }),
		duration("scheduler.lock_timeout", "How long a command that changes something waits for another one that holds the scheduler lock. One that only looks waits a second, and then does without the lock.", false,
			func(c *Config) *time.Duration { return &c.Scheduler.LockTimeout }),
		toggle("scheduler.resident", "Whether a resident scheduler starts by itself while jobs wait for time or for the outside world.",
			func(c *Config) *bool { return &c.Scheduler.Resident }),
		duration("scheduler.resident_linger", "How long the resident scheduler stays when no job needs it any more.", false,
			func(c *Config) *time.Duration { return &c.Scheduler.ResidentLinger }),
		pools(),
		choice("store.durability", "\"full\" survives a power cut; \"relaxed\" survives the death of any process, and is faster.",
			[]string{"full", "relaxed"}, func(c *Config) *string { return &c.Store.Durability }),
		duration("gc.keep.age", "How long ended jobs are kept; empty means no bound. Those that ended first are removed first, an hour after their end at the earliest, "+
			"by the resident scheduler and `vizier jobs gc --keep`.", true,
			func(c *Config) *time.Duration { return &c.GC.Keep.Age }),
		number("gc.keep.count", "How many ended jobs are kept; 0 means no bound.",
			func(c *Config) *int { return &c.GC.Keep.Count }),
		number("gc.keep.bytes", "How many bytes on the disk the files of ended jobs may take; 0 means no bound.",
			func(c *Config) *int64 { return &c.GC.Keep.Bytes }),
		duration("gc.pack_after", "How long after the end of a job its files are packed into one, a sixth of the size; empty means never. "+
			"Idle runners, the resident scheduler and `vizier jobs gc` do this.", true,
			func(c *Config) *time.Duration { return &c.GC.PackAfter }),
		number("history.max_bytes", "How many bytes the sealed history of the store may take; 0 means no bound. The resident scheduler and `vizier jobs gc` remove the oldest part.",
			func(c *Config) *int64 { return &c.History.MaxBytes }),
		duration("history.keep", "How long the sealed history of the store is kept; empty means no bound.", true,
			func(c *Config) *time.Duration { return &c.History.Keep }),
		duration("leases.ttl", "How long a runner on another host that shares the repository counts as alive without a heartbeat.", false,
			func(c *Config) *time.Duration { return &c.Leases.TTL }),
		duration("leases.heartbeat", "How often a runner sends a heartbeat and checks whether its attempt is still current.", false,
			func(c *Config) *time.Duration { return &c.Leases.Heartbeat }),
		duration("leases.stalled", "How long a runner on this host may send no heartbeat before it is shown as stalled.", false,
			func(c *Config) *time.Duration { return &c.Leases.Stalled }),
		toggle("leases.locks", "Whether hosts that share the repository see each other's file locks; a free lock then says at once that a runner is gone.",
			func(c *Config) *bool { return &c.Leases.Locks }),
		duration("jobs.grace", "How long a job has between the request to stop and its kill.", false,
			func(c *Config) *time.Duration { return &c.Jobs.Grace }),
		duration("jobs.timeout", "Time limit of one attempt of a job that names none, as it is when the job is submitted; empty means no limit.", true,
			func(c *Config) *time.Duration { return &c.Jobs.Timeout }),
		text("jobs.executor", "The executor of submitted jobs, and of a run's agent and shell nodes, that name none: \"local\", this machine, or one of [executors]; empty means local.",
			func(c *Config) *string { return &c.Jobs.Executor }),
		choice("jobs.sandbox", "The minimum sandbox of submitted jobs, and of the agents, scripts and gates of runs: \"none\", \"best-effort\" or \"required\".",
			[]string{"none", "best-effort", "required"}, func(c *Config) *string { return &c.Jobs.Sandbox }),
		list("jobs.write", "Further paths that jobs in a sandbox may write to, such as a compiler's cache.",
			func(c *Config) *[]string { return &c.Jobs.Write }),
		choice("jobs.network", "The network that jobs in a sandbox can reach at most: \"all\" or \"none\".",
			[]string{"all", "none"}, func(c *Config) *string { return &c.Jobs.Network }),
		toggle("jobs.cancel.cleanup_worktree", "Whether a cancel also removes the worktree that the job owns.",
			func(c *Config) *bool { return &c.Jobs.Cancel.CleanupWorktree }),
		number("logs.keep_attempts", "How many earlier attempts of a job keep their logs.",
			func(c *Config) *int { return &c.Logs.KeepAttempts }),
		number("logs.max_bytes", "How many of the newest bytes of each log are kept; 0 means all.",
			func(c *Config) *int64 { return &c.Logs.MaxBytes }),
		number("events.max_bytes", "Size in bytes at which a file of the event log is full and the next begins; 0 means never.",
			func(c *Config) *int64 { return &c.Events.MaxBytes }),
		number("events.files", "How many files of the event log are kept; the oldest is removed first.",
			func(c *Config) *int { return &c.Events.Files }),
		hooks(),
		choice("display.lists.jobs.format", "The format of `vizier ls`: \"list\" (one line per job, by runs), \"block\", \"table\" or \"json\".",
			[]string{"list", "block", "table", "json"}, func(c *Config) *string { return &c.Display.Jobs.Format }),
		fieldNames(list("display.lists.jobs.fields", "Fields of `vizier ls` as block, table or JSON, in order; empty means the standard ones.",
			func(c *Config) *[]string { return &c.Display.Jobs.Fields }), view.ListFields),
		toggle("display.lists.jobs.show_succeeded", "Whether `vizier ls` shows jobs that succeeded.",
			func(c *Config) *bool { return &c.Display.Jobs.ShowSucceeded }),
		fieldNames(list("display.lists.jobs_show.fields", "Fields of `vizier show`, in order; empty means the standard ones.",
			func(c *Config) *[]string { return &c.Display.Show }), view.ShowFields),
		fromJobs(), requiredFrom(),
		text("agent", "The agent of nodes without a more specific setting: the name of a shim, or \"builtin\"; empty means codex.",
			func(c *Config) *string { return &c.Agents.Label }),
		agents(),
		commands(),
		executors(),
		choice("containers.engine", "The engine that runs jobs in containers: \"podman\", \"docker\" or \"apptainer\".",
			[]string{"podman", "docker", "apptainer"}, func(c *Config) *string { return &c.Containers.Engine }),
		placeholders(list("containers.run", "The command line that runs a job in a container, in place of the engine's usual one; docs/user/containers.md lists the words in braces.",
			func(c *Config) *[]string { return &c.Containers.Run }), []string{"{image}", "{command}"}, "{name}", "{dir}", "{user}", "{mount}", "{variable}", "{setting}"),
		placeholders(list("containers.remove", "The command line that removes a container whose job was ended, in place of the engine's usual one.",
			func(c *Config) *[]string { return &c.Containers.Remove }), []string{"{name}"}),
		collector(text("otel.endpoint", "The address of an OpenTelemetry collector that accepts OTLP over HTTP and gets a span of each run, job and attempt, such as \"http://localhost:4318\"; empty means none.",
			func(c *Config) *string { return &c.OTel.Endpoint })),
		toggle("workflow.global_workflows.enabled", "Whether `vizier run` also finds templates in the user's own directory, by name, by ID@VERSION and by path; the repository's win.",
			func(c *Config) *bool { return &c.Workflow.GlobalEnabled }),
		absolute(text("workflow.global_workflows.dir", "That directory, an absolute path; empty means workflows beside the user's config.toml.",
			func(c *Config) *string { return &c.Workflow.GlobalDir })),
		text("inbox.home", "The directory that holds the trees inbox, processed, finished and failed; relative to the repository's root.",
			func(c *Config) *string { return &c.Inbox.Home }),
		choice("inbox.layout", "The meaning of directories in the inbox: \"simple\" none, \"single_owner\" REPOSITORY/BRANCH, \"multi_owner\" OWNER/REPOSITORY/BRANCH.",
			[]string{"simple", "single_owner", "multi_owner"}, func(c *Config) *string { return &c.Inbox.Layout }),
		text("inbox.owner", "The owner of every repository of the layout single_owner.",
			func(c *Config) *string { return &c.Inbox.Owner }),
		text("inbox.flow", "The template of prompts that name none.",
			func(c *Config) *string { return &c.Inbox.Flow }),
		duration("inbox.debounce", "How long a dropped file must be unchanged before it is claimed.", false,
			func(c *Config) *time.Duration { return &c.Inbox.Debounce }),
		duration("inbox.visible", "How long an ended prompt stays where it was dropped, before it moves to finished.", false,
			func(c *Config) *time.Duration { return &c.Inbox.Visible }),
		duration("inbox.poll", "How often `vizier inbox watch` looks if no change is reported.", false,
			func(c *Config) *time.Duration { return &c.Inbox.Poll }),
		duration("inbox.stalled_after", "How long the running jobs of a prompt may print nothing before it is called stalled.", false,
			func(c *Config) *time.Duration { return &c.Inbox.Stalled }),
		toggle("inbox.failure_archive", "Whether prompts whose runs failed are also copied to failed.",
			func(c *Config) *bool { return &c.Inbox.FailureArchive }),
		repositories(),
		text("release.gate.script", "A shell command that `vizier release` runs once the release is made, and undoes it if it fails; empty means none.",
			func(c *Config) *string { return &c.Release.GateScript }),
	}
	return append(all, flows()...)
}

// defaults returns the built-in defaults.
func defaults() Config {
	return Config{
		Scheduler:  Scheduler{LockTimeout: 30 * time.Second, Resident: true, ResidentLinger: 5 * time.Second},
		Pools:      map[string]int{},
		Hooks:      map[string]Hook{},
		Store:      Store{Durability: "full"},
		GC:         GC{Keep{Age: 90 * 24 * time.Hour, Count: 20_000, Bytes: 2 << 30}, time.Hour},
		History:    History{MaxBytes: 256 << 20, Keep: 90 * 24 * time.Hour},
		Leases:     Leases{TTL: 30 * time.Second, Heartbeat: 10 * time.Second, Stalled: time.Minute},
		Jobs:       Jobs{Grace: 10 * time.Second, Sandbox: "none", Network: "all"},
		Containers: Containers{Engine: "podman"},
		Logs:       Logs{KeepAttempts: 5, MaxBytes: 64 << 20},
		Events:     Events{MaxBytes: 4 << 20, Files: 8},
		Display:    Display{Jobs: JobsList{Format: "list"}},
		Commands:   map[string]string{},
		Executors:  map[string]Executor{},
		Workflow:   Workflow{GlobalEnabled: true},
		Inbox: Inbox{Home: ".vizier", Layout: "simple", Flow: "draft", Debounce: 2 * time.Second, Visible: 5 * time.Second,
			Poll: 10 * time.Second, Stalled: 10 * time.Minute, Repositories: map[string]string{}},
		Flows:   Flows{},
		origins: map[string]string{},
	}
}

// Settings returns every value with its origin, in the order of the
// documentation.
func (c *Config) Settings() []Setting {
	var out []Setting
	for _, s := range settings() {
		if s.names == nil {
			out = append(out, c.setting(s, s.key, s.get(c)))
			continue
		}
		for _, name := range s.names(c) {
			key := s.table() + "." + name
			values := *c
			switch v := s.get(&values).(type) {
			case map[string]int:
				out = append(out, c.setting(s, key, int64(v[name])))
			case map[string]string:
				out = append(out, c.setting(s, key, v[name]))
			}
		}
	}
	return out
}

// Keys returns every key with its default and what it means, in the order of the documentation. A key
// that ends in a name in capitals stands for all names there, and its value is nil.
func Keys() (out []Setting) {
	c := defaults()
	for _, s := range settings() {
		key := Setting{Key: s.key, Origin: "default", Doc: s.doc}
		if s.names == nil {
			key.Value = s.get(&c)
		}
		out = append(out, key)
	}
	return out
}

func (c *Config) setting(s setting, key string, v any) Setting {
	origin := c.origins[key]
	if origin == "" {
		origin = "default"
	}
	return Setting{Key: key, Value: v, Origin: origin, Doc: s.doc}
}

// table returns the key without the name at its end.
func (s setting) table() string { return s.key[:strings.LastIndexByte(s.key, '.')] }

// env returns the name of the environment variable that sets the key.
func (s setting) env() string {
	return "VIZIER_" + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}
