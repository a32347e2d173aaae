package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/fs/template"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// flow is a template, chosen, read and given its parameters. Nothing of it is
// on record yet.
type flow struct {
	name   string // as it was typed
	choice template.Resolved
	source *workflow.Source
	inputs []string
	params map[string]string
	parsed *workflow.Template
	item   specItem // of a batch
}

// flow reads a template and what it is given: the inputs by position, set as
// KEY=VALUE.
func (c *call) flow(r *repo, name string, inputs, set []string) (*flow, error) {
	f := &flow{name: name, inputs: inputs}
	var err error
	var misread error
	if f.choice, f.source, misread = c.load(r, name); f.source == nil {
		return nil, misread
	}
	given, err := settings(set)
	if err != nil {
		return nil, err
	}
	if f.params, err = workflow.Bind(name, f.source, given, inputs); err != nil {
		return nil, c.meantFlag(f.source, given, workflow.Findings(f.source, f.params, misread, err))
	}
	if misread != nil {
		return nil, workflow.Findings(f.source, f.params, misread)
	}
	if err := f.nameSlug(c, r); err != nil {
		return nil, err
	}
	if f.parsed, err = workflow.Expand(f.source, f.params); err != nil {
		return nil, workflow.Findings(f.source, f.params)
	}
	if err := workflow.Preflight(name, f.source, f.parsed, inputs); err != nil {
		return nil, &failure{class: classUsage, err: workflow.Findings(f.source, f.params, err), hint: "vizier run " + name + " --help"}
	}
	return f, f.parsed.Inline(func(path string) (string, error) { return readSpec(r, path) })
}

// loader reads the templates of r, and the user's own.
func (c *call) loader(r *repo) template.Loader {
	loader := template.Loader{Root: r.Root}
	if w := r.Config.Workflow; w.GlobalEnabled {
		loader.Global = w.GlobalDir
		if dir := config.UserDir(c.env.get); loader.Global == "" && dir != "" {
			loader.Global = filepath.Join(dir, "workflows")
		}
	}
	return loader
}

// load finds and reads the template that name stands for. With findings it is
// read as far as it could be, or nil.
func (c *call) load(r *repo, name string) (template.Resolved, *workflow.Source, error) {
	loader := c.loader(r)
	choice, err := loader.Find(name, r.Config.Commands)
	if err != nil {
		hint := "vizier help templates"
		var u *template.Unresolved
		switch {
		case errors.As(err, &u) && u.Shipped:
			hint = "`vizier init` puts the shipped templates into .vizier/workflows"
		case u != nil && u.Near != "":
			hint = "did you mean `vizier run " + u.Near + "`?"
		}
		return choice, nil, &failure{class: classUsage, err: err, hint: hint}
	}
	source, err := loader.Load(choice.Path)
	if err == nil {
		source, err = workflow.Configure(source, r.Config.Flows.Settings())
	}
	return choice, source, err
}

// settings reads --set; the last of a key wins.
func settings(set []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range set {
		key, value, ok := strings.Cut(text, "=")
		switch key = strings.TrimSpace(key); {
		case !ok:
			return nil, usageError(fmt.Errorf("invalid --set value `%s`; expected KEY=VALUE", text))
		case key == "":
			return nil, usageError(fmt.Errorf("invalid --set value `%s`; key cannot be empty", text))
		}
		out[key] = value
	}
	return out, nil
}

// meantFlag adds to an error about parameters which flag of the command itself
// may have been meant.
func (c *call) meantFlag(src *workflow.Source, given map[string]string, err error) error {
	known := map[string]bool{}
	for _, p := range src.Params {
		known[p.Key] = true
	}
	for _, a := range src.CLI.Named {
		known[a.Key] = true
	}
	model, unknown := c.whole()
	if unknown != nil {
		return errors.Join(err, unknown)
	}
	var own []string
	for _, f := range child(model.Node, "run").Flags {
		own = append(own, strings.ReplaceAll(f.Name, "-", "_"))
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if near := workflow.Suggest(key, own); near != "" && !known[key] {
			return &failure{class: classUsage, err: err, hint: "did you mean the flag --" + strings.ReplaceAll(near, "_", "-") + "?"}
		}
	}
	return &failure{class: classUsage, err: err, hint: "vizier help templates"}
}

