// Package inbox manages the trees of files around an inbox (seed 004): prompts
// that are dropped, claimed, and renamed when their runs end, and the copies
// that are kept. It never overwrites a prompt and never follows a symbolic
// link.
package inbox

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// MaxPrompt bounds a prompt, in bytes.
const MaxPrompt = 1 << 20

// lockName is the file whose flock is held while prompts are claimed.
const lockName = inbox.Dir + "/.lock"

// Tree gives access to the trees of one inbox.
type Tree struct {
	Home string // absolute; it holds inbox, processed, finished and failed
	Now  func() time.Time
}

// ErrNoInbox means that there is no inbox.
var ErrNoInbox = errors.New("there is no inbox")

// with opens the home and calls f with it.
func (t Tree) with(f func(fs.Confined) error) error {
	c, err := fs.Confine(t.Home)
	if err == nil {
		defer c.Close()
		for _, name := range []string{inbox.ProcessedDir, inbox.FinishedDir, inbox.FailedDir, inbox.Dir} { // the first three are made once they are needed
			var e fs.Entry
			if e, err = c.Stat(name); err == nil && e.Mode != iofs.ModeDir {
				return fmt.Errorf("%s is not a directory (a symbolic link is not followed): move it away", path.Join(t.Home, name))
			}
		}
		if err == nil {
			return t.whole(f(c))
		}
		err = t.whole(err)
	}
	if errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path.Join(t.Home, inbox.Dir), ErrNoInbox)
	}
	return err
}

// whole returns err with the absolute path of the file that it is about.
func (t Tree) whole(err error) error {
	if p, ok := errors.AsType[*iofs.PathError](err); ok && !path.IsAbs(p.Path) {
		p.Path = path.Join(t.Home, p.Path)
	}
	return err
}

// Init creates the trees that are missing, and reports whether there were any.
func (t Tree) Init() (made bool, err error) {
	if err := os.MkdirAll(t.Home, 0o755); err != nil {
		return false, err
	}
	c, err := fs.Confine(t.Home)
	if err != nil {
		return false, err
	}
	defer c.Close()
	for _, name := range []string{inbox.Dir, inbox.ProcessedDir, inbox.FinishedDir, inbox.FailedDir} {
		if _, err := c.Stat(name); errors.Is(err, iofs.ErrNotExist) {
			made = true
		}
		if err := c.Make(name); err != nil {
			return made, err
		}
	}
	return made, nil
}

// Inbox returns the directory in which prompts are dropped.
func (t Tree) Inbox() string { return path.Join(t.Home, inbox.Dir) }

// File returns the absolute path of a prompt under one of its names.
func (t Tree) File(rel string, n kernel.PromptName) string {
	return path.Join(t.Inbox(), inbox.NameOf(n, rel))
}

// GoneFile returns the absolute path of a failed prompt below finished.
func (t Tree) GoneFile(rel string) string {
	return path.Join(t.Home, inbox.FinishedDir, inbox.NameOf(kernel.ErrorPrompt, rel))
}

// Lock keeps other processes from claiming prompts until f is closed. free is
// false if another process holds the lock.
func (t Tree) Lock() (f *os.File, free bool, err error) {
	err = t.with(func(c fs.Confined) (err error) {
		f, free, err = c.Lock(lockName)
		return err
	})
	return f, free, err
}

// maxDepth bounds the nesting of an inbox's directories.
const maxDepth = 40

// staleTemp is the age from which a temporary file counts as left behind.
const staleTemp = time.Hour

// Scan lists the inbox. It completes renames that a crash left with both names,
// and removes temporary files older than an hour.
func (t Tree) Scan() (l inbox.Listing, err error) {
	l.Branches = map[string]string{}
	err = t.with(func(c fs.Confined) error { return t.scan(c, &l, "", 0) })
	return l, err
}

