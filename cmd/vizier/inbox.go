package main

import (
	"errors"

	"github.com/vizier-scheduler/vizier/adapters/fs/inbox"
)

type inboxCmd struct {
	Init   inboxInitCmd   `cmd:"" help:"Make the folders of the inbox."`
	Once   inboxOnceCmd   `cmd:"" help:"Look at the inbox once: enqueue what was dropped, take away what has ended."`
	Watch  inboxWatchCmd  `cmd:"" help:"Look at the inbox whenever something changes in it."`
	Submit inboxSubmitCmd `cmd:"" help:"Drop prompts, and print what their jobs are called."`
	Status inboxStatusCmd `cmd:"" default:"1" help:"Show the prompts and what their jobs do."`
}

// inboxMissing adds to the error for a missing inbox how to make one.
func inboxMissing(err error) error {
	if errors.Is(err, inbox.ErrNoInbox) {
		return &failure{class: class{"not_found", 1, "vizier inbox init"}, err: err}
	}
	return err
}
