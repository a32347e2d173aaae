package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

type releaseCmd struct {
	Major           bool   `xor:"bump" help:"Raise X of vX.Y.Z, whatever the commits say."`
	Minor           bool   `xor:"bump" help:"Raise Y."`
	Patch           bool   `xor:"bump" help:"Raise Z."`
	MaxCommits      int    `default:"20" help:"List at most this many commits in the notes."`
	NoTag           bool   `help:"Only make the commit."`
	ReleaseScript   string `xor:"script" placeholder:"CMD" help:"Run this once the release is made; undo the release if it fails."`
	NoReleaseScript bool   `xor:"script" help:"Run no script, whatever the configuration says."`
	DryRun          bool   `help:"Only print what would be released."`
	Yes             bool   `short:"y" help:"Do not ask."`
}

func (*releaseCmd) Help() string {
	return "The version follows from the highest vX.Y.Z tag below HEAD and the conventional commits since: a breaking change raises X, " +
		"feat Y, fix and perf Z. The release is a commit without changes, chore(release): vX.Y.Z, and an annotated tag, both with the notes. " +
		"The script (or [release.gate] script) runs in sh at the repository's root with VIZIER_RELEASE_VERSION, VIZIER_RELEASE_TAG " +
		"(empty with --no-tag), VIZIER_RELEASE_COMMIT and VIZIER_RELEASE_RANGE. If it fails, tag and branch go back, " +
		"unless something else has moved them meanwhile; it never touches files. A release that was killed before its end " +
		"is undone by the next vizier release."
}

// releaseGit is what a release needs of git.
type releaseGit interface {
	Operation() (string, error)
	Head(context.Context) (string, error)
	Heads(ctx context.Context, branches []string) (map[string]kernel.CommitID, error)
	Clean(context.Context) (bool, error)
	Tags(ctx context.Context, commit kernel.CommitID) ([]string, error)
	TagExists(ctx context.Context, name string) (bool, error)
	History(ctx context.Context, since string, tip kernel.CommitID) ([][2]string, error)
	LeftRelease() (git.Begun, error)
	BeginReleasing() (*git.Releasing, error)
	Undoes(context.Context, git.Begun) (bool, error)
	UndoBegun(context.Context, git.Begun) (undone bool, err error)
	EmptyCommit(ctx context.Context, from kernel.CommitID, message string) (kernel.CommitID, error)
	CreateTag(ctx context.Context, name string, at kernel.CommitID, message string) (object string, err error)
	DeleteTag(ctx context.Context, name, object string) error
	UpdateRef(ctx context.Context, ref string, to, from kernel.CommitID) error
}

// release is a release that has been decided on but not made.
type release struct {
	git    releaseGit
	branch string
	head   kernel.CommitID // the commit of branch before the release
	last   string          // the previous tag; "": none
	next   app.Version
	bump   app.Bump
	count  int // commits since last
	notes  string
	script string
	right  *git.Releasing // nil: of a dry run that finds no release left

	commit    kernel.CommitID // the release's commit, once made
	tagObject string
}

// Run makes a release.
func (x *releaseCmd) Run(c *call) error {
	if x.MaxCommits < 1 {
		return usageError(fmt.Errorf("--max-commits %d: expected 1 or more", x.MaxCommits))
	}
	r, err := c.repo()
	if err != nil {
		return err
	}
	rel := &release{git: r.Releases, script: cmp.Or(x.ReleaseScript, r.Config.Release.GateScript)}
	if x.NoReleaseScript {
		rel.script = ""
	}
	if err := rel.begin(c, x.DryRun); err != nil {
		return err
	}
	if rel.right != nil {
		defer rel.right.End() //nolint:errcheck // the process ends
	}
	if err := rel.ready(c.ctx); err != nil {
		return err
	}
	if err := rel.decide(c.ctx, x); err != nil {
		return err
	}
	if rel.bump == app.NoBump {
		c.ui.print("Outcome: No release created")
		if rel.count == 0 {
			c.ui.print("There is nothing to release: " + rel.branch + " has no commit since " + rel.last)
			return nil
		}
		none := fmt.Sprintf("None of the %d commits since %s asks for one", rel.count, cmp.Or(rel.last, "the beginning"))
		if rel.count == 1 {
			none = fmt.Sprintf("The one commit since %s asks for none", cmp.Or(rel.last, "the beginning"))
		}
		c.ui.print(none + ": --major, --minor or --patch makes one all the same")
		return nil
	}
	if x.DryRun {
		c.ui.print("Outcome: Release planned (dry run)")
		c.ui.text(rel.describe(x.NoTag))
		return nil
	}
	if !x.Yes {
		if err := rel.ask(c, x.NoTag); err != nil {
			return err
		}
	}
	if err := rel.make(c, r.Root, x.NoTag); err != nil {
		return err
	}
	c.ui.print("Outcome: Released " + rel.next.Tag())
	c.ui.text(rel.describe(x.NoTag))
	return nil
}

