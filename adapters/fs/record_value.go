package fs

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// artifactRecord is an artifact as records hold it: an object with one key,
// the kind.
type artifactRecord kernel.Artifact

type (
	planArtifact struct {
		Slug   string `json:"slug"`
		Branch string `json:"branch"`
	}
	customArtifact struct {
		TypeID string `json:"type_id"`
		Key    string `json:"key"`
	}
)

// nameKeys are the member names of the kinds that have one name.
var nameKeys = map[kernel.ArtifactKind]string{kernel.TargetBranch: "name", kernel.MergeSentinel: "slug", kernel.CommandPatch: "job_id"}

func (a artifactRecord) MarshalJSON() ([]byte, error) {
	var v any
	switch {
	case a.Kind <= kernel.PlanCommits:
		v = planArtifact{a.Name, a.Ref}
	case a.Kind == kernel.Custom:
		v = customArtifact{a.Name, a.Ref}
	default:
		v = map[string]string{nameKeys[a.Kind]: a.Name}
	}
	return json.Marshal(map[string]any{a.Kind.String(): v})
}

func (a *artifactRecord) UnmarshalJSON(b []byte) error {
	var one map[string]json.RawMessage
	if err := json.Unmarshal(b, &one); err != nil {
		return err
	}
	if len(one) != 1 {
		return fmt.Errorf("an artifact has one key, its kind: found %d", len(one))
	}
	for name, body := range one {
		kind, err := kernel.ParseArtifactKind(name)
		if err != nil {
			return err
		}
		a.Kind = kind
		switch {
		case kind <= kernel.PlanCommits:
			var p planArtifact
			err = json.Unmarshal(body, &p)
			a.Name, a.Ref = p.Slug, p.Branch
		case kind == kernel.Custom:
			var c customArtifact
			err = json.Unmarshal(body, &c)
			a.Name, a.Ref = c.TypeID, c.Key
		default:
			var n map[string]string
			err = json.Unmarshal(body, &n)
			a.Name = n[nameKeys[kind]]
		}
		if err != nil {
			return err
		}
	}
	return kernel.Artifact(*a).Validate()
}

// list is never nil, so that it is written as [].
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// bare is nil for an empty list, as kernel types have it.
func bare(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return s
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func optionalStamp(t time.Time) *stamp {
	if t.IsZero() {
		return nil
	}
	s := stamp(t)
	return &s
}

func stampValue(s *stamp) time.Time {
	if s == nil {
		return time.Time{}
	}
	return time.Time(*s)
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
