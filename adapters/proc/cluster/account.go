package cluster

import (
	"context"
	"path/filepath"
	"slices"
	"time"
)

// unaccounted is how long accounts are not asked for after a failure: a cluster without
// accounts will not have them soon.
const unaccounted = 10 * time.Minute

// account adds to a list what the cluster's accounts have of jobs whose runners ended without
// a result, and so without measuring: what they used and, if the cluster has forgotten the job
// since the latest answer, how it ended. An error means that ctx ended.
func (c *Cluster) account(ctx context.Context, list []Job) ([]Job, error) {
	books, keeps := c.Engine.(accountant)
	if !keeps {
		return list, nil
	}
	before, at := c.recorded().jobs, make(map[string]int, len(list)) // by id
	var over []Job
	for i, j := range list {
		at[j.ID] = i
		if j.ended() && j.State != Succeeded { // a runner succeeds once it has recorded the end
			over = append(over, j)
		}
	}
	for _, j := range before {
		if _, listed := at[j.ID]; !listed {
			over = append(over, j)
		}
	}
	var known, asked []Job
	for _, j := range over {
		switch had := before[j.Name]; {
		case !c.unfinished(j.Name):
		case had.ID == j.ID && had.Figures != Figures{}:
			known = append(known, had)
		default:
			asked = append(asked, j)
		}
	}
	if len(asked) > 0 {
		found, err := c.booked(ctx, books, asked)
		if err != nil {
			return nil, err
		}
		known = append(known, found...)
	}
	for _, j := range known {
		if i, listed := at[j.ID]; listed {
			list[i].Figures = j.Figures
		} else {
			list = append(list, j)
		}
	}
	return list, nil
}

// booked returns what the accounts have of jobs; nothing if they cannot be asked.
func (c *Cluster) booked(ctx context.Context, books accountant, jobs []Job) ([]Job, error) {
	path := filepath.Join(c.Files.ClusterDir(), c.Name+".unaccounted")
	if _, are := awayFor(path, unaccounted); are {
		return nil, nil
	}
	within, stop := context.WithTimeoutCause(ctx, orDefault(c.Settings.Timeout, DefaultTimeout), ErrNoAnswer)
	defer stop()
	found, err := books.Accounts(within, jobs)
	if err != nil && ctx.Err() == nil {
		_ = writeJSON(path, away{time.Now(), err.Error()})
		return nil, nil
	}
	return slices.DeleteFunc(found, func(j Job) bool { return !j.ended() }), err
}

// unfinished reports that a job belongs to an attempt of this cluster that began and has no outcome.
func (c *Cluster) unfinished(name string) bool {
	a, is := attemptOf(name)
	if !is || GivenTo(c.Files, a) != c.Name || c.ended(a) {
		return false
	}
	claim, err := c.Local.Claimed(a)
	return err == nil && claim.Host != ""
}
