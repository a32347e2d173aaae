package inbox

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// deedsInAnInbox returns what is done in an inbox, and what is asked of it. Each returns an answer.
func deedsInAnInbox() map[string]func(Tree) (string, error) {
	tend := func(rel, at string, want kernel.PromptName, change ...func(*kernel.Job)) func(Tree) (string, error) {
		return func(tree Tree) (string, error) {
			info, err := os.Lstat(filepath.Join(tree.Home, at))
			inode := uint64(0)
			if err == nil {
				inode = inodeNumber(info)
			}
			j := promptJob(tree, 2, rel, inode)
			j.Spec.Prompt.Archive, j.Spec.Prompt.Claimed = true, time.Now().Add(time.Minute)
			for _, c := range change {
				c(j)
			}
			found, archived, err := (Tender{tree}).TendPrompt(j, want, "failed: why", nil)
			return fmt.Sprint(found, archived), err
		}
	}
	return map[string]func(Tree) (string, error){
		"an end":                      tend("d/x.prompt.md", "inbox/d/x.running.md", kernel.DonePrompt),
		"a failure":                   tend("d/x.prompt.md", "inbox/d/x.running.md", kernel.ErrorPrompt),
		"a failure after another":     tend("d/w.prompt.md", "inbox/d/w.running.md", kernel.ErrorPrompt),
		"an end after another":        tend("d/w.prompt.md", "inbox/d/w.running.md", kernel.DonePrompt),
		"another attempt":             tend("d/y.prompt.md", "inbox/d/y.error.md", kernel.RunningPrompt),
		"an end after a failure":      tend("d/y.prompt.md", "inbox/d/y.error.md", kernel.DonePrompt),
		"a failure of what has left":  tend("d/v.prompt.md", "finished/d/v.done.md", kernel.ErrorPrompt),
		"an end of what has left":     tend("d/u.prompt.md", "finished/d/u.error.md", kernel.DonePrompt),
		"an end of what was renamed":  tend("d/s.prompt.md", "inbox/d/t.prompt.md", kernel.DonePrompt),
		"an end of what is not there": tend("d/gone.prompt.md", "nowhere", kernel.ErrorPrompt),
		"a refusal":                   func(tree Tree) (string, error) { return "", tree.Fail("z.prompt.md", kernel.NewPrompt, "why") },
		"a refusal after another":     func(tree Tree) (string, error) { return "", tree.Fail("d/y.prompt.md", kernel.NewPrompt, "why") },
		"a move":                      func(tree Tree) (string, error) { return tree.Finish("d/y.prompt.md", kernel.ErrorPrompt) },
		"a mark":                      func(tree Tree) (string, error) { return "", tree.Mark("d", "main") },
		"a new one":                   func(tree Tree) (string, error) { return "", tree.Drop("d/new.prompt.md", "text") },
		"the trees":                   func(tree Tree) (string, error) { _, err := tree.Init(); return "", err },
		"what is gone": func(tree Tree) (string, error) {
			gone, err := tree.Gone()
			var all []string
			for _, f := range gone {
				all = append(all, fmt.Sprint(f.Rel, f.Name))
			}
			return fmt.Sprint(all), err
		},
		"a text": func(tree Tree) (string, error) {
			text, _, err := tree.Read("d/x.prompt.md", kernel.RunningPrompt)
			return text, err
		},
		"what is odd": func(tree Tree) (string, error) {
			odd, err := tree.Inspect(nil)
			var all []string
			for _, o := range odd {
				all = append(all, o.Path+o.Text)
			}
			slices.Sort(all)
			return fmt.Sprint(all), err
		},
		"what is there": func(tree Tree) (string, error) {
			l, err := tree.Scan()
			var all []string
			for _, f := range l.Files {
				all = append(all, fmt.Sprint(f.Rel, f.Name))
			}
			slices.Sort(all)
			if len(l.Strays) > 0 {
				err = errors.Join(err, errTold)
			}
			return fmt.Sprint(all), err
		},
	}
}

var errTold = errors.New("the answer says so")

// Whichever directory of an inbox may not be listed, searched or written to, what is done there is done in whole,
// or it is an error. Then no prompt is lost.
func TestWhicheverDirectoryIsClosedADeedSaysSo(t *testing.T) {
	base := t.TempDir()
	disktest.Owned(t, base)
	trees := 0
	lay := func() Tree {
		trees++
		tree := Tree{Home: filepath.Join(base, fmt.Sprint(trees)), Now: func() time.Time { return time.Unix(1e9, 0) }}
		if _, err := tree.Init(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"inbox/d/x.running.md", "inbox/d/w.running.md", "inbox/d/w.error.md", "inbox/d/w.error.txt", "inbox/d/w.done.md", "inbox/d/y.error.md", "inbox/d/y.error.txt", "inbox/d/y.prompt.md",
			"inbox/z.prompt.md", "finished/d/v.done.md", "finished/d/u.error.md", "finished/d/u.error.txt", "finished/d/e/a.error.md", "inbox/d/t.prompt.md", "failed/o/r/b/a", "processed/o/r/b/a"} {
			drop(t, tree, name, "text")
		}
		return tree
	}
	files := func(tree Tree) map[string]string {
		all := map[string]string{}
		err := filepath.WalkDir(tree.Home, func(path string, d iofs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".tmp") {
				rel, _ := filepath.Rel(tree.Home, path)
				all[rel] = strings.ReplaceAll(content(t, tree, rel), tree.Home, "")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	prompts := func(all map[string]string) (n int) {
		for name := range all {
			if dir, _, _ := strings.Cut(name, "/"); strings.HasSuffix(name, ".md") && (dir == "inbox" || dir == "finished") {
				n++
			}
		}
		return n
	}
	for name, deed := range deedsInAnInbox() {
		whole := lay()
		answer, err := deed(whole)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := files(whole)
		refused := 0
		for _, dir := range []string{".", "inbox", "inbox/d", "finished", "finished/d", "finished/d/e", "processed", "processed/o/r/b", "failed", "failed/o/r/b"} {
			for _, mode := range []os.FileMode{0, 0o300, 0o500} {
				tree := lay()
				before, at := files(tree), filepath.Join(tree.Home, dir)
				if err := os.Chmod(at, mode); err != nil {
					t.Fatal(err)
				}
				got, err := deed(tree)
				if err := os.Chmod(at, 0o700); err != nil {
					t.Fatal(err)
				}
				now, how := files(tree), fmt.Sprintf("%s, and %s has mode %o", name, dir, mode)
				if err == nil {
					if got != answer || !maps.Equal(now, want) {
						t.Errorf("%s: %q, want %q\n%s", how, got, answer, cmp.Diff(want, now))
					}
					continue
				}
				refused++
				if !errors.Is(err, iofs.ErrPermission) && !errors.Is(err, errTold) {
					t.Errorf("%s: %v", how, err)
				}
				if prompts(now) != prompts(before) && prompts(now) != prompts(want) {
					t.Errorf("%s: %v, and prompts are lost:\n%s", how, err, cmp.Diff(before, now))
				}
			}
		}
		if refused == 0 {
			t.Errorf("%s: nothing was refused", name)
		}
	}
}
