package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

type effectsCmd struct {
	Job    string `arg:"" help:"The job: its number, such as 12 or 14/NODE, its name, its id or the beginning of it, or @last."`
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

func (*effectsCmd) Help() string {
	return "Lists the job's side effects: intent has begun and has no end on record, applied " +
		"is done but not yet in the job's record, committed is in the job's record. " +
		"The effect of a plain command is its latest attempt; workflow nodes keep a journal of their effects."
}

// Run lists the job's effects. Unreadable records are reported, and do not
// prevent the others from being listed.
func (e *effectsCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	snap, id, err := r.job(c.ctx, e.Job)
	if err != nil {
		return err
	}
	j := snap.Job(id)
	if j == nil {
		return fmt.Errorf("job %s: %w", id, kernel.ErrNotFound)
	}
	journal, broken := r.Effects(id)
	effects := effect.Of(j, journal)
	if e.Format == "json" {
		err = c.ui.json(answer.EffectsOf(j, effects))
	} else if len(effects) == 0 && broken == nil {
		c.ui.print("Job " + string(id) + " has done nothing yet")
	} else {
		c.ui.text(c.ui.effectsText(j, effects))
	}
	return errors.Join(err, broken)
}

func (u *ui) effectsText(j *kernel.Job, effects []effect.Record) string {
	cells := [][]string{{"State", "Operation", "Attempt", "Begun", "Result"}}
	for _, e := range effects {
		what := e.Operation
		if e.Part != "" {
			what += " (" + e.Part + ")"
		}
		if e.Generation < j.State.Generation {
			what += ", before a retry"
		}
		cells = append(cells, []string{e.State.String(), what, strconv.Itoa(e.Attempt), u.clock(e.Begun, u.now()), effectResultText(j, &e)})
	}
	return u.table(cells, -1)
}

// effectResultText describes an effect's result on one line.
func effectResultText(j *kernel.Job, e *effect.Record) string {
	r := e.Result
	switch {
	case e.State == effect.Intended && j.State.Status == kernel.Running && j.State.Attempt == e.Attempt && j.State.Generation == e.Generation:
		return "under way"
	case e.State == effect.Intended:
		return "not on record: its attempt was cut off"
	case r.Outcome == kernel.OutcomeFailed:
		return fmt.Sprintf("failed (%s, exit %d): %s", r.Class, r.Exit, r.Reason)
	case r.Reason == "":
		return r.Outcome.String()
	default:
		return r.Outcome.String() + ": " + r.Reason
	}
}
