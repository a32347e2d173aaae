package op

import (
	"context"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Files keeps what operations leave for other nodes and for people, below
// .vizier.
type Files interface {
	// WritePayload stores the data of a custom artifact that job produces.
	WritePayload(job kernel.JobID, a kernel.Artifact, data []byte) error

	// Payload is the data that job stored for a. It is kernel.ErrNotFound
	// when there is none.
	Payload(job kernel.JobID, a kernel.Artifact) ([]byte, error)

	// Producers are the jobs whose marker makes a custom artifact exist for
	// consumer, newest first: those of its own run where that declares any.
	Producers(consumer *kernel.Job, a kernel.Artifact) ([]kernel.JobID, error)

	// WritePatch stores the job's patch.
	WritePatch(job kernel.JobID, data []byte) error

	// WriteSentinel, Sentinel and ClearSentinel keep the mark of an open
	// merge conflict. Sentinel is nil when there is none.
	WriteSentinel(slug string, data []byte) error
	Sentinel(slug string) ([]byte, error)
	ClearSentinel(slug string) error
}

// Shell runs a person's script.
type Shell interface {
	// Run runs `sh -c script` in dir, its output going where the node's own
	// goes as it is written, and returns its exit code; a death by signal is
	// 128 and its number.
	Run(ctx context.Context, dir, script string, env []string) (exit int, err error)

	// Output is Run with standard output captured: limit bytes of it, and one
	// more where there was more.
	Output(ctx context.Context, dir, script string, env []string, limit int) (out []byte, exit int, err error)
}

// Git is what operations ask of git. The work tree of a call is the directory
// it names.
type Git interface{}

// Agents runs the agent that the configuration names for a node.
type Agents interface {
	// Run gives prompt to job's agent, which works in dir. Its answer goes to
	// the node's standard output as it is written, and what it says about its
	// progress to standard error. text is limit bytes of the answer, and one
	// more where there was more; exit is as of Shell.Run. An agent that is not
	// configured or cannot be started is an error.
	Run(ctx context.Context, dir string, job *kernel.Job, prompt []byte, limit int) (text []byte, exit int, err error)
}
