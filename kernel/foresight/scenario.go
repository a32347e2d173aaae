package foresight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Scenario returns f as a file in the format of kernel/testdata/scenario: the
// run's jobs and what happens to them, with a tick after each step. name
// returns what a job is called in the file.
func (f Fall) Scenario(jobs []kernel.NewJob, name func(kernel.JobID) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", f.Text(name))
	made, stale := map[kernel.Artifact]bool{}, map[kernel.Artifact]bool{}
	for _, n := range jobs {
		for _, a := range n.Spec.Produces {
			made[a] = true
		}
	}
	for _, n := range jobs {
		for _, a := range n.Spec.Needs {
			switch {
			case made[a] && (!f.Stale || !outlives(a) || stale[a]):
			case a.Kind == kernel.Custom:
				fmt.Fprintf(&b, "marker %s elsewhere\n", oneWord(a))
			default:
				stale[a] = true
				fmt.Fprintf(&b, "present %s\n", oneWord(a))
			}
		}
	}
	b.WriteString("jobs\n")
	for _, n := range jobs {
		b.WriteString(described(n, name) + "\n")
	}
	b.WriteString("end\ntick\n")
	for _, s := range f.History {
		b.WriteString("\n")
		switch s.What {
		case "finish":
			fmt.Fprintf(&b, "finish %s exit=%d outcome=%s", name(s.Job), s.Exit, s.Ends)
			if s.Class != kernel.NoFailure {
				b.WriteString(" class=" + s.Class.String())
			}
			b.WriteString("\n")
		case "cancel":
			fmt.Fprintf(&b, "cancel %s\nfinish %[1]s exit=143\n", name(s.Job))
		case "clock":
			fmt.Fprintf(&b, "clock +%s\n", s.After)
		default:
			fmt.Fprintf(&b, "%s %s\n", s.What, name(s.Job))
		}
		b.WriteString("tick\n")
	}
	return b.String()
}

// oneWord returns the text of a without its space.
func oneWord(a kernel.Artifact) string { return strings.ReplaceAll(a.String(), " (", "(") }

// described returns the line of a scenario that declares a job.
func described(n kernel.NewJob, name func(kernel.JobID) string) string {
	s := &n.Spec
	words := []string{name(n.ID), "run=explored"}
	say := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	named := func(key string, ids []kernel.JobID) {
		if len(ids) > 0 {
			var out []string
			for _, id := range ids {
				out = append(out, name(id))
			}
			say("%s=%s", key, strings.Join(out, ","))
		}
	}
	labels := func(key string, of []kernel.Artifact) {
		if len(of) > 0 {
			var out []string
			for _, a := range of {
				if a.Kind == kernel.CommandPatch {
					a.Name = name(kernel.JobID(a.Name))
				}
				out = append(out, oneWord(a))
			}
			say("%s=%s", key, strings.Join(out, ";"))
		}
	}
	named("after", s.After)
	named("after_any", s.AfterAny)
	labels("needs", s.Needs)
	labels("produces", s.Produces)
	for _, p := range s.ProducesOn {
		labels("produces_"+p.On.String(), p.Artifacts)
	}
	if s.MissingProducer != kernel.Block {
		say("missing_producer=%s", s.MissingProducer)
	}
	if s.FailureMode != kernel.ContinueIndependent {
		say("failure_mode=%s", s.FailureMode)
	}
	for _, r := range s.Routes {
		say("on=%s:%s:%d", r.On, name(r.To), r.Budget)
	}
	if s.Routed {
		say("routed")
	}
	if s.Transient != kernel.NotTransient {
		say("transient=%s", s.Transient)
	}
	if n.Approval.State != kernel.NotRequired {
		say("approval")
	}
	for key, times := range map[string]int{"retries": s.Budget.Retries, "reclaims": s.Budget.Reclaims} {
		if times > 0 {
			say("%s=%d", key, times)
		}
	}
	if s.Resumable {
		say("resumes=%d", s.Budget.Resumes)
	}
	again, exits := s.Retry.Names()
	for _, code := range exits {
		again = append(again, strconv.Itoa(code))
	}
	if len(again) > 0 {
		say("retry_on=%s", strings.Join(again, ","))
	}
	slices.Sort(words[2:])
	return strings.Join(words, " ")
}

// Text describes f in words. name returns what a job is called.
func (f Fall) Text(name func(kernel.JobID) string) string {
	switch f.Fault {
	case LeftOver:
		return fmt.Sprintf("%s is left open, and nothing will happen any more: %s: %s", name(f.Job), name(f.About), f.Why)
	case NeverRuns:
		return fmt.Sprintf("%s runs in no history", name(f.Job))
	case Silent:
		return fmt.Sprintf("%s fails, nothing handles that, and the last nodes succeed all the same", name(f.Job))
	case PassedRound:
		return fmt.Sprintf("%s runs, and the approval of %s was not given", name(f.Job), name(f.About))
	case TooEarly:
		return fmt.Sprintf("%s uses %s of an earlier run before %s has made it", name(f.Job), f.Why, name(f.About))
	default:
		return f.Fault.String()
	}
}
