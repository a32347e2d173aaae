package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/vizier-scheduler/vizier/adapters/fs/inbox"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	rules "github.com/vizier-scheduler/vizier/kernel/inbox"
)

// checkInbox checks the trees of r's inbox. Prompts of other repositories are
// compared with those repositories' current records.
func (c *call) checkInbox(r *repo) func(context.Context, *kernel.Snapshot) ([]app.Finding, error) {
	return func(ctx context.Context, s *kernel.Snapshot) ([]app.Finding, error) {
		tree := r.InboxFiles()
		list, err := tree.Scan()
		if errors.Is(err, inbox.ErrNoInbox) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		at := func(rel string) string { return r.rel(path.Join(tree.Inbox(), rel)) }
		var out []app.Finding
		jobs := s.Jobs()
		for _, name := range slices.Sorted(maps.Keys(r.Config.Inbox.Repositories)) {
			other, err := r.Neighbour(name)
			if err != nil {
				out = append(out, app.Finding{Path: ".vizier/config.toml", Problem: "[inbox.repositories] " + err.Error(), Next: "correct the path, or remove the line"})
				continue
			}
			if other.Root == r.Root {
				continue
			}
			rec, err := other.Scheduler.Store.Read(ctx, kernel.Scope{All: true})
			if err != nil {
				return out, fmt.Errorf("%s: %w", other.Root, err)
			}
			for i := range rec.Jobs {
				jobs = append(jobs[:len(jobs):len(jobs)], &rec.Jobs[i])
			}
		}
		ours := slices.DeleteFunc(slices.Clone(jobs), func(j *kernel.Job) bool {
			return j.Spec.Prompt == nil || j.Spec.Prompt.File != tree.File(j.Spec.Prompt.Rel, kernel.RunningPrompt)
		})
		for _, odd := range list.Odd(ours) {
			next := "move it out of the inbox"
			if slices.ContainsFunc(list.Others, func(f rules.PromptFile) bool { return f.Rel == odd.Path }) {
				next = "rename it, or " + next
			}
			out = append(out, app.Finding{Path: at(odd.Path), Problem: odd.Why, Next: next})
		}
		held, known := map[string]bool{}, map[kernel.JobID]bool{}
		for _, j := range jobs {
			in := j.Spec.Prompt
			if in == nil {
				continue
			}
			known[j.ID] = true
			held[in.File] = held[in.File] || j.HoldsPrompt()
			if j.HoldsPrompt() && !j.Open() && in.File == tree.File(in.Rel, kernel.RunningPrompt) {
				out = append(out, app.Finding{Path: r.rel(in.File), Problem: "job " + string(j.ID) + " has ended, but the prompt's name does not say so", Next: "vizier inbox once"})
			}
		}
		for _, f := range list.OfName(kernel.RunningPrompt) {
			if file := tree.File(f.Rel, f.Name); !held[file] {
				out = append(out, app.Finding{Path: r.rel(file), Problem: "named running, but no job has it", Next: "vizier inbox once"})
			}
		}
		odd, err := tree.Inspect(known)
		for _, o := range odd {
			f := app.Finding{Path: r.rel(path.Join(tree.Home, o.Path)), Problem: o.Text, Next: "look at it and remove it"}
			if o.Fix != nil {
				f.Fix = func(context.Context) error { return o.Fix() }
			}
			out = append(out, f)
		}
		return out, err
	}
}
