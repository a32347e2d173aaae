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

// with are the options of sbatch for a job that asks for options besides.
func (s Settings) with(options []string) ([]string, error) {
	asked := map[string]string{"partition": s.Partition, "account": s.Account, "qos": s.QOS, "time": s.Time, "memory": s.Memory, "gres": s.Gres}
	if s.CPUs > 0 {
		asked["cpus"] = strconv.Itoa(s.CPUs)
	}
	raw := slices.Clone(s.Options)
	for _, o := range options {
		if strings.HasPrefix(o, "--") {
			raw = append(raw, o)
			continue
		}
		key, value, ok := strings.Cut(o, "=")
		if optionNames[key] == "" || !ok || value == "" {
			return nil, fmt.Errorf("option %q of a cluster: expected KEY=VALUE, KEY one of %s, or an option of sbatch such as --constraint=VALUE: %w",
				o, strings.Join(slices.Sorted(maps.Keys(optionNames)), ", "), kernel.ErrInvalid)
		}
		asked[key] = value
	}
	if n, err := strconv.Atoi(asked["cpus"]); asked["cpus"] != "" && (err != nil || n < 1) {
		return nil, fmt.Errorf("option cpus=%s of a cluster: expected a positive number: %w", asked["cpus"], kernel.ErrInvalid)
	}
	asked["time"] = minutes(asked["time"])
	var out []string
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		if v := asked[key]; v != "" {
			out = append(out, optionNames[key]+"="+v)
		}
	}
	for _, o := range raw {
		name, _, _ := strings.Cut(o, "=")
		switch {
		case !strings.HasPrefix(o, "--") || len(name) < 4 || strings.ContainsAny(o, "\x00\n") || strings.ContainsAny(name, " "):
			return nil, fmt.Errorf("option %q of sbatch: expected --NAME or --NAME=VALUE: %w", o, kernel.ErrInvalid)
		case len(name) > len("--ex") && strings.HasPrefix("--export", name):
			if !slices.Contains(exported, o) {
				return nil, fmt.Errorf("option %s of sbatch sets variables of the runner: give variables to the job with --env, or say %s: %w", name, strings.Join(exported, ", "), kernel.ErrInvalid)
			}
		case slices.ContainsFunc(reserved, func(r string) bool { return strings.HasPrefix(r, name) }):
			return nil, fmt.Errorf("option %s of sbatch is not free, since Vizier depends on it: leave it out: %w", name, kernel.ErrInvalid)
		}
		out = append(out, o)
	}
	return out, nil
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
