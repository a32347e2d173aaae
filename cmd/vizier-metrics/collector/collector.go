// Package collector computes the metrics of a repository.
package collector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/adapters/fs/inbox"
	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// patience is how long to wait for information about runners, since the scraper
// is waiting.
const patience = 2 * time.Second

// Of returns the current metrics of a repository, whose path is in the label
// repository. It changes nothing.
func Of(ctx context.Context, r *vizier.Repository) (prometheus.Gatherer, error) {
	r.Refresh()
	began := time.Now()
	snap, err := r.Scheduler.Records(ctx, kernel.Scope{})
	if err != nil {
		return nil, err
	}
	kernel.Decide(snap)
	s := stand{tick: time.Since(began), resident: r.Resident() != 0}
	if s.ended, err = endedSince(r, snap.Now().Add(-time.Hour)); err != nil {
		return nil, err
	}
	const lately = 24 * time.Hour
	if s.prompts, err = refused(ctx, r, snap, snap.Now().Add(-lately)); err != nil {
		return nil, err
	}
	within, stop := context.WithTimeout(ctx, patience)
	defer stop()
	var lost []kernel.JobID
	s.snap, lost = r.Scheduler.Lost(within, snap, false)
	s.lost = len(lost)
	registry := prometheus.NewRegistry()
	return registry, prometheus.WrapRegistererWith(prometheus.Labels{"repository": answer.Visible(r.Root, "\n")}, registry).Register(s)
}

// refused returns the prompts that the inbox refused. A missing inbox has none.
func refused(ctx context.Context, r *vizier.Repository, snap *kernel.Snapshot, since time.Time) ([]view.RefusedPrompt, error) {
	box, err := r.Inbox(vizier.Asker{})
	if err != nil {
		return nil, err
	}
	prompts, err := box.Refused(ctx, snap.Jobs(), since)
	if errors.Is(err, inbox.ErrNoInbox) {
		return nil, nil
	}
	return prompts, err
}

// endedSince returns the numbers of attempts that ended, by result, according
// to the event log.
func endedSince(r *vizier.Repository, since time.Time) (map[string]int, error) {
	ended := results()
	log := r.Store.Events(0)
	defer log.Close()
	from := []byte(since.UTC().Format("2006-01-02T15:04:05"))
	err := log.Read(func(line []byte) error {
		_, at, _ := bytes.Cut(line, []byte(`"at":"`))
		if len(at) < len(from) || bytes.Compare(at[:len(from)], from) < 0 { // skips most lines without decoding them
			return nil
		}
		var doc struct {
			Event   kernel.EventKind `json:"event"`
			Class   string           `json:"failure_class"`
			Attempt int              `json:"attempt"`
		}
		if json.Unmarshal(line, &doc) != nil || doc.Attempt == 0 {
			return nil
		}
		switch doc.Event {
		case kernel.JobSucceeded:
			ended[kernel.OutcomeSucceeded.String()]++
		case kernel.JobCancelled:
			ended[kernel.OutcomeCancelled.String()]++
		case kernel.JobFailedRetryable, kernel.JobFailedFinal:
			if _, known := ended[doc.Class]; !known {
				doc.Class = otherFailure
			}
			ended[doc.Class]++
		default: // does not end an attempt
		}
		return nil
	})
	return ended, err
}
