package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// reportVariable holds the path of the file in which a user's own agent, or its
// filter, may report what known programs report in their output.
const reportVariable = "VIZIER_AGENT_REPORT"

// maxReport is the maximum size of that file, in bytes.
const maxReport = 64 << 10

// report is the content of such a file. All keys are optional.
type report struct {
	Class   string    `json:"class"` // one of reportable
	Reason  string    `json:"reason"`
	Resets  time.Time `json:"resets_at"`
	Session string    `json:"session"`
	Model   string    `json:"model"`
	Version string    `json:"version"`
	Turns   int       `json:"turns"`
	Usage   struct {
		Input  int64   `json:"input_tokens"`
		Cached int64   `json:"cached_tokens"`
		Output int64   `json:"output_tokens"`
		Cost   float64 `json:"cost_usd"`
	} `json:"usage"`
	Denied []string `json:"denied"`
}

// reportable are the classes that an agent may report.
var reportable = []kernel.FailureClass{kernel.RateLimited, kernel.Unauthorized, kernel.Overloaded, kernel.Timeout, kernel.ExitFailure}

// Bounds of what one run of an agent can have used. A report of more is wrong,
// and would spoil every sum.
const (
	mostTurns   = 1_000_000
	mostTokens  = 1_000_000_000_000
	mostDollars = 1_000_000
)

// credible returns run without the counts that are negative or above their
// bounds.
func credible(run kernel.AgentRun) kernel.AgentRun {
	u := &run.Usage
	run.Turns = within(run.Turns, mostTurns)
	u.Input, u.Cached, u.Output = within(u.Input, mostTokens), within(u.Cached, mostTokens), within(u.Output, mostTokens)
	u.CostUSD = within(u.CostUSD, mostDollars)
	return run
}

// within returns n, or 0 unless it is between 0 and most.
func within[N int | int64 | float64](n, most N) N {
	if n >= 0 && n <= most {
		return n
	}
	return 0
}

// readReport adds the content of the file at path to an answer. A reported
// failure counts whatever the exit code is.
func readReport(path string, a *kernel.AgentAnswer) error {
	f, err := sys.OpenRegular(path, os.O_RDONLY)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxReport+1))
	if err != nil || len(data) == 0 {
		return err
	}
	if len(data) > maxReport {
		return fmt.Errorf("it is longer than %d bytes", maxReport)
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	if r.Class != "" {
		class, err := kernel.ParseFailureClass(r.Class)
		if err != nil || !slices.Contains(reportable, class) {
			return fmt.Errorf("class %q: expected one of %v", r.Class, reportable)
		}
		a.Class = class
		if a.Exit == 0 {
			a.Exit = 1
		}
		if a.Reason == "" {
			a.Reason = "the agent failed: " + class.String()
		}
	}
	if reason := cut(plain(r.Reason), maxWords); reason != "" && a.Class != kernel.NoFailure {
		a.Reason = reason
	}
	run := &a.Run
	run.Session, run.Model, run.Version = plain(r.Session), plain(r.Model), plain(r.Version)
	run.Turns = r.Turns
	run.Usage = kernel.Usage{Input: r.Usage.Input, Cached: r.Usage.Cached, Output: r.Usage.Output, CostUSD: r.Usage.Cost}
	*run = credible(*run)
	if !r.Resets.IsZero() {
		run.Resets = r.Resets.UTC()
	}
	for _, d := range r.Denied[:min(len(r.Denied), maxDenied)] {
		run.Denied = append(run.Denied, cut(plain(d), maxShown))
	}
	return nil
}
