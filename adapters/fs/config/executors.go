package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Executor is one that runs attempts elsewhere. What is zero is left to the
// executor.
type Executor struct {
	Kind         string // "slurm"
	Partition    string
	Account      string
	QOS          string
	Time         string // limit of a job, as a duration or as sbatch reads it
	CPUs         int
	Memory       string
	Gres         string
	Options      []string // further ones of sbatch
	MaxRunning   int      // jobs it is given at once; 0: no limit
	Pack         int      // attempts for each pilot; 0: none; PackAuto
	SubmitRate   int      // submissions a second; 0: no limit
	MaxSubmitted int      // jobs that the cluster has at once, of those it was given; 0: no limit
	Locks        bool     // whether flock crosses the shared file system
	Lease        time.Duration
	Poll         time.Duration
	Timeout      time.Duration // of one call of a client program
	Program      string        // this program as the nodes find it
}

// PackAuto is Executor.Pack for "auto".
const PackAuto = -1

var executorKeys = []string{"kind", "partition", "account", "qos", "time", "cpus", "memory", "gres", "options", "max_running",
	"pack", "submit_rate", "max_submitted", "locks", "lease", "poll", "timeout", "program"}

func executors() setting {
	return setting{key: "executors.NAME",
		doc: "A cluster that jobs may run on, with the keys kind (\"slurm\"), partition, account, qos, time, cpus, memory, gres, options, max_running, " +
			"pack, submit_rate, max_submitted, locks, lease, poll, timeout and program: docs/user/cluster.md says what they mean.",
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

// read takes the keys of a table over those that are there.
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
	if e.Kind == "" {
		return errors.New("kind: expected \"slurm\", found nothing")
	}
	return nil
}

func (e *Executor) set(key string, v any) (err error) {
	switch key {
	case "kind":
		if e.Kind, err = str(v); err == nil && e.Kind != "slurm" {
			err = fmt.Errorf("expected \"slurm\", found %q", e.Kind)
		}
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
		err = span(&e.Lease, 5*time.Second, v)
	case "poll":
		err = span(&e.Poll, 100*time.Millisecond, v)
	case "timeout":
		err = span(&e.Timeout, 100*time.Millisecond, v)
	default:
		err = fmt.Errorf("unknown key%s", hint(Nearest(key, executorKeys)))
	}
	return err
}

func count(to *int, v any) error {
	n, err := whole(v)
	*to = int(n)
	return err
}

// word is a string that can be an argument's value.
func word(v any) (string, error) {
	s, ok := v.(string)
	if !ok || strings.TrimSpace(s) == "" || strings.ContainsAny(s, "\n\x00") {
		return "", mismatch("a string that is not empty", v)
	}
	return s, nil
}

// span is a duration of at least least.
func span(to *time.Duration, least time.Duration, v any) error {
	text, _ := v.(string)
	d, err := time.ParseDuration(text)
	if err != nil || d < least {
		return mismatch(fmt.Sprintf("a duration of at least %s", least), v)
	}
	*to = d
	return nil
}

// shownExecutors is every value that is set, by its key below executors.
func shownExecutors(all map[string]Executor) map[string]string {
	out := map[string]string{}
	for name, e := range all {
		for key, v := range map[string]string{"kind": e.Kind, "partition": e.Partition, "account": e.Account, "qos": e.QOS, "time": e.Time,
			"memory": e.Memory, "gres": e.Gres, "program": e.Program, "options": strings.Join(e.Options, " ")} {
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
