package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Executor configures an executor that runs attempts on other hosts. A zero
// field means the executor's default.
type Executor struct {
	Kind string // "slurm", "command" or "ssh"

	// For kind slurm.
	Partition string
	Account   string
	QOS       string
	Time      string // time limit of a job, as a duration or in sbatch's format
	Memory    string
	Gres      string

	// For kind command: command lines.
	Submit, List, Cancel []string

	// For kind ssh.
	Hosts []Host
	SSH   []string // command line of the client; empty: ssh

	CPUs         int
	Options      []string // further ones, as a job asks for them with --option
	MaxRunning   int      // number of jobs that it is given at once; 0: no limit
	Pack         int      // attempts per pilot; 0: no pilots; or PackAuto
	SubmitRate   int      // submissions per second; 0: no limit
	MaxSubmitted int      // number of submitted jobs that the cluster has at once; 0: no limit
	Locks        bool     // whether flock crosses the shared file system
	Lease        time.Duration
	Poll         time.Duration
	Timeout      time.Duration // time limit of one query
	Program      string        // path of this program on the nodes
	Container    string        // image of jobs that name none; "": they run in no container
}

// Host is a host of an executor of the kind ssh.
type Host struct {
	Name  string
	Slots int // number of jobs that it runs at once
}

// PackAuto is Executor.Pack for "auto".
const PackAuto = -1

// executorKinds maps each kind to the keys that only it has. Keys that are in
// no list are valid for every kind.
var executorKinds = map[string][]string{
	"slurm":   {"partition", "account", "qos", "time", "memory", "gres", "options"},
	"command": {"submit", "list", "cancel", "options"},
	"ssh":     {"hosts", "ssh"},
}

var executorKeys = append(slices.Concat(slices.Collect(maps.Values(executorKinds))...), "kind", "cpus", "max_running", "pack", "submit_rate", "max_submitted",
	"locks", "lease", "poll", "timeout", "program", "container")

func executors() setting {
	return setting{key: "executors.NAME",
		doc: "A cluster that jobs can run on, with the keys kind (\"slurm\", \"command\" or \"ssh\"), cpus, max_running, pack, submit_rate, max_submitted, " +
			"locks, lease, poll, timeout, program and container; for Slurm partition, account, qos, time, memory, gres and options; for commands submit, list, cancel and options; " +
			"for ssh hosts and ssh: docs/user/cluster.md and docs/user/executors.md describe them.",
		get:   func(c *Config) any { return shownExecutors(c.Executors) },
		names: func(c *Config) []string { return slices.Sorted(maps.Keys(shownExecutors(c.Executors))) },
		put: func(c *Config, name string, v any) error {
			if name == "local" || strings.ContainsAny(name, " ./=\t\n") {
				return fmt.Errorf("%q cannot be the name of an executor: local is this machine, and a name has no spaces, dots, slashes or equals signs", name)
			}
			e, known := c.Executors[name]
			if !known {
				e = Executor{Locks: true}
			}
			if err := e.read(v); err != nil {
				return err
			}
			c.Executors[name] = e
			return nil
		}}
}

