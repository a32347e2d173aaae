package main

import (
	"cmp"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type whyCmd struct {
	Jobs   []string `arg:"" name:"job" help:"The jobs, or runs: their numbers, such as 12 or 14/NODE, names, ids or the beginnings of them, or @last."`
	Format string   `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
	At     *string  `type:"entry" placeholder:"TIME|ENTRY" help:"The state at an earlier moment: a duration ago, a day or a time as in --since, or an entry of vizier history."`
}

func (*whyCmd) Help() string {
	return "Lists every condition that holds the job up, not only the first, with who or what can clear it; " +
		"the fewest commands that would let it start; and for a blocked job the root failure."
}

// explanation is `jobs why --format json`: docs/schemas/why.schema.json.
type explanation struct {
	Job kernel.JobID `json:"job"`
	view.Reference
	Status  string       `json:"status"`
	Since   *time.Time   `json:"since"` // null: not waiting, or not known
	Unmet   []unmet      `json:"unmet"`
	Actions []remedy     `json:"actions"`
	Root    *rootFailure `json:"root"` // null: nothing failed
	Outlook string       `json:"outlook"`

	Resources  string      `json:"resources,omitempty"` // the steps of its growing options: those of the latest attempt and of the next one
	Unattended *unattended `json:"unattended,omitempty"`
}

type unmet struct {
	Kind   string       `json:"kind"`
	Detail string       `json:"detail"`
	Final  bool         `json:"final"`
	Job    kernel.JobID `json:"job,omitempty"`
	view.Reference
	Artifact string `json:"artifact,omitempty"`
	Clears   string `json:"clears"`
}

type remedy struct {
	Command []string `json:"command,omitempty"`
	Text    string   `json:"text,omitempty"`
}

type rootFailure struct {
	Job kernel.JobID `json:"job"`
	view.Reference
	Status  string   `json:"status"`
	Detail  string   `json:"detail"`
	Command []string `json:"command,omitempty"` // shows its output
}

// Run explains the jobs.
func (w *whyCmd) Run(c *call) error {
	if err := c.goBack(w.At); err != nil {
		return err
	}
	return c.each(w.Jobs, w.Format, w.why)
}

func (w *whyCmd) why(c *call, ref string) error {
	r, targets, err := c.targets([]string{ref})
	if err != nil {
		return err
	}
	jobs := targets[0].Jobs
	if targets[0].Whole && len(jobs) > 1 {
		var snap *kernel.Snapshot
		if r, targets, snap, err = c.standing([]string{ref}); err != nil {
			return err
		}
		if w.Format == "text" {
			c.ui.print("Run " + runLine(view.RunOf(snap, targets[0].Jobs)))
		}
		jobs = slices.DeleteFunc(view.HoldingUp(targets[0].Jobs), func(j *kernel.Job) bool { return snap.BlockedBy(j) != nil })
		switch {
		case len(jobs) == 0 && w.Format == "text": // nothing holds it up
			return nil
		case len(jobs) == 0:
			jobs = targets[0].Jobs[:1]
		case w.Format == "text":
			c.ui.print("")
		}
	}
	more := 0
	if w.Format == "text" && len(jobs) > mostExplained {
		jobs, more = jobs[:mostExplained], len(jobs)-mostExplained
	}
	foreign, displaced := c.foreign(r), c.displaced(r)
	r.refresh(c.ctx, jobs...)
	for i, j := range jobs {
		var e kernel.Explanation
		snap, err := c.settled(r, func() (snap *kernel.Snapshot, err error) {
			e, snap, err = r.Scheduler.Explain(c.ctx, j.ID)
			return snap, err
		})
		if err != nil {
			return err
		}
		if e.Root != nil && c.past == nil {
			if root := snap.Job(e.Root.Job); root != nil {
				e.Root.Detail = r.toResolve(snap, root, e.Root.Detail)
			}
		}
		if foreign != nil {
			e.Unmet = unmetBeside(e, foreign)
		}
		doc := explained(e, &c.ui.refs)
		if e.Root != nil {
			if root := snap.Job(e.Root.Job); root != nil && view.Printed(root) {
				doc.Root.Command = c.ui.refs.command([]string{"vizier", "tail", string(root.ID)})
			}
		}
		doc.Status, doc.Resources = view.Standing(snap, snap.Job(j.ID)), view.Resources(snap.Job(j.ID))
		if doc.Unattended = r.unattended(e.TickWait, snap.Now()); doc.Unattended != nil {
			doc.Unattended.Command = c.ui.refs.command(doc.Unattended.Command)
		}
		if e.Outlook == kernel.Starts {
			c.nested(r, snap, j.ID, &doc)
		}
		if e.Root != nil && displaced(snap.Job(e.Root.Job)) {
			doc.Actions = append([]remedy{{Command: mend}}, doc.Actions...)
		}
		if back := r.moveBack(snap, e.Root); back != nil && c.past == nil {
			doc.Actions = append([]remedy{*back}, doc.Actions...)
		}
		if foreign != nil && len(doc.Actions)+len(doc.Unmet) > 0 { // no other command has an effect before that
			doc.Actions, doc.Unattended, doc.Outlook = append([]remedy{{Command: foreign}}, doc.Actions...), nil, kernel.AwaitsActions.String()
		}
		switch {
		case w.Format == "text":
			if i > 0 {
				c.ui.print("")
			}
			c.ui.verbatim(prose(c.ui.people(whyText(e, doc, snap.Now())), c.ui.columns()))
		case len(jobs) == 1:
			err = c.ui.json(doc)
		default:
			err = c.ui.jsonLine(doc)
		}
		if err != nil {
			return err
		}
	}
	if more > 0 {
		c.ui.print("")
		c.ui.print(view.Counted(more, "more job") + ": vizier ls " + ref)
	}
	return nil
}

// nested adds to doc that the job, which waits for a place, gets none by itself, if all that have one wait for others that wait so.
func (c *call) nested(r *repo, snap *kernel.Snapshot, id kernel.JobID, doc *explanation) {
	if c.past != nil || snap.Job(id) == nil {
		return
	}
	waits := map[kernel.JobID][]kernel.JobID{}
	var all []kernel.JobID
	for _, p := range snap.Jobs() {
		if p.State.Status == kernel.Running {
			waits[p.ID] = r.waitsOf(p.ID)
			all = append(append(all, p.ID), waits[p.ID]...)
		}
	}
	known, err := r.Scheduler.Records(c.ctx, app.Only(append(all, id)))
	if err != nil || known.Job(id) == nil {
		return
	}
	one := view.Nested(known, known.Job(id), func(p kernel.JobID) []kernel.JobID { return waits[p] })
	if one == nil {
		return
	}
	for i, u := range doc.Unmet {
		if u.Kind == kernel.OnLocks.String() {
			doc.Unmet[i].Clears = "nothing by itself: each job that has a place waits for one that has none"
		}
	}
	setting := "[executors." + one.Spec.Task.On() + "] max_running"
	if one.Spec.Task.On() == kernel.LocalExecutor {
		setting = "[scheduler] max_running"
	}
	doc.Actions = append(doc.Actions, remedy{c.ui.refs.command([]string{"vizier", "cancel", string(one.ID)}),
		"vizier cancel " + c.ui.refs.short(string(one.ID)) + " or set a larger `" + setting + "` in the configuration"})
	doc.Outlook = kernel.AwaitsActions.String()
}

// moveBack returns what brings back the worktree in which the job of a root failure worked, if somebody moved it. A retry finds it
// only among the worktrees of jobs.
func (r *repo) moveBack(snap *kernel.Snapshot, root *kernel.RootFailure) *remedy {
	if root == nil || snap.Job(root.Job) == nil {
		return nil
	}
	c, tree := snap.Job(root.Job).State.Context, snap.Job(root.Job).Spec.Task.Tree
	name, to := c.Name, c.Worktree
	switch {
	case name != "" && r.stands(c):
		return nil
	case name == "" && tree != "": // git keeps the name that a person's worktree got from its first place
		if _, err := os.Lstat(tree); !errors.Is(err, iofs.ErrNotExist) {
			return nil
		}
		name, to = filepath.Base(tree), tree
	}
	at := r.treeNamed(name)
	if at == "" {
		return nil
	}
	return &remedy{Command: []string{"git", "worktree", "move", at, to}, Text: kernel.MoveWorktree(at, to)}
}

// warned prints err as a warning, and reports whether there is one.
func (c *call) warned(err error) bool {
	if err != nil {
		c.ui.warn("%v", err)
	}
	return err != nil
}

// foreign warns if the store is not acted on, and returns the only command that leads on then: adopt if
// that is the next step, or doctor, which says what is; nil: it is acted on.
func (c *call) foreign(r *repo) []string {
	if c.past != nil || r.Foreign == nil {
		return nil
	}
	if r.Held() != nil { // which settled warns of
		return adopt[:2]
	}
	err := r.Foreign(c.ctx)
	if !c.warned(err) {
		return nil
	}
	if why, ok := errors.AsType[*fs.ForeignError](err); ok && why.Adopt {
		return adopt
	}
	return adopt[:2]
}

// unmetBeside returns what holds a job up in a foreign store, which next leads out of: that the store is not acted on, and then the rest. Locks and places are not
// among that: the jobs that hold them on record run nowhere, and no tick comes that starts others before.
func unmetBeside(e kernel.Explanation, next []string) []kernel.Unmet {
	if len(e.Unmet) == 0 || e.Status == kernel.Running {
		return e.Unmet
	}
	return append([]kernel.Unmet{{Detail: "nothing starts here: the store is not acted on", Clears: strings.Join(next, " ") + ", once somebody has looked at it"}},
		slices.DeleteFunc(slices.Clone(e.Unmet), func(u kernel.Unmet) bool {
			return u.Kind == kernel.OnLocks && !u.Final || u.Kind == kernel.NoWait && e.TickWait.Now
		})...)
}

// idle returns why nothing starts in a foreign store; "": it is not foreign.
func (c *call) idle(r *repo) string {
	if c.past == nil && r.Foreign != nil && r.Foreign(c.ctx) != nil {
		return "not started: the store is not acted on (vizier doctor)"
	}
	return ""
}

// displaced returns a function that reports whether a job's reason names a worktree that git does not find
// since the repository was moved. It warns of the first one. Nobody can work there before mend, which needs a
// person: if several hosts see the repository under different paths, another host may be working in it.
func (c *call) displaced(r *repo) func(*kernel.Job) bool {
	told := false
	return func(j *kernel.Job) bool {
		if c.past != nil || j == nil || j.State.Reason == "" || r.Doctor.git == nil {
			return false
		}
		trees, err := r.Doctor.git.MovedWorktrees()
		at := slices.IndexFunc(trees, func(t kernel.Context) bool { return strings.Contains(j.State.Reason, t.Worktree) })
		if err == nil && at >= 0 {
			err = fmt.Errorf("%s: %s", trees[at].Worktree, treeDisplaced)
		}
		told = told || c.warned(err)
		return at >= 0
	}
}

// treeDisplaced is the problem of a displaced worktree.
const treeDisplaced = "git looks for this worktree where it was before the repository was moved or copied, so nothing works in it"

var (
	adopt = []string{"vizier", "doctor", "--adopt"}
	mend  = []string{"vizier", "doctor", "--fix"}
)

// mostExplained is how many jobs of a run are explained in text.
const mostExplained = 10

func explained(e kernel.Explanation, refs *references) explanation {
	out := explanation{Job: e.Job, Reference: refs.of(string(e.Job)), Status: e.Status.String(), Unmet: []unmet{}, Actions: []remedy{}, Outlook: e.Outlook.String()}
	if !e.Since.IsZero() {
		out.Since = &e.Since
	}
	for _, u := range e.Unmet {
		m := unmet{Kind: u.Kind.String(), Detail: u.Detail, Final: u.Final, Job: u.Job, Clears: u.Clears}
		if u.Job != "" {
			m.Reference = refs.of(string(u.Job))
		}
		if u.Artifact.Name != "" {
			m.Artifact = u.Artifact.String()
		}
		out.Unmet = append(out.Unmet, m)
	}
	for _, s := range view.Steps(e.Actions) {
		out.Actions = append(out.Actions, remedy{refs.command(s.Command), refs.text(s.Text)})
	}
	if e.Root != nil {
		out.Root = &rootFailure{Job: e.Root.Job, Reference: refs.of(string(e.Root.Job)), Status: e.Root.Status.String(), Detail: e.Root.Detail}
	}
	return out
}

// outlooks says what happens to a job if nobody does anything. A job that needs an
// action has a list of actions instead.
var outlooks = map[kernel.Outlook]string{ //nolint:gochecknoglobals // a table
	kernel.Starts:     "No action needed: it starts by itself.",
	kernel.TriedAgain: "It is tried again by itself.",
	kernel.Settles:    "No action needed until that has ended.",
	kernel.Sleeps:     "Nothing starts it before that.",
}

func whyText(e kernel.Explanation, doc explanation, now time.Time) string {
	var b strings.Builder
	alone := doc.Unattended
	fmt.Fprintf(&b, "Job %s: %s", e.Job, doc.Status)
	if !e.Since.IsZero() && len(e.Unmet) > 0 {
		fmt.Fprintf(&b, " for %s", kernel.Brief(now.Sub(e.Since)))
	}
	b.WriteString("\n")
	switch {
	case len(e.Unmet) > 0 && e.Status == kernel.Running:
		b.WriteString("\nIts executor says:\n")
	case len(e.Unmet) > 0:
		b.WriteString("\nNot met:\n")
	}
	for i, u := range e.Unmet {
		u.Clears = doc.Unmet[i].Clears
		kind := u.Kind.String()
		if kind != "" {
			kind += ": "
		}
		final := ""
		if u.Final {
			final = " (permanent)"
		}
		fmt.Fprintf(&b, "  - %s%s%s\n", kind, plainLine(u.Detail), final)
		if until, person := strings.CutPrefix(u.Clears, "a person"); person {
			b.WriteString("    needs an approval" + until + "\n")
		} else if u.Kind == kernel.OnApproval && !u.Final {
			b.WriteString("    needs an approval by " + plainLine(u.Clears) + "\n")
		} else if u.Clears != "" {
			fmt.Fprintf(&b, "    cleared by %s\n", plainLine(u.Clears))
		}
	}
	if doc.Resources != "" {
		fmt.Fprintf(&b, "\nResources: %s\n", doc.Resources)
	}
	if e.Root != nil {
		fmt.Fprintf(&b, "\nRoot cause: job %s (%s): %s\n", e.Root.Job, e.Root.Status, plainLine(e.Root.Detail))
		if len(doc.Root.Command) > 0 {
			fmt.Fprintf(&b, "Its output: %s\n", strings.Join(doc.Root.Command, " "))
		}
	}
	sleeps := e.Outlook == kernel.Sleeps && e.Status.Waiting()
	switch {
	case len(doc.Actions) > 0 && sleeps:
		b.WriteString("\nIt needs, besides what sleeps:\n")
	case len(doc.Actions) > 0 && e.Outlook == kernel.Sleeps: // it has ended
		b.WriteString("\nTo open it again:\n")
	case len(doc.Actions) > 1 && (strings.HasPrefix(strings.Join(doc.Actions[0].Command, " "), "vizier doctor") || view.InOrder(e.Actions)):
		b.WriteString("\nTo start it, in this order:\n")
	case len(doc.Actions) > 0:
		b.WriteString("\nTo start it:\n")
	case sleeps:
	case alone == nil && outlooks[e.Outlook] != "":
		b.WriteString("\n" + outlooks[e.Outlook] + "\n")
	}
	for _, a := range doc.Actions {
		b.WriteString("  " + plainLine(cmp.Or(a.Text, kernel.CommandLine(a.Command...))) + "\n")
	}
	if sleeps {
		fmt.Fprintf(&b, "\nNothing starts it before what sleeps has run; if that never comes, `vizier cancel %s` ends it.\n", e.Job)
	}
	if alone != nil {
		fmt.Fprintf(&b, "\nBut %s. To continue:\n  %s\n", alone.text, strings.Join(alone.Command, " "))
	}
	return b.String()
}
