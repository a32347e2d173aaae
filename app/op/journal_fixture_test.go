package op

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"syscall"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// journal is a journal of effects in memory.
type journal struct {
	entries map[string]effect.Record
	writes  []effect.Record // in order
	full    bool            // of room for results: only intents are taken
	told    []string        // the events
}

func (j *journal) AppendEvents(events []kernel.Event) error {
	for _, e := range events {
		j.told = append(j.told, fmt.Sprintf("%s %d %s", e.Kind, e.Attempt, e.Reason))
	}
	return nil
}

func (j *journal) Effect(_ kernel.JobID, key string) (*effect.Record, error) {
	if e, ok := j.entries[key]; ok {
		return &e, nil
	}
	return nil, nil
}

func (j *journal) RecordEffect(_ context.Context, e effect.Record) error {
	old, _ := j.Effect(e.Job, e.Key)
	if err := e.Follow(old); err != nil {
		return err
	}
	if j.full && e.State != effect.Intended {
		return errors.Join(syscall.ENOSPC)
	}
	if j.entries == nil {
		j.entries = map[string]effect.Record{}
	}
	j.entries[e.Key] = e
	j.writes = append(j.writes, e)
	return nil
}

// again makes n the attempt that follows one which was lost after it had done
// what it did, and before it could say so.
func (j *journal) again(n *Node) {
	seen := false
	for key, e := range maps.All(j.entries) {
		if e.Job == n.Job.ID {
			e.State, e.Result, seen = effect.Intended, kernel.Result{}, true
			j.entries[key] = e
		}
	}
	if seen {
		n.Job.State.Lost = n.Job.State.Attempt
		n.Job.State.Attempt++
	}
}
