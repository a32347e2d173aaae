package main

import "errors"

// allowHooks is the variable that allows hooks of jobs' commits to enqueue
// jobs.
const allowHooks = "VIZIER_ALLOW_HOOKS"

// mayEnqueue refuses requests from a git hook that runs for a job's own commit: a
// hook that enqueues jobs that commit would run again for each of them, without
// end. git sets GIT_PREFIX for everything it starts, and jobs start without it.
func (c *call) mayEnqueue() error {
	if job := c.env.Get("VIZIER_JOB_ID"); job != "" && c.env.Has("GIT_PREFIX") && c.env.Get(allowHooks) == "" {
		return refuse(errors.New("a git hook of a commit by job "+job+" cannot queue work"),
			"let the hook do nothing if VIZIER_JOB_ID is set; "+allowHooks+"=1 in its environment allows it")
	}
	return nil
}