func (t Tree) scan(c fs.Confined, l *inbox.Listing, dir string, depth int) error {
	names, err := c.Names(path.Join(inbox.Dir, dir))
	if err != nil {
		if depth == 0 {
			return err
		}
		l.Strays = append(l.Strays, inbox.Stray{Path: dir, Why: err.Error()})
		return nil
	}
	l.Dirs = append(l.Dirs, dir)
	inodes := map[string]uint64{}
	first := len(l.Files)
	for _, name := range names {
		rel := path.Join(dir, name)
		at := path.Join(inbox.Dir, rel)
		prompt, word, ours := inbox.PromptOf(rel)
		stray := func(why string) { l.Strays = append(l.Strays, inbox.Stray{Path: rel, Why: why}) }
		if strings.HasPrefix(name, ".") {
			t.hidden(c, l, dir, name, at)
			continue
		}
		e, err := c.Stat(at)
		switch {
		case errors.Is(err, iofs.ErrNotExist):
		case err != nil:
			stray(err.Error())
		case e.Mode == iofs.ModeDir && ours:
			stray("a directory with the name of a prompt")
		case e.Mode == iofs.ModeDir && depth == maxDepth:
			stray("too deep")
		case e.Mode == iofs.ModeDir:
			if err := t.scan(c, l, rel, depth+1); err != nil {
				return err
			}
		case e.Mode == iofs.ModeSymlink && (ours || strings.HasSuffix(name, ".md")):
			stray("a symbolic link, which is not followed")
		case !ours && e.Mode == 0:
			l.Others = append(l.Others, promptFile(rel, word, e))
			if meant := inbox.Meant(name); meant != "" {
				stray("not a prompt's name: to run it, rename it to " + meant)
			}
		case !ours:
		case e.Mode != 0:
			stray("not a regular file")
		default:
			l.Files = append(l.Files, promptFile(prompt, word, e))
			inodes[inbox.NameOf(word, prompt)] = e.Inode
		}
	}
	return t.unlinkTwins(c, l, first, inodes)
}

// hidden handles files that are not prompts: a marker, the lock, a temporary
// file.
func (t Tree) hidden(c fs.Confined, l *inbox.Listing, dir, name, at string) {
	switch {
	case name == inbox.BranchMarker:
		text, err := c.Read(at, 4096)
		if branch := strings.TrimSpace(string(text)); err == nil && branch != "" {
			l.Branches[dir] = branch
			return
		}
		l.Strays = append(l.Strays, inbox.Stray{Path: path.Join(dir, name), Why: "it names no branch"})
		l.Branches[dir] = " " // not the name of a branch: prompts below are refused
	case strings.HasSuffix(name, ".tmp"):
		if e, err := c.Stat(at); err == nil && e.Mode == 0 && t.Now().Sub(e.Changed) > staleTemp {
			_ = c.Remove(at) // the next scan tries again
		}
	}
}

// unlinkTwins completes renames that left both names. Where a rename takes two
// steps, the process that did the first was killed or is about to do the
// second.
func (t Tree) unlinkTwins(c fs.Confined, l *inbox.Listing, first int, inodes map[string]uint64) error {
	kept := l.Files[:first]
	for _, f := range l.Files[first:] {
		if claimed, ok := inodes[inbox.NameOf(kernel.RunningPrompt, f.Rel)]; ok && f.Name == kernel.NewPrompt && claimed == f.Inode {
			if err := c.Remove(path.Join(inbox.Dir, f.Rel)); err != nil {
				return err
			}
			continue
		}
		kept = append(kept, f)
	}
	l.Files = kept
	return nil
}

// Read returns the text of a prompt, and its file as it was after that. The error
// is kernel.ErrInvalid if it cannot be a prompt, and fs.ErrNotExist if the file
// is gone.
func (t Tree) Read(rel string, n kernel.PromptName) (text string, f inbox.PromptFile, err error) {
	err = t.with(func(c fs.Confined) error {
		at := path.Join(inbox.Dir, inbox.NameOf(n, rel))
		e, err := c.Stat(at)
		switch {
		case err != nil:
			return err
		case e.Size > MaxPrompt:
			return fmt.Errorf("the prompt has %d bytes, more than the %d that one may have: %w", e.Size, MaxPrompt, kernel.ErrInvalid)
		}
		data, err := c.Read(at, MaxPrompt)
		if errors.Is(err, iofs.ErrPermission) {
			return fmt.Errorf("the prompt cannot be read: %w: %w", err, kernel.ErrInvalid)
		}
		if err == nil {
			e, err = c.Stat(at)
		}
		text, f = string(data), promptFile(rel, n, e)
		return err
	})
	return text, f, err
}

