// Package trace presents what happened to jobs and runs as spans of a
// distributed trace, and computes which span a job's command belongs to. Span
// ids are derived from the ids of jobs and runs, so that a span that is
// reported twice, or by different processes, has the same id. The package is as
// pure as the kernel.
package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// ID names a trace. The zero value is none.
type ID [16]byte

// SpanID names a span of a trace. The zero value is none.
type SpanID [8]byte

// Context is the trace context that a process is given (W3C Trace Context,
// level 2). The zero value is none.
type Context struct {
	Trace   ID
	Span    SpanID
	Sampled bool // whoever began the trace wants it recorded
}

// Parse parses the value of a `traceparent`. An invalid value gives the zero
// Context, because the recommendation requires that it be ignored.
func Parse(text string) Context {
	var c Context
	var flags [1]byte
	part := strings.Split(text, "-")
	known := len(part) == 4 && part[0] == "00" || len(part) > 3 && part[0] > "00" && part[0] != "ff"
	if !known || !decoded(part[0], make([]byte, 1)) || !decoded(part[1], c.Trace[:]) || !decoded(part[2], c.Span[:]) || !decoded(part[3], flags[:]) {
		return Context{}
	}
	if c.Trace == (ID{}) || c.Span == (SpanID{}) {
		return Context{}
	}
	c.Sampled = flags[0]&1 != 0
	return c
}

// decoded fills to from exactly as many lower-case hexadecimal digits as it
// holds. It reports whether it could.
func decoded(digits string, to []byte) bool {
	if len(digits) != hex.EncodedLen(len(to)) || strings.ToLower(digits) != digits {
		return false
	}
	_, err := hex.Decode(to, []byte(digits))
	return err == nil
}

// String returns the value of a `traceparent`, or "" for the zero Context.
func (c Context) String() string {
	if c == (Context{}) {
		return ""
	}
	flags := 0
	if c.Sampled {
		flags = 1
	}
	return fmt.Sprintf("00-%x-%x-%02x", c.Trace, c.Span, flags)
}

// Of returns the context that the command of j's attempt n is given. If Vizier
// makes no spans of its own, or the trace is not recorded, that is the
// submitter's context.
func Of(j *kernel.Job, n int, spans bool) Context {
	from := Parse(j.Spec.Origin.TraceParent)
	if !spans || from != (Context{}) && !from.Sampled {
		return from
	}
	return Context{Trace: traceOf(j), Span: attemptSpan(kernel.AttemptID{Job: j.ID, N: n}), Sampled: true}
}

// Sampled reports whether spans of j are recorded.
func Sampled(j *kernel.Job) bool {
	from := Parse(j.Spec.Origin.TraceParent)
	return from == (Context{}) || from.Sampled
}

// traceOf returns the submitter's trace or, without one, that of j's run or of
// j itself.
func traceOf(j *kernel.Job) ID {
	if from := Parse(j.Spec.Origin.TraceParent); from != (Context{}) {
		return from.Trace
	}
	own := "job " + string(j.ID)
	if run := j.Spec.Origin.Run; run != "" {
		own = "run " + string(run)
	}
	return ID(digest("trace", own)[:16])
}

func runSpan(run kernel.RunID) SpanID { return SpanID(digest("run", string(run))[:8]) }

func jobSpan(id kernel.JobID, generation int) SpanID {
	return SpanID(digest("job", fmt.Sprint(id, " ", generation))[:8])
}

func attemptSpan(a kernel.AttemptID) SpanID {
	return SpanID(digest("attempt", fmt.Sprint(a.Job, " ", a.N))[:8])
}

func digest(kind, of string) []byte {
	sum := sha256.Sum256([]byte(kind + "\x00" + of))
	return sum[:]
}
