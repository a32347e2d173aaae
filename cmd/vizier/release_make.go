package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
)

// make makes the commit and the tag and runs the script. If that fails,
// everything is undone.
func (rel *release) make(c *call, root string, noTag bool) error {
	var err error
	message := "chore(release): " + rel.next.Tag() + "\n"
	if rel.notes != "" {
		message += "\n" + rel.notes
	}
	if rel.commit, err = rel.git.CommitEmpty(c.ctx, rel.branch, rel.head, message); err != nil {
		return fmt.Errorf("release %s: %w", rel.next.Tag(), err)
	}
	if !noTag {
		rel.tagObject, err = rel.git.CreateTag(c.ctx, rel.next.Tag(), rel.commit, rel.next.Tag()+"\n\n"+rel.notes)
	}
	if err == nil && rel.script != "" {
		err = rel.gate(c, root)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("release %s: %w", rel.next.Tag(), err)
	if undo := rel.undo(context.WithoutCancel(c.ctx)); undo != nil { // even after an interrupt
		return fmt.Errorf("%w; not everything could be undone: %w", err, undo)
	}
	return fmt.Errorf("%w; the release is undone: %s is at %.12s again", err, rel.branch, rel.head)
}

// gate runs the script. Its output goes to standard error, because the result
// is only known at its end.
func (rel *release) gate(c *call, root string) error {
	tag, span := rel.next.Tag(), string(rel.commit)
	if rel.tagObject == "" {
		tag = ""
	}
	if rel.last != "" {
		span = rel.last + ".." + span
	}
	cmd := exec.CommandContext(c.ctx, "sh", "-c", rel.script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, c.stderr, c.stderr
	cmd.Env = append(slices.Clone(c.env), "VIZIER_RELEASE_VERSION="+rel.next.String(), "VIZIER_RELEASE_TAG="+tag,
		"VIZIER_RELEASE_COMMIT="+string(rel.commit), "VIZIER_RELEASE_RANGE="+span)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err := cmd.Run()
	if c.ctx.Err() != nil {
		err = c.ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the release script: %w", err)
	}
	return nil
}

// undo removes the tag and the commit, each by compare-and-swap: a ref that
// somebody else has moved since stays as it is.
func (rel *release) undo(ctx context.Context) error {
	var err error
	if rel.tagObject != "" {
		err = rel.git.DeleteTag(ctx, rel.next.Tag(), rel.tagObject)
	}
	return errors.Join(err, rel.git.UpdateRef(ctx, "refs/heads/"+rel.branch, rel.head, rel.commit))
}