// read sets the fields that the table v gives and keeps the others.
func (e *Executor) read(v any) error {
	keys, ok := v.(map[string]any)
	if !ok {
		return mismatch("a table", v)
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := e.set(key, keys[key]); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return e.validate(keys)
}

// validate returns an error if a key is missing or belongs to another kind.
func (e *Executor) validate(keys map[string]any) error {
	own, known := executorKinds[e.Kind]
	if !known {
		found := "nothing"
		if e.Kind != "" {
			found = strconv.Quote(e.Kind)
		}
		return fmt.Errorf("kind: expected \"slurm\", \"command\" or \"ssh\", found %s", found)
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		for _, kind := range slices.Sorted(maps.Keys(executorKinds)) {
			if slices.Contains(executorKinds[kind], key) && !slices.Contains(own, key) {
				return fmt.Errorf("%s: an executor of the kind %q has no such key, which is one of %q", key, e.Kind, kind)
			}
		}
	}
	needed := map[string]bool{"submit": len(e.Submit) > 0, "list": len(e.List) > 0, "cancel": len(e.Cancel) > 0, "hosts": len(e.Hosts) > 0}
	for _, key := range own {
		if set, is := needed[key]; is && !set {
			return fmt.Errorf("%s: expected one, since the kind is %q, found nothing", key, e.Kind)
		}
	}
	return nil
}

func (e *Executor) set(key string, v any) (err error) {
	switch key {
	case "kind":
		e.Kind, err = str(v)
	case "submit":
		e.Submit, err = words(v)
	case "list":
		e.List, err = words(v)
	case "cancel":
		e.Cancel, err = words(v)
	case "ssh":
		e.SSH, err = words(v)
	case "hosts":
		e.Hosts, err = hosts(v)
	case "partition":
		e.Partition, err = word(v)
	case "account":
		e.Account, err = word(v)
	case "qos":
		e.QOS, err = word(v)
	case "time":
		e.Time, err = word(v)
	case "memory":
		e.Memory, err = word(v)
	case "gres":
		e.Gres, err = word(v)
	case "program":
		if e.Program, err = word(v); err == nil && !strings.HasPrefix(e.Program, "/") {
			err = fmt.Errorf("expected an absolute path, found %q", e.Program)
		}
	case "container":
		e.Container, err = word(v)
	case "cpus":
		err = count(&e.CPUs, v)
	case "max_running":
		err = count(&e.MaxRunning, v)
	case "pack":
		if v == "auto" {
			e.Pack = PackAuto
		} else if err = count(&e.Pack, v); err != nil {
			err = mismatch(`a whole number or "auto"`, v)
		}
	case "submit_rate":
		err = count(&e.SubmitRate, v)
	case "max_submitted":
		err = count(&e.MaxSubmitted, v)
	case "options":
		e.Options, err = words(v)
	case "locks":
		on, ok := v.(bool)
		if !ok {
			return mismatch("true or false", v)
		}
		e.Locks = on
	case "lease":
		err = durationFrom(&e.Lease, 5*time.Second, v)
	case "poll":
		err = durationFrom(&e.Poll, 100*time.Millisecond, v)
	case "timeout":
		err = durationFrom(&e.Timeout, 100*time.Millisecond, v)
	default:
		err = fmt.Errorf("unknown key%s", hint(Nearest(key, executorKeys)))
	}
	return err
}

// hosts parses a list of NAME or NAME:SLOTS.
func hosts(v any) ([]Host, error) {
	names, err := words(v)
	if err != nil {
		return nil, mismatch(`hosts such as ["a", "b:4"]`, v)
	}
	var all []Host
	for _, text := range names {
		h := Host{text, 1}
		if name, slots, many := strings.Cut(text, ":"); many {
			n, err := strconv.Atoi(slots)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("%q: expected a host, or HOST:SLOTS with a number of at least 1", text)
			}
			h = Host{name, n}
		}
		if !hostName().MatchString(h.Name) {
			return nil, fmt.Errorf("%q cannot be the name of a host: what ssh needs besides stands in its configuration", h.Name)
		}
		if slices.ContainsFunc(all, func(o Host) bool { return o.Name == h.Name }) {
			return nil, fmt.Errorf("host %s stands there twice: expected HOST:SLOTS once", h.Name)
		}
		all = append(all, h)
	}
	return all, nil
}

var hostName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]*$`) })

func count(to *int, v any) error {
	n, err := wholeNumber(v)
	*to = int(n)
	return err
}

// word parses a non-empty string of one line.
func word(v any) (string, error) {
	s, ok := v.(string)
	if !ok || strings.TrimSpace(s) == "" || strings.ContainsAny(s, "\n\x00") {
		return "", mismatch("a string that is not empty", v)
	}
	return s, nil
}

// durationFrom parses a duration of at least least.
func durationFrom(to *time.Duration, least time.Duration, v any) error {
	text, _ := v.(string)
	d, err := time.ParseDuration(text)
	if err != nil || d < least {
		return mismatch(fmt.Sprintf("a duration of at least %s", least), v)
	}
	*to = d
	return nil
}

// shownExecutors returns every value that is set, by its key below executors.
func shownExecutors(all map[string]Executor) map[string]string {
	out := map[string]string{}
	for name, e := range all {
		for key, v := range map[string]string{"kind": e.Kind, "partition": e.Partition, "account": e.Account, "qos": e.QOS, "time": e.Time,
			"memory": e.Memory, "gres": e.Gres, "program": e.Program, "container": e.Container, "options": shownWords(e.Options),
			"submit": shownWords(e.Submit), "list": shownWords(e.List), "cancel": shownWords(e.Cancel), "ssh": shownWords(e.SSH),
			"hosts": shownHosts(e.Hosts)} {
			if v != "" {
				out[name+"."+key] = v
			}
		}
		for key, n := range map[string]int{"cpus": e.CPUs, "max_running": e.MaxRunning, "submit_rate": e.SubmitRate, "max_submitted": e.MaxSubmitted} {
			if n != 0 {
				out[name+"."+key] = strconv.Itoa(n)
			}
		}
		for key, d := range map[string]time.Duration{"lease": e.Lease, "poll": e.Poll, "timeout": e.Timeout} {
			if d != 0 {
				out[name+"."+key] = d.String()
			}
		}
		switch {
		case e.Pack == PackAuto:
			out[name+".pack"] = "auto"
		case e.Pack != 0:
			out[name+".pack"] = strconv.Itoa(e.Pack)
		}
		if !e.Locks {
			out[name+".locks"] = "false"
		}
	}
	return out
}

func shownHosts(all []Host) string {
	var names []string
	for _, h := range all {
		if names = append(names, h.Name); h.Slots > 1 {
			names[len(names)-1] += ":" + strconv.Itoa(h.Slots)
		}
	}
	return strings.Join(names, " ")
}
