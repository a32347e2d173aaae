package main

import (
	"context"
	"errors"
	"io"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// repo is an opened repository.
type repo struct {
	Scheduler *app.Scheduler
	Config    config.Config
	Root      string // absolute

	// Logs says where a job's files are: absolute paths, of files that need
	// not exist. The stream of LogFile is stdout or stderr.
	Logs interface {
		LogFile(id kernel.JobID, stream string) string
		JobDir(kernel.JobID) string
		OutcomeFile(kernel.JobID) string
	}

	// InsideJob is the job that this command runs in, if it does.
	InsideJob func() (kernel.JobID, bool)
}

// open opens the repository that the working directory belongs to.
func open(context.Context, environment, globals) (*repo, error) {
	return nil, errors.New("open repository: the store is not connected")
}

// internalCommand runs the hidden entry points.
func internalCommand([]string, io.Reader, io.Writer, io.Writer, []string) (code int, ok bool) {
	return 0, false
}
