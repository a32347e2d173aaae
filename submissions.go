package vizier

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/trace"
)

// The most that one attempt may submit.
const (
	maxSubmissions     = 2000
	maxSubmissionBytes = 1 << 20
)

// submissions returns a function that parses what an attempt's command wrote to
// $VIZIER_SUBMISSIONS: the lines of a batch. The jobs belong to the run of the
// job that submits them. Their ids are made here, so that whoever settles the
// attempt enqueues the same ones.
func (w *world) submissions(root string) func(context.Context, *kernel.Job) ([]kernel.NewJob, error) {
	return func(ctx context.Context, j *kernel.Job) ([]kernel.NewJob, error) {
		lines, err := w.local.Submitted(ctx, j.Attempt(), maxSubmissionBytes)
		if err != nil || lines == nil {
			return nil, err
		}
		o := &j.Spec.Origin
		in := w.builder(cmp.Or(j.Spec.Task.Tree, root), w.config())
		in.Origin = kernel.Origin{Run: o.Run, Command: o.Command, Parent: j.ID, Ephemeral: o.Ephemeral,
			TraceParent: trace.Of(j, j.State.Attempt, w.local.Spans).String()}
		in.By, in.Late = func() string { return "job " + string(j.ID) }, true
		b, err := in.Batch(ctx, bytes.NewReader(lines))
		if err == nil && len(b.Jobs) > maxSubmissions {
			err = fmt.Errorf("%d jobs, of at most %d: submit them with `vizier submit --batch`", len(b.Jobs), maxSubmissions)
		}
		return b.Jobs, err
	}
}
