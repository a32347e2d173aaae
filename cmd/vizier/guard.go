package main

import "errors"

// allowHooks lets the hooks of commits that jobs make queue more work.
const allowHooks = "VIZIER_ALLOW_HOOKS"

// mayEnqueue refuses what a git hook of a job's own commit wants to queue: a
// hook that queues work which commits would never come to an end. git sets
// GIT_PREFIX for whatever it starts, and no job begins with it.
func (c *call) mayEnqueue() error {
	if job := c.env.Get("VIZIER_JOB_ID"); job != "" && c.env.Has("GIT_PREFIX") && c.env.Get(allowHooks) == "" {
		return refuse(errors.New("a git hook of a commit by job "+job+" cannot queue work"),
			"let the hook do nothing if VIZIER_JOB_ID is set; "+allowHooks+"=1 in its environment allows it")
	}
	return nil
}
