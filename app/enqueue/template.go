package enqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// Flow is a template with its parameters.
type Flow struct {
	Choice Choice
	Source *workflow.Source
	Parsed *workflow.Template
	Spec   Spec   // the specification, if the flow comes from FlowsOf
	Slug   string // the plan's name, if it was derived from the specification

	StandIns map[string]string // the parameters for which the builder's StandIn gave the value

	builder *Builder
	name    string // as typed
	params  map[string]string
}

// Flow reads a template and binds its parameters: inputs by position, and given
// by key.
func (t *Builder) Flow(name string, inputs []string, given map[string]string) (*Flow, error) {
	f := &Flow{builder: t, name: name}
	var misread error
	if f.Choice, f.Source, misread = t.Load(name); f.Source == nil {
		return nil, misread
	}
	spec := func(path string) (string, error) { return t.Templates.Spec(t.Tree, path) }
	kind, err := f.read(inputs, given, spec)
	if err == nil && misread == nil {
		return f, nil
	}
	found := workflow.Findings(f.Source, workflow.Asked{Flow: name, Set: given, Positional: inputs, Complete: f.nameSlug, Spec: spec}, misread)
	if err == nil || kind == ofTemplate {
		return nil, found
	}
	return nil, &InputError{kind, name, f.Source, given, found}
}

// ofTemplate stands for an error of the template, not of the input.
const ofTemplate InputKind = -1

// read binds and expands the template. kind is the part of the input that the
// error is about.
func (f *Flow) read(inputs []string, given map[string]string, spec func(path string) (string, error)) (kind InputKind, err error) {
	if f.params, err = workflow.Bind(f.name, f.Source, given, inputs); err != nil {
		return BadParameter, err
	}
	if f.builder.StandIn {
		bare, err := workflow.Expand(f.Source, f.params)
		if err != nil {
			return ofTemplate, err
		}
		f.StandIns = workflow.StandIns(f.Source, bare)
		maps.Copy(f.params, f.StandIns)
	}
	if err := f.nameSlug(f.params); errors.Is(err, errNoSlug) {
		return NoSlug, err
	} else if err != nil {
		return ofTemplate, err
	}
	if f.Parsed, err = workflow.Expand(f.Source, f.params); err != nil {
		return ofTemplate, err
	}
	if err := workflow.Preflight(f.name, f.Source, f.Parsed, inputs); err != nil {
		return BadInput, err
	}
	return ofTemplate, f.Parsed.Inline(spec)
}

// Load finds and reads the template called name, with the configured settings.
// If there are findings, it also returns the template as far as it could be
// read, or nil.
func (t *Builder) Load(name string) (Choice, *workflow.Source, error) {
	choice, err := t.Templates.Find(name)
	if err != nil {
		return choice, nil, &InputError{Kind: NoTemplate, Flow: name, Err: err}
	}
	source, err := t.Templates.Load(choice)
	if err == nil {
		source, err = workflow.Configure(source, t.Defaults.Settings)
	}
	return choice, source, err
}

// nameSlug derives the plan's name from the specification, else from the branch that is
// the plan's by default, if the template has a parameter for it and it was not given. So
// the plan's artifacts are known when the run is enqueued.
func (f *Flow) nameSlug(params map[string]string) error {
	slug, declared := params["slug"]
	if !declared || slug != "" {
		return nil
	}
	text := params["spec_text"]
	if path := params["spec_file"]; strings.TrimSpace(text) == "" && path != "" {
		var err error
		if text, err = f.builder.Templates.Spec(f.builder.Tree, path); err != nil {
			return fmt.Errorf("could not read spec file `%s`: %w", path, err)
		}
	}
	if strings.TrimSpace(text) == "" {
		if slug, is := strings.CutPrefix(params["branch"], "draft/"); is && !strings.Contains(slug, "/") {
			params["slug"] = slug
		}
		return nil
	}
	if f.Slug = nameOf(text, 6); f.Slug == "" {
		return errNoSlug
	}
	params["slug"] = f.Slug
	return nil
}

var errNoSlug = errors.New("plan name must include letters or numbers: the specification has none")

// nameOf derives the name of a plan from the first words of a text. In a text that has letters or digits and none that a
// plan's name can have, a digest stands for them; "": it has neither.
func nameOf(text string, most int) string {
	slug := slugOf(text, most)
	if slug == "" && strings.ContainsFunc(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
		slug = "spec-" + string(kernel.DigestOf(text))[:8]
	}
	return slug
}

