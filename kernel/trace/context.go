// Package trace says what happened to jobs and runs as spans of a distributed trace,
// and which span a job's command is part of. Ids follow from those of jobs and runs
// alone, so that whoever tells of a span, and how often, it is the same one. It is as
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

// Context is a span as a process is told of it (W3C Trace Context, level 2). The zero
// value is none.
type Context struct {
	Trace   ID
	Span    SpanID
	Sampled bool // whoever began the trace wants to see it
}

// Parse reads the value of a `traceparent`. What is not one is none: the
// recommendation has such a value ignored.
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

// decoded fills to with lower-case hexadecimal digits, as many as it holds.
func decoded(digits string, to []byte) bool {
	if len(digits) != hex.EncodedLen(len(to)) || strings.ToLower(digits) != digits {
		return false
	}
	_, err := hex.Decode(to, []byte(digits))
	return err == nil
}

// String is the value of a `traceparent`; "" of none.
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

// Of is what the command of j's attempt n is told. Without spans of our own, and where
// the trace is not to be seen, that is what the submitter was told.
func Of(j *kernel.Job, n int, spans bool) Context {
	from := Parse(j.Spec.Origin.TraceParent)
	if !spans || from != (Context{}) && !from.Sampled {
		return from
	}
	return Context{Trace: traceOf(j), Span: attemptSpan(kernel.AttemptID{Job: j.ID, N: n}), Sampled: true}
}

// Sampled reports that there are spans of j.
func Sampled(j *kernel.Job) bool {
	from := Parse(j.Spec.Origin.TraceParent)
	return from == (Context{}) || from.Sampled
}

// traceOf is the submitter's trace, or one of the run's or the job's own.
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
