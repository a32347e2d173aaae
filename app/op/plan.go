package op

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vizier-scheduler/vizier/kernel"
)

// planStates is the directory of plan states, relative to the repository's
// root. It is not below the execution root, so that no commit on a plan's
// branch includes it (original 7.6, item 47).
const planStates = ".vizier/state/plans"

// planState is a plan's state record.
type planState struct {
	PlanID  string            `json:"plan_id"`
	Slug    string            `json:"slug"`
	Branch  string            `json:"branch"`
	Source  string            `json:"source"`
	Intent  string            `json:"intent"`
	Target  string            `json:"target_branch"`
	WorkRef string            `json:"work_ref"`
	Status  string            `json:"status"`
	Summary string            `json:"summary"`
	Created time.Time         `json:"created_at"`
	Updated time.Time         `json:"updated_at"`
	Jobs    map[string]string `json:"job_ids"`
}

// planPersist writes a plan's document into the execution root and its state
// record into the repository. Executing it again writes the same.
func planPersist(ctx context.Context, env *Env, n *Node) (Result, error) {
	spec, err := specText(n)
	if err != nil {
		return Result{}, err
	}
	slug, err := planSlug(n, spec)
	if err != nil {
		return Result{}, err
	}
	body, err := planBody(env, n, spec)
	if err != nil {
		return Result{}, err
	}
	o := n.Job.Spec.Origin
	s := planState{PlanID: n.arg("plan_id"), Slug: slug, Branch: n.arg("branch"), Source: n.arg("spec_source"), Intent: n.arg("intent"),
		Target: n.arg("target_branch", "target"), WorkRef: "workflow-job:" + string(n.Job.ID), Status: "proposed", Summary: summary(spec),
		Jobs: map[string]string{"persist": string(n.Job.ID)}}
	for _, branch := range []string{n.Job.State.Context.Branch, o.Branch, "draft/" + slug} {
		if s.Branch == "" {
			s.Branch = branch
		}
	}
	if s.Target == "" {
		s.Target = o.Target
	}
	switch {
	case s.PlanID == "":
		sum := sha256.Sum256([]byte(string(o.Run) + "\x00" + string(n.Job.ID)))
		s.PlanID = "pln_" + hex.EncodeToString(sum[:16])
	case fileName(s.PlanID) != s.PlanID:
		return Result{}, fmt.Errorf("plan_id %q: expected letters, digits, - and _, at most 60: %w", s.PlanID, kernel.ErrInvalid)
	}
	if err := ensureBranch(ctx, env, n, s.Branch); err != nil {
		return Result{}, fmt.Errorf("branch %s: %w", s.Branch, err)
	}
	doc := planDocument(s.PlanID, slug, s.Branch, spec, body)
	if err := writeIn(ctx, n.Dir, planFile(slug), []byte(doc), 0o644); err != nil {
		return Result{}, err
	}
	if err := saveState(ctx, env, n, s); err != nil {
		return Result{}, err
	}
	r := ok(fmt.Sprintf("plan %s in %s", s.PlanID, planFile(slug)))
	r.Produced, err = n.besides(kernel.Artifact{Kind: kernel.PlanBranch, Name: slug, Ref: s.Branch},
		kernel.Artifact{Kind: kernel.PlanDoc, Name: slug, Ref: s.Branch})
	return r, err
}

// saveState writes s. If nothing else has changed, the times of the existing
// record are kept.
func saveState(ctx context.Context, env *Env, n *Node, s planState) error {
	name := planStates + "/" + s.PlanID + ".json"
	s.Created = kernel.Timestamp(env.Now())
	s.Updated = s.Created
	data, err := readIn(n.Root, name)
	switch {
	case err == nil:
		var old planState
		if err := json.Unmarshal(data, &old); err != nil {
			return fmt.Errorf("plan state %s: %w: move the file away", name, err)
		}
		s.Created = old.Created
		same := s
		same.Updated = old.Updated
		if a, b := must(json.Marshal(same)), must(json.Marshal(old)); string(a) == string(b) {
			return nil
		}
	case !errors.Is(err, iofs.ErrNotExist):
		return err
	}
	return writeJSON(ctx, n.Root, name, s, 0o644)
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err) // impossible: strings and times in this century
	}
	return b
}