func promptFile(rel string, n kernel.PromptName, e fs.Entry) inbox.PromptFile {
	return inbox.PromptFile{Rel: rel, Name: n, Size: e.Size, Inode: e.Inode, Modified: e.Modified, Changed: e.Changed}
}

// Still reports whether a prompt of that name exists and is the file with that
// inode number.
func (t Tree) Still(rel string, n kernel.PromptName, inode uint64) bool {
	return t.with(func(c fs.Confined) error {
		e, err := c.Stat(path.Join(inbox.Dir, inbox.NameOf(n, rel)))
		if err == nil && e.Inode != inode {
			err = iofs.ErrNotExist
		}
		return err
	}) == nil
}

// Restore gives a file the name of a running prompt, unless that name is taken.
func (t Tree) Restore(f inbox.PromptFile, rel string) error {
	return t.with(func(c fs.Confined) error {
		return c.Move(path.Join(inbox.Dir, inbox.NameOf(f.Name, f.Rel)), path.Join(inbox.Dir, inbox.NameOf(kernel.RunningPrompt, rel)))
	})
}

// Drop creates a new prompt atomically. The error is fs.ErrExist if a file has
// one of its names.
func (t Tree) Drop(rel, text string) error {
	return t.with(func(c fs.Confined) error {
		for n := range kernel.ErrorPrompt + 1 {
			if _, err := c.Stat(path.Join(inbox.Dir, inbox.NameOf(n, rel))); !errors.Is(err, iofs.ErrNotExist) {
				return errors.Join(iofs.ErrExist, err)
			}
		}
		return c.Add(path.Join(inbox.Dir, rel), []byte(text))
	})
}

// Mark writes the marker of a directory, which holds the branch that it stands
// for.
func (t Tree) Mark(dir, branch string) error {
	return t.with(func(c fs.Confined) error {
		return c.Write(path.Join(inbox.Dir, dir, inbox.BranchMarker), []byte(branch+"\n"), true)
	})
}

// Fail gives a prompt that cannot be run the name of a failed one, and writes
// the reason beside it.
func (t Tree) Fail(rel string, from kernel.PromptName, why string) error {
	return t.with(func(c fs.Confined) error {
		return t.nameError(c, path.Join(inbox.Dir, inbox.NameOf(from, rel)), rel, why)
	})
}

// nameError renames the file at at to a failed prompt. The reason is written
// first, so that a failed prompt always has one.
func (t Tree) nameError(c fs.Confined, at, rel, why string) error {
	if err := t.makeWay(c, rel, kernel.ErrorPrompt); err != nil {
		return err
	}
	if err := c.Write(path.Join(inbox.Dir, inbox.ReasonOf(rel)), []byte(strings.TrimSpace(why)+"\n"), true); err != nil {
		return err
	}
	return c.Move(at, path.Join(inbox.Dir, inbox.NameOf(kernel.ErrorPrompt, rel)))
}

// Why returns the reason beside a failed prompt and when it was written, or "" if there is none.
func (t Tree) Why(rel string, finished bool) (why string, at time.Time) {
	tree := inbox.Dir
	if finished {
		tree = inbox.FinishedDir
	}
	_ = t.with(func(c fs.Confined) error { // an unreadable reason is as good as none
		name := path.Join(tree, inbox.ReasonOf(rel))
		data, err := c.Read(name, MaxPrompt)
		if err != nil {
			return err
		}
		e, err := c.Stat(name)
		why, at = strings.TrimSpace(string(data)), e.Modified
		return err
	})
	return why, at
}

