package trace

import (
	"cmp"
	"path"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Span is a unit of work that has ended.
type Span struct {
	Trace      ID
	ID, Parent SpanID // no parent: the first span of its trace
	Name       string // has few distinct values, since backends group by it
	Start, End time.Time
	Failed     bool
	Message    string // why it failed
	Attributes []Attribute
}

// Attribute is a key and value of a span. The keys are OpenTelemetry's for
// CI/CD, generative AI and processes, where it has one.
type Attribute struct {
	Key   string
	Value any // string, int64 or float64
}

// Kinds are the events that end a span.
var Kinds = []kernel.EventKind{kernel.JobFailedRetryable, kernel.JobRewound, kernel.JobSucceeded, kernel.JobFailedFinal, kernel.JobCancelled, //nolint:gochecknoglobals // a table
	kernel.JobBlocked, kernel.RunSucceeded, kernel.RunFailed, kernel.RunBlocked}

// results are OpenTelemetry's words for the result of a CI/CD run or task.
var results = map[kernel.EventKind]string{ //nolint:gochecknoglobals // a table
	kernel.JobSucceeded: "success", kernel.JobFailedFinal: "failure", kernel.JobCancelled: "cancellation", kernel.JobBlocked: "skip",
	kernel.RunSucceeded: "success", kernel.RunFailed: "failure", kernel.RunBlocked: "skip",
}

// Job returns the spans that event e of job j ends: that of the attempt
// e.Attempt, if r is its result, and that of the job. Each generation of a job
// has its own span, which begins when the job was created. Spans that were
// returned before are returned again unchanged.
func Job(j *kernel.Job, e kernel.Event, r *kernel.Result) []Span {
	if !Sampled(j) || !slices.Contains(Kinds, e.Kind) {
		return nil
	}
	generation := e.Generation
	if e.Kind == kernel.JobRewound {
		generation--
	}
	span := Span{Trace: traceOf(j), ID: jobSpan(j.ID, generation), Name: name(j), Start: j.Created, End: e.At}
	span.Parent = Parse(j.Spec.Origin.TraceParent).Span
	if run := j.Spec.Origin.Run; run != "" && j.Spec.Origin.Parent == "" {
		span.Parent = runSpan(run)
	}
	kind := e.Kind
	var out []Span
	if e.Attempt > 0 && r != nil {
		attempt := attempt(j, e, r)
		attempt.Trace, attempt.Parent = span.Trace, span.ID
		out = append(out, attempt)
		switch {
		case r.Outcome == kernel.NoOutcome:
		case kind == kernel.JobRewound, kind == ending[r.Outcome]:
			kind, span.End = ending[r.Outcome], r.Ended
			span.Failed, span.Message = attempt.Failed, attempt.Message
		}
	}
	if results[kind] == "" { // the job continues
		return out
	}
	if kind == e.Kind && kind == kernel.JobFailedFinal {
		span.Failed, span.Message = true, cmp.Or(span.Message, e.Reason)
	}
	span.text("cicd.pipeline.task.name", span.Name)
	span.text("cicd.pipeline.task.run.id", string(j.ID))
	span.text("cicd.pipeline.task.run.result", results[kind])
	span.text("cicd.pipeline.run.id", string(j.Spec.Origin.Run))
	span.of(j)
	span.number("vizier.generation", int64(generation))
	return append(out, span)
}

var ending = map[kernel.Outcome]kernel.EventKind{ //nolint:gochecknoglobals // a table
	kernel.OutcomeSucceeded: kernel.JobSucceeded, kernel.OutcomeFailed: kernel.JobFailedFinal,
	kernel.OutcomeCancelled: kernel.JobCancelled, kernel.OutcomeBlocked: kernel.JobBlocked,
}

// attempt returns the span of an ended attempt. A lost attempt has no times on
// record.
func attempt(j *kernel.Job, e kernel.Event, r *kernel.Result) Span {
	s := Span{ID: attemptSpan(kernel.AttemptID{Job: j.ID, N: e.Attempt}), Name: name(j) + " attempt", Start: r.Started, End: r.Ended}
	if s.End.IsZero() {
		s.End = e.At
	}
	if s.Start.IsZero() {
		s.Start = s.End
	}
	s.of(j)
	s.number("vizier.attempt", int64(e.Attempt))
	s.text("host.name", r.Place.Host)
	if r.Outcome == kernel.NoOutcome {
		s.Failed, s.Message = true, cmp.Or(e.Reason, "its runner ended without a result")
		s.text("error.type", kernel.WorkerLost.String())
		return s
	}
	s.Failed = r.Outcome == kernel.OutcomeFailed
	if s.Failed {
		s.Message = r.Reason
		s.text("error.type", r.Class.String())
	}
	if r.Place.PID != 0 {
		s.number("process.pid", int64(r.Place.PID))
		s.number("process.exit.code", int64(r.Exit))
	}
	if used := r.Place.Used; used != (kernel.Used{}) {
		s.Attributes = append(s.Attributes, Attribute{"vizier.cpu_seconds", used.CPU.Seconds()})
		s.number("vizier.memory_bytes", used.Memory)
	}
	if a := r.Agent; a != nil {
		s.text("gen_ai.agent.name", a.Agent)
		s.text("gen_ai.response.model", a.Model)
		s.text("gen_ai.conversation.id", a.Session)
		s.number("gen_ai.usage.input_tokens", a.Usage.Input)
		s.number("gen_ai.usage.output_tokens", a.Usage.Output)
	}
	return s
}

// Run returns the span of the run that event e ends. first is the run's first
// job, name the run's name. A run that continues after its end is returned
// again when it next ends, as the same span.
func Run(first *kernel.Job, name string, e kernel.Event) []Span {
	if !Sampled(first) || results[e.Kind] == "" {
		return nil
	}
	s := Span{Trace: traceOf(first), ID: runSpan(e.Run), Parent: Parse(first.Spec.Origin.TraceParent).Span, Name: name, Start: first.Created, End: e.At,
		Failed: e.Kind == kernel.RunFailed}
	s.text("cicd.pipeline.name", name)
	s.text("cicd.pipeline.run.id", string(e.Run))
	s.text("cicd.pipeline.result", results[e.Kind])
	if first.Number != 0 {
		s.text("vizier.ref", first.Number.String())
	}
	s.text("vcs.ref.head.name", first.Spec.Origin.Branch)
	return []Span{s}
}

// name returns the job's name, without the parts that differ each time.
func name(j *kernel.Job) string {
	program := ""
	if args := j.Spec.Task.Args; len(args) > 0 && !j.Spec.Task.Builtin {
		program = path.Base(args[0])
	}
	return cmp.Or(j.Spec.Origin.Node, j.Spec.Name, program, "job")
}

// of adds the job's number and reference.
func (s *Span) of(j *kernel.Job) {
	if j.Number != 0 {
		s.text("vizier.ref", j.Ref())
	}
	s.text("vizier.executor", j.Spec.Task.On())
}

func (s *Span) text(key, value string) {
	if value != "" {
		s.Attributes = append(s.Attributes, Attribute{key, value})
	}
}

func (s *Span) number(key string, n int64) { s.Attributes = append(s.Attributes, Attribute{key, n}) }
