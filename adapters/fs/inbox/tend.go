package inbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// Tender keeps the files of prompts up to date with their jobs. It works on the
// inbox that a job names, whatever repository the job is in.
type Tender struct{ Tree Tree } // Home is not used

// TendPrompt makes the copy of the job's prompt and gives the prompt the name
// want. It reports whether there was a prompt at all, and whether a copy is
// archived in failed. how is the state of the run, for people who read why it
// failed. others are the inode numbers of other jobs' prompts. TendPrompt is
// idempotent.
func (t Tender) TendPrompt(j *kernel.Job, want kernel.PromptName, how string, others []uint64) (found, archived bool, err error) {
	in := j.Spec.Prompt
	home := inbox.Home(in)
	if home == "" || !strings.HasPrefix(home, "/") {
		return false, false, fmt.Errorf("the prompt of job %s: %s does not end in %s", j.ID, in.File, inbox.NameOf(kernel.RunningPrompt, in.Rel))
	}
	tree := t.Tree
	tree.Home = home
	err = tree.with(func(c fs.Confined) error {
		found, archived, err = tree.tend(c, j, want, how, others)
		return err
	})
	return found, archived, err
}

func (t Tree) tend(c fs.Confined, j *kernel.Job, want kernel.PromptName, how string, others []uint64) (found, archived bool, err error) {
	in := j.Spec.Prompt
	at, anew, err := locate(c, j, others)
	if err == nil && at == "" {
		at, err = t.findRenamed(c, j)
	}
	at = cmp.Or(at, anew)
	if err == nil && want == kernel.RunningPrompt {
		at, err = nameRunning(c, j, at)
	}
	if err != nil {
		return false, false, err
	}
	if found, err = ensureCopy(c, j, at); err != nil || want == kernel.RunningPrompt {
		return found, false, err
	}
	if want == kernel.ErrorPrompt && in.Archive && found {
		data, err := c.Read(inbox.Processed(in, j.ID), maxCopy)
		if err == nil {
			err = c.Write(inbox.Failed(in, j.ID), data, true)
		}
		if err != nil {
			return found, false, err
		}
		archived = true
	}
	return found, archived, t.rename(c, j, at, want, inbox.Ended(j, how))
}

// locate finds the job's prompt by the inode number of its file, under the
// names that it may have. at is "" if none of these is the file.
//
// A file that was rewritten has another inode number. anew is such a file with
// the running name: it is taken for the job's, since no other prompt is claimed
// while the job holds that name, unless it belongs to another job or got the
// name after the job's end.
//
// Inode numbers are reused. Once the prompt of a job has ended, or the job was
// rewound, another file may have the number, so the content is compared as
// well.
func locate(c fs.Confined, j *kernel.Job, others []uint64) (at, anew string, err error) {
	in := j.Spec.Prompt
	running := path.Join(inbox.Dir, inbox.NameOf(kernel.RunningPrompt, in.Rel))
	dropped := path.Join(inbox.Dir, in.Rel)
	for _, at := range []string{running, path.Join(inbox.Dir, inbox.NameOf(kernel.DonePrompt, in.Rel)), path.Join(inbox.Dir, inbox.NameOf(kernel.ErrorPrompt, in.Rel)),
		path.Join(inbox.FinishedDir, inbox.NameOf(kernel.DonePrompt, in.Rel)), path.Join(inbox.FinishedDir, inbox.NameOf(kernel.ErrorPrompt, in.Rel)), dropped} {
		e, err := c.Stat(at)
		switch {
		case errors.Is(err, iofs.ErrNotExist), at == dropped && j.State.Prompt.Named != kernel.NewPrompt:
		case err != nil:
			return "", "", err
		case e.Mode != 0 || slices.Contains(others, e.Inode) || at == running && namedAfterEnd(j, e):
		case e.Inode == in.Inode && (j.State.Generation == 0 && (at == running || at == dropped) || hasContent(c, at, in.SHA256)):
			return at, "", nil
		case at == running && j.State.Generation == 0:
			anew = at
		}
	}
	return "", anew, nil
}

// hasContent reports whether a file's content has the hash sum.
func hasContent(c fs.Confined, at, sum string) bool {
	data, err := c.Read(at, MaxPrompt)
	return err == nil && digest(data) == sum
}

// digest returns the hash sum of a prompt's content, as records have it.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// namedAfterEnd reports whether a file got its name after the job ended. It is
// false for a job without a time of its end, which never ran.
func namedAfterEnd(j *kernel.Job, e fs.Entry) bool {
	return !j.Open() && !j.State.Finished.IsZero() && e.Changed.After(j.State.Finished)
}

// findRenamed returns the place of j's prompt under a name that somebody gave it:
// in the inbox or, if it made way for another prompt, below finished; "" if
// there is none. A file that was modified after the claim, or that has another
// content, is another prompt.
func (t Tree) findRenamed(c fs.Confined, j *kernel.Job) (at string, err error) {
	in := j.Spec.Prompt
	look := func(tree string, f inbox.PromptFile) {
		place := path.Join(tree, inbox.NameOf(f.Name, f.Rel))
		if at == "" && f.Inode == in.Inode && !f.Modified.After(in.Claimed) && hasContent(c, place, in.SHA256) {
			at = place
		}
	}
	var l inbox.Listing
	if err := t.scan(c, &l, "", 0); err != nil {
		return "", err
	}
	for _, f := range l.Files {
		look(inbox.Dir, f)
	}
	if at == "" {
		err = eachFinished(c, "", 0, func(f inbox.PromptFile) { look(inbox.FinishedDir, f) })
	}
	return at, err
}

