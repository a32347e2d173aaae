package answer

import (
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// Effects is `jobs effects --format json`: docs/schemas/effects.schema.json.
type Effects struct {
	Job kernel.JobID `json:"job"`
	view.Reference
	Status  string   `json:"status"`
	Effects []Effect `json:"effects"`
}

// Effect is one side effect of the job.
type Effect struct {
	Key        string        `json:"key,omitempty"`
	Operation  string        `json:"operation"`
	Part       string        `json:"part,omitempty"`
	Generation int           `json:"generation"`
	Attempt    int           `json:"attempt"`
	State      string        `json:"state"`
	BegunAt    time.Time     `json:"begun_at"`
	Result     *EffectResult `json:"result"` // null: none is on record
}

// EffectResult is how an effect ended.
type EffectResult struct {
	Attempt       int        `json:"attempt"`
	Outcome       string     `json:"outcome"`
	ExitCode      int        `json:"exit_code"`
	FailureClass  string     `json:"failure_class,omitempty"`
	FailureReason string     `json:"failure_reason,omitempty"`
	FinishedAt    *time.Time `json:"finished_at"`
}

// EffectsOf returns what job j did to the world.
func EffectsOf(j *kernel.Job, effects []effect.Record) Effects {
	doc := Effects{j.ID, view.ReferenceOf(j), j.State.Status.String(), []Effect{}}
	for _, e := range effects {
		d := Effect{e.Key, e.Operation, e.Part, e.Generation, e.Attempt, e.State.String(), e.Begun, nil}
		if r := e.Result; e.State != effect.Intended {
			d.Result = &EffectResult{r.Attempt.N, r.Outcome.String(), r.Exit, r.Class.String(), r.Reason, nil}
			if !r.Ended.IsZero() {
				d.Result.FinishedAt = &r.Ended
			}
		}
		doc.Effects = append(doc.Effects, d)
	}
	return doc
}
