package inbox

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Tender makes the files of prompts say what their jobs do. It works on the
// inbox that a job names, whichever repository the job is in.
type Tender struct{ Tree Tree } // its Home is not used

// TendPrompt sees to the copy of the job's prompt and to its name. It reports
// whether there was a prompt at all, and whether a copy of it is archived as
// failed. It may be repeated.
func (t Tender) TendPrompt(j *kernel.Job, want kernel.PromptName) (found, archived bool, err error) {
	in := j.Spec.Intake
	home := in.Home()
	if home == "" || !strings.HasPrefix(home, "/") {
		return false, false, fmt.Errorf("the prompt of job %s: %s does not end in %s", j.ID, in.File, kernel.RunningPrompt.Of(in.Rel))
	}
	tree := t.Tree
	tree.Home = home
	err = tree.with(func(c fs.Confined) error {
		found, archived, err = tree.tend(c, j, want)
		return err
	})
	return found, archived, err
}

func (t Tree) tend(c fs.Confined, j *kernel.Job, want kernel.PromptName) (found, archived bool, err error) {
	in := j.Spec.Intake
	at, err := locate(c, j)
	if err != nil {
		return false, false, err
	}
	if found, err = copied(c, j, at); err != nil {
		return found, false, err
	}
	if want == kernel.ErrorPrompt && in.Archive && found {
		data, err := c.Read(in.Processed(j.ID), maxCopy)
		if err == nil {
			err = c.Write(in.Failed(j.ID), data, true)
		}
		if err != nil {
			return found, false, err
		}
		archived = true
	}
	return found, archived, t.rename(c, j, at, want)
}

// locate finds the job's prompt by the number of its file, whatever it is
// called now; "" if it is gone. A file that was written anew has another number:
// what is called running is the job's, unless it got that name after the end.
func locate(c fs.Confined, j *kernel.Job) (string, error) {
	in := j.Spec.Intake
	running := path.Join(kernel.InboxDir, kernel.RunningPrompt.Of(in.Rel))
	anew := ""
	for _, at := range []string{running, path.Join(kernel.InboxDir, kernel.DonePrompt.Of(in.Rel)), path.Join(kernel.InboxDir, kernel.ErrorPrompt.Of(in.Rel)),
		path.Join(kernel.FinishedDir, kernel.DonePrompt.Of(in.Rel)), path.Join(kernel.FinishedDir, kernel.ErrorPrompt.Of(in.Rel))} {
		e, err := c.Stat(at)
		switch {
		case errors.Is(err, iofs.ErrNotExist):
		case err != nil:
			return "", err
		case e.Mode == 0 && e.Inode == in.Inode:
			return at, nil
		case e.Mode == 0 && at == running && (j.Open() || !e.Changed.After(j.State.Finished)):
			anew = at
		}
	}
	return anew, nil
}

// copied keeps a copy of the prompt, from whatever name it has, and reports
// that there is one. Where there never was a prompt it says so in the place.
func copied(c fs.Confined, j *kernel.Job, at string) (bool, error) {
	in := j.Spec.Intake
	_, err := c.Stat(in.Processed(j.ID))
	if err == nil || !errors.Is(err, iofs.ErrNotExist) {
		return err == nil, err
	}
	if at == "" {
		note := fmt.Sprintf("# No input\n\nThe prompt of job %s was gone before it could be copied:\n\n    %s\n\nThe job has failed. Drop the prompt again to run it.\n", j.ID, in.File)
		return false, c.Write(in.NoInput(j.ID), []byte(note), true)
	}
	data, err := c.Read(at, maxCopy)
	if err != nil {
		return false, err
	}
	err = c.Add(in.Processed(j.ID), data)
	if errors.Is(err, iofs.ErrExist) {
		err = nil
	}
	return err == nil, err
}

// rename gives the job's prompt, which is at, the name that tells where its run
// stands.
func (t Tree) rename(c fs.Confined, j *kernel.Job, at string, want kernel.PromptName) error {
	rel := j.Spec.Intake.Rel
	tree, _, _ := strings.Cut(at, "/")
	to := path.Join(tree, want.Of(rel))
	switch {
	case at == "" || at == to:
		return nil
	case tree == kernel.FinishedDir && want == kernel.RunningPrompt:
		return nil // it has left the inbox; its record says that it runs again
	case tree == kernel.FinishedDir:
		if err := c.Move(at, to); !errors.Is(err, iofs.ErrExist) {
			return err
		}
		return c.Move(at, path.Join(tree, stamped(want.Of(rel), string(j.ID))))
	case want == kernel.RunningPrompt:
		if err := c.Move(at, to); err != nil && !errors.Is(err, iofs.ErrExist) { // a namesake runs: this one is told apart by its record
			return err
		}
		return c.Remove(path.Join(tree, kernel.ReasonOf(rel)))
	case want == kernel.ErrorPrompt:
		return t.nameError(c, at, rel, reasonOf(j))
	}
	if err := t.makeWay(c, rel, want); err != nil {
		return err
	}
	if err := c.Move(at, to); err != nil {
		return err
	}
	if strings.HasSuffix(at, "."+kernel.ErrorPrompt.String()+".md") {
		return c.Remove(path.Join(tree, kernel.ReasonOf(rel)))
	}
	return nil
}

// reasonOf is what stands beside a prompt whose run failed.
func reasonOf(j *kernel.Job) string {
	st := &j.State
	why := st.Reason
	if why == "" {
		why = st.Wait.Detail
	}
	if why == "" {
		why = "no reason is on record"
	}
	return fmt.Sprintf("job %s is %s: %s\nnext: vizier jobs why %s", j.ID, st.Status, why, j.ID)
}
