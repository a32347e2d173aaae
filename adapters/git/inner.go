package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// checkInner returns an error if a linked working tree, such as one that an
// agent works in, contains a repository that git would treat as a submodule:
// git add and git commit would run programs from its configuration, such as a
// file monitor or a filter. Submodules that git has made are allowed; their git
// directories are within the repository's own.
func (r *Repo) checkInner(ctx context.Context, dir string) error {
	top, err := r.linkedTop(dir)
	if err != nil || top == "" {
		return err
	}
	i, err := r.indexIn(ctx, dir, top)
	if err != nil {
		return err
	}
	return r.checkLinks(top, i.links)
}

// checkLinks is checkInner of the linked working tree with its top at top and the submodules links in its
// index. With top "" there is nothing to check.
func (r *Repo) checkLinks(top string, links []string) error {
	if top == "" {
		return nil
	}
	for _, name := range links {
		own, err := ownSubmodule(filepath.Join(top, name), r.root.CommonDir)
		if err != nil {
			return err
		}
		if to, err := os.Readlink(filepath.Join(top, name)); !own && err == nil {
			return fmt.Errorf("%s is a link to %s, which is a repository, and git would run what its configuration says: remove the link", name, to)
		}
		if !own {
			return fmt.Errorf("%s is a repository within %s, and git would run what its configuration says: remove %s, or leave the directory out of what is committed", name, top, filepath.Join(name, ".git"))
		}
	}
	return nil
}

// dropAdded takes repositories out of the index of a linked working tree that neither its commit
// nor .gitmodules has, if git has not made them: git add adds what an agent has put there. Left in the
// index, such a one would be committed, even if its .git is gone, in the place of its files. It returns
// those of links, the submodules in the index, that are left.
func (r *Repo) dropAdded(ctx context.Context, top string, links []string) ([]string, error) {
	if top == "" || len(links) == 0 {
		return links, nil
	}
	at := command{dir: top}
	added, err := r.cli.addedLinks(ctx, at)
	if err != nil || len(added) == 0 {
		return links, err
	}
	unseen, _, err := r.cli.unseen(ctx, at, top, added)
	if err != nil {
		return links, err
	}
	known, err := r.cli.knownModules(ctx, at, top)
	if err != nil {
		return links, err
	}
	var drop []string
	for _, name := range added {
		own, err := ownSubmodule(filepath.Join(top, name), r.root.CommonDir)
		if err != nil {
			return links, err
		}
		if (!own || slices.Contains(unseen, name)) && !slices.Contains(known, name) {
			drop = append(drop, name)
		}
	}
	left := slices.DeleteFunc(slices.Clone(links), func(name string) bool { return slices.Contains(drop, name) })
	return left, r.cli.updateIndex(ctx, command{dir: top}, drop, "--force-remove")
}

// knownModules returns the paths of the submodules in .gitmodules of the working tree at top, in which at runs.
func (c *cli) knownModules(ctx context.Context, at command, top string) (paths []string, err error) {
	at.args = []string{"config", "--file", filepath.Join(top, ".gitmodules"), "--null", "--get-regexp", `^submodule\..*\.path$`}
	out, err := c.run(ctx, at)
	if exitCode(err) == 1 { // none, or no such file
		return nil, nil
	}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		if _, path, ok := strings.Cut(entry, "\n"); ok {
			paths = append(paths, path)
		}
	}
	return paths, err
}

