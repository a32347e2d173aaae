package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/vizier-scheduler/vizier/app/op"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

type payloadCmd struct {
	Artifact string `arg:"" help:"The artifact, such as custom:TYPE:KEY, or custom:operation_output:NODE."`
	Job      string `placeholder:"JOB" help:"Print the artifact that this job made; by default the newest or, inside a run that makes one, the run's."`
	Format   string `enum:"text,json" default:"text" placeholder:"text|json" help:"text prints the artifact's text, json the whole document."`
}

func (*payloadCmd) Help() string {
	return "Prints the data of an artifact: a prompt, an agent's answer, or the output of a node. In a job of a run it is the run's artifact, " +
		"where the run makes it."
}

// payloads reads the data of artifacts.
type payloads interface {
	Payload(kernel.JobID, kernel.Artifact) ([]byte, error)
	Producers(consumer *kernel.Job, a kernel.Artifact) ([]kernel.JobID, error)
	Job(kernel.JobID) (kernel.Job, error)
}

// Run prints the payload.
func (p *payloadCmd) Run(c *call) error {
	a, err := kernel.ParseArtifact(p.Artifact)
	if err != nil {
		return err
	}
	if a.Kind != kernel.Custom {
		return fmt.Errorf("%s is not a custom artifact and has no payload: %w", a, kernel.ErrInvalid)
	}
	r, err := c.repo()
	if err != nil {
		return err
	}
	makers, err := p.makers(c, r, a)
	if err != nil {
		return err
	}
	for _, id := range makers {
		data, err := r.Payloads.Payload(id, a)
		if errors.Is(err, kernel.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		return p.print(c, id, a, data)
	}
	none := kernel.Missing{What: "payload of " + a.String()}
	if a.Name == workflow.OperationOutput {
		return &failure{class: classify(none), err: none, hint: "a node's output is kept only if another node needs it; `vizier tail JOB` prints what a job wrote"}
	}
	return none
}

// makers returns the jobs that may have made a, in order of precedence.
func (p *payloadCmd) makers(c *call, r *repo, a kernel.Artifact) ([]kernel.JobID, error) {
	if p.Job != "" {
		_, id, err := r.job(c.ctx, p.Job)
		return []kernel.JobID{id}, err
	}
	var reader kernel.Job // no particular consumer
	if id := c.env.Get("VIZIER_JOB_ID"); id != "" {
		j, err := r.Payloads.Job(kernel.JobID(id))
		if err != nil && !errors.Is(err, kernel.ErrNotFound) {
			return nil, err
		}
		reader = j
	}
	return r.Payloads.Producers(&reader, a)
}

func (p *payloadCmd) print(c *call, id kernel.JobID, a kernel.Artifact, data []byte) error {
	if p.Format == "json" {
		if !json.Valid(data) {
			return fmt.Errorf("payload of %s by job %s is not JSON", a, id)
		}
		c.ui.document(strings.TrimRight(string(data), "\n") + "\n")
		return nil
	}
	text, err := op.TextOf(data)
	if err != nil {
		return fmt.Errorf("payload of %s by job %s: %w; --format json prints it unchanged", a, id, err)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err = io.WriteString(c.ui.logs(), text)
	return err
}