// slugOf derives the name of a plan from the first words of a text, at most 32
// characters.
func slugOf(text string, most int) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	slug := strings.Join(words[:min(len(words), most)], "-")
	return strings.Trim(slug[:min(len(slug), 32)], "-")
}

// Run is a run that can be enqueued.
type Run struct {
	app.RunRequest
	Plan  workflow.Manifest // the parsed RunRequest.Manifest
	Sinks []kernel.JobID    // the jobs that no other follows, and that no route must wake first
}

// Compile makes the jobs of one run.
func (f *Flow) Compile(ctx context.Context, ephemeral bool) (Run, error) {
	return f.compile(ctx, ephemeral, func(string) kernel.JobID { return f.builder.Scheduler.NewID() })
}

// compile makes the jobs of one run. ids returns the id of each node's job.
func (f *Flow) compile(ctx context.Context, ephemeral bool, ids func(node string) kernel.JobID) (Run, error) {
	var out Run
	t := f.builder
	id := kernel.RunID("run_" + string(t.Scheduler.NewID()))
	jobs, manifest, err := workflow.Compile(f.Parsed, workflow.CompileOptions{
		Run: id, IDs: ids,
		Selector: f.Choice.Selector, Alias: f.Choice.Alias, Command: t.Origin.Command, TraceParent: t.Origin.TraceParent,
		At: t.Scheduler.Now(), By: t.By(), Ephemeral: ephemeral,
		Head: sync.OnceValues(func() (string, error) { return t.Trees.HeadBranch(ctx, t.Tree) }),
	})
	if err != nil {
		return out, err
	}
	for i := range jobs {
		spec := &jobs[i].Spec
		if node := manifest.Nodes[spec.Origin.Node]; !node.Anywhere() {
			spec.Task.Tree = t.linked()
		}
		if about := &spec.Origin.About; about.Class == "agent" || about.Class == "environment_shell" || about.Control != "" || len(about.Gates) > 0 {
			spec.Task.Sandbox = spec.Task.Sandbox.Least(t.Defaults.Sandbox)
		}
		named := spec.Task.Executor != ""
		if class := spec.Origin.About.Class; !named && (class == "agent" || class == "environment_shell") {
			spec.Task.Executor = t.Defaults.Executor
		}
		if spec.Origin.About.Class == "environment_shell" {
			spec.Task.Container = cmp.Or(spec.Task.Container, t.Defaults.Containers[spec.Task.On()])
		}
		if err := errors.Join(t.accepts(spec.Task, !named), spec.Task.CheckContainer()); err != nil {
			return out, fmt.Errorf("node %s: %w", spec.Origin.Node, err)
		}
	}
	data, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return out, fmt.Errorf("manifest: %w", err)
	}
	data = append(data, '\n')
	out.Plan = manifest
	out.RunRequest = app.RunRequest{Run: id, Jobs: jobs, Manifest: data}
	sleeping, digest := map[kernel.JobID]bool{}, kernel.DigestOf(string(data))
	for i := range jobs {
		jobs[i].Spec.Origin.Manifest = digest
		sleeping[jobs[i].ID] = jobs[i].Spec.Routed
	}
	for _, s := range sinksOf(manifest) {
		if !sleeping[s] {
			out.Sinks = append(out.Sinks, s)
		}
	}
	return out, nil
}

// sinksOf returns the jobs of a run without a successor, in the order of their
// nodes.
func sinksOf(m workflow.Manifest) []kernel.JobID {
	var out []kernel.JobID
	for _, node := range slices.Sorted(maps.Keys(m.Nodes)) {
		if n := m.Nodes[node]; len(n.Routes[kernel.OutcomeSucceeded.String()]) == 0 {
			out = append(out, n.Job)
		}
	}
	return out
}

// mayStart returns an error if an agent of the run cannot start on this host.
// Jobs of other executors are not checked.
func (t *Builder) mayStart(jobs []kernel.NewJob) error {
	if t.Agents == nil {
		return nil
	}
	var chosen []app.AgentChoice
	for _, j := range jobs {
		if j.Spec.Origin.About.Class == "agent" && t.Scheduler.Executors[j.Spec.Task.Executor] == nil {
			o := &j.Spec.Origin
			chosen = append(chosen, t.Defaults.Agent(o.Alias, o.Template.ID+"@"+o.Template.Version, o.Template.Selector))
		}
	}
	return app.MayStart(t.Agents, chosen)
}
