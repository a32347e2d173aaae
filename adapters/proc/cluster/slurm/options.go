package slurm

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// optionNames maps what a job may ask of a cluster to the option of sbatch for it.
var optionNames = map[string]string{
	"partition": "--partition", "account": "--account", "qos": "--qos", "time": "--time", "cpus": "--cpus-per-task",
	"memory": "--mem", "gres": "--gres",
}

// reserved are the options of sbatch by which an attempt would escape its runner, or
// which Vizier sets itself.
var reserved = []string{"--array", "--bb", "--bbf", "--chdir", "--clusters", "--dependency", "--error", "--export-file", "--get-user-env", "--input", "--job-name",
	"--no-requeue", "--open-mode", "--output", "--parsable", "--requeue", "--signal", "--test-only", "--uid", "--gid", "--wait", "--wrap", "--quiet",
	"--ignore-pbs", "--kill-on-invalid-dep", "--help", "--usage", "--version"}

// exported are the permitted values of --export: how much of the submitting process's
// environment the runner gets. It may not set variables: they would take effect in the
// runner, outside of every sandbox, such as those of the dynamic linker.
var exported = []string{"--export=NONE", "--export=NIL", "--export=ALL"}

// with returns the options of sbatch for a job with these options of its own. Those of the
// configuration come first: if a name occurs twice, sbatch takes the last value.
func (s Settings) with(options []string) ([]string, error) {
	site := map[string]string{"partition": s.Partition, "account": s.Account, "qos": s.QOS, "time": s.Time, "memory": s.Memory, "gres": s.Gres}
	if s.CPUs > 0 {
		site["cpus"] = strconv.Itoa(s.CPUs)
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(site)) {
		if v := site[key]; v != "" {
			all = append(all, key+"="+v)
		}
	}
	all = slices.Concat(all, s.Options, options)
	for i, o := range all {
		own, err := ofBatch(o)
		if err != nil {
			return nil, err
		}
		all[i] = own
	}
	return all, nil
}

// ofBatch returns an option in the form of sbatch: it translates KEY=VALUE, and leaves
// --NAME and --NAME=VALUE as they are.
func ofBatch(option string) (string, error) {
	name, value, given := strings.Cut(option, "=")
	if !strings.HasPrefix(option, "--") {
		if optionNames[name] == "" || !given || value == "" {
			return "", fmt.Errorf("option %q of a cluster: expected KEY=VALUE, KEY one of %s, or an option of sbatch such as --constraint=VALUE: %w",
				option, strings.Join(slices.Sorted(maps.Keys(optionNames)), ", "), kernel.ErrInvalid)
		}
		if n, err := strconv.Atoi(value); name == "cpus" && (err != nil || n < 1) {
			return "", fmt.Errorf("option %s of a cluster: expected a positive number: %w", option, kernel.ErrInvalid)
		}
		if name == "time" {
			value = minutes(value)
		}
		return optionNames[name] + "=" + value, nil
	}
	switch {
	case len(name) < 4 || strings.ContainsAny(option, "\x00\n") || strings.Contains(name, " "):
		return "", fmt.Errorf("option %q of sbatch: expected --NAME or --NAME=VALUE: %w", option, kernel.ErrInvalid)
	case len(name) > len("--ex") && strings.HasPrefix("--export", name):
		if !slices.Contains(exported, option) {
			return "", fmt.Errorf("option %s of sbatch sets variables of the runner: give variables to the job with --env, or say %s: %w", name, strings.Join(exported, ", "), kernel.ErrInvalid)
		}
	case slices.ContainsFunc(reserved, func(r string) bool { return strings.HasPrefix(r, name) }):
		return "", fmt.Errorf("option %s of sbatch is not free, since Vizier depends on it: leave it out: %w", name, kernel.ErrInvalid)
	}
	return option, nil
}

// minutes returns a duration in whole minutes, as sbatch reads it. A text that is no
// duration is sbatch's own notation, and stays as it is.
func minutes(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return text
	}
	return strconv.Itoa(int((d + time.Minute - 1) / time.Minute))
}
