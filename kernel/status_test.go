package kernel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The words and sets of seed 000, and the five states of seed 004 (semantics 2,
// decisions 1, 2).
func TestStatusTable(t *testing.T) {
	table := []struct {
		status                    kernel.Status
		word, coarse              string
		active, terminal, waiting bool
	}{
		{kernel.Queued, "queued", "queued", true, false, false},
		{kernel.WaitingOnDeps, "waiting_on_deps", "queued", true, false, true},
		{kernel.WaitingOnApproval, "waiting_on_approval", "queued", true, false, true},
		{kernel.WaitingOnLocks, "waiting_on_locks", "queued", true, false, true},
		{kernel.Running, "running", "running", true, false, false},
		{kernel.FailedRetryable, "failed_retryable", "failed_retryable", true, false, false},
		{kernel.Unscheduled, "unscheduled", "queued", false, false, false},
		{kernel.Succeeded, "succeeded", "succeeded", false, true, false},
		{kernel.Failed, "failed", "failed_final", false, true, false},
		{kernel.Cancelled, "cancelled", "failed_final", false, true, false},
		{kernel.BlockedByDependency, "blocked_by_dependency", "failed_final", false, true, false},
		{kernel.BlockedByApproval, "blocked_by_approval", "failed_final", false, true, false},
	}
	for _, c := range table {
		s := c.status
		if s.String() != c.word || s.Coarse() != c.coarse || s.Active() != c.active || s.Terminal() != c.terminal || s.Waiting() != c.waiting {
			t.Errorf("%s: coarse %s, active %v, terminal %v, waiting %v", s, s.Coarse(), s.Active(), s.Terminal(), s.Waiting())
		}
	}
	if len(kernel.Statuses()) != len(table) {
		t.Errorf("%d statuses, %d in the table", len(kernel.Statuses()), len(table))
	}
}

// checkWords checks that every value of an enumeration prints as its name, that
// the name parses to it, and that nothing else parses.
func checkWords[T interface {
	~uint8
	fmt.Stringer
}](t *testing.T, parse func(string) (T, error), words ...string) {
	t.Helper()
	for i, w := range words {
		if got := T(i).String(); got != w {
			t.Errorf("%T %d prints as %q, want %q", T(0), i, got, w)
		}
		if got, err := parse(w); w != "" && (err != nil || got != T(i)) {
			t.Errorf("%q reads as %v, %v", w, got, err)
		}
	}
	for _, bad := range []string{"", "no such word", strings.ToUpper(words[len(words)-1])} {
		if _, err := parse(bad); !errors.Is(err, kernel.ErrInvalid) {
			t.Errorf("%T %q: %v", T(0), bad, err)
		}
	}
	if beyond := T(len(words)).String(); !strings.Contains(beyond, fmt.Sprint(len(words))) {
		t.Errorf("%T %d prints as %q", T(0), len(words), beyond)
	}
}

func TestWords(t *testing.T) {
	var statuses []string
	for _, s := range kernel.Statuses() {
		statuses = append(statuses, s.String())
	}
	checkWords(t, kernel.ParseStatus, statuses...)
	checkWords(t, kernel.ParseWaitKind, "", "dependencies", "pinned_head", "preconditions", "approval", "locks")
	checkWords(t, kernel.ParseArtifactKind, "plan_branch", "plan_doc", "plan_commits", "target_branch", "merge_sentinel", "command_patch", "custom")
	checkWords(t, kernel.ParseMissingProducer, "block", "wait")
	checkWords(t, kernel.ParseFailureMode, "continue_independent", "block_downstream")
	checkWords(t, kernel.ParseTransient, "none", "transient", "remove")
	checkWords(t, kernel.ParsePreconditionKind, "clean_worktree", "branch_exists", "custom")
	checkWords(t, kernel.ParseCleanupStatus, "", "skipped", "done", "degraded", "failed")
	checkWords(t, kernel.ParseApprovalState, "", "pending", "approved", "rejected", "expired")
	checkWords(t, kernel.ParseAfterPolicy, "success", "any")
	checkWords(t, kernel.ParseLockMode, "exclusive", "shared")
	checkWords(t, kernel.ParseOutcome, "", "succeeded", "failed", "blocked", "cancelled")
	checkWords(t, kernel.ParseFailureClass, "", "exit", "timeout", "signal", "oom", "worker_lost", "preflight", "launch",
		"effect_in_doubt", "missing_input", "data_error", "missing_outputs", "rejected", "rate_limited", "unauthorized", "overloaded", "preempted")
}

func TestValidJobID(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	for s, want := range map[string]bool{id: true, "": false, id[1:]: false, id + "0": false,
		strings.Replace(id, "a", "A", 1): false, strings.Replace(id, "7", "-", 1): false, strings.Replace(id, "f", "g", 1): false} {
		if kernel.ValidJobID(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}

func TestWaitSet(t *testing.T) {
	var w kernel.WaitSet
	for _, k := range []kernel.WaitKind{kernel.NoWait, kernel.OnLocks, kernel.OnDependencies, kernel.OnLocks, kernel.NoWait,
		kernel.OnApproval, kernel.OnPinnedHead, kernel.OnPreconditions, kernel.OnDependencies, kernel.NoWait} {
		w = w.With(k)
	}
	if got := fmt.Sprint(w.Kinds()); got != "[locks dependencies approval pinned_head preconditions]" {
		t.Error(got)
	}
}