// nameRunning gives the prompt of an open job, which is at at, the running name
// and removes the reason of an earlier failure. It returns the new place of the
// prompt.
func nameRunning(c fs.Confined, j *kernel.Job, at string) (string, error) {
	rel := j.Spec.Prompt.Rel
	to := path.Join(inbox.Dir, inbox.NameOf(kernel.RunningPrompt, rel))
	if at == "" || !strings.HasPrefix(at, inbox.Dir+"/") { // it has left the inbox: only the record says that it runs again
		return at, nil
	}
	if at != to {
		switch err := c.Move(at, to); {
		case errors.Is(err, iofs.ErrExist): // another prompt of this name runs: leave this one where it is
			return at, nil
		case err != nil:
			return at, err
		}
	}
	_, err := c.Stat(path.Join(inbox.Dir, inbox.NameOf(kernel.ErrorPrompt, rel)))
	if errors.Is(err, iofs.ErrNotExist) {
		err = c.Remove(path.Join(inbox.Dir, inbox.ReasonOf(rel)))
	}
	return to, err
}

// ensureCopy copies the prompt at at, unless that has been done before, and
// reports whether there is a copy. If there never was a prompt, it writes a
// note in place of the copy.
func ensureCopy(c fs.Confined, j *kernel.Job, at string) (bool, error) {
	in := j.Spec.Prompt
	_, err := c.Stat(inbox.Processed(in, j.ID))
	if err == nil || !errors.Is(err, iofs.ErrNotExist) {
		return err == nil, err
	}
	if at == "" {
		note := fmt.Sprintf("# No input\n\nThe prompt of job %s was gone, or had been changed, before it could be copied:\n\n    %s\n\nThe job has failed. Drop the prompt again to run it.\n", j.ID, in.File)
		return false, c.Write(inbox.NoInput(in, j.ID), []byte(note), true)
	}
	data, err := c.Read(at, maxCopy)
	if err == nil && j.State.Generation == 0 && in.SHA256 != "" && digest(data) != in.SHA256 {
		if err := giveBack(c, j, at); err != nil {
			return false, err
		}
		return ensureCopy(c, j, "")
	}
	if err != nil {
		return false, err
	}
	err = c.Add(inbox.Processed(in, j.ID), data)
	if errors.Is(err, iofs.ErrExist) {
		err = nil
	}
	return err == nil, err
}

// giveBack makes a file with the running name a new prompt again: its text is not what the job was
// enqueued with, since somebody saved it, or put another in its place, while it was claimed. If
// there is a new prompt of that name by now, it stays, and the next review finds it.
func giveBack(c fs.Confined, j *kernel.Job, at string) error {
	rel := j.Spec.Prompt.Rel
	if at != path.Join(inbox.Dir, inbox.NameOf(kernel.RunningPrompt, rel)) {
		return nil
	}
	err := c.Move(at, path.Join(inbox.Dir, rel))
	if errors.Is(err, iofs.ErrExist) {
		return nil
	}
	return err
}

// rename gives the job's prompt, which is at at, the name for the state of its
// run.
func (t Tree) rename(c fs.Confined, j *kernel.Job, at string, want kernel.PromptName, why string) error {
	rel := j.Spec.Prompt.Rel
	tree, _, _ := strings.Cut(at, "/")
	to := path.Join(tree, inbox.NameOf(want, rel))
	switch {
	case at == "" || at == to:
		return nil
	case tree == inbox.FinishedDir:
		return renameFinished(c, j, at, want, why)
	case want == kernel.ErrorPrompt:
		return t.nameError(c, at, rel, why)
	}
	if err := t.makeWay(c, rel, want); err != nil {
		return err
	}
	if err := c.Move(at, to); err != nil {
		return err
	}
	if strings.HasSuffix(at, "."+kernel.ErrorPrompt.String()+".md") {
		return c.Remove(path.Join(tree, inbox.ReasonOf(rel)))
	}
	return nil
}

// renameFinished is rename for a prompt that has left the inbox and may have a
// stamp in its name.
func renameFinished(c fs.Confined, j *kernel.Job, at string, want kernel.PromptName, why string) error {
	prompt, is, _ := inbox.PromptOf(at)
	if is == want {
		return nil
	}
	if _, err := c.Stat(inbox.NameOf(want, prompt)); err == nil {
		prompt = stampedPrompt(prompt, string(j.ID))
	}
	if want == kernel.ErrorPrompt {
		if err := c.Write(inbox.ReasonOf(prompt), []byte(why+"\n"), true); err != nil {
			return err
		}
	}
	if err := c.Move(at, inbox.NameOf(want, prompt)); err != nil {
		return err
	}
	if is == kernel.ErrorPrompt {
		was, _, _ := inbox.PromptOf(at)
		return c.Remove(inbox.ReasonOf(was))
	}
	return nil
}

func stampedPrompt(prompt, stamp string) string {
	return strings.TrimSuffix(prompt, ".prompt.md") + "." + stamp + ".prompt.md"
}
