package kernel_test

import (
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// do runs one command of a scenario and returns the answer.
func (w *stage) do(line string) []string {
	f := strings.Fields(line)
	if len(f) == 0 || strings.HasPrefix(line, "#") {
		return nil
	}
	verb, args := f[0], f[1:]
	name := kernel.JobID("")
	if len(args) > 0 {
		name = kernel.JobID(args[0])
	}
	s := w.look()
	switch verb {
	case "job":
		return w.enqueue([]string{strings.TrimPrefix(line, "job ")})
	case "tick":
		return w.tick(s)
	case "finish":
		return w.verb(s)(kernel.Finish(s, w.result(s, name, args[1:])))
	case "die":
		w.results[s.Job(name).Attempt()] = nil
		if len(args) > 1 {
			r := w.result(s, name, args[1:])
			w.results[r.Attempt] = &r
		}
	case "refuse":
		return w.verb(s)(kernel.Refuse(s, s.Job(name).Attempt(), strings.Join(args[1:], " "), false))
	case "approve":
		return w.verb(s)(kernel.Approve(s, name, kernel.Consent{By: "ann"}))
	case "reject":
		return w.verb(s)(kernel.Reject(s, name, kernel.Refusal{By: "ann", Reason: strings.Join(args[1:], " ")}))
	case "cancel":
		var runs []kernel.RunID
		for _, run := range args[1:] {
			runs = append(runs, kernel.RunID(run))
		}
		return w.verb(s)(kernel.CancelIn(s, runs, name, "ann", true))
	case "retry":
		return w.verb(s)(kernel.Retry(s, name, "ann"))
	case "gc":
		return w.commit(s, retention.GC(s, w.duration(args[0])))
	case "clock":
		w.now = w.now.Add(w.duration(strings.TrimPrefix(args[0], "+")))
	default:
		w.change(verb, args)
	}
	return nil
}

// change performs a command about the world around the scheduler.
func (w *stage) change(verb string, args []string) {
	rest := strings.Join(args, " ")
	switch verb {
	case "marker", "unmarker":
		a, owner := w.artifact(strings.Join(args[:len(args)-1], " ")), kernel.JobID(args[len(args)-1])
		w.unmark(a, owner)
		if verb == "marker" {
			w.markers[a] = append(w.markers[a], owner)
		}
	case "present", "absent":
		w.present[w.artifact(rest)] = verb == "present"
	case "branch":
		w.heads[args[0]] = kernel.CommitID(args[1])
	case "unbranch":
		delete(w.heads, args[0])
	case "checkout":
		w.head = rest
	case "dirty", "clean":
		w.dirty = verb == "dirty"
	case "broken":
		w.broken = rest
	case "mended":
		w.broken = ""
	case "merging":
		w.merging = rest
	case "limit":
		for _, arg := range args {
			key, n, _ := strings.Cut(arg, "=")
			if key == "max_running" {
				w.limits.MaxRunning = w.number(n)
			} else {
				w.limits.Pools[key] = w.number(n)
			}
		}
	default:
		w.t.Fatalf("no such command: %s %s", verb, rest)
	}
}

// tick decides and applies. A second tick must find nothing to do in any
// scenario.
func (w *stage) tick(s *kernel.Snapshot) []string {
	p := kernel.Decide(s)
	w.commit(s, p)
	answer := told(s, s.Apply(p), p, true)
	if again := kernel.Decide(w.look()); len(again.Actions()) > 0 {
		w.t.Errorf("a second tick finds more to do: %+v", again.Actions())
	}
	return answer
}

// verb applies the plan of a verb or returns its error.
func (w *stage) verb(s *kernel.Snapshot) func(kernel.Plan, error) []string {
	return func(p kernel.Plan, err error) []string {
		if err != nil {
			return []string{"error: " + err.Error()}
		}
		return w.commit(s, p)
	}
}

// enqueue adds the jobs of some lines in one transaction, a second after the
// previous jobs.
func (w *stage) enqueue(lines []string) []string {
	w.now = w.now.Add(time.Second)
	s := w.look()
	var news []kernel.NewJob
	for _, line := range lines {
		news = append(news, w.spec(line))
	}
	p, err := kernel.Enqueue(s, news)
	if err != nil {
		return []string{"error: " + err.Error()}
	}
	w.commit(s, p)
	return nil
}

// spec parses NAME and options: after=A,B needs=LABEL;LABEL
// produces=LABEL;LABEL produces_OUTCOME=LABEL;… lock=KEY[:shared],… pool=NAME:N,… missing_producer=wait
// run=R failure_mode=MODE on=OUTCOME:NAME transient=MODE routed approval
// retries=N resumes=N reclaims=N retry_exit=N no_args pinned=BRANCH@COMMIT
// pre=clean_worktree,branch_exists:B worktree=PATH
func (w *stage) spec(line string) kernel.NewJob {
	f := strings.Fields(line)
	n := kernel.NewJob{ID: kernel.JobID(f[0]), Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}}
	spec := &n.Spec
	for _, arg := range f[1:] {
		key, value, _ := strings.Cut(arg, "=")
		var err error
		switch key {
		case "after":
			for id := range strings.SplitSeq(value, ",") {
				spec.After = append(spec.After, kernel.JobID(id))
			}
		case "after_any":
			for id := range strings.SplitSeq(value, ",") {
				spec.AfterAny = append(spec.AfterAny, kernel.JobID(id))
			}
		case "retry_on":
			for class := range strings.SplitSeq(value, ",") {
				if spec.Retry, err = spec.Retry.Named(class); err != nil {
					w.t.Fatal(err)
				}
			}
		case "needs":
			spec.Needs = w.artifacts(value)
		case "produces":
			spec.Produces = w.artifacts(value)
		case "produces_succeeded", "produces_failed", "produces_blocked", "produces_cancelled":
			on, _ := kernel.ParseOutcome(strings.TrimPrefix(key, "produces_"))
			spec.ProducesOn = append(spec.ProducesOn, kernel.Products{On: on, Artifacts: w.artifacts(value)})
		case "lock", "pool":
			for one := range strings.SplitSeq(value, ",") {
				spec.Locks = append(spec.Locks, w.lock(key, one))
			}
		case "missing_producer":
			spec.MissingProducer, err = kernel.ParseMissingProducer(value)
		case "failure_mode":
			spec.FailureMode, err = kernel.ParseFailureMode(value)
		case "on":
			o, to, _ := strings.Cut(value, ":")
			to, budget, given := strings.Cut(to, ":")
			r := kernel.Route{To: kernel.JobID(to)}
			if given {
				r.Budget = w.number(budget)
			}
			r.On, err = kernel.ParseOutcome(o)
			spec.Routes = append(spec.Routes, r)
		case "transient":
			spec.Transient, err = kernel.ParseTransient(value)
		case "run":
			spec.Origin.Run = kernel.RunID(value)
		case "routed":
			spec.Routed = true
		case "approval":
			n.Approval = kernel.Require(w.now, "bob")
		case "retries":
			spec.Budget.Retries = w.number(value)
		case "reclaims":
			spec.Budget.Reclaims = w.number(value)
		case "resumes":
			spec.Budget.Resumes, spec.Resumable = w.number(value), true
		case "retry_exit":
			spec.Retry.Exits = spec.Retry.Exits.With(w.number(value))
		case "no_args":
			spec.Task.Args = nil
		case "pinned":
			branch, commit, _ := strings.Cut(value, "@")
			spec.Pinned = kernel.PinnedHead{Branch: branch, Commit: kernel.CommitID(commit)}
		case "pre":
			kind, branch, _ := strings.Cut(value, ":")
			p := kernel.Precondition{Branch: branch}
			p.Kind, err = kernel.ParsePreconditionKind(kind)
			spec.Preconditions = append(spec.Preconditions, p)
		case "worktree":
			n.Context = kernel.Context{Root: value, Worktree: value, Owned: true}
		default:
			w.t.Fatalf("no such key: %s", arg)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return n
}

func (w *stage) lock(key, value string) kernel.Lock {
	name, mode, _ := strings.Cut(value, ":")
	l := kernel.Lock{Key: name}
	if key == "pool" {
		l.Mode, l.Units = kernel.Shared, w.number(mode)
	} else if mode == "shared" {
		l.Mode = kernel.Shared
	}
	return l
}

// result parses how an attempt ended. It produces what its job declares for that
// end.
func (w *stage) result(s *kernel.Snapshot, name kernel.JobID, args []string) kernel.Result {
	j := s.Job(name)
	r := kernel.Result{Attempt: j.Attempt(), Ended: w.now}
	without := ""
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		var err error
		switch key {
		case "exit":
			r.Exit = w.number(value)
		case "class":
			r.Class, err = kernel.ParseFailureClass(value)
		case "outcome":
			r.Outcome, err = kernel.ParseOutcome(value)
		case "attempt":
			r.Attempt.N = w.number(value)
		case "without":
			without = value
		default:
			w.t.Fatalf("no such key: %s", arg)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	switch {
	case r.Outcome != kernel.NoOutcome:
	case r.Exit == 0:
		r.Outcome = kernel.OutcomeSucceeded
	case r.Class == kernel.NoFailure:
		r.Outcome, r.Class = kernel.OutcomeFailed, kernel.ExitFailure
	default:
		r.Outcome = kernel.OutcomeFailed
	}
	for _, a := range j.Spec.Products(r.Outcome) {
		if a.Kind == kernel.Custom && a.String() != without {
			r.Produced = append(r.Produced, a)
		}
	}
	return r
}

func (w *stage) artifacts(value string) []kernel.Artifact {
	var out []kernel.Artifact
	for l := range strings.SplitSeq(value, ";") {
		out = append(out, w.artifact(l))
	}
	return out
}

func (w *stage) artifact(label string) kernel.Artifact {
	a, err := kernel.ParseArtifact(strings.Replace(label, "(", " (", 1))
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *stage) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}
