package op

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// payload is the data of a custom artifact that holds text: the form of the
// original's files.
type payload struct {
	Type      string    `json:"type_id"`
	Key       string    `json:"key"`
	Text      string    `json:"text"`
	WrittenAt time.Time `json:"written_at"`
}

// writeText stores text as n's payload for a.
func writeText(env *Env, n *Node, a kernel.Artifact, text string) error {
	data, err := json.MarshalIndent(payload{a.Name, a.Ref, text, env.Now().UTC()}, "", "  ")
	if err != nil {
		return fmt.Errorf("payload of %s: %w", a, err)
	}
	return env.Files.WritePayload(n.Job.ID, a, append(data, '\n'))
}

// readText is the text of the newest payload that makes a exist for n.
func readText(env *Env, n *Node, a kernel.Artifact) (string, error) {
	producers, err := env.Files.Producers(&n.Job, a)
	if err != nil {
		return "", fmt.Errorf("producers of %s: %w", a, err)
	}
	for _, id := range producers {
		data, err := env.Files.Payload(id, a)
		if errors.Is(err, kernel.ErrNotFound) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("payload of %s by job %s: %w", a, id, err)
		}
		text, err := textOf(data)
		if err != nil {
			return "", &classed{kernel.DataError, fmt.Errorf("payload of %s by job %s: %w", a, id, err)}
		}
		return text, nil
	}
	return "", missingInput("%s has no payload: run the node that produces it again", a)
}

// textOf finds the text in a payload. Other programs may have written it under
// another of the names that the original accepts.
func textOf(data []byte) (string, error) {
	type named struct {
		Text      *string `json:"text"`
		Stdout    *string `json:"stdout_text"`
		Assistant *string `json:"assistant_text"`
	}
	var p struct {
		named
		Payload named `json:"payload"`
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return "", err
	}
	for _, text := range []*string{p.Text, p.Stdout, p.Assistant, p.Payload.Text, p.Payload.Assistant} {
		if text != nil {
			return *text, nil
		}
	}
	return "", errors.New("it holds no text")
}

// customNeeds are n's needs that are custom artifacts of a type.
func (n *Node) customNeeds(typeID string) ([]kernel.Artifact, error) {
	return customs(n.Needs, func(a kernel.Artifact) bool { return a.Name == typeID })
}

// customProducts are the custom artifacts that n's success makes exist.
func (n *Node) customProducts() ([]kernel.Artifact, error) {
	return customs(n.Artifacts[kernel.OutcomeSucceeded.String()], func(kernel.Artifact) bool { return true })
}

func customs[R interface {
	Artifact() (kernel.Artifact, error)
}](records []R, keep func(kernel.Artifact) bool) ([]kernel.Artifact, error) {
	var out []kernel.Artifact
	for _, r := range records {
		a, err := r.Artifact()
		if err != nil {
			return nil, &classed{kernel.DataError, err}
		}
		if a.Kind == kernel.Custom && keep(a) {
			out = append(out, a)
		}
	}
	return out, nil
}
