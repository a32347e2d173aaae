package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// folder is an inbox in memory: the text of each prompt by its current name. A text that
// begins with "bad" is invalid.
type folder struct {
	m      *memory
	files  map[string]string
	busy   int // how often another process holds the lock
	marked map[string]string
	why    map[string]string // why prompts failed
	whyAt  time.Time         // since when
	gone   []string          // finished
	saved  string            // if not empty, the text that a prompt has once it was read
	stuck  bool              // nothing can be renamed
	copied string            // a file that is a copy, with an inode of its own
	onScan func()
	strays []inbox.Stray

	others   []inbox.PromptFile   // files without a prompt's name
	left     []inbox.PromptFile   // prompts that have left the inbox
	modified map[string]time.Time // when files were, if not two hours ago
}

func newFolder(m *memory, files ...string) *folder {
	f := &folder{m: m, files: map[string]string{}, marked: map[string]string{}, why: map[string]string{}}
	for _, name := range files {
		f.files[name] = "do it"
	}
	return f
}

func (f *folder) inbox() *Inbox {
	s := f.m.scheduler()
	s.Prompts = f
	n := 0
	s.NewID = func() kernel.JobID { n++; return kernel.JobID(fmt.Sprintf("%024x%08x", 0, 0xabcd0000+n)) }
	return &Inbox{Tree: f, Visible: time.Hour, Now: func() time.Time { return at },
		Parse: func(text string) (inbox.Front, string, error) {
			if strings.HasPrefix(text, "bad") {
				return inbox.Front{}, "", fmt.Errorf("its front matter: %w", kernel.ErrInvalid)
			}
			if rest, stamped := strings.CutPrefix(text, "job "); stamped {
				id, body, _ := strings.Cut(rest, "\n")
				return inbox.Front{Job: kernel.JobID(id)}, body, nil
			}
			return inbox.Front{}, text, nil
		},
		Find: func(p inbox.Path) (*InboxTarget, error) {
			return &InboxTarget{Root: "/repo", Scheduler: s,
				Place: func(_ context.Context, p inbox.Path) (inbox.Path, error) { return p, f.m.fails("place") },
				Prepare: func(_ context.Context, p Prompt) (RunRequest, error) {
					in := p.Record
					return RunRequest{Run: "r", Jobs: []kernel.NewJob{{ID: p.ID, Spec: kernel.Spec{Task: kernel.Task{Args: []string{p.Body}}, Prompt: &in}}}}, f.m.fails("prepare")
				}}, f.m.fails("find")
		}}
}

func (f *folder) Lock() (io.Closer, bool, error) {
	f.m.see()
	f.busy--
	return unlock{f.m}, f.busy < 0, f.m.fails("lock")
}

// unlock is the lock of a folder.
type unlock struct{ m *memory }

func (u unlock) Close() error { return u.m.fails("unlock") }

func (f *folder) Scan() (inbox.Listing, error) {
	list := inbox.Listing{Branches: f.marked, Dirs: []string{""}, Strays: f.strays, Others: f.others}
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			list.Dirs = append(list.Dirs, dir)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		for _, n := range []kernel.PromptName{kernel.NewPrompt, kernel.RunningPrompt, kernel.DonePrompt, kernel.ErrorPrompt} {
			rel, is, ok := inbox.PromptOf(name)
			if ok && is == n {
				list.Files = append(list.Files, f.file(rel, n))
			}
		}
	}
	if f.onScan != nil {
		f.onScan()
	}
	return list, f.m.fails("scan")
}

func (f *folder) Read(rel string, n kernel.PromptName) (string, inbox.PromptFile, error) {
	text, ok := f.files[inbox.NameOf(n, rel)]
	if err := f.m.fails("read"); !ok || err != nil {
		return "", inbox.PromptFile{}, cmp.Or(err, error(iofs.ErrNotExist))
	}
	file := f.file(rel, n)
	if f.saved != "" {
		f.files[inbox.NameOf(n, rel)] = f.saved
	}
	return text, file, nil
}

func (f *folder) file(rel string, n kernel.PromptName) inbox.PromptFile {
	name := inbox.NameOf(n, rel)
	modified := at.Add(-2 * time.Hour)
	if other, ok := f.modified[name]; ok {
		modified = other
	}
	return inbox.PromptFile{Rel: rel, Name: n, Modified: modified, Changed: at.Add(-2 * time.Hour), Inode: f.inode(name)}
}

// inode returns the number of a file: the same for the same text, unless it is
// a copy.
func (f *folder) inode(name string) uint64 {
	if name == f.copied {
		return 1
	}
	return 100 + uint64(len(f.files[name]))
}

func (f *folder) Still(rel string, n kernel.PromptName, inode uint64) bool {
	_, there := f.files[inbox.NameOf(n, rel)]
	return there && f.inode(inbox.NameOf(n, rel)) == inode
}

func (f *folder) Restore(from inbox.PromptFile, rel string) error {
	if err := f.m.fails("restore"); err != nil {
		return err
	}
	return f.rename(inbox.NameOf(from.Name, from.Rel), inbox.NameOf(kernel.RunningPrompt, rel))
}

func (f *folder) rename(from, to string) error {
	if _, taken := f.files[to]; taken {
		return iofs.ErrExist
	}
	if f.files[to] = f.files[from]; from == f.copied {
		f.copied = to
	}
	delete(f.files, from)
	return nil
}

// TendPrompt gives a prompt the wanted name, if it has another one.
func (f *folder) TendPrompt(j *kernel.Job, want kernel.PromptName, _ string, _ []uint64) (bool, bool, error) {
	for _, n := range []kernel.PromptName{kernel.RunningPrompt, kernel.NewPrompt} {
		from, to := inbox.NameOf(n, j.Spec.Prompt.Rel), inbox.NameOf(want, j.Spec.Prompt.Rel)
		if _, there := f.files[from]; there && !f.stuck && from != to && f.inode(from) == j.Spec.Prompt.Inode {
			_ = f.rename(from, to)
		}
	}
	return true, false, f.m.fails("tend")
}

func (f *folder) Drop(rel, text string) error {
	if _, there := f.files[rel]; there {
		return iofs.ErrExist
	}
	f.files[rel] = text
	return f.m.fails("drop")
}

func (f *folder) Mark(dir, branch string) error { f.marked[dir] = branch; return f.m.fails("mark") }