// addedLinks returns those of gitlinks that the checked-out commit does not have.
func (c *cli) addedLinks(ctx context.Context, at command) ([]string, error) {
	at.args = []string{"diff", "--cached", "--raw", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=none"}
	out, err := c.run(ctx, at)
	var links []string
	entries := strings.Split(string(out), "\x00") // each file's change, then its name
	for i := 0; i+1 < len(entries); i += 2 {
		if f := strings.Fields(entries[i]); len(f) > 1 && f[1] == "160000" && f[0] != ":160000" {
			links = append(links, entries[i+1])
		}
	}
	return links, err
}

// checkUnseen returns an error if the linked working tree at top has files below one of links, the submodules in its
// index, that is not initialised: git neither shows nor adds them.
func (r *Repo) checkUnseen(ctx context.Context, top string, links []string) error {
	if top == "" {
		return nil
	}
	unseen, files, err := r.cli.unseen(ctx, command{dir: top}, top, links)
	if err != nil || len(files) == 0 {
		return err
	}
	return fmt.Errorf("git does not commit %s, as %s is a submodule that is not initialised: move that out of %s", strings.Join(files, ", "), unseen[0], filepath.Join(top, unseen[0]))
}

// linkedTop returns the top of the linked working tree that dir is in, or "" if
// it is in none.
func (r *Repo) linkedTop(dir string) (string, error) {
	all, err := worktrees(r.root.CommonDir)
	top, at := "", resolved(dir)
	for _, w := range all {
		if path := resolved(w.Path); within(at, path) && len(path) > len(top) {
			top = path
		}
	}
	return top, err
}

// index is what the index of a working tree has, as far as a commit depends on it. Paths are relative to the top.
type index struct {
	links    []string // submodules, whether they are initialised or not
	unmerged []string // in conflict
	assumed  []string // marked assume-unchanged: git does not look at the file
	skipped  []string // marked skip-worktree: likewise
	scratch  bool     // some of Vizier's own files are staged
}

// index returns what the index of the working tree of at has.
func (c *cli) index(ctx context.Context, at command) (i index, err error) {
	at.args = []string{"ls-files", "--stage", "-v", "--full-name", "-z", "--", ":(top)"}
	staged, err := c.run(ctx, at)
	for entry := range bytes.SplitSeq(staged, []byte{0}) { // a letter, mode, object and stage, then the path
		head, path, ok := bytes.Cut(entry, []byte("\t"))
		if !ok {
			continue
		}
		name := string(path)
		if bytes.HasPrefix(head[1:], []byte(" 160000 ")) {
			i.links = append(i.links, name)
		}
		if head[0] >= 'a' {
			i.assumed = append(i.assumed, name)
		}
		if head[0]|0x20 == 's' {
			i.skipped = append(i.skipped, name)
		}
		if !bytes.HasSuffix(head, []byte(" 0")) {
			i.unmerged = append(i.unmerged, name)
		}
		i.scratch = i.scratch || isScratch(name)
	}
	i.links, i.unmerged = slices.Compact(i.links), slices.Compact(i.unmerged) // a path in conflict has up to three entries, one after the other
	return i, err
}

// indexIn returns what the index of the working tree at dir has. top is that of the linked working tree that dir is in,
// or "". In a worktree of a job, whose changes all count, it first ends what hides some from git.
func (r *Repo) indexIn(ctx context.Context, dir, top string) (index, error) {
	i, err := r.cli.index(ctx, command{dir: dir})
	if err != nil || filepath.Dir(top) != filepath.Join(r.root.Dir, worktreeHome) {
		return i, err
	}
	t, err := r.treeAt(top)
	if err == nil {
		err = t.unhide(ctx, nil, i)
	}
	return i, err
}

// hidden returns the paths of i, t's index, at which a mark hides changes of t's files from git. Where t is or was a
// sparse checkout, a file that is marked skip-worktree and is not there was left out.
func (t tree) hidden(i index) (assumed, skipped []string, err error) {
	if len(i.skipped) == 0 {
		return i.assumed, nil, nil
	}
	sparse, err := exists(patternsOf(t.w.gitDir))
	for _, name := range i.skipped {
		if _, gone := os.Lstat(filepath.Join(t.w.Path, name)); !sparse || !absent(gone) {
			skipped = append(skipped, name)
		}
	}
	return i.assumed, skipped, err
}

// unhide takes the marks of hidden from t's index, or from the one that env names.
func (t tree) unhide(ctx context.Context, env []string, i index) error {
	assumed, skipped, err := t.hidden(i)
	at := command{dir: t.dir, env: append(t.env(), env...)}
	if err == nil {
		err = t.cli.updateIndex(ctx, at, assumed, "--no-assume-unchanged")
	}
	if err == nil {
		err = t.cli.updateIndex(ctx, at, skipped, "--no-skip-worktree")
	}
	return err
}

// ready returns what the index of the working tree at dir has, and the top of the linked working tree that dir is in,
// or "". It fails if files are in conflict, since git would take their conflict markers for a resolution, or
// if checkInner would. With mayDrop, it calls dropAdded before.
func (r *Repo) ready(ctx context.Context, dir string, mayDrop bool) (i index, top string, err error) {
	if top, err = r.linkedTop(dir); err != nil {
		return i, top, err
	}
	if i, err = r.indexIn(ctx, dir, top); err != nil {
		return i, top, err
	}
	if mayDrop {
		i.links, err = r.dropAdded(ctx, top, i.links)
	}
	return i, top, errors.Join(inConflict(dir, i.unmerged), err, r.checkLinks(top, i.links))
}

// unseen returns the submodules among links that are, in the working tree at top,
// directories with files and without a repository; and these files. Ignored files
// do not count.
func (c *cli) unseen(ctx context.Context, at command, top string, links []string) (in, files []string, err error) {
	for _, name := range links {
		dir := filepath.Join(top, name)
		if st, err := os.Lstat(dir); err != nil || !st.IsDir() {
			continue
		}
		there, err := exists(filepath.Join(dir, ".git"))
		if err != nil {
			return nil, nil, err
		}
		if there {
			continue
		}
		at.args = []string{"ls-files", "--others", "--exclude-standard", "-z", "--", ":(top,literal)" + name}
		at.env = append(slices.Clone(at.env), "GIT_INDEX_FILE="+filepath.Join(dir, ".git", "none")) // it does not exist, so git sees no submodules
		at.whole = true
		out, err := c.run(ctx, at)
		if err != nil {
			return nil, nil, err
		}
		if found := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }); len(found) > 0 {
			in, files = append(in, name), append(files, found...)
		}
	}
	return in, files, nil
}

// ownSubmodule reports whether path contains no repository, or a submodule that
// git has made, with its git directory below common.
func ownSubmodule(path, common string) (bool, error) {
	link := filepath.Join(path, ".git")
	st, err := os.Lstat(link)
	switch {
	case absent(err):
		return true, nil
	case err != nil || !st.Mode().IsRegular():
		return false, err
	}
	text, err := sys.ReadRegular(link, maxLink)
	if err != nil {
		return false, err
	}
	to, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
	if !ok {
		return false, nil
	}
	if to = strings.TrimSpace(to); !filepath.IsAbs(to) {
		to = filepath.Join(path, to)
	}
	return within(resolved(to), resolved(common)), nil
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