// Gone returns the failed prompts below finished.
func (t Tree) Gone() (out []inbox.PromptFile, err error) {
	err = t.with(func(c fs.Confined) error {
		return eachFinished(c, "", 0, func(f inbox.PromptFile) {
			if f.Name == kernel.ErrorPrompt {
				out = append(out, f)
			}
		})
	})
	return out, err
}

// eachFinished calls f with the prompts below the directory dir of finished.
func eachFinished(c fs.Confined, dir string, depth int, f func(inbox.PromptFile)) error {
	names, err := c.Names(path.Join(inbox.FinishedDir, dir))
	if err != nil {
		return err
	}
	for _, name := range names {
		rel := path.Join(dir, name)
		prompt, word, ours := inbox.PromptOf(rel)
		e, err := c.Stat(path.Join(inbox.FinishedDir, rel))
		switch {
		case errors.Is(err, iofs.ErrNotExist):
		case err != nil:
			return err
		case e.Mode == iofs.ModeDir && depth < maxDepth:
			if err := eachFinished(c, rel, depth+1, f); err != nil {
				return err
			}
		case e.Mode == 0 && ours:
			f(promptFile(prompt, word, e))
		}
	}
	return nil
}

// makeWay moves an earlier prompt of that name out of the inbox.
func (t Tree) makeWay(c fs.Confined, rel string, n kernel.PromptName) error {
	_, err := c.Stat(path.Join(inbox.Dir, inbox.NameOf(n, rel)))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = t.finish(c, rel, n)
	return err
}

// Finish moves a prompt that has ended out of the inbox, to the same path below
// finished. It returns the new path relative to the home, or "" if the prompt
// was gone.
func (t Tree) Finish(rel string, n kernel.PromptName) (to string, err error) {
	err = t.with(func(c fs.Confined) error {
		to, err = t.finish(c, rel, n)
		return err
	})
	return to, err
}

func (t Tree) finish(c fs.Confined, rel string, n kernel.PromptName) (string, error) {
	name, reason := inbox.NameOf(n, rel), inbox.ReasonOf(rel)
	stamp := "" // the time, if the name is taken
	for range 100 {
		to := path.Join(inbox.FinishedDir, stamped(name, stamp))
		_, err := c.Stat(to)
		switch {
		case errors.Is(err, iofs.ErrNotExist):
			if n == kernel.ErrorPrompt {
				err := move(c, path.Join(inbox.Dir, reason), path.Join(inbox.FinishedDir, stamped(reason, stamp)))
				if err != nil && !errors.Is(err, iofs.ErrNotExist) && !errors.Is(err, iofs.ErrExist) {
					return "", err
				}
			}
			err = move(c, path.Join(inbox.Dir, name), to)
			if err == nil {
				return to, nil
			}
			if errors.Is(err, iofs.ErrNotExist) { // somebody else moved it
				return "", nil
			}
			if !errors.Is(err, iofs.ErrExist) {
				return "", err
			}
		case err != nil:
			return "", err
		}
		stamp = strconv.FormatInt(t.Now().UnixNano(), 36) + strconv.Itoa(os.Getpid()%10)
	}
	return "", fmt.Errorf("move %s below %s: no free name", name, inbox.FinishedDir)
}

// move is Move that also works across file systems, by copying.
func move(c fs.Confined, from, to string) error {
	err := c.Move(from, to)
	if !errors.Is(err, unix.EXDEV) {
		return err
	}
	data, err := c.Read(from, maxCopy)
	if err == nil {
		err = c.Add(to, data)
	}
	if err != nil {
		return err
	}
	return c.Remove(from)
}

// maxCopy bounds the copy of a file that grew after it was claimed, in bytes.
const maxCopy = 64 << 20

// stamped inserts a stamp before the last part of a prompt's name.
func stamped(name, stamp string) string {
	if stamp == "" {
		return name
	}
	dir, file := path.Split(name)
	for _, word := range []string{".done.md", ".error.md", ".error.txt"} {
		if stem, ok := strings.CutSuffix(file, word); ok {
			return dir + stem + "." + stamp + word
		}
	}
	return dir + file + "." + stamp
}
