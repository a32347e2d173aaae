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

// optionNames are what a job may ask of a cluster, and the option of sbatch
// that asks for it.
var optionNames = map[string]string{
	"partition": "--partition", "account": "--account", "qos": "--qos", "time": "--time", "cpus": "--cpus-per-task",
	"memory": "--mem", "gres": "--gres",
}

// reserved are options of sbatch by which an attempt would escape its runner or
// be another than it is.
var reserved = []string{"--array", "--bb", "--bbf", "--chdir", "--clusters", "--dependency", "--error", "--export-file", "--get-user-env", "--input", "--job-name",
	"--no-requeue", "--open-mode", "--output", "--parsable", "--requeue", "--signal", "--test-only", "--uid", "--gid", "--wait", "--wrap", "--quiet",
	"--ignore-pbs", "--kill-on-invalid-dep", "--help", "--usage", "--version"}

// exported are what --export may say: how much of the environment of whoever submits a
// job the runner gets. Variables that it set would be the runner's own, such as those of
// the dynamic linker, outside of every sandbox.
var exported = []string{"--export=NONE", "--export=NIL", "--export=ALL"}

// with are the options of sbatch for a job that asks for options besides. Those of the
// configuration come first, since sbatch takes the last of those with one name.
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

// ofBatch is an option as sbatch takes it: KEY=VALUE in its own words, and one of its own
// as it is.
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

// minutes is a duration as sbatch reads it, in whole minutes. What is none is
// sbatch's own notation.
func minutes(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return text
	}
	return strconv.Itoa(int((d + time.Minute - 1) / time.Minute))
}
