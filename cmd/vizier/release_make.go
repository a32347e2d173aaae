package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/kernel"
)

// begin takes the right to make a release, and first undoes one that a killed process has left: nobody knows
// whether its script would have let it pass. A dry run takes the right only to see whether that process was killed, and
// undoes nothing.
func (rel *release) begin(c *call, dryRun bool) error {
	if dryRun {
		if left, err := rel.git.LeftRelease(); err != nil || left.Commit == "" {
			return err
		}
	}
	right, err := rel.git.BeginReleasing()
	if errors.Is(err, git.ErrReleasing) {
		return refuse(err, "try again when it has ended")
	}
	if err != nil {
		return err
	}
	rel.right = right
	left, err := rel.git.LeftRelease()
	if err != nil || left.Commit == "" {
		return err
	}
	undo := rel.git.UndoBegun
	if dryRun {
		undo = rel.git.Undoes
	}
	undone, err := undo(c.ctx, left)
	switch {
	case errors.Is(err, git.ErrMoved):
		return refuse(fmt.Errorf("release %s, commit %.12s, was killed before its end, and cannot be undone: %w", left.Tag, left.Commit, err), rel.stays(c.ctx, left)+"; then remove `vizier-release` in the git directory")
	case err != nil:
		return fmt.Errorf("undo release %s, which was killed before its end: %w", left.Tag, err)
	case dryRun && undone:
		return refuse(fmt.Errorf("release %s of %s was killed before its end", left.Tag, left.Branch), "the next `vizier release` undoes it first")
	case dryRun:
		return nil
	case undone:
		heads, err := rel.git.Heads(c.ctx, []string{left.Branch})
		if err != nil {
			return err
		}
		said := fmt.Sprintf("release %s was killed before its end, and is undone", left.Tag)
		if heads[left.Branch] == left.From {
			said += fmt.Sprintf(": %s is at %.12s again", left.Branch, left.From)
		}
		c.ui.warn(said)
	}
	return rel.right.Forget()
}

// stays says what to do about a release that did not end well and cannot be undone.
func (rel *release) stays(ctx context.Context, left git.Begun) string {
	tag, untag := fmt.Sprintf(" and make its tag with `%s`", kernel.CommandLine("git", "tag", "--annotate", left.Tag, fmt.Sprintf("%.12s", left.Commit))), ""
	if made, err := rel.git.TagExists(ctx, left.Tag); made || err != nil {
		tag, untag = "", " and remove its tag with `"+kernel.CommandLine("git", "tag", "-d", left.Tag)+"`"
	}
	return "if it is to stay, run its script by hand" + tag + "; else revert what belongs to it" + untag
}

// undoable returns a context that whatever signal would end the process cancels instead, however often it comes, until stop
// is called.
func undoable(ctx context.Context) (of context.Context, stop context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as by nohup
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(ctx, signals...)
}

// make makes the commit and the tag and runs the script. If that fails, or a signal comes,
// everything is undone.
func (rel *release) make(c *call, root string, noTag bool) error {
	ctx, stop := undoable(c.ctx)
	defer stop()
	var err error
	message := "chore(release): " + rel.next.Tag() + "\n"
	if rel.notes != "" {
		message += "\n" + rel.notes
	}
	rel.commit, err = rel.git.EmptyCommit(ctx, rel.head, message)
	if err != nil {
		return fmt.Errorf("release %s: %w", rel.next.Tag(), err)
	}
	begun := git.Begun{Branch: rel.branch, From: rel.head, Commit: rel.commit, Tag: rel.next.Tag()}
	if err = rel.right.Note(begun); err == nil {
		err = rel.git.UpdateRef(ctx, "refs/heads/"+rel.branch, rel.commit, rel.head)
	}
	if err == nil && !noTag {
		rel.tagObject, err = rel.git.CreateTag(ctx, rel.next.Tag(), rel.commit, rel.next.Tag()+"\n\n"+rel.notes)
	}
	if err == nil && rel.script != "" {
		err = rel.gate(ctx, c, root)
	}
	if err == nil {
		return rel.right.Forget()
	}
	err = fmt.Errorf("release %s: %w", rel.next.Tag(), err)
	undone, undo := rel.undo(context.WithoutCancel(ctx), begun) // even after an interrupt
	if undo != nil && !errors.Is(undo, git.ErrMoved) {          // such as another one, which ended git
		return fmt.Errorf("%w; not everything could be undone: %w: the next `vizier release` undoes the rest", err, undo)
	}
	forget := rel.right.Forget()
	switch {
	case undo != nil:
		err = fmt.Errorf("%w; not everything could be undone: %w", err, errors.Join(undo, forget))
		err = &failure{class: classify(err), err: err, hint: rel.stays(context.WithoutCancel(ctx), begun)}
	case forget != nil:
		err = fmt.Errorf("%w; not everything could be undone: %w", err, forget)
	case undone:
		err = fmt.Errorf("%w; the release is undone: %s is at %.12s again", err, rel.branch, rel.head)
	}
	return err
}

// scriptEnds is how long a script may take to end after a signal.
const scriptEnds = 10 * time.Second

// gate runs the script. Its output goes to standard error, because the result
// is only known at its end.
func (rel *release) gate(ctx context.Context, c *call, root string) error {
	tag, span := rel.next.Tag(), string(rel.commit)
	if rel.tagObject == "" {
		tag = ""
	}
	if rel.last != "" {
		span = rel.last + ".." + span
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", rel.script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, c.stderr, c.stderr
	cmd.Env = append(slices.Clone(c.env), "VIZIER_RELEASE_VERSION="+rel.next.String(), "VIZIER_RELEASE_TAG="+tag,
		"VIZIER_RELEASE_COMMIT="+string(rel.commit), "VIZIER_RELEASE_RANGE="+span)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = scriptEnds
	err := cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the release script: %w", err)
	}
	return nil
}

// undo removes what has been made of the release, which git may have done and not told, being interrupted. The branch stays
// as it is if somebody has moved it on since.
func (rel *release) undo(ctx context.Context, begun git.Begun) (undone bool, err error) {
	undone, err = rel.git.UndoBegun(ctx, begun)
	if errors.Is(err, git.ErrMoved) && rel.tagObject != "" {
		err = errors.Join(err, rel.git.DeleteTag(ctx, rel.next.Tag(), rel.tagObject))
	}
	return undone, err
}
