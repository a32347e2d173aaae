package enqueue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// The parameters that receive a prompt's text and its branch. The first one
// that the template declares is used.
var (
	textParams   = []string{"spec_text", "prompt_text", "prompt"}
	branchParams = []string{"target_branch", "target"}
)

// Prompt makes the run of a prompt from the template flow, unless the prompt
// names another one. Unless here is set, the prompt is for the branch that its
// path names, and not for the one that is checked out.
func (t *Builder) Prompt(ctx context.Context, flow string, here bool, p app.Prompt) (app.RunRequest, error) {
	if p.Front.Flow != "" {
		flow = p.Front.Flow
	}
	if flow == "" {
		return app.RunRequest{}, fmt.Errorf("the prompt names no flow, and [inbox] flow is empty: begin it with\n---\nflow: NAME\n---: %w", kernel.ErrInvalid)
	}
	_, source, err := t.Load(flow)
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
	set := map[string]string{}
	maps.Copy(set, p.Front.Set)
	text := declared(textParams)
	_, given := p.Front.Set[text]
	_, file := p.Front.Set["spec_file"]
	switch said := strings.TrimSpace(p.Body) != ""; {
	case said && text == "":
		return app.RunRequest{}, fmt.Errorf("the template %s has no parameter for the text of a prompt: expected one of %s: %w", flow, strings.Join(textParams, ", "), kernel.ErrInvalid)
	case said && (given || file):
		return app.RunRequest{}, fmt.Errorf("the prompt has a text, and its front matter says another way what to do (%s or spec_file): keep one: %w", text, kernel.ErrInvalid)
	case said:
		set[text] = p.Body
	case text != "" && !given && !file:
		return app.RunRequest{}, fmt.Errorf("the prompt has no text, which the template %s needs: %w", flow, kernel.ErrInvalid)
	}
	target := declared(branchParams)
	if _, given := p.Front.Set[target]; target != "" && !given && !here {
		set[target] = p.Record.Branch
	}
	if target == "" && !here {
		head, err := t.CheckedOut(ctx)
		if err == nil && head != p.Record.Branch {
			err = fmt.Errorf("the template %s works on the branch that is checked out, which is %q in %s, and the prompt is for %q: "+
				"check that out, or use a template with a parameter %s: %w", flow, head, t.Root, p.Record.Branch, strings.Join(branchParams, " or "), kernel.ErrInvalid)
		}
		if err != nil {
			return app.RunRequest{}, err
		}
	}
	f, err := t.Flow(flow, nil, set)
	if err != nil {
		return app.RunRequest{}, err
	}
	return f.standFor(ctx, p)
}

// standFor makes the run. Its last job stands for the prompt and has the
// prompt's id; a run that ends in several jobs gets one more.
func (f *Flow) standFor(ctx context.Context, p app.Prompt) (app.RunRequest, error) {
	run, err := f.Compile(ctx, false)
	if err == nil {
		err = f.builder.mayMerge(ctx, run)
	}
	if err != nil {
		return app.RunRequest{}, err
	}
	if len(run.Sinks) == 1 {
		last := run.Sinks[0]
		node := ""
		for name, n := range run.Plan.Nodes {
			if n.Job == last {
				node = name
			}
		}
		run, err = f.compile(ctx, false, func(name string) kernel.JobID {
			if name == node {
				return p.ID
			}
			return f.builder.Scheduler.NewID()
		})
		for i := range run.Jobs {
			if run.Jobs[i].ID == p.ID {
				run.Jobs[i].Spec.Prompt = &p.Record
			}
		}
		return run.RunRequest, err
	}
	node := "prompt-end"
	for _, taken := run.Plan.Nodes[node]; taken; _, taken = run.Plan.Nodes[node] {
		node += "_"
	}
	end := kernel.NewJob{ID: p.ID, Spec: kernel.Spec{Name: "prompt " + p.Record.Rel, After: run.Sinks, Prompt: &p.Record,
		Origin: run.Jobs[0].Spec.Origin, Task: kernel.Task{Builtin: true, Args: []string{"__prompt-end"}}}}
	end.Spec.Origin.Node, end.Spec.Origin.About = node, kernel.NodeInfo{}
	run.Jobs = append(run.Jobs, end)
	return run.RunRequest, nil
}

// CheckedOut returns the branch of the main working tree, or "" if it is on
// none.
func (t *Builder) CheckedOut(ctx context.Context) (string, error) {
	facts := t.observe(ctx, kernel.Probes{Head: true})
	if facts.Head.Err != "" {
		return "", errors.New(facts.Head.Err)
	}
	return facts.Head.Value, nil
}

// Head returns the commit of a branch, or "" if it does not exist.
func (t *Builder) Head(ctx context.Context, branch string) (kernel.CommitID, error) {
	f := t.observe(ctx, kernel.Probes{Branches: []string{branch}}).Heads[branch]
	if f.Err != "" {
		return "", errors.New(f.Err)
	}
	return f.Value, nil
}

func (t *Builder) observe(ctx context.Context, p kernel.Probes) kernel.Facts {
	facts := kernel.NewFacts()
	for _, o := range t.Scheduler.Observers {
		o.Observe(ctx, p, &facts)
	}
	return facts
}
