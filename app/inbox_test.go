package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// folder is an inbox in memory: the text of each prompt by the name that it has
// now. The first word of a text is what is wrong with it, if it is "bad".
type folder struct {
	m      *memory
	files  map[string]string
	busy   int // times that another process claims
	marked map[string]string
	why    map[string]string // why prompts failed
	gone   []string          // finished
	still  bool
}

func newFolder(m *memory, files ...string) *folder {
	f := &folder{m: m, files: map[string]string{}, marked: map[string]string{}, why: map[string]string{}, still: true}
	for _, name := range files {
		f.files[name] = "do it"
	}
	return f
}

func (f *folder) inbox() *Inbox {
	s := f.m.scheduler()
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
				Place: func(_ context.Context, p inbox.Path) (inbox.Path, error) { return p, nil },
				Prepare: func(_ context.Context, p Prompt) (RunRequest, error) {
					in := p.Intake
					return RunRequest{Run: "r", Jobs: []kernel.NewJob{{ID: p.ID, Spec: kernel.Spec{Task: kernel.Task{Args: []string{p.Body}}, Intake: &in}}}}, f.m.refuse["prepare"]
				}}, f.m.refuse["find"]
		}}
}

func (f *folder) Lock() (io.Closer, bool, error) {
	f.busy--
	return io.NopCloser(nil), f.busy < 0, f.m.refuse["lock"]
}

func (f *folder) Scan() (inbox.Listing, error) {
	list := inbox.Listing{Branches: f.marked, Dirs: []string{""}}
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		for _, n := range []kernel.PromptName{kernel.NewPrompt, kernel.RunningPrompt, kernel.DonePrompt, kernel.ErrorPrompt} {
			rel, is, ok := inbox.PromptOf(name)
			if ok && is == n {
				list.Files = append(list.Files, inbox.PromptFile{Rel: rel, Name: n, Modified: at.Add(-2 * time.Hour), Changed: at.Add(-2 * time.Hour), Inode: 7})
			}
		}
	}
	return list, f.m.refuse["scan"]
}

func (f *folder) Claim(rel string) (bool, error) {
	text, ok := f.files[rel]
	if !ok || f.m.refuse["claim"] != nil {
		return false, f.m.refuse["claim"]
	}
	delete(f.files, rel)
	f.files[inbox.NameOf(kernel.RunningPrompt, rel)] = text
	return true, nil
}

func (f *folder) Read(rel string) (string, uint64, error) {
	text, ok := f.files[inbox.NameOf(kernel.RunningPrompt, rel)]
	if !ok || f.m.refuse["read"] != nil {
		return "", 0, errors.Join(f.m.refuse["read"], iofs.ErrNotExist)
	}
	return text, 7, nil
}

func (f *folder) Still(string, uint64) bool { return f.still }

func (f *folder) Drop(rel, text string) error {
	if _, there := f.files[rel]; there {
		return iofs.ErrExist
	}
	f.files[rel] = text
	return f.m.refuse["drop"]
}

func (f *folder) Mark(dir, branch string) error { f.marked[dir] = branch; return nil }

func (f *folder) Fail(rel string, from kernel.PromptName, why string) error {
	delete(f.files, inbox.NameOf(from, rel))
	f.files[inbox.NameOf(kernel.ErrorPrompt, rel)], f.why[rel] = "", why
	return f.m.refuse["fail"]
}

func (f *folder) Finish(rel string, n kernel.PromptName) error {
	if err := f.m.refuse["finish"]; err != nil {
		return err
	}
	delete(f.files, inbox.NameOf(n, rel))
	f.gone = append(f.gone, rel)
	return nil
}

func (f *folder) File(rel string, n kernel.PromptName) string {
	return "/inbox/" + inbox.NameOf(n, rel)
}

func stamped(text string, f inbox.Front) (string, error) {
	return "job " + string(f.Job) + "\n" + text, nil
}

