package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
)

// call runs a client program.
func (s Settings) call(ctx context.Context, stdin string, argv ...string) (string, error) {
	out, err := cluster.Program{Argv: argv, Dir: s.Dir, Env: clientEnv(os.Environ()), Stdin: stdin, Enough: patient}.Run(ctx)
	failed, ran := errors.AsType[*cluster.ProgramError](err)
	if !ran {
		return out, err
	}
	text := complaint(failed.Stderr)
	if text == "" {
		text = failed.Err.Error()
	}
	if unreachable(text) || ctx.Err() != nil && !patient(text) {
		return "", fmt.Errorf("%s: %s", argv[0], text)
	}
	return "", fmt.Errorf("%s: %w", argv[0], &cluster.Refusal{Kind: kindOf(text), Said: text})
}

// clientEnv returns the environment of a client program, for output in English. It leaves
// out the variables of a Slurm job, which sbatch takes for its own options, and variables
// that stand for options that Vizier sets or reserves.
func clientEnv(environ []string) []string {
	kept := []string{"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT"}
	notFree := []string{"SBATCH_ARRAY_INX", "SBATCH_BURST_BUFFER", "SBATCH_GET_USER_ENV", "SBATCH_IGNORE_PBS", "SBATCH_WAIT"}
	env := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return slices.Contains(notFree, name) || name == "SBATCH_EXPORT" && !slices.Contains(exported, "--export="+value) ||
			strings.HasPrefix(name, "SLURM_") && !slices.Contains(kept, name) || name == "LC_ALL" ||
			strings.HasPrefix(name, "SQUEUE_") || strings.HasPrefix(name, "SCANCEL_") || strings.HasPrefix(name, "SACCT_")
	})
	return append(env, "LC_ALL=C")
}

// complaint returns the stderr of a client program as one line.
func complaint(stderr string) string {
	var lines []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		for _, who := range []string{"sbatch: ", "squeue: ", "scancel: ", "error: ", "fatal: ", "slurm_load_jobs error: "} {
			line = strings.TrimPrefix(line, who)
		}
		if line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

func patient(text string) bool { return mentions(text, "sleeping and retrying") }

// kindOf returns the kind of refusal that a complaint about a request is.
func kindOf(text string) cluster.RefusalKind {
	switch {
	case full(text):
		return cluster.Later
	case hopeless(text):
		return cluster.Never
	default:
		return cluster.Unclear
	}
}

// full reports that a request was refused because there are too many: it passes.
func full(text string) bool {
	return patient(text) || mentions(text, "MaxSubmit", "GrpSubmitJobs", "temporarily unable to accept job", "Resource temporarily unavailable", "rate limit", "Too many")
}

// unreachable reports that a complaint says that the controller cannot be reached.
func unreachable(text string) bool {
	return mentions(text, "Unable to contact slurm controller", "Connection refused", "Socket timed out", "connect failure",
		"Zero Bytes were transmitted", "backup controller in standby mode", "Communication connection failure",
		"Could not establish a configuration source", "Protocol authentication error", "Unable to connect")
}

// hopeless reports that a request will be refused however often it is made.
func hopeless(text string) bool {
	return mentions(text, "Invalid partition", "Invalid account", "Invalid qos", "Requested node configuration is not available",
		"More processors requested than permitted", "Requested time limit is invalid", "Invalid generic resource",
		"Memory required by task is not available", "Node count specification invalid", "CPU count", "Invalid feature specification",
		"Invalid reservation", "Invalid license", "unrecognized option", "Invalid --", "invalid option", "Invalid argument",
		"Invalid time limit", "Invalid numeric value", "is ambiguous", "doesn't allow an argument", "requires an argument",
		"User's group not permitted to use this partition", "Invalid node name", "Invalid job credential")
}

func mentions(text string, of ...string) bool {
	return slices.ContainsFunc(of, func(s string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(s)) })
}
