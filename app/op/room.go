package op

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// UntilRoom calls write until it returns something else than the error of a full disk,
// or ctx ends. A node waits for room for Vizier's own files, as its runner does: that
// the disk was full for a while is no failure of the job. Its own limit on the size of files
// stays, so that is one.
func UntilRoom(ctx context.Context, write func() error) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := write()
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// patient waits for room for the files that an operation needs.
type patient struct {
	Files
	ctx context.Context
}

func (p patient) WritePayload(job kernel.JobID, a kernel.Artifact, data []byte) error {
	return UntilRoom(p.ctx, func() error { return p.Files.WritePayload(job, a, data) })
}

func (p patient) WritePatch(job kernel.JobID, data []byte) error {
	return UntilRoom(p.ctx, func() error { return p.Files.WritePatch(job, data) })
}

func (p patient) WriteSentinel(slug string, data []byte) error {
	return UntilRoom(p.ctx, func() error { return p.Files.WriteSentinel(slug, data) })
}