// ready returns an error if a release cannot be made from this checkout.
func (rel *release) ready(ctx context.Context) error {
	op, err := rel.git.Operation()
	if err != nil {
		return err
	}
	if op != "" {
		return fmt.Errorf("cannot release while a %s is in progress; finish or abort it first", op)
	}
	if rel.branch, err = rel.git.Head(ctx); err != nil {
		return err
	}
	if rel.branch == "" {
		return errors.New("cannot release from detached HEAD; checkout a branch first")
	}
	heads, err := rel.git.Heads(ctx, []string{rel.branch})
	if err != nil {
		return err
	}
	if rel.head = heads[rel.branch]; rel.head == "" {
		return fmt.Errorf("cannot release: branch %s has no commit yet", rel.branch)
	}
	clean, err := rel.git.Clean(ctx)
	if err == nil && !clean {
		err = errors.New("cannot release with uncommitted or untracked files; commit or stash them first")
	}
	return err
}

// decide determines the version, or NoBump.
func (rel *release) decide(ctx context.Context, x *releaseCmd) error {
	tags, err := rel.git.Tags(ctx, rel.head)
	if err != nil {
		return err
	}
	version, found := app.LatestVersion(tags)
	if found {
		rel.last = version.Tag()
	}
	log, err := rel.git.History(ctx, rel.last, rel.head)
	if err != nil {
		return err
	}
	changes := make([]app.Change, len(log))
	for i, entry := range log {
		changes[i] = app.Change{Commit: kernel.CommitID(entry[0]), Message: entry[1]}
	}
	rel.count = len(changes)
	switch {
	case rel.count == 0:
		return nil
	case x.Major:
		rel.bump = app.MajorBump
	case x.Minor:
		rel.bump = app.MinorBump
	case x.Patch:
		rel.bump = app.PatchBump
	default:
		rel.bump = app.BumpFor(changes)
	}
	if rel.bump == app.NoBump {
		return nil
	}
	rel.next, rel.notes = version.Next(rel.bump), app.ReleaseNotes(changes, x.MaxCommits)
	taken, err := rel.git.TagExists(ctx, rel.next.Tag())
	if err == nil && taken {
		err = fmt.Errorf("tag %s exists already, on a commit that is not in %s", rel.next.Tag(), rel.branch)
	}
	return err
}

func (rel *release) describe(noTag bool) string {
	rows := [][]string{{"Version:", rel.next.String() + " (" + rel.bump.String() + " after " + cmp.Or(rel.last, "none") + ")"},
		{"Branch:", rel.branch}, {"Commits:", fmt.Sprint(rel.count)}}
	if rel.commit != "" {
		rows = append(rows, []string{"Commit:", string(rel.commit)})
	}
	if !noTag {
		rows = append(rows, []string{"Tag:", rel.next.Tag()})
	}
	if rel.script != "" {
		rows = append(rows, []string{"Script:", rel.script})
	}
	text := table(rows)
	if rel.notes != "" {
		text += "\n" + rel.notes
	}
	return text
}

func (rel *release) ask(c *call, noTag bool) error {
	fmt.Fprintf(c.stderr, "%s\nCreate release %s? [y/N] ", visible(rel.describe(noTag), "\n\t"), rel.next.Tag())
	answer, err := c.typed()
	fmt.Fprintln(c.stderr)
	if errors.Is(err, context.Canceled) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	case "":
		if err != nil {
			return &failure{class: classUsage, err: errors.New("no answer to whether to release"), hint: "--yes does not ask, --dry-run only shows"}
		}
	}
	return refuse(errors.New("release declined"), "")
}
