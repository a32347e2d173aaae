package main

import (
	"errors"

	"github.com/vizier-scheduler/vizier/adapters/fs/inbox"
)

type inboxCmd struct {
	Init   inboxInitCmd   `cmd:"" help:"Create the folders of the inbox."`
	Once   inboxOnceCmd   `cmd:"" help:"Look at the inbox once: enqueue dropped prompts, move ended ones away."`
	Watch  inboxWatchCmd  `cmd:"" help:"Look at the inbox whenever it changes."`
	Submit inboxSubmitCmd `cmd:"" help:"Drop prompts, and print their jobs."`
	Status inboxStatusCmd `cmd:"" default:"1" help:"Show the prompts and the states of their jobs."`
}

// inboxMissing adds a hint to the error for a missing inbox: how to make one.
func inboxMissing(err error) error {
	if errors.Is(err, inbox.ErrNoInbox) {
		return &failure{class: class{"not_found", 1, "vizier inbox init"}, err: err}
	}
	return err
}