// What lies in an inbox after one pass over it, and what the pass says of it.
func TestOnePassOverAnInbox(t *testing.T) {
	m := newMemory()
	f := newFolder(m, "a.prompt.md", "b.running.md", "c.done.md", "d.prompt.md")
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
	if !slices.Equal(rep.Finished, []string{"c.done.md"}) || len(rep.Left) > 0 || rep.Next != time.Hour {
		t.Errorf("finished %v, left %v, next in %v", rep.Finished, rep.Left, rep.Next)
	}
	if have := slices.Sorted(maps.Keys(f.files)); !slices.Equal(have, []string{"a.running.md", "b.running.md", "d.error.md"}) {
		t.Errorf("there lie %v", have)
	}
	again, err := f.inbox().Once(t.Context(), false) // what has a job is nobody's to take
	if err != nil || len(again.Taken)+len(again.Failed) > 0 || len(m.jobs) != 2 {
		t.Errorf("%v: %+v", err, again)
	}
}

// What goes wrong with one prompt, or for now, is told, and the prompt stays as
// it is where it may be tried again.
func TestWhatKeepsAPromptFromBeingTaken(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*folder)
		err    bool
		left   string // a part of what is left
		lies   string
	}{
		"the lock":          {func(f *folder) { f.m.refuse["lock"] = errDisk }, true, "", "a.prompt.md"},
		"somebody else":     {func(f *folder) { f.busy = 99 }, true, "", "a.prompt.md"},
		"the folder":        {func(f *folder) { f.m.refuse["scan"] = errDisk }, true, "", "a.prompt.md"},
		"the claim":         {func(f *folder) { f.m.refuse["claim"] = errDisk }, false, "a.prompt.md", "a.prompt.md"},
		"the store":         {func(f *folder) { f.m.refuse["commit"] = errDisk }, false, "/repo", "a.running.md"},
		"no such place":     {func(f *folder) { f.m.refuse["find"] = errDisk }, false, "", "a.error.md"},
		"no such run":       {func(f *folder) { f.m.refuse["prepare"] = errDisk }, false, "", "a.error.md"},
		"another's by now":  {func(f *folder) { f.still = false }, false, "", "a.running.md"},
		"gone":              {func(f *folder) { f.m.refuse["read"] = iofs.ErrNotExist }, false, "a.running.md", "a.running.md"},
		"cannot be renamed": {func(f *folder) { f.m.refuse["find"], f.m.refuse["fail"] = errDisk, io.ErrShortWrite }, false, "a.prompt.md", "a.error.md"},
	} {
		f := newFolder(newMemory(), "a.prompt.md")
		c.change(f)
		rep, err := f.inbox().Once(t.Context(), false)
		var left []string
		for _, l := range rep.Left {
			left = append(left, l.Path)
		}
		if (err != nil) != c.err || strings.Join(left, " ") != c.left || len(rep.Taken) > 0 || len(f.m.jobs) > 0 {
			t.Errorf("%s: %v, %+v, %d jobs", what, err, rep, len(f.m.jobs))
		}
		if _, lies := f.files[c.lies]; !lies {
			t.Errorf("%s: there lie %v, not %s", what, f.files, c.lies)
		}
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
		if j := m.jobs[taken.Job]; j.Spec.Intake == nil || j.Spec.Intake.File != "/inbox/"+inbox.NameOf(kernel.RunningPrompt, taken.Rel) {
			t.Errorf("%+v is %+v", taken, j)
		}
		names = append(names, taken.Rel)
	}
	if want := []string{"a.prompt.md", "a-abcd0002.prompt.md", "a-abcd0003.prompt.md"}; !slices.Equal(names, want) {
		t.Errorf("names %v, want %v", names, want)
	}
	for n := range 4 { // and all that the fourth could have
		f.files["a-"+strings.Repeat("00000000", n)+"abcd0004.prompt.md"] = ""
	}
	if _, err := x.Submit(t.Context(), Submission{Name: "a.prompt.md", Text: "do it"}, stamped); !errors.Is(err, kernel.ErrConflict) || len(m.jobs) != 3 {
		t.Errorf("a fourth: %v, %d jobs", err, len(m.jobs))
	}
}

// A prompt that could not be run is not dropped. Once it is, an error says what
// becomes of it.
func TestASubmissionThatFails(t *testing.T) {
	for what, c := range map[string]struct {
		text    string
		dropped bool
		later   bool
	}{
		"scan": {}, "find": {}, "prepare": {}, "load": {}, "lock": {}, "drop": {dropped: true}, "claim": {dropped: true, later: true}, "commit": {dropped: true, later: true},
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
}
