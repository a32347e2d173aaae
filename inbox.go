package vizier

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/fs/inbox"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	rules "github.com/vizier-scheduler/vizier/kernel/inbox"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// inboxTree implements app.InboxTree.
type inboxTree struct{ inbox.Tree }

func (t inboxTree) Lock() (io.Closer, bool, error) {
	f, free, err := t.Tree.Lock()
	if f == nil {
		return nil, free, err
	}
	return f, free, err
}

// now returns the real time, for comparison with file times. It ignores
// VIZIER_NOW.
func now() time.Time { return kernel.Timestamp(time.Now()) }

// InboxFiles returns the file trees of r's inbox.
func (r *Repository) InboxFiles() inbox.Tree { return inbox.Tree{Home: r.inboxHome(), Now: now} }

func (r *Repository) inboxHome() string { return inboxHome(r.Root, r.Config) }

// inboxHome returns the directory of the inbox and of the trees beside it.
func inboxHome(root string, cfg config.Config) string {
	if home := cfg.Inbox.Home; filepath.IsAbs(home) {
		return filepath.Clean(home)
	}
	return filepath.Join(root, cfg.Inbox.Home)
}

// Inbox returns the inbox of r.
func (r *Repository) Inbox(who Asker) (*app.Inbox, error) {
	cfg := r.Config.Inbox
	layout, err := rules.ParseLayout(cfg.Layout)
	if err != nil {
		return nil, err
	}
	return &app.Inbox{
		Tree: inboxTree{r.InboxFiles()}, Layout: layout, Owner: cfg.Owner, Archive: cfg.FailureArchive,
		Debounce: cfg.Debounce, Visible: cfg.Visible, Patience: r.Config.Scheduler.LockTimeout, Now: now, Parse: inbox.ParsePrompt, Tell: r.world.tell,
		Tracked: r.trackedPrompts(),
		Find:    func(p rules.Path) (*app.InboxTarget, error) { return r.inboxTarget(who, layout, p) },
	}, nil
}

// trackedPrompts returns a function that says what git tracks of a prompt of
// r's inbox. It asks git again only if the index has changed.
func (r *Repository) trackedPrompts() func(context.Context, string) (string, error) {
	git, stamp, tracked := r.world.git, "", map[string]string{}
	return func(ctx context.Context, rel string) (string, error) {
		root, err := filepath.EvalSymlinks(r.Root)
		if err != nil {
			return "", err
		}
		at, err := filepath.EvalSymlinks(r.InboxFiles().Inbox())
		if err != nil {
			return "", err
		}
		dir, err := filepath.Rel(root, at)
		if err != nil || !filepath.IsLocal(dir) {
			return "", nil
		}
		if file, locked := git.IndexLock(); locked {
			return "", fmt.Errorf("%w: wait for it or, if there is none, remove %s", app.ErrGitAtWork, file)
		}
		if now := git.IndexStamp(); now != stamp {
			files, err := git.TrackedIn(ctx, dir)
			if err != nil {
				return "", err
			}
			clear(tracked)
			for _, f := range files {
				tracked[strings.ToLower(f)] = f
			}
			stamp = now
		}
		for at := strings.ToLower(filepath.Join(dir, rel)); at != "."; at = filepath.Dir(at) { // or one of the submodules around it
			if f := tracked[at]; f != "" {
				return f, nil
			}
		}
		return "", nil
	}
}

// inboxTarget returns the repository for a path: in the simple layout r itself,
// otherwise the configured one.
func (r *Repository) inboxTarget(who Asker, layout rules.Layout, p rules.Path) (*app.InboxTarget, error) {
	at := r
	if layout != rules.SimpleLayout {
		var err error
		if at, err = r.Neighbour(p.Target()); err != nil {
			return nil, err
		}
	}
	in := at.builder(at.Root, who) // the requester's own directory does not matter
	return &app.InboxTarget{Root: at.Root, Scheduler: at.Scheduler,
		Place: func(ctx context.Context, p rules.Path) (rules.Path, error) {
			return place(ctx, in, layout, r.Config.Inbox.Owner, p)
		},
		Prepare: func(ctx context.Context, p app.Prompt) (app.RunRequest, error) {
			return in.Prompt(ctx, r.Config.Inbox.Flow, layout == rules.SimpleLayout, p)
		}}, nil
}

// Neighbour opens the configured repository called name. Its configured path
// must be the root of a working tree, and not a directory within one.
func (r *Repository) Neighbour(name string) (*Repository, error) {
	known := r.Config.Inbox.Repositories
	path, ok := known[name]
	if !ok {
		names := make([]string, 0, len(known))
		for n := range known {
			names = append(names, n)
		}
		near := ""
		if n := workflow.Suggest(name, names); n != "" {
			near = " (did you mean " + n + "?)"
		}
		return nil, fmt.Errorf("unknown repository %q%s: name its clone in .vizier/config.toml, as in\n[inbox.repositories]\n%q = \"PATH\": %w",
			name, near, name, kernel.ErrInvalid)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.Root, path)
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("the repository %q: %w", name, err)
	}
	other, err := Open(path, r.options)
	if err != nil {
		return nil, fmt.Errorf("the repository %q: %w", name, err)
	}
	if other.Root != path {
		return nil, fmt.Errorf("the repository %q: %s is no working tree's root, but lies in %s: %w", name, path, other.Root, kernel.ErrInvalid)
	}
	return other, nil
}

// place completes the information of a path. Its branch must exist.
func place(ctx context.Context, in *enqueue.Builder, layout rules.Layout, owner string, p rules.Path) (rules.Path, error) {
	if layout == rules.SimpleLayout {
		head, err := in.CheckedOut(ctx)
		if head == "" {
			head = "HEAD"
		}
		if owner == "" {
			owner = "local"
		}
		return rules.Path{Owner: owner, Repository: filepath.Base(in.Root), Branch: head}, err
	}
	switch head, err := in.Head(ctx, p.Branch); {
	case err != nil:
		return p, fmt.Errorf("branch %q of %s: %w", p.Branch, p.Target(), err)
	case head == "":
		return p, fmt.Errorf("%s has no local branch %q: create or fetch it in %s; a branch with slashes needs a file %s that names it: %w",
			p.Target(), p.Branch, in.Root, rules.BranchMarker, kernel.ErrInvalid)
	}
	return p, nil
}
