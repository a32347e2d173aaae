package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// class is a class of errors: its name in JSON, its exit code, and the default
// hint for what to type next.
type class struct {
	code string
	exit int
	hint string
}

// The classes that commands refer to.
var (
	classUsage   = class{"usage", 2, "vizier --help"}
	classRefused = class{"refused", 10, ""}
	classTimeout = class{"timeout", 124, ""}
)

// newerHint is the hint for a store with work of a newer version.
const newerHint = "run `vizier doctor --fix` of the version that wrote it, or of a later one, to finish what it began; until then this version only reads"

// moreFiles is the hint for an error of the system that too many files are open.
const moreFiles = "raise the limit of open files (`ulimit -n`)"

// classify returns the class of an error. The first matching row counts; an
// error that matches none is a plain failure.
func classify(err error) class {
	var own *failure
	if errors.As(err, &own) {
		c := own.class
		if own.hint != "" {
			c.hint = own.hint
		}
		return c
	}
	if _, inside := errors.AsType[*app.InsideError](err); inside {
		return class{classRefused.code, classRefused.exit, "only a person can decide, in a terminal that no job started"}
	}
	var stuck *app.AgentError
	if errors.As(err, &stuck) {
		return class{"agent", 2, stuck.Next}
	}
	var broken *config.Error
	if errors.As(err, &broken) {
		return class{"config", 2, "`vizier help settings` lists the keys; `vizier -C FILE` reads another file; running processes keep the earlier configuration"}
	}
	if shut, ok := errors.AsType[*config.UnreadableError](err); ok {
		return class{"config", 2, shut.Next()}
	}
	if gone, ok := errors.AsType[kernel.Missing](err); ok {
		hint := ""
		if strings.HasPrefix(gone.What, "run ") {
			hint = "vizier runs"
		}
		return class{"not_found", 1, hint}
	}
	if small, ok := errors.AsType[*kernel.PoolError](err); ok {
		key := small.Pool
		if strings.Trim(strings.ToLower(key), "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			key = strconv.Quote(key)
		}
		return class{"invalid", 2, fmt.Sprintf("`[pools] %s = %d` in the configuration", key, small.Asked)}
	}
	for _, row := range []struct {
		is error
		class
	}{
		{context.Canceled, class{"interrupted", 130, ""}},
		{git.ErrNamed, class{"not_a_repository", 1, "at the top of the working tree: `echo \"gitdir: $GIT_DIR\" >.git`"}},
		{git.ErrNotRepository, class{"not_a_repository", 1, "git init"}},
		{view.ErrMaybeUnreadable, class{"not_found", 1, "vizier doctor"}},
		{kernel.ErrNotFound, class{"not_found", 1, "vizier ls --all"}},
		{kernel.ErrInvalid, class{"invalid", 2, ""}},
		{kernel.ErrRunning, class{"running", 1, "wait for them with `vizier wait`, or end them with `vizier cancel`"}},
		{kernel.ErrOwn, class{classRefused.code, classRefused.exit, "[approvals] required_from: another person than the submitter must approve it, and than whoever retried it"}},
		{kernel.ErrConflict, class{"conflict", 1, ""}},
		{kernel.ErrStale, class{"stale", 1, ""}},
		{fs.ErrForeign, class{"foreign", 10, ""}},
		{fs.ErrNewer, class{"newer", 1, newerHint}},
		{app.ErrOtherHost, class{"busy", 1, "one host schedules at a time, unless locks hold between hosts; docs/user/cluster.md says how Vizier finds out"}},
		{app.ErrBusy, class{"busy", 1, "another command holds the scheduler lock; [scheduler] lock_timeout says how long to wait"}},
		{context.DeadlineExceeded, class{"timeout", 124, ""}},
		{syscall.EFBIG, class{"failed", 1, makeRoom(syscall.EFBIG)}},
		{syscall.EMFILE, class{"failed", 1, moreFiles}},
		{syscall.ENFILE, class{"failed", 1, moreFiles}},
		{os.ErrNotExist, class{"failed", 1, "check the path: without a leading / it is relative to the current directory"}},
	} {
		if errors.Is(err, row.is) {
			return row.class
		}
	}
	return class{"failed", 1, ""}
}

