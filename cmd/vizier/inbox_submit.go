package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs/inbox"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	rules "github.com/vizier-scheduler/vizier/kernel/inbox"
)

type inboxSubmitCmd struct {
	Files      []string `arg:"" name:"file" help:"The prompts: Markdown files, or - for standard input."`
	Name       string   `placeholder:"NAME" help:"The name of the prompt's file in the inbox; required for standard input."`
	Flow       string   `placeholder:"NAME" help:"The template to run; overrides the prompt's front matter."`
	Set        []string `sep:"none" placeholder:"KEY=VALUE" help:"A parameter of the template; repeatable."`
	Repository string   `placeholder:"[OWNER/]NAME" help:"The repository, if the inbox serves several."`
	Branch     string   `placeholder:"BRANCH" help:"The branch, if the inbox serves several."`
	Format     string   `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

func (*inboxSubmitCmd) Help() string {
	return "Prints only the reference of each job, one per line, which every other command accepts from then on. Refuses a prompt that cannot run, and " +
		"drops nothing for it."
}

// inboxSubmitted is `inbox submit --format json`.
type inboxSubmitted struct {
	Outcome string       `json:"outcome"` // prompts_submitted
	Taken   []inboxTaken `json:"taken"`
}

// Run drops the prompts, in the order given.
func (x *inboxSubmitCmd) Run(c *call) error {
	r, err := c.ownRepo()
	if err != nil {
		return err
	}
	box, err := r.Inbox(c.asker())
	if err != nil {
		return err
	}
	at, err := x.target(box)
	if err != nil {
		return usageError(err)
	}
	set, err := settings(x.Set)
	if err != nil {
		return err
	}
	if x.Name != "" && len(x.Files) > 1 {
		return usageError(errors.New("--name is for one prompt"))
	}
	doc := inboxSubmitted{Outcome: "prompts_submitted", Taken: []inboxTaken{}}
	var errs []error
	for _, file := range x.Files {
		text, name, err := x.read(c, file)
		var t app.Taken
		if err == nil {
			t, err = box.Submit(c.ctx, app.Submission{Name: name, Text: text, At: at, Front: rules.Front{Flow: x.Flow, Set: set}},
				func(text string, f rules.Front) (string, error) {
					return inbox.Stamp(text, f, kernel.Timestamp(time.Now()), c.actor())
				})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", readable(file), inboxMissing(err)))
			continue
		}
		doc.Taken = append(doc.Taken, c.ui.taken(t))
		if x.Format != "json" {
			c.ui.print(c.ui.refs.short(string(t.Job)))
		}
	}
	if x.Format == "json" && len(errs) == 0 {
		return c.ui.json(doc)
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// target returns the repository and branch that the prompts are for.
func (x *inboxSubmitCmd) target(box *app.Inbox) (rules.Path, error) {
	p := rules.Path{Owner: box.Owner, Repository: x.Repository, Branch: x.Branch}
	if owner, name, ok := strings.Cut(x.Repository, "/"); ok {
		p.Owner, p.Repository = owner, name
	}
	switch {
	case box.Layout == rules.SimpleLayout && (x.Repository != "" || x.Branch != ""):
		return p, errors.New("--repository and --branch are for an inbox that serves several repositories: see [inbox] layout")
	case box.Layout == rules.SimpleLayout:
		return rules.Path{}, nil
	case p.Repository == "" || p.Branch == "" || p.Owner == "":
		return p, fmt.Errorf("the layout %s needs --repository OWNER/NAME and --branch BRANCH", box.Layout)
	case box.Layout == rules.SingleOwner && p.Owner != box.Owner:
		return p, fmt.Errorf("--repository %s: the owner of this inbox is %s", x.Repository, box.Owner)
	}
	return p, nil
}

// read returns a prompt's text and its name in the inbox.
func (x *inboxSubmitCmd) read(c *call, file string) (text, name string, err error) {
	if name = x.Name; name == "" {
		name = filepath.Base(file)
	}
	if file == "-" && x.Name == "" {
		return "", "", usageError(errors.New("standard input needs --name"))
	}
	if stem, ok := strings.CutSuffix(name, ".prompt.md"); ok {
		name = stem
	} else if stem, ok := strings.CutSuffix(name, ".md"); ok {
		name = stem
	} else if x.Name == "" {
		return "", "", usageError(errors.New("expected a Markdown file, NAME.md"))
	}
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsRune(name, '/') {
		return "", "", usageError(fmt.Errorf("%q is not a valid name for a prompt", name))
	}
	name += ".prompt.md"
	in := c.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", "", err
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return "", "", errors.Join(usageError(errors.New("expected a regular file")), err)
		}
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, inbox.MaxPrompt+1))
	if err == nil && len(data) > inbox.MaxPrompt {
		err = fmt.Errorf("longer than %d bytes, the limit of a prompt: %w", inbox.MaxPrompt, kernel.ErrInvalid)
	}
	return string(data), name, err
}
