package vizier

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/trace"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// SpanExporter sends spans of the repository at root to the collector at endpoint.
type SpanExporter func(ctx context.Context, endpoint, root string, spans []trace.Span) error

// ServeHooks is Serve for a program that can export spans. It also runs the
// hooks.
func ServeHooks(args []string, stderr io.Writer, environ []string, export SpanExporter) (code int, ok bool) {
	if !slices.Equal(args, []string{"__hooks"}) {
		return 0, false
	}
	return serveHooks(stderr, environ, export), true
}

// spanProgram returns that program's file in the directory of own, or "" if it
// is not installed.
func spanProgram(own string) string {
	file := filepath.Join(filepath.Dir(own), proc.OTelName)
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return ""
	}
	return file
}

// pause is how long nothing is exported after a failure, so that an unreachable
// collector does not delay hooks.
const pause = 30 * time.Second

// exports returns the hook that exports spans, or none if no collector is
// configured.
func (w *world) exports(export SpanExporter) []app.Hook {
	endpoint := w.config().OTel.Endpoint
	if export == nil || endpoint == "" || about(w.untrusted(context.Background()), "otel") {
		return nil
	}
	return []app.Hook{{Name: "otel.endpoint", On: trace.Kinds, Run: func(ctx context.Context, e kernel.Event) error {
		_, last := w.store.TracesFailed()
		failing := !last.IsZero()
		if passed := time.Since(last); failing && passed >= 0 && passed < pause { // the clock may have been set back
			return nil
		}
		spans, err := w.spans(ctx, e)
		if err != nil || len(spans) == 0 {
			return err
		}
		err = export(ctx, endpoint, w.local.Root, spans)
		if err == nil && !failing {
			return nil
		}
		if err2 := w.store.NoteTraces(err); err2 != nil || failing { // of failures in a row, only the first is returned
			return err2
		}
		return err
	}}}
}

// spans returns the spans that e ended. There are none if the job is gone.
func (w *world) spans(ctx context.Context, e kernel.Event) ([]trace.Span, error) {
	near := kernel.Near{Kind: kernel.Itself, Job: e.Job}
	if e.Job == "" {
		near = kernel.Near{Kind: kernel.Members, Run: e.Run}
	}
	snap, err := w.scheduler.Records(ctx, kernel.Scope{Near: []kernel.Near{near}})
	if err != nil {
		return nil, err
	}
	if e.Job == "" {
		for _, j := range snap.Members(e.Run) {
			if j.Spec.Origin.Parent == "" {
				return trace.Run(j, view.RunName(j), e), nil
			}
		}
		return nil, nil
	}
	j := snap.Job(e.Job)
	if j == nil {
		return nil, nil
	}
	attempts, err := w.store.Attempts(e.Job)
	if err != nil {
		return nil, err
	}
	for _, r := range attempts {
		if r.Attempt.N == e.Attempt {
			return trace.Job(j, e, &r), nil
		}
	}
	return trace.Job(j, e, nil), nil
}

// CheckTraces returns why no spans are exported although a collector is
// configured, and what to do, or "" if there is no problem.
func (r *Repository) CheckTraces() (problem, next string) {
	if r.Config.OTel.Endpoint == "" {
		return "", ""
	}
	if spanProgram(r.world.local.Exe) == "" {
		return proc.OTelName + ", which sends the spans, is not beside this program", "install Vizier anew with `make install`"
	}
	if why, at := r.Store.TracesFailed(); !at.IsZero() {
		return fmt.Sprintf("the last spans could not be sent to %s: %s", r.Config.OTel.Endpoint, why), "see that a collector takes OTLP over HTTP there; it is tried again with the next job that ends"
	}
	return "", ""
}
