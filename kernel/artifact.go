package kernel

import (
	"fmt"
	"strings"
	"unicode"
)

// ArtifactKind is one of the seven kinds of seed 000.
type ArtifactKind uint8

// The kinds. Facts says what has to be observed for each to exist.
const (
	PlanBranch    ArtifactKind = iota // the plan's branch
	PlanDoc                           // the plan document at that branch's tip
	PlanCommits                       // the plan's branch, read as its commits
	TargetBranch                      // a branch to merge into
	MergeSentinel                     // an open merge conflict
	CommandPatch                      // a job's patch file
	Custom                            // a marker file, written for a job that declares it
)

var artifactKindNames = NewNames[ArtifactKind]("artifact kind", "plan_branch", "plan_doc", "plan_commits", "target_branch",
	"merge_sentinel", "command_patch", "custom")

// Artifact identifies what a job needs or produces. It is comparable, so it can
// be a map key.
type Artifact struct {
	Kind ArtifactKind
	Name string // slug, branch, job id, or the type id of a custom artifact
	Ref  string // branch of a plan artifact, key of a custom one
}

// Branch returns the branch of a plan artifact, which is draft/SLUG by default,
// or of a target branch. It is "" for other kinds.
func (a Artifact) Branch() string {
	switch a.Kind {
	case PlanBranch, PlanDoc, PlanCommits:
		if a.Ref == "" && a.Name != "" {
			return "draft/" + a.Name
		}
		return a.Ref
	case TargetBranch:
		return a.Name
	default:
		return ""
	}
}

// Canonical returns the canonical form of a, in which the branch of a plan
// artifact is never empty.
func (a Artifact) Canonical() Artifact {
	if a.Kind <= PlanCommits {
		a.Ref = a.Branch()
	}
	return a
}

// String returns the artifact's label, as messages show it.
func (a Artifact) String() string {
	switch a.Kind {
	case PlanBranch, PlanDoc, PlanCommits:
		return a.Kind.String() + ":" + a.Name + " (" + a.Ref + ")"
	case Custom:
		return "custom:" + a.Name + ":" + a.Ref
	default:
		return a.Kind.String() + ":" + a.Name
	}
}

// Validate returns ErrInvalid for names that String and ParseArtifact would not
// round-trip.
func (a Artifact) Validate() error {
	plan := a.Kind <= PlanCommits
	switch {
	case !artifactKindNames.Has(a.Kind):
		return fmt.Errorf("artifact kind %d: %w", a.Kind, ErrInvalid)
	case a.Name == "" || a.Kind == Custom && a.Ref == "":
		return fmt.Errorf("artifact %q: empty name: %w", a, ErrInvalid)
	case a.Kind != Custom && !plan && a.Ref != "":
		return fmt.Errorf("artifact %q: %s takes one name: %w", a, a.Kind, ErrInvalid)
	case a.Kind == Custom && strings.Contains(a.Name, ":"):
		return fmt.Errorf("artifact %q: a type id has no colon: %w", a, ErrInvalid)
	case plan && strings.ContainsAny(a.Name+a.Ref, " ()"):
		return fmt.Errorf("artifact %q: a slug or branch has no space or parenthesis: %w", a, ErrInvalid)
	case strings.ContainsFunc(a.Name+a.Ref, unicode.IsControl) || strings.ToValidUTF8(a.Name+a.Ref, "") != a.Name+a.Ref:
		return fmt.Errorf("artifact %q: control character: %w", a, ErrInvalid)
	}
	return nil
}

// ParseArtifact parses a label: custom:TYPE:KEY, plan_branch:SLUG (BRANCH),
// plan_branch:SLUG, target_branch:NAME and so on. The result is canonical.
func ParseArtifact(label string) (Artifact, error) {
	kind, rest, ok := strings.Cut(label, ":")
	if !ok {
		return Artifact{}, fmt.Errorf("artifact %q: expected KIND:NAME, KIND one of %s: %w",
			label, artifactKindNames.List(), ErrInvalid)
	}
	k, err := ParseArtifactKind(kind)
	if err != nil {
		return Artifact{}, fmt.Errorf("artifact %q: KIND is one of %s: %w",
			label, artifactKindNames.List(), ErrInvalid)
	}
	a := Artifact{Kind: k, Name: rest}
	switch {
	case k == Custom:
		if a.Name, a.Ref, ok = strings.Cut(rest, ":"); !ok {
			return Artifact{}, fmt.Errorf("artifact %q: expected custom:TYPE:KEY: %w", label, ErrInvalid)
		}
	case k <= PlanCommits:
		if slug, branch, found := strings.Cut(rest, " ("); found && strings.HasSuffix(branch, ")") {
			a.Name, a.Ref = slug, strings.TrimSuffix(branch, ")")
		}
	}
	a = a.Canonical()
	return a, a.Validate()
}