func (f *folder) Fail(rel string, from kernel.PromptName, why string) error {
	delete(f.files, inbox.NameOf(from, rel))
	f.files[inbox.NameOf(kernel.ErrorPrompt, rel)], f.why[rel] = "", why
	return f.m.fails("fail")
}

func (f *folder) Finish(rel string, n kernel.PromptName) (string, error) {
	if err := f.m.fails("finish"); err != nil {
		return "", err
	}
	delete(f.files, inbox.NameOf(n, rel))
	f.gone = append(f.gone, rel)
	return "finished/" + inbox.NameOf(n, rel), nil
}

func (f *folder) File(rel string, n kernel.PromptName) string {
	return "/inbox/" + inbox.NameOf(n, rel)
}

func (f *folder) GoneFile(rel string) string {
	return "/finished/" + inbox.NameOf(kernel.ErrorPrompt, rel)
}

func stamped(text string, f inbox.Front) (string, error) {
	return "job " + string(f.Job) + "\n" + text, nil
}

// One pass takes the new prompts, refuses the invalid ones, finishes those that are done,
// and reports all that.
func TestOnePassOverAnInbox(t *testing.T) {
	m := newMemory()
	f := newFolder(m, "a.prompt.md", "b.prompt.md", "c.done.md", "d.prompt.md")
	f.files["d.prompt.md"] = "bad"
	rep, err := f.inbox().Once(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Taken) != 2 || rep.Taken[0].Rel != "a.prompt.md" || rep.Taken[1].Rel != "b.prompt.md" || len(m.jobs) != 2 {
		t.Errorf("taken %+v, %d jobs", rep.Taken, len(m.jobs))
	}
	if len(rep.Failed) != 1 || rep.Failed[0] != (Left{"d.error.md", "its front matter"}) || f.why["d.prompt.md"] != "its front matter" {
		t.Errorf("failed %+v, which says %q", rep.Failed, f.why)
	}
	if !slices.Equal(rep.Finished, []Moved{{"c.done.md", "finished/c.done.md"}}) || len(rep.Left) > 0 || rep.Next != time.Hour {
		t.Errorf("finished %v, left %v, next in %v", rep.Finished, rep.Left, rep.Next)
	}
	if have := slices.Sorted(maps.Keys(f.files)); !slices.Equal(have, []string{"a.running.md", "b.running.md", "d.error.md"}) {
		t.Errorf("there lie %v", have)
	}
	again, err := f.inbox().Once(t.Context(), false) // a prompt that has a job is not taken again
	if err != nil || len(again.Taken)+len(again.Failed) > 0 || len(m.jobs) != 2 {
		t.Errorf("%v: %+v", err, again)
	}
}

// A pass reports the errors that keep a prompt from being taken. If a later pass may
// succeed, the prompt keeps its name.
func TestWhatKeepsAPromptFromBeingTaken(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*folder)
		err    bool
		left   string // a part of what is left
		lies   string
	}{
		"the lock":        {func(f *folder) { f.m.refuse["lock"] = errDisk }, true, "", "a.prompt.md"},
		"somebody else":   {func(f *folder) { f.busy = 99 }, true, "", "a.prompt.md"},
		"the folder":      {func(f *folder) { f.m.refuse["scan"] = errDisk }, true, "", "a.prompt.md"},
		"the store":       {func(f *folder) { f.m.refuse["commit"] = errDisk }, false, "/repo", "a.prompt.md"},
		"no such place":   {func(f *folder) { f.m.refuse["find"] = errDisk }, false, "", "a.error.md"},
		"no such run":     {func(f *folder) { f.m.refuse["prepare"] = errDisk }, false, "", "a.error.md"},
		"saved meanwhile": {func(f *folder) { f.saved = f.files["a.prompt.md"][1:] + "!" }, false, "", "a.prompt.md"}, // of the same length, so it has the same inode number
		"saved before it is read": {func(f *folder) {
			f.onScan = func() {
				f.files["a.prompt.md"], f.modified = "do th", map[string]time.Time{"a.prompt.md": at}
			}
		}, false, "a.prompt.md", "a.prompt.md"},
		"another's by now":  {func(f *folder) { f.saved = "another" }, false, "", "a.prompt.md"},
		"half a prompt":     {func(f *folder) { f.m.refuse["prepare"], f.saved = errDisk, "the whole" }, false, "a.prompt.md", "a.prompt.md"},
		"gone":              {func(f *folder) { f.m.refuse["read"] = iofs.ErrNotExist }, false, "a.prompt.md", "a.prompt.md"},
		"cannot be renamed": {func(f *folder) { f.m.refuse["find"], f.m.refuse["fail"] = errDisk, io.ErrShortWrite }, false, "a.prompt.md", "a.error.md"},
	} {
		f := newFolder(newMemory(), "a.prompt.md")
		c.change(f)
		rep, err := f.inbox().Once(t.Context(), false)
		var left []string
		for _, l := range rep.Left {
			left = append(left, l.Path)
		}
		if what == "cannot be renamed" && rep.Left[0].Reason != "disk on fire\nshort write" {
			t.Errorf("%s: %q", what, rep.Left[0].Reason)
		}
		if (err != nil) != c.err || strings.Join(left, " ") != c.left || len(rep.Taken) > 0 || len(f.m.jobs) > 0 {
			t.Errorf("%s: %v, %+v, %d jobs", what, err, rep, len(f.m.jobs))
		}
		if _, lies := f.files[c.lies]; !lies {
			t.Errorf("%s: there lie %v, not %s", what, f.files, c.lies)
		}
	}
}