// besides returns those of all that n does not already declare for its success.
func (n *Node) besides(all ...kernel.Artifact) ([]kernel.Artifact, error) {
	declared := map[kernel.Artifact]bool{}
	for _, rec := range n.Artifacts[kernel.OutcomeSucceeded.String()] {
		a, err := rec.Artifact()
		if err != nil {
			return nil, &classed{kernel.DataError, err}
		}
		declared[a] = true
	}
	var more []kernel.Artifact
	for _, a := range all {
		if a = a.Canonical(); !declared[a] {
			more = append(more, a)
		}
	}
	return more, nil
}

// specText returns the specification: the argument, or the file that it names.
// A relative path is relative to the execution root or else to the repository.
func specText(n *Node) (string, error) {
	if text := n.arg("spec_text"); text != "" && n.arg("spec_source") != "file" {
		return text, nil
	}
	file := n.arg("spec_file")
	if file == "" {
		return "", missingInput("no specification: set spec_text or spec_file")
	}
	places := []string{file}
	if !filepath.IsAbs(file) {
		places = []string{filepath.Join(n.Dir, file), filepath.Join(n.Root, file)}
	}
	for _, place := range places {
		data, err := readRegular(place)
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		switch {
		case err != nil:
		case strings.TrimSpace(data) == "":
			err = missingInput("specification %s is empty", place)
		case !utf8.ValidString(data), strings.ContainsRune(data, 0):
			err = missingInput("specification %s is not UTF-8 text", place)
		}
		return strings.TrimSpace(data), err
	}
	return "", missingInput("specification %s is not there", file)
}

// planBody returns the body of the plan: an argument, the text of a need, or
// the specification.
func planBody(env *Env, n *Node, spec string) (string, error) {
	if body := n.arg("plan_body", "plan_text", "content"); body != "" {
		return body, nil
	}
	needs, err := n.customNeeds("plan_text")
	if err != nil {
		return "", err
	}
	if len(needs) == 0 {
		return spec, nil
	}
	return readText(env, n, needs[0])
}

// planDocument returns the text of a plan document (original 3.9).
func planDocument(id, slug, branch, spec, body string) string {
	if body = strings.TrimSpace(body); body == "" {
		body = "No implementation plan was given."
	}
	return fmt.Sprintf("---\nplan_id: %s\nplan: %s\nbranch: %s\n---\n\n## Operator Spec\n\n%s\n\n## Implementation Plan\n\n%s\n",
		id, slug, branch, strings.TrimSpace(spec), body)
}

// summary returns the first line of a specification with words in it.
func summary(spec string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(spec), "\n")
	r := []rune(strings.TrimSpace(line))
	return string(r[:min(len(r), 160)])
}

// planSlug returns the plan's short name: the given one, or one derived from
// the first words of the specification.
func planSlug(n *Node, spec string) (string, error) {
	name := n.arg("name_override", "slug")
	if name == "" {
		name = n.Job.Spec.Origin.Plan
	}
	if name == "" {
		words := strings.Fields(spec)
		slug := slugOf(strings.Join(words[:min(len(words), 6)], " "))
		if slug == "" {
			return "", fmt.Errorf("plan name cannot be derived from the specification: set name_override: %w", kernel.ErrInvalid)
		}
		return slug, nil
	}
	switch slug := slugOf(name); {
	case strings.HasPrefix(name, "."):
		return "", fmt.Errorf("plan name %q cannot start with '.': %w", name, kernel.ErrInvalid)
	case strings.Contains(name, "/"):
		return "", fmt.Errorf("plan name %q cannot contain '/': %w", name, kernel.ErrInvalid)
	case slug == "":
		return "", fmt.Errorf("plan name %q must include letters or numbers: %w", name, kernel.ErrInvalid)
	case n.declaresPlan(name):
		return name, nil // the run's other nodes refer to the plan by this name
	default:
		return slug, nil
	}
}

// declaresPlan reports whether n declares the document of a plan of that name.
func (n *Node) declaresPlan(name string) bool {
	for _, rec := range n.Artifacts[kernel.OutcomeSucceeded.String()] {
		if a, err := rec.Artifact(); err == nil && a.Kind == kernel.PlanDoc && a.Name == name {
			return true
		}
	}
	return false
}

// slugOf returns the words of text in lower-case ASCII letters and digits,
// joined by hyphens, and at most 32 characters.
func slugOf(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	slug := strings.Join(words, "-")
	return strings.Trim(slug[:min(len(slug), 32)], "-")
}