// failure is an error whose class the command knows. If err is nil, nothing is
// printed and only the exit code matters.
type failure struct {
	class class
	err   error
	hint  string
}

func (f *failure) Error() string {
	if f.err == nil {
		return f.class.code
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// exits returns the failure that ends a successful command with an exit code as
// its answer, or nil for code 0.
func exits(code int) error {
	if code == 0 {
		return nil
	}
	return &failure{class: class{exit: code}}
}

// refuse returns the failure of a request that a guard refused.
func refuse(err error, hint string) error { return &failure{class: classRefused, err: err, hint: hint} }

// usageError returns the failure for wrong input that the parser accepts.
func usageError(err error) error { return &failure{class: classUsage, err: err} }

// errorDocument is an error in JSON: docs/schemas/error.schema.json.
type errorDocument struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`

	Findings []finding `json:"findings,omitempty"` // if the error consists of several, or is about a place in a file
}

// finding is one of the problems that an error consists of.
type finding struct {
	Message string `json:"message"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Node    string `json:"node,omitempty"`
	Field   string `json:"field,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// findingsOf returns the findings that an error consists of.
func findingsOf(err error) []finding {
	var out []finding
	if found, ok := errors.AsType[workflow.Diagnostics](err); ok {
		for _, d := range found {
			text := strings.TrimSuffix(d.Msg+"\n"+d.More, "\n")
			out = append(out, finding{text, d.Pos.File, d.Pos.Line, d.Node, d.Field, d.Hint})
		}
		return out
	}
	if batch, ok := errors.AsType[*enqueue.BatchError](err); ok {
		for _, l := range batch.Lines {
			out = append(out, finding{Message: l.Text, Line: l.Line})
		}
		return out
	}
	if bad, ok := errors.AsType[*config.Error](err); ok {
		for _, f := range bad.Findings {
			one := finding{Message: f.Text}
			if one.File, one.Line = f.At(); one.File == "" {
				one.Message = f.Place + ": " + f.Text
			}
			out = append(out, one)
		}
		return out
	}
	return joinedOf(err)
}

// joinedOf returns the errors that were combined by errors.Join.
func joinedOf(err error) (out []finding) {
	all, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	if !ok || all.Error() != errors.Join(all.Unwrap()...).Error() {
		return nil
	}
	for _, e := range all.Unwrap() {
		if inner := joinedOf(e); inner != nil {
			out = append(out, inner...)
		} else {
			out = append(out, finding{Message: message(e)})
		}
	}
	return out
}

// fail reports err, if it is not nil, and returns the exit code.
func (u *ui) fail(err error, asJSON bool) int {
	if err == nil {
		return 0
	}
	c := classify(err)
	var own *failure
	if errors.As(err, &own) && own.err == nil {
		return c.exit
	}
	if asJSON {
		if text, err := answer.JSON(errorDocument{errorBody{c.code, message(err), c.hint, findingsOf(err)}}, ""); err == nil {
			io.WriteString(u.err, u.refs.text(text)) // a reader of an error has no record in which to look up an id
			return c.exit
		}
	}
	u.stderr(message(err))
	if c.hint != "" {
		u.stderr("hint: " + c.hint)
	}
	return c.exit
}

// message returns an error's text for people: without uninformative class names
// at the ends of its lines, and without Go's names for an interrupt and a
// time-out.
func message(err error) string {
	text := strings.ReplaceAll(kernel.Said(err), context.Canceled.Error(), "interrupted")
	text = strings.ReplaceAll(text, context.DeadlineExceeded.Error(), "time is up")
	var found workflow.Diagnostics
	errors.As(err, &found)
	for _, d := range found { // one line for each, even if a name contains line ends
		lines := d.Lines()
		for i, l := range lines {
			lines[i] = plainLine(l)
		}
		text = strings.ReplaceAll(text, d.String(), strings.Join(lines, "\n"))
	}
	if batch, ok := errors.AsType[*enqueue.BatchError](err); ok {
		for _, l := range batch.Lines {
			text = strings.ReplaceAll(text, l.Text, plainLine(l.Text))
		}
	}
	return text
}