// nameSlug gives a template that plans a specification the plan's name where
// nobody gave one, so that its artifacts are known when it is enqueued.
func (f *flow) nameSlug(c *call, r *repo) error {
	slug, declared := f.params["slug"]
	if !declared || slug != "" {
		return nil
	}
	text := f.params["spec_text"]
	if path := f.params["spec_file"]; strings.TrimSpace(text) == "" && path != "" {
		var err error
		if text, err = readSpec(r, path); err != nil {
			return fmt.Errorf("could not read spec file `%s`: %w: %w", path, err, kernel.ErrInvalid)
		}
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if f.params["slug"] = slugOf(text); f.params["slug"] == "" {
		return &failure{class: classUsage, err: errors.New("plan name must include letters or numbers: the specification begins with none"), hint: "name it with --slug NAME"}
	}
	c.ui.info("the plan's name is %s", f.params["slug"])
	return nil
}

// slugOf is the name of a plan after its specification: the first six words,
// at most 32 characters.
func slugOf(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	slug := strings.Join(words[:min(len(words), 6)], "-")
	return strings.Trim(slug[:min(len(slug), 32)], "-")
}

// maxSpec bounds a specification, in bytes.
const maxSpec = 1 << 20

// readSpec reads a specification: a path relative to the root of the working tree
// or, where there is no such file, to the working directory.
func readSpec(r *repo, path string) (string, error) {
	at := path
	if !filepath.IsAbs(path) {
		at = filepath.Join(r.Tree, path)
		if _, err := os.Stat(at); errors.Is(err, os.ErrNotExist) {
			at = path
		}
	}
	info, err := os.Stat(at)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxSpec:
		return "", fmt.Errorf("%s is larger than %d bytes", path, maxSpec)
	}
	data, err := os.ReadFile(at)
	return string(data), err
}

// compiled is a run that can be enqueued.
type compiled struct {
	app.RunRequest
	manifest workflow.Manifest
	sinks    []kernel.JobID
}

// compile makes the jobs of one run.
func (f *flow) compile(c *call, r *repo, ephemeral bool) (compiled, error) {
	return f.compileAs(c, r, ephemeral, func(string) kernel.JobID { return r.Scheduler.NewID() })
}

// compileAs makes the jobs of one run with the ids that ids gives to its nodes.
func (f *flow) compileAs(c *call, r *repo, ephemeral bool, ids func(node string) kernel.JobID) (compiled, error) {
	var out compiled
	id := kernel.RunID("run_" + string(r.Scheduler.NewID()))
	jobs, manifest, err := workflow.Compile(f.parsed, workflow.CompileOptions{
		Run: id, IDs: ids,
		Selector: f.choice.Selector, Alias: f.choice.Alias, Command: append([]string{"vizier"}, c.args...),
		At: r.Scheduler.Now(), By: c.actor(), Ephemeral: ephemeral,
		Head: func() (string, error) { return r.Git.HeadBranch(c.ctx, r.Tree) },
	})
	if err != nil {
		return out, err
	}
	for i := range jobs {
		spec := &jobs[i].Spec
		if !workflow.Anywhere(spec.Origin.About) {
			spec.Task.Tree = r.linked()
		}
		if class := spec.Origin.About.Class; spec.Task.Executor == "" && (class == "agent" || class == "environment_shell") {
			spec.Task.Executor = r.Config.Jobs.Executor
		}
		if err := r.Scheduler.Accepts(spec.Task); err != nil {
			return out, fmt.Errorf("node %s: %w", spec.Origin.Node, err)
		}
	}
	data, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return out, fmt.Errorf("manifest: %w", err)
	}
	out.manifest = manifest
	out.RunRequest = app.RunRequest{Run: id, Jobs: jobs, Manifest: append(data, '\n')}
	sleeping := map[kernel.JobID]bool{}
	for _, j := range jobs {
		sleeping[j.ID] = j.Spec.Routed
	}
	for _, s := range sinksOf(manifest) {
		if !sleeping[s] {
			out.sinks = append(out.sinks, s)
		}
	}
	return out, nil
}

// sinksOf are the jobs of a run that no other follows, in order of their nodes.
func sinksOf(m workflow.Manifest) []kernel.JobID {
	var out []kernel.JobID
	for _, node := range slices.Sorted(maps.Keys(m.Nodes)) {
		if n := m.Nodes[node]; len(n.Routes[kernel.OutcomeSucceeded.String()]) == 0 {
			out = append(out, n.Job)
		}
	}
	return out
}
