package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/fs/inbox"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	rules "github.com/vizier-scheduler/vizier/kernel/inbox"
)

type inboxCmd struct {
	Init   inboxInitCmd   `cmd:"" help:"Make the folders of the inbox."`
	Once   inboxOnceCmd   `cmd:"" help:"Look at the inbox once: enqueue what was dropped, take away what has ended."`
	Watch  inboxWatchCmd  `cmd:"" help:"Look at the inbox whenever something changes in it."`
	Submit inboxSubmitCmd `cmd:"" help:"Drop prompts, and print the ids of their jobs."`
	Status inboxStatusCmd `cmd:"" help:"Show the prompts and what their jobs do."`
}

// inboxTree is the tree behind app's port.
type inboxTree struct{ inbox.Tree }

func (t inboxTree) Lock() (io.Closer, bool, error) {
	f, free, err := t.Tree.Lock()
	if f == nil {
		return nil, free, err
	}
	return f, free, err
}

// now is the time that files are compared with, whatever VIZIER_NOW says.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// inboxHome is where the trees of r's inbox are.
func (r *repo) inboxHome() string {
	if home := r.Config.Inbox.Home; filepath.IsAbs(home) {
		return filepath.Clean(home)
	}
	return filepath.Join(r.Root, r.Config.Inbox.Home)
}

// inbox is the inbox of r.
func (c *call) inbox(r *repo) (*app.Inbox, error) {
	cfg := r.Config.Inbox
	layout, err := rules.ParseLayout(cfg.Layout)
	if err != nil {
		return nil, err
	}
	return &app.Inbox{
		Tree: inboxTree{inbox.Tree{Home: r.inboxHome(), Now: now}}, Layout: layout, Owner: cfg.Owner, Archive: cfg.FailureArchive,
		Debounce: cfg.Debounce, Visible: cfg.Visible, Patience: r.Config.Scheduler.LockTimeout, Now: now, Parse: inbox.ParsePrompt,
		Find: func(p rules.Path) (*app.InboxTarget, error) { return c.inboxTarget(r, layout, p) },
	}, nil
}

// inboxTarget is the repository that a path names: in the simple layout r
// itself, otherwise the one that the configuration says.
func (c *call) inboxTarget(home *repo, layout rules.Layout, p rules.Path) (*app.InboxTarget, error) {
	r := home
	if layout != rules.SimpleLayout {
		var err error
		if r, err = c.configured(home, p.Target()); err != nil {
			return nil, err
		}
	}
	main := *r
	main.Tree = main.Root // wherever the command stands
	r = &main
	return &app.InboxTarget{Root: r.Root, Scheduler: r.Scheduler,
		Place: func(ctx context.Context, p rules.Path) (rules.Path, error) {
			return c.place(ctx, r, layout, home.Config.Inbox.Owner, p)
		},
		Prepare: func(p app.Prompt) (app.RunRequest, error) {
			return c.promptRun(r, layout, home.Config.Inbox.Flow, p)
		}}, nil
}

// configured opens the repository of that name. The path must be the root of
// its working tree: one further down would be another repository's.
func (c *call) configured(home *repo, name string) (*repo, error) {
	known := home.Config.Inbox.Repositories
	path, ok := known[name]
	if !ok {
		names := make([]string, 0, len(known))
		for n := range known {
			names = append(names, n)
		}
		near := ""
		if n := config.Nearest(name, names); n != "" {
			near = " (did you mean " + n + "?)"
		}
		return nil, fmt.Errorf("unknown repository %q%s: name its clone in .vizier/config.toml, as in\n[inbox.repositories]\n%q = \"PATH\": %w",
			name, near, name, kernel.ErrInvalid)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(home.Root, path)
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("the repository %q: %w", name, err)
	}
	r, err := openAt(c.ctx, c.env, c.globals, path)
	if err != nil {
		return nil, fmt.Errorf("the repository %q: %w", name, err)
	}
	if r.Root != path {
		return nil, fmt.Errorf("the repository %q: %s is no working tree's root, but lies in %s: %w", name, path, r.Root, kernel.ErrInvalid)
	}
	return r, nil
}

// place completes what a path says. Its branch must exist.
func (c *call) place(ctx context.Context, r *repo, layout rules.Layout, owner string, p rules.Path) (rules.Path, error) {
	if layout == rules.SimpleLayout {
		head, err := r.checkedOut(ctx)
		if head == "" {
			head = "HEAD"
		}
		if owner == "" {
			owner = "local"
		}
		return rules.Path{Owner: owner, Repository: filepath.Base(r.Root), Branch: head}, err
	}
	facts := kernel.NewFacts()
	for _, o := range r.Scheduler.Observers {
		o.Observe(ctx, kernel.Probes{Branches: []string{p.Branch}}, &facts)
	}
	switch f := facts.Heads[p.Branch]; {
	case f.Err != "":
		return p, fmt.Errorf("branch %q of %s: %s", p.Branch, p.Target(), f.Err)
	case f.Value == "":
		return p, fmt.Errorf("%s has no local branch %q: create or fetch it in %s; a branch with slashes needs a file %s that names it: %w",
			p.Target(), p.Branch, r.Root, rules.BranchMarker, kernel.ErrInvalid)
	}
	return p, nil
}

