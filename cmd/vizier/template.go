package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/adapters/fs/template"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// asker returns the person or program that runs this command.
func (c *call) asker() vizier.Asker {
	return vizier.Asker{Command: append([]string{"vizier"}, c.args...), Name: sync.OnceValue(c.actor)}
}

// builder returns the builder of jobs and runs for this command.
func (c *call) builder(r *repo) *enqueue.Builder { return r.Builder(c.asker()) }

// flow reads a template and binds its parameters: the inputs by position, set
// as KEY=VALUE.
func (c *call) flow(r *repo, name string, inputs, set []string) (*enqueue.Flow, error) {
	f, err := c.flowOf(c.builder(r), name, inputs, set)
	if err == nil {
		c.namesPlan(f)
	}
	return f, err
}

// flowOf is flow with another builder, and does not print the plan's name.
func (c *call) flowOf(b *enqueue.Builder, name string, inputs, set []string) (*enqueue.Flow, error) {
	given, err := settings(set)
	if err != nil {
		return nil, err
	}
	f, err := b.Flow(name, inputs, given)
	return f, c.hinted(err)
}

// namesPlan prints the name of a plan if it was derived from the specification.
func (c *call) namesPlan(f *enqueue.Flow) {
	if f.Slug != "" {
		c.ui.info("the plan's name is %s", f.Slug)
	}
}

// load finds and reads a template.
func (c *call) load(r *repo, name string) (enqueue.Choice, *workflow.Source, error) {
	choice, src, err := c.builder(r).Load(name)
	return choice, src, c.hinted(err)
}

// settings parses --set. If a key is given twice, the last value counts.
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

// hinted adds a hint to an input error: what to type instead.
func (c *call) hinted(err error) error {
	in, ok := errors.AsType[*enqueue.InputError](err)
	if !ok {
		return err
	}
	hint := ""
	switch in.Kind {
	case enqueue.NoTemplate:
		hint = "vizier help templates"
		if u, ok := errors.AsType[*template.Unresolved](err); ok && u.Shipped {
			hint = "`vizier init` puts the shipped templates into .vizier/workflows"
			if back := c.flowInGit(in.Flow); back != "" {
				hint = back
			}
		} else if ok && u.Near != "" {
			hint = "did you mean `" + kernel.CommandLine("vizier", "run", u.Near) + "`?"
		} else if near := nearFile(in.Flow); near != "" {
			hint = "did you mean `" + kernel.CommandLine("vizier", "run", near) + "`?"
		} else if ok && len(u.Names) > 0 {
			hint = flowsHere(u.Names)
		}
	case enqueue.BadParameter:
		hint = "vizier help templates"
		if flag := c.meantFlag(in); flag != "" {
			hint = "did you mean the flag --" + flag + "?"
		}
	case enqueue.BadInput:
		hint = kernel.CommandLine("vizier", "run", in.Flow, "--help")
	case enqueue.NoSlug:
		hint = "name it with --slug NAME"
	case enqueue.BadReference, enqueue.BadSpecs: // the error itself says what to change
	}
	return &failure{class: classUsage, err: err, hint: hint}
}

// nearFile returns the path of a file of a template that flow is most likely a misspelling of, or "".
func nearFile(flow string) string {
	dir, name := filepath.Split(strings.TrimPrefix(flow, "file:"))
	entries, _ := os.ReadDir(cmp.Or(dir, ".")) // no directory: no file
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); e.Type().IsRegular() && (ext == ".toml" || ext == ".json") {
			names = append(names, e.Name())
		}
	}
	near := workflow.Suggest(name, names)
	if i := slices.Index(names, name+".toml"); i >= 0 {
		near = names[i]
	}
	if near == "" || near == name { // it is there, and something else is wrong with it
		return ""
	}
	return dir + near
}

// meantFlag returns the flag of the command itself that an unknown parameter is
// probably a misspelling of, or "".
func (c *call) meantFlag(in *enqueue.InputError) string {
	known := map[string]bool{}
	for _, p := range in.Source.Params {
		known[p.Key] = true
	}
	for _, a := range in.Source.CLI.Named {
		known[a.Key] = true
	}
	model, err := c.whole()
	if err != nil {
		return ""
	}
	var own []string
	for _, f := range child(model.Node, "run").Flags {
		own = append(own, strings.ReplaceAll(f.Name, "-", "_"))
	}
	for _, key := range slices.Sorted(maps.Keys(in.Given)) {
		if near := workflow.Suggest(key, own); near != "" && !known[key] {
			return strings.ReplaceAll(near, "_", "-")
		}
	}
	return ""
}

// flowInGit returns how to get the template of a flow that git's index or another branch has and the
// working tree lacks, or "" if there is none.
func (c *call) flowInGit(flow string) string {
	r, err := c.repo()
	if err != nil {
		return ""
	}
	at := ".vizier/workflows/" + flow + ".toml"
	if _, back, _ := r.fromIndex(c.ctx, at); back != "" {
		return back
	}
	return r.onBranch(c.ctx, at)
}