// A prompt that git tracks stays where it is, and says so; the others are taken. While
// git is at work, it is not known yet, and the next pass comes soon.
func TestPromptsThatGitTracks(t *testing.T) {
	for what, c := range map[string]struct {
		err   error
		taken int
		left  string // a part of why
	}{
		"tracked": {nil, 1, "git rm --cached"}, "at work": {fmt.Errorf("%w: wait", ErrGitAtWork), 1, "another git is at work: wait"}, "unknown": {errDisk, 1, errDisk.Error()},
	} {
		f := newFolder(newMemory(), "a.prompt.md", "b.prompt.md")
		x := f.inbox()
		x.Tracked = func(_ context.Context, rel string) (string, error) {
			if rel != "a.prompt.md" {
				return "", nil
			}
			return when(c.err == nil, "sub/a.prompt.md"), c.err
		}
		rep, err := x.Once(t.Context(), false)
		if err != nil || len(rep.Taken) != c.taken || rep.Taken[0].Rel != "b.prompt.md" || len(rep.Failed) > 0 {
			t.Fatalf("%s: %v, %+v", what, err, rep)
		}
		if _, lies := f.files["a.prompt.md"]; !lies {
			t.Errorf("%s: there lie %v", what, f.files)
		}
		if soon := rep.Next > 0 && rep.Next <= time.Second; len(rep.Left) != 1 || rep.Left[0].Path != "a.prompt.md" || !strings.Contains(rep.Left[0].Reason, c.left) || rep.Waiting > 0 || soon != (what == "at work") {
			t.Errorf("%s: %+v", what, rep)
		}
		st, err := x.Status(t.Context(), nil, false, time.Hour, nil)
		if i := slices.IndexFunc(st.Prompts, func(p PromptStatus) bool { return p.File.Rel == "a.prompt.md" }); err != nil || i < 0 || st.Prompts[i].Tracked != when(c.err == nil, "sub/a.prompt.md") || st.Prompts[i].Reason == "" {
			t.Errorf("%s: %v, %+v", what, err, st)
		}
	}
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// Whatever people do to the file of a running prompt, it gets no second run. Only a copy
// that has the name of a new prompt is run.
func TestOnlyVizierCallsAPromptRunning(t *testing.T) {
	const again = ", rename it to "
	for what, c := range map[string]struct {
		change           func(*folder)
		renamed, refused string // the files, and a part of why
		why              string
		left             string // a file that waits
		lie              []string
	}{
		"nothing":              {change: func(*folder) {}, lie: []string{"a.running.md"}},
		"renamed":              {change: func(f *folder) { _ = f.rename("a.running.md", "z.running.md") }, renamed: "z.running.md", why: "is called a.running.md again", lie: []string{"a.running.md"}},
		"renamed as new":       {change: func(f *folder) { _ = f.rename("a.running.md", "d/z.prompt.md") }, renamed: "d/z.prompt.md", why: "which is not over", lie: []string{"a.running.md"}},
		"renamed as its own":   {change: func(f *folder) { _ = f.rename("a.running.md", "a.prompt.md") }, renamed: "a.prompt.md", why: "again", lie: []string{"a.running.md"}},
		"renamed as done":      {change: func(f *folder) { _ = f.rename("a.running.md", "a.done.md") }, renamed: "a.done.md", why: "again", lie: []string{"a.running.md"}},
		"copied":               {change: func(f *folder) { f.files["z.running.md"], f.copied = f.files["a.running.md"], "z.running.md" }, refused: "z.error.md", why: "a copy of a.running.md", lie: []string{"a.running.md", "z.error.md"}},
		"made by hand":         {change: func(f *folder) { f.files["z.running.md"] = "something else" }, refused: "z.error.md", why: "no job has it", lie: []string{"a.running.md", "z.error.md"}},
		"another link":         {change: func(f *folder) { f.files["z.prompt.md"] = f.files["a.running.md"] }, left: "z.prompt.md", why: "a link to a.running.md: it waits until job ", lie: []string{"a.running.md", "z.prompt.md"}},
		"another running link": {change: func(f *folder) { f.files["z.running.md"] = f.files["a.running.md"] }, refused: "z.error.md", why: "another name of the prompt", lie: []string{"a.running.md", "z.error.md"}},
		"copied as new":        {change: func(f *folder) { f.files["z.prompt.md"], f.copied = f.files["a.running.md"], "z.prompt.md" }, lie: []string{"a.running.md", "z.running.md"}},
		"gone since": {change: func(f *folder) {
			f.files["z.running.md"] = "something else"
			f.onScan = func() { delete(f.files, "z.running.md") }
		}, lie: []string{"a.running.md"}},
		"replaced since": {change: func(f *folder) {
			f.files["z.running.md"] = "something else"
			f.onScan = func() { f.files["z.running.md"] = "another text" }
		}, lie: []string{"a.running.md", "z.running.md"}},
		"of the number of another folder's": {change: func(f *folder) {
			f.files["z.prompt.md"] = "something else"
			f.m.jobs["other"] = job("other", func(j *kernel.Job) {
				j.Spec.Prompt = &kernel.Prompt{Rel: "a.prompt.md", File: "/other/a.running.md", Inode: f.inode("z.prompt.md"), Claimed: at}
				running(1)(j)
			})
		}, lie: []string{"a.running.md", "z.running.md"}},
		"another folder's": {change: func(f *folder) {
			j := f.own()
			delete(f.m.jobs, j.ID)
			j.ID, j.Spec.Prompt = "other", &kernel.Prompt{Rel: j.Spec.Prompt.Rel, File: "/other/a.running.md", SHA256: j.Spec.Prompt.SHA256, Inode: j.Spec.Prompt.Inode, Claimed: j.Spec.Prompt.Claimed}
			f.m.jobs["other"] = j
		}, refused: "a.error.md", why: "no job has it", lie: []string{"a.error.md"}},
	} {
		f := newFolder(newMemory(job("plain", nil)), "a.prompt.md")
		x := f.inbox()
		if rep, err := x.Once(t.Context(), true); err != nil || len(rep.Taken) != 1 {
			t.Fatalf("%s: %v %+v", what, err, rep)
		}
		c.change(f)
		rep, err := x.Once(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		one := func(kind string, have []Left, want, why string) {
			t.Helper()
			if want == "" && len(have) == 0 {
				return
			}
			if len(have) != 1 || have[0].Path != want || !strings.Contains(have[0].Reason, why) {
				t.Errorf("%s: %s: %+v, want %s: %s", what, kind, have, want, why)
			}
		}
		one("renamed", rep.Renamed, c.renamed, c.why)
		one("failed", rep.Failed, c.refused, c.why)
		one("left", rep.Left, c.left, c.why)
		if c.refused != "" && what != "another running link" && !strings.Contains(rep.Failed[0].Reason, again+strings.Replace(c.refused, "error", "prompt", 1)) {
			t.Errorf("%s: no way out in %q", what, rep.Failed[0].Reason)
		}
		if lie := slices.Sorted(maps.Keys(f.files)); !slices.Equal(lie, c.lie) {
			t.Errorf("%s: there lie %v, want %v", what, lie, c.lie)
		}
		taken, want := what == "copied as new" || what == "of the number of another folder's", 2+len(rep.Taken)
		if _, more := f.m.jobs["other"]; more && what != "another folder's" {
			want++
		}
		if len(f.m.jobs) != want || (len(rep.Taken) == 1) != taken {
			t.Errorf("%s: %d jobs, taken %+v", what, len(f.m.jobs), rep.Taken)
		}
	}
}

// own returns the job of the only prompt.
func (f *folder) own() kernel.Job {
	for _, j := range f.m.jobs {
		if j.Spec.Prompt != nil {
			return j
		}
	}
	return kernel.Job{}
}

// A watcher tells of the prompts of its own inbox, and of nothing else in the same repository.
func TestAWatcherTellsOfItsOwnInbox(t *testing.T) {
	f := newFolder(newMemory(job("plain", running(1))), "a.prompt.md")
	x := f.inbox()
	x.news = &news{}
	if _, err := x.Once(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	other := f.own()
	other.ID, other.Spec.Prompt = "other", &kernel.Prompt{Rel: "b.prompt.md", File: "/other/b.running.md"}
	f.m.jobs["other"] = other
	if _, err := x.Once(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for id, j := range f.m.jobs {
		j.State.Status, j.State.Finished = kernel.Failed, at.Add(time.Minute)
		f.m.jobs[id] = j
	}
	rep, err := x.Once(t.Context(), true)
	if err != nil || len(rep.Ended) != 1 || rep.Ended[0].Rel != "a.prompt.md" || len(rep.Asked) > 0 {
		t.Errorf("ended %+v, asked %+v, %v", rep.Ended, rep.Asked, err)
	}
}

// A prompt whose job is over can be renamed as new, and runs again. With the name of a
// running prompt it is refused, with that reason.
func TestAPromptThatIsOverIsNotRunning(t *testing.T) {
	f := newFolder(newMemory(), "a.prompt.md")
	x := f.inbox()
	rep, err := x.Once(t.Context(), true)
	if err != nil || len(rep.Taken) != 1 {
		t.Fatal(err, rep)
	}
	j := f.m.jobs[rep.Taken[0].Job]
	j.State.Status, j.State.Prompt.Named = kernel.Succeeded, kernel.DonePrompt
	f.m.jobs[j.ID] = j
	if rep, err = x.Once(t.Context(), false); err != nil || len(rep.Failed) != 1 || !strings.Contains(rep.Failed[0].Reason, string(j.ID)+", which is over (succeeded)") {
		t.Errorf("%v: %+v", err, rep)
	}
	_ = f.rename("a.error.md", "a.prompt.md")
	f.files["a.prompt.md"] = "do it again"
	if rep, err = x.Once(t.Context(), false); err != nil || len(rep.Taken) != 1 || len(f.m.jobs) != 2 {
		t.Errorf("%v: %+v", err, rep)
	}
}

// What goes wrong with one file of an inbox is said, and the file stays.
func TestWhatAPassLeaves(t *testing.T) {
	for what, c := range map[string]struct {
		files  []string
		taken  bool // the first of them was, by a pass before
		change func(*folder)
		want   []Left
	}{
		"one that cannot leave":            {[]string{"a.done.md"}, false, func(f *folder) { f.m.refuse["finish"] = errDisk }, []Left{{"a.done.md", "disk on fire"}}},
		"one that cannot be renamed back":  {[]string{"a.prompt.md"}, true, func(f *folder) { _ = f.rename("a.running.md", "z.running.md"); f.m.refuse["restore"] = errDisk }, []Left{{"z.running.md", "it is the prompt of job "}}},
		"a repository that cannot be read": {[]string{"a.prompt.md"}, false, func(f *folder) { f.m.refuse["load"] = errDisk }, []Left{{"/repo", "disk on fire"}}},
		"one that waits, and no tick": {[]string{"a.prompt.md"}, true, func(f *folder) {
			delete(f.files, "a.running.md")
			f.files["a.prompt.md"], f.m.refuse["begin"] = "another text", errDisk
		}, []Left{{"/repo", "disk on fire"}}},
	} {
		f := newFolder(newMemory(), c.files...)
		x := f.inbox()
		if c.taken {
			if rep, err := x.Once(t.Context(), false); err != nil || len(rep.Taken) != 1 {
				t.Fatalf("%s: %v, %+v", what, err, rep)
			}
		}
		c.change(f)
		lay := slices.Sorted(maps.Keys(f.files))
		rep, err := x.Once(t.Context(), false)
		if err != nil || len(rep.Left) != len(c.want) || rep.Left[0].Path != c.want[0].Path || !strings.HasPrefix(rep.Left[0].Reason, c.want[0].Reason) || len(rep.Taken)+len(rep.Finished)+len(rep.Failed) > 0 {
			t.Errorf("%s: %v, %+v", what, err, rep)
		}
		if lie := slices.Sorted(maps.Keys(f.files)); !slices.Equal(lie, lay) {
			t.Errorf("%s: there lie %q, not %q", what, lie, lay)
		}
	}
}

// Prompts wait until they no longer change; strays are told of, and what has no place, or whose place is not known, is refused.
func TestWhatAPassFindsBesides(t *testing.T) {
	f := newFolder(newMemory(), "a.prompt.md")
	f.strays = []inbox.Stray{{Path: "odd", Why: "it is odd"}}
	x := f.inbox()
	x.Debounce = 3 * time.Hour
	rep, err := x.Once(t.Context(), false)
	if err != nil || rep.Waiting != 1 || rep.Next != time.Hour || len(rep.Taken) > 0 || !slices.Equal(rep.Left, []Left{{"odd", "it is odd"}}) {
		t.Errorf("one that changes: %v, %+v", err, rep)
	}
	f = newFolder(newMemory(), "a.prompt.md", "o/r/b/b.prompt.md")
	x = f.inbox()
	x.Layout = inbox.MultiOwner
	if rep, err = x.Once(t.Context(), false); err != nil || len(rep.Taken) != 1 || rep.Taken[0].Rel != "o/r/b/b.prompt.md" || len(rep.Failed) != 1 || rep.Failed[0].Path != "a.error.md" {
		t.Errorf("one without a place: %v, %+v", err, rep)
	}
	f = newFolder(newMemory(), "a.prompt.md", "b.prompt.md")
	f.m.refuse["place"] = errDisk
	if rep, err = f.inbox().Once(t.Context(), false); err != nil || len(rep.Taken) > 0 || !slices.Equal(rep.Failed, []Left{{"a.error.md", "disk on fire"}, {"b.error.md", "disk on fire"}}) {
		t.Errorf("of a place that is not known: %v, %+v", err, rep)
	}
}

// Every job is read if a prompt is new among those that are done, once.
func TestADonePromptThatIsNew(t *testing.T) {
	f := newFolder(newMemory(), "a.prompt.md", "b.done.md")
	x := f.inbox()
	x.Visible = 10 * time.Hour
	if _, err := x.Once(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	x.news = &news{}
	for i, c := range []struct {
		file string
		want bool
		none bool
	}{{"", false, false}, {"", false, false}, {"c.done.md", true, false}, {"", false, false}, {"d.done.md", false, true}, {"", true, false}} {
		if c.file != "" {
			f.files[c.file] = "text of " + c.file + strings.Repeat(".", i)
		}
		list, err := f.Scan()
		if err != nil {
			t.Fatal(err)
		}
		seen := &list
		if c.none {
			seen = nil
		}
		f.m.scopes = nil
		if x.news.look(t.Context(), x, seen, &InboxReport{}); len(f.m.scopes) != 1 || f.m.scopes[0].All != c.want {
			t.Errorf("%d: read are %+v", i, f.m.scopes)
		}
	}
}

// A pass that is cancelled takes nothing, and one that waits for another ends.
func TestAPassThatIsCancelled(t *testing.T) {
	for _, busy := range []int{0, 99} {
		f := newFolder(newMemory(), "a.prompt.md")
		x := f.inbox()
		x.Patience, f.busy = time.Hour, busy
		ctx, cancel := context.WithCancel(t.Context())
		if f.onScan = cancel; busy > 0 {
			cancel()
		}
		rep, err := x.Once(ctx, false)
		if !errors.Is(err, context.Canceled) || len(rep.Taken) > 0 || f.files["a.prompt.md"] == "" {
			t.Errorf("busy %d: %v, %+v", busy, err, rep)
		}
	}
}

// Prompts are enqueued a batch at a time. Of a batch those are refused that cannot be enqueued, and the others are not.
func TestPromptsAreTakenABatchAtATime(t *testing.T) {
	f := newFolder(newMemory())
	for i := range batch + 1 {
		f.files[fmt.Sprintf("%03d.prompt.md", i)] = "do " + strings.Repeat("it", i)
	}
	if rep, err := f.inbox().Once(t.Context(), false); err != nil || len(rep.Taken) != batch+1 {
		t.Fatalf("%v: %d are taken", err, len(rep.Taken))
	}
	var made []int
	for _, p := range f.m.plans {
		n := 0
		for _, r := range p.Records {
			if _, ok := r.(kernel.CreateRun); ok {
				n++
			}
		}
		if n > 0 {
			made = append(made, n)
		}
	}
	if !slices.Equal(made, []int{batch, 1}) {
		t.Errorf("%v at once", made)
	}
	m := newMemory(job("old", nil))
	req := func(id, after kernel.JobID, file string) PromptRequest {
		n := kernel.NewJob{ID: id, Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, Prompt: &kernel.Prompt{File: file}}}
		if after != "" {
			n.Spec.After = []kernel.JobID{after}
		}
		return PromptRequest{RunRequest{Run: kernel.RunID("r" + id), Jobs: []kernel.NewJob{n}}, id, file, func() error { return nil }}
	}
	refused, _, err := m.scheduler().TakePrompts(t.Context(), []PromptRequest{req("a", "", "/a"), req("b", "", "/a"), req("c", "gone", "/c"), req("old", "", "/d"), req("e", "", "/e")})
	var got []string
	for _, r := range refused {
		got = append(got, fmt.Sprint(r))
	}
	if err != nil || len(m.jobs) != 3 || m.jobs["a"].ID == "" || m.jobs["e"].ID == "" || len(got) != 5 ||
		got[0] != "<nil>" || !errors.Is(refused[1], errNotOurs) || !errors.Is(refused[2], kernel.ErrNotFound) || !strings.Contains(got[3], "job_id old is taken") || got[4] != "<nil>" {
		t.Errorf("%v, %q, %d jobs", err, got, len(m.jobs))
	}
}

// A watcher remembers an end for an hour, and tells of none that it could not read.
func TestWhatAWatcherRemembers(t *testing.T) {
	f := newFolder(newMemory(), "a.prompt.md")
	x, now := f.inbox(), at
	x.Now, x.news = func() time.Time { return now }, &news{}
	if _, err := x.Once(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	j := f.own()
	j.State.Status, j.State.Finished = kernel.Cancelled, at
	f.m.jobs[j.ID] = j
	look := func() (rep InboxReport) {
		x.news.look(t.Context(), x, nil, &rep)
		return rep
	}
	f.m.refuse["load"] = errDisk
	if rep := look(); len(rep.Ended) > 0 {
		t.Errorf("of what cannot be read it tells %+v", rep.Ended)
	}
	delete(f.m.refuse, "load")
	if rep := look(); len(rep.Ended) != 1 || len(x.news.ended) != 1 {
		t.Errorf("it tells %+v, and remembers %v", rep.Ended, x.news.ended)
	}
	for _, after := range []time.Duration{recent, recent + 1} { // one that was never seen open
		x.news.ended = map[newsKey]time.Time{}
		x.news.since, now = at, at.Add(after)
		if rep := look(); (len(rep.Ended) == 1) != (after == recent) {
			t.Errorf("after %v it tells %+v", after, rep.Ended)
		}
	}
	for after, want := range map[time.Duration]int{recent: 1, recent + 1: 0} {
		x.news.ended = map[newsKey]time.Time{{job: j.ID}: at}
		now = at.Add(after)
		if rep := look(); len(rep.Ended) > 0 || len(x.news.ended) != want {
			t.Errorf("after %v it tells %+v, and remembers %v", after, rep.Ended, x.news.ended)
		}
	}
}

// If a crash or an error kept a prompt with a job from being named as running, the next
// pass names it so. It still has one job.
func TestAnEnqueuedPromptIsNamedByTheNextPass(t *testing.T) {
	f := newFolder(newMemory(), "a.prompt.md")
	f.m.refuse["tend"] = errDisk
	x := f.inbox()
	f.stuck = true
	rep, err := x.Once(t.Context(), false)
	if _, there := f.files["a.prompt.md"]; err != nil || len(rep.Taken) != 1 || !there {
		t.Fatalf("%v: %+v, %v", err, rep, f.files)
	}
	f.stuck = false
	delete(f.m.refuse, "tend")
	rep, err = f.inbox().Once(t.Context(), false)
	if _, there := f.files["a.running.md"]; err != nil || len(rep.Taken) > 0 || !there || len(f.m.jobs) != 1 {
		t.Errorf("%v: %+v, %v", err, rep, f.files)
	}
}

// A prompt that a program submits gets a name that is free, and is taken at
// once.
func TestSubmittedPromptsGetNamesOfTheirOwn(t *testing.T) {
	m := newMemory()
	f := newFolder(m)
	x := f.inbox()
	var names []string
	for range 3 {
		taken, err := x.Submit(t.Context(), Submission{Name: "a.prompt.md", Text: "do it"}, stamped)
		if err != nil {
			t.Fatal(err)
		}
		if j := m.jobs[taken.Job]; j.Spec.Prompt == nil || j.Spec.Prompt.File != "/inbox/"+inbox.NameOf(kernel.RunningPrompt, taken.Rel) {
			t.Errorf("%+v is %+v", taken, j)
		}
		names = append(names, taken.Rel)
	}
	if want := []string{"a.prompt.md", "a-abcd0002.prompt.md", "a-abcd0003.prompt.md"}; !slices.Equal(names, want) {
		t.Errorf("names %v, want %v", names, want)
	}
	x.Tracked = func(_ context.Context, rel string) (string, error) {
		return when(rel == "b.prompt.md", "sub/b.prompt.md"), nil
	}
	if taken, err := x.Submit(t.Context(), Submission{Name: "b.prompt.md", Text: "do it"}, stamped); err != nil || taken.Rel != "b-abcd0004.prompt.md" {
		t.Errorf("beside one that git tracks: %+v, %v", taken, err) // a file of that name would never be taken
	}
	for n := range 4 { // all names that the fourth could have
		f.files["a-"+strings.Repeat("00000000", n)+"abcd0005.prompt.md"] = ""
	}
	if _, err := x.Submit(t.Context(), Submission{Name: "a.prompt.md", Text: "do it"}, stamped); !errors.Is(err, kernel.ErrConflict) || len(m.jobs) != 4 {
		t.Errorf("a fourth: %v, %d jobs", err, len(m.jobs))
	}
}

// A prompt that another process takes as soon as it is dropped has its job.
func TestASubmissionThatAnotherTakes(t *testing.T) {
	f := newFolder(newMemory())
	x := f.inbox()
	find, prepared := x.Find, 0
	x.Find = func(p inbox.Path) (*InboxTarget, error) {
		to, err := find(p)
		prepare := to.Prepare
		to.Prepare = func(ctx context.Context, p Prompt) (RunRequest, error) {
			if prepared++; prepared == 2 { // the prompt is there
				f.m.jobs[p.ID] = job(p.ID, func(j *kernel.Job) { running(1)(j); j.Spec.Prompt = &p.Record })
			}
			return prepare(ctx, p)
		}
		return to, err
	}
	taken, err := x.Submit(t.Context(), Submission{Name: "a.prompt.md", Text: "do it"}, stamped)
	if err != nil || taken.Rel != "a.prompt.md" || f.m.jobs[taken.Job].State.Attempt != 1 || taken.Repository != "/repo" || len(f.m.jobs) != 1 {
		t.Errorf("%+v, %v; %+v", taken, err, f.m.jobs)
	}
}

// A pass refuses a prompt by its place, or if it says that it belongs elsewhere; one that is gone is looked for again soon. It
// ticks each repository once.
func TestAPassOverWhatIsOutOfPlace(t *testing.T) {
	f := newFolder(newMemory(), "short.prompt.md", "o/r/main/a.prompt.md", "o/r/main/other.prompt.md", "o/r/main/one.done.md", "o/r/main/two.done.md")
	f.files["o/r/main/other.prompt.md"] = "of another"
	x := f.inbox()
	x.Layout, x.Visible = inbox.MultiOwner, 24*time.Hour
	parse := x.Parse
	x.Parse = func(text string) (inbox.Front, string, error) {
		front, body, err := parse(text)
		front.Branch = when(text == "of another", "dev")
		return front, body, err
	}
	rep, err := x.Once(t.Context(), true)
	if err != nil || len(rep.Left) > 0 || len(rep.Taken) != 1 || rep.Taken[0].Rel != "o/r/main/a.prompt.md" {
		t.Errorf("%v, taken %+v, left %+v", err, rep.Taken, rep.Left)
	}
	slices.SortFunc(rep.Failed, func(a, b Left) int { return cmp.Compare(a.Path, b.Path) })
	if len(rep.Failed) != 2 || rep.Failed[0].Path != "o/r/main/other.error.md" || !strings.Contains(rep.Failed[0].Reason, `vizier.branch is "dev"`) || rep.Failed[1].Path != "short.error.md" {
		t.Errorf("failed %+v", rep.Failed)
	}
	if f.m.begun != 2 { // a tick, and what takes the prompt
		t.Errorf("%d transactions", f.m.begun)
	}
	f = newFolder(newMemory(), "a.prompt.md")
	f.m.refuse["read"] = iofs.ErrNotExist
	x = f.inbox()
	x.Debounce = time.Minute
	if rep, err := x.Once(t.Context(), false); err != nil || len(rep.Left) != 1 || rep.Next != time.Minute {
		t.Errorf("%+v, %v", rep, err)
	}
	f.m.refuse["unlock"] = errDisk
	if _, err := x.Once(t.Context(), false); !errors.Is(err, errDisk) {
		t.Errorf("a lock that cannot be let go of: %v", err)
	}
}

// The runs of prompts are on record as they were enqueued.
func TestTheAccountOfAPass(t *testing.T) {
	f := newFolder(newMemory(), "a.prompt.md", "b.prompt.md")
	m := &accounting{memory: f.m}
	x := f.inbox()
	to, err := x.Find(inbox.Path{})
	if err != nil {
		t.Fatal(err)
	}
	to.Scheduler.Store = m
	if rep, err := x.Once(t.Context(), false); err != nil || len(rep.Taken) != 2 || len(m.accounts) == 0 {
		t.Fatalf("%+v, %v; %+v", rep, err, m.accounts)
	}
	var enqueued []kernel.JobID
	for _, step := range m.accounts[0].Steps {
		if v, is := step.Verb.(history.Enqueue); is {
			for _, j := range v.Jobs {
				enqueued = append(enqueued, j.ID)
			}
		}
	}
	if !slices.Equal(enqueued, slices.Sorted(maps.Keys(m.jobs))) || len(enqueued) != 2 {
		t.Errorf("on record are %q, in the store %v", enqueued, m.jobs)
	}
}

// A prompt is put into the directory of its branch, whichever directories there are, and says where it belongs.
func TestASubmissionGoesToItsBranch(t *testing.T) {
	for name, c := range map[string]struct {
		layout inbox.Layout
		at     inbox.Path
		files  []string
		marked map[string]string
		rel    string
		marks  map[string]string
	}{
		"one repository":                     {inbox.SimpleLayout, inbox.Path{}, nil, nil, "a.prompt.md", nil},
		"of one owner":                       {inbox.SingleOwner, inbox.Path{Owner: "me", Repository: "r", Branch: "main"}, nil, nil, "r/main/a.prompt.md", nil},
		"of many owners":                     {inbox.MultiOwner, inbox.Path{Owner: "o", Repository: "r", Branch: "main"}, []string{"o/r/main/b.prompt.md"}, nil, "o/r/main/a.prompt.md", nil},
		"of a branch with a slash":           {inbox.MultiOwner, inbox.Path{Owner: "o", Repository: "r", Branch: "a/b"}, nil, nil, "o/r/a-b/a.prompt.md", map[string]string{"o/r/a-b": "a/b"}},
		"the same, again":                    {inbox.MultiOwner, inbox.Path{Owner: "o", Repository: "r", Branch: "a/b"}, []string{"o/r/a-b/b.prompt.md"}, map[string]string{"o/r/a-b": "a/b"}, "o/r/a-b/a.prompt.md", map[string]string{"o/r/a-b": "a/b"}},
		"the same, beside one without":       {inbox.SingleOwner, inbox.Path{Owner: "me", Repository: "r", Branch: "a/b"}, []string{"r/a-b/b.prompt.md"}, nil, "r/a-b-/a.prompt.md", map[string]string{"r/a-b-": "a/b"}},
		"without, beside one with a slash":   {inbox.SingleOwner, inbox.Path{Owner: "me", Repository: "r", Branch: "a-b"}, []string{"r/a-b/b.prompt.md"}, map[string]string{"r/a-b": "a/b"}, "r/a-b-/a.prompt.md", map[string]string{"r/a-b": "a/b", "r/a-b-": "a-b"}},
		"beside a marker that names nothing": {inbox.SingleOwner, inbox.Path{Owner: "me", Repository: "r", Branch: "a-b"}, []string{"r/a-b/b.prompt.md"}, map[string]string{"r/a-b": " "}, "r/a-b-/a.prompt.md", map[string]string{"r/a-b": " ", "r/a-b-": "a-b"}},
	} {
		f := newFolder(newMemory(), c.files...)
		if c.marked != nil {
			f.marked = c.marked
		}
		x := f.inbox()
		x.Layout, x.Owner = c.layout, "me"
		var front inbox.Front
		taken, err := x.Submit(t.Context(), Submission{Name: "a.prompt.md", Text: "do it", At: c.at, Front: inbox.Front{Flow: "f"}}, func(text string, f inbox.Front) (string, error) {
			front = f
			return stamped(text, f)
		})
		if want := (inbox.Front{Flow: "f", Job: taken.Job, Owner: c.at.Owner, Repository: c.at.Repository, Branch: c.at.Branch}); err != nil || taken.Rel != c.rel || fmt.Sprint(front) != fmt.Sprint(want) || !maps.Equal(f.marked, c.marks) {
			t.Errorf("%s: %v, %+v, front %+v, marks %v", name, err, taken, front, f.marked)
		}
		if j := f.m.jobs[taken.Job]; j.Spec.Prompt == nil || j.Spec.Prompt.Branch != c.at.Branch {
			t.Errorf("%s: %+v", name, j.Spec.Prompt)
		}
	}
}

// A prompt that could not be run is not put into the inbox. If the store fails once it is
// there, the error says that the next pass takes it.
func TestASubmissionThatFails(t *testing.T) {
	for what, c := range map[string]struct {
		text    string
		dropped bool
		later   bool
	}{
		"scan": {}, "find": {}, "prepare": {}, "load": {}, "lock": {}, "drop": {dropped: true}, "commit": {dropped: true, later: true},
	} {
		f := newFolder(newMemory())
		f.m.refuse[what] = errDisk
		_, err := f.inbox().Submit(t.Context(), Submission{Name: "a.prompt.md", Text: "do it"}, stamped)
		if err == nil || strings.Contains(err.Error(), "with the next") != c.later || (len(f.files) > 0) != c.dropped || len(f.m.jobs) > 0 {
			t.Errorf("%s: %v, %v", what, err, f.files)
		}
	}
	f := newFolder(newMemory())
	if _, err := f.inbox().Submit(t.Context(), Submission{Name: "a.prompt.md", Text: "bad"}, stamped); !errors.Is(err, kernel.ErrInvalid) || len(f.files) > 0 {
		t.Errorf("a bad one: %v, %v", err, f.files)
	}
	says := func(text string) func(string, inbox.Front) (string, error) {
		return func(string, inbox.Front) (string, error) { return text, nil }
	}
	id := kernel.JobID(strings.Repeat("7", 32))
	for what, c := range map[string]struct {
		name  string
		stamp func(string, inbox.Front) (string, error)
		want  error
	}{
		"a name that is none":         {"a\xff.prompt.md", stamped, kernel.ErrInvalid},
		"one that cannot be stamped":  {"a.prompt.md", func(string, inbox.Front) (string, error) { return "", errDisk }, errDisk},
		"a stamp that makes it bad":   {"a.prompt.md", says("bad"), kernel.ErrInvalid},
		"one with the id of a job":    {"a.prompt.md", says("job " + string(id) + "\ndo it"), kernel.ErrConflict},
		"one for another repository":  {"a.prompt.md", says("for another"), kernel.ErrInvalid},
		"one whose job is not unique": {"a.prompt.md", says("job " + string(id) + "\n"), kernel.ErrConflict},
	} {
		f := newFolder(newMemory(job(id, nil)))
		x := f.inbox()
		parse := x.Parse
		x.Parse = func(text string) (inbox.Front, string, error) {
			if text == "for another" {
				return inbox.Front{Repository: "another"}, text, nil
			}
			return parse(text)
		}
		if _, err := x.Submit(t.Context(), Submission{Name: c.name, Text: "do it"}, c.stamp); !errors.Is(err, c.want) || len(f.files) > 0 || len(f.m.jobs) != 1 {
			t.Errorf("%s: %v, %v", what, err, f.files)
		}
	}
}

func (f *folder) Why(rel string, _ bool) (string, time.Time) { return f.why[rel], f.whyAt }

func (f *folder) Gone() ([]inbox.PromptFile, error) { return f.left, f.m.fails("gone") }

// A watcher reports each end of a run once, but none from before it came.
func TestAWatcherTellsHowRunsEnd(t *testing.T) {
	f := newFolder(newMemory(), "old.prompt.md")
	x := f.inbox()
	if _, err := x.Once(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	end := func(st kernel.Status, after time.Duration) {
		for id, j := range f.m.jobs {
			if j.Open() {
				j.State.Status, j.State.Finished, j.State.Reason = st, at.Add(after), "so it is"
				f.m.jobs[id] = j
			}
		}
	}
	end(kernel.Failed, -time.Minute)
	x.news = &news{}
	told := func() string {
		t.Helper()
		rep, err := x.Once(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range rep.Ended {
			out = append(out, e.Rel+" "+e.How.String())
		}
		for _, a := range rep.Asked {
			out = append(out, "asks for "+string(a.Approve))
		}
		return strings.Join(out, ", ")
	}
	if got := told(); got != "" {
		t.Errorf("of before: %s", got)
	}
	f.files["a.prompt.md"] = "do it"
	if got := told(); got != "" {
		t.Errorf("of one that is taken: %s", got)
	}
	for id, j := range f.m.jobs {
		if j.Open() {
			j.State.Approval.State, j.State.Status = kernel.Pending, kernel.WaitingOnApproval
			f.m.jobs[id] = j
			if got := told(); got != "asks for "+string(id) {
				t.Errorf("of one that asks: %s", got)
			}
		}
	}
	if got := told(); got != "" {
		t.Errorf("again: %s", got)
	}
	end(kernel.Cancelled, time.Minute)
	if got := told(); got != "a.prompt.md cancelled: so it is" || len(x.news.asked) > 0 {
		t.Errorf("at the end: %s; it remembers what was asked: %v", got, x.news.asked)
	}
	if got := told(); got != "" {
		t.Errorf("again: %s", got)
	}

	// Another process took it, and a failure of its run blocked it, between two looks.
	blocked := job("b1", func(j *kernel.Job) {
		j.State.Status, j.State.Wait = kernel.BlockedByDependency, kernel.WaitReason{Kind: kernel.OnDependencies, Detail: "dependency failed for job x (failed)"}
		j.Spec.Prompt = &kernel.Prompt{File: x.Tree.File("b.prompt.md", kernel.RunningPrompt), Rel: "b.prompt.md"}
	})
	f.m.jobs[blocked.ID] = blocked
	if got := told(); !strings.HasPrefix(got, "b.prompt.md ") {
		t.Errorf("of one that was never seen open: %q", got)
	}
	if got := told(); got != "" {
		t.Errorf("again: %s", got)
	}
}

// Where several runs ask for an approval, or end, a pass reports them by the names of their prompts.
func TestAWatcherTellsByName(t *testing.T) {
	f := newFolder(newMemory())
	x := f.inbox()
	x.news = &news{}
	pass := func() InboxReport {
		t.Helper()
		rep, err := x.Once(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	for _, name := range []string{"b", "c", "a"} {
		f.files[name+".prompt.md"] = "do " + strings.Repeat(name, int(name[0]-'a')+1) // a text, and so an inode, of its own
		pass()
	}
	all := func(change func(*kernel.State)) {
		for id, j := range f.m.jobs {
			j.Spec.Origin.Run = kernel.RunID(id)
			change(&j.State)
			f.m.jobs[id] = j
		}
	}
	all(func(st *kernel.State) { st.Approval.State, st.Status = kernel.Pending, kernel.WaitingOnApproval })
	var asked, ended []string
	for _, a := range pass().Asked {
		asked = append(asked, a.Rel)
	}
	all(func(st *kernel.State) { st.Status, st.Finished = kernel.Cancelled, at.Add(time.Minute) })
	for _, e := range pass().Ended {
		ended = append(ended, e.Rel)
	}
	if want := []string{"a.prompt.md", "b.prompt.md", "c.prompt.md"}; !slices.Equal(asked, want) || !slices.Equal(ended, want) {
		t.Errorf("asked %q, ended %q, want %q each", asked, ended, want)
	}
}

// People are told of the prompts that a pass refuses, and of nothing where it refuses none.
func TestPeopleAreToldOfRefusedPrompts(t *testing.T) {
	f := newFolder(newMemory(), "a.prompt.md", "b.prompt.md")
	x := f.inbox()
	var told [][]kernel.Event
	x.Tell = func(events []kernel.Event) { told = append(told, events) }
	if _, err := x.Once(t.Context(), true); err != nil || len(told) > 0 {
		t.Fatalf("told of what was taken: %+v, %v", told, err)
	}
	f.files["c.prompt.md"] = "bad"
	rep, err := x.Once(t.Context(), true)
	if err != nil || len(rep.Failed) != 1 || len(told) != 1 || len(told[0]) != 1 {
		t.Fatalf("told %+v of %+v, %v", told, rep.Failed, err)
	}
	want := kernel.Event{At: at, Kind: kernel.NeedsAttention, Name: rep.Failed[0].Path, Reason: string(kernel.NeedsCorrection) + ": " + rep.Failed[0].Reason}
	if told[0][0] != want {
		t.Errorf("told is %+v, want %+v", told[0][0], want)
	}
}