// checkedOut is the branch of the main checkout; "" if there is none.
func (r *repo) checkedOut(ctx context.Context) (string, error) {
	facts := kernel.NewFacts()
	for _, o := range r.Scheduler.Observers {
		o.Observe(ctx, kernel.Probes{Head: true}, &facts)
	}
	if facts.Head.Err != "" {
		return "", errors.New(facts.Head.Err)
	}
	return facts.Head.Value, nil
}

// Where a prompt's text goes, and the branch it is for: the first of these
// parameters that its template declares.
var (
	textParams   = []string{"spec_text", "prompt_text", "prompt"}
	branchParams = []string{"target_branch", "target"}
)

// promptRun makes the run of a prompt.
func (c *call) promptRun(r *repo, layout rules.Layout, flow string, p app.Prompt) (app.RunRequest, error) {
	if p.Front.Flow != "" {
		flow = p.Front.Flow
	}
	if flow == "" {
		return app.RunRequest{}, fmt.Errorf("the prompt names no flow, and [inbox] flow is empty: begin it with\n---\nflow: NAME\n---: %w", kernel.ErrInvalid)
	}
	_, source, err := c.load(r, flow)
	if err != nil {
		return app.RunRequest{}, err
	}
	declared := func(names []string) string {
		for _, n := range names {
			for _, param := range source.Params {
				if param.Key == n {
					return n
				}
			}
		}
		return ""
	}
	var set []string
	for _, key := range slices.Sorted(maps.Keys(p.Front.Set)) {
		set = append(set, key+"="+p.Front.Set[key])
	}
	text := declared(textParams)
	_, given := p.Front.Set[text]
	_, file := p.Front.Set["spec_file"]
	switch said := strings.TrimSpace(p.Body) != ""; {
	case said && text == "":
		return app.RunRequest{}, fmt.Errorf("the template %s has no parameter for the text of a prompt: expected one of %s: %w", flow, strings.Join(textParams, ", "), kernel.ErrInvalid)
	case said && (given || file):
		return app.RunRequest{}, fmt.Errorf("the prompt has a text, and its front matter says another way what to do (%s or spec_file): keep one: %w", text, kernel.ErrInvalid)
	case said:
		set = append(set, text+"="+p.Body)
	case text != "" && !given && !file:
		return app.RunRequest{}, fmt.Errorf("the prompt has no text, which the template %s needs: %w", flow, kernel.ErrInvalid)
	}
	target := declared(branchParams)
	if _, given := p.Front.Set[target]; target != "" && !given && layout != rules.SimpleLayout {
		set = append(set, target+"="+p.Intake.Branch)
	}
	if target == "" && layout != rules.SimpleLayout {
		head, err := r.checkedOut(c.ctx)
		if err == nil && head != p.Intake.Branch {
			err = fmt.Errorf("the template %s works on the branch that is checked out, which is %q in %s, and the prompt is for %q: "+
				"check that out, or use a template with a parameter %s: %w", flow, head, r.Root, p.Intake.Branch, strings.Join(branchParams, " or "), kernel.ErrInvalid)
		}
		if err != nil {
			return app.RunRequest{}, err
		}
	}
	f, err := c.flow(r, flow, nil, set)
	if err != nil {
		return app.RunRequest{}, err
	}
	return f.standFor(c, r, p)
}

// standFor makes the run whose last job stands for the prompt, and has its id.
// A run that ends in several jobs gets one more.
func (f *flow) standFor(c *call, r *repo, p app.Prompt) (app.RunRequest, error) {
	run, err := f.compile(c, r, false)
	if err != nil {
		return app.RunRequest{}, err
	}
	if len(run.sinks) == 1 {
		last := run.sinks[0]
		node := ""
		for name, n := range run.manifest.Nodes {
			if n.Job == last {
				node = name
			}
		}
		run, err = f.compileAs(c, r, false, func(name string) kernel.JobID {
			if name == node {
				return p.ID
			}
			return r.Scheduler.NewID()
		})
		for i := range run.Jobs {
			if run.Jobs[i].ID == p.ID {
				run.Jobs[i].Spec.Intake = &p.Intake
			}
		}
		return run.RunRequest, err
	}
	if len(run.sinks) == 0 {
		return app.RunRequest{}, fmt.Errorf("the template %s ends in no job: %w", f.name, kernel.ErrInvalid)
	}
	node := "prompt-end"
	for _, taken := run.manifest.Nodes[node]; taken; _, taken = run.manifest.Nodes[node] {
		node += "_"
	}
	end := kernel.NewJob{ID: p.ID, Spec: kernel.Spec{Name: "prompt " + p.Intake.Rel, After: run.sinks, Intake: &p.Intake,
		Origin: run.Jobs[0].Spec.Origin, Task: kernel.Task{Builtin: true, Args: []string{"__prompt-end"}}}}
	end.Spec.Origin.Node, end.Spec.Origin.About = node, kernel.NodeInfo{}
	run.Jobs = append(run.Jobs, end)
	return run.RunRequest, nil
}

// inboxMissing adds to the absence of an inbox how to make one.
func inboxMissing(err error) error {
	if errors.Is(err, inbox.ErrNoInbox) {
		return &failure{class: class{"not_found", 1, "vizier inbox init"}, err: err}
	}
	return err
}
