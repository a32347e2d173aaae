package inbox_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

func TestPromptNames(t *testing.T) {
	for _, c := range [][3]string{
		{"xyz.prompt.md", "xyz.running.md", "xyz.done.md"},
		{"a/b/x.y.prompt.md", "a/b/x.y.running.md", "a/b/x.y.done.md"},
		{"foo.txt", "foo.running.txt", "foo.done.txt"},
		{"foo", "foo.running", "foo.done"},
		{"d.x/foo", "d.x/foo.running", "d.x/foo.done"},
		{".hidden", ".hidden.running", ".hidden.done"},
		{" \n.prompt.md", " \n.running.md", " \n.done.md"},
	} {
		if r, d := inbox.NameOf(kernel.RunningPrompt, c[0]), inbox.NameOf(kernel.DonePrompt, c[0]); r != c[1] || d != c[2] {
			t.Errorf("%q: %q, %q", c[0], r, d)
		}
	}
	for name, want := range map[string]string{"x.prompt.md": "x.prompt.md prompt", "d/x.running.md": "d/x.prompt.md running", "x.done.md": "x.prompt.md done",
		"x.error.md": "x.prompt.md error", "x.md": "", ".prompt.md": "", "d/.prompt.md": "", "x.prompt.md.tmp": "", "prompt.md": "", "x.error.txt": ""} {
		got := ""
		if p, n, ok := inbox.PromptOf(name); ok {
			got = p + " " + n.String()
		}
		if got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

// For a misnamed prompt, Meant returns the name that it should have.
func TestWhatSomebodyMeant(t *testing.T) {
	for name, want := range map[string]string{"fix.md": "fix.prompt.md", "fix.MD": "fix.prompt.md", "fix.prompt": "fix.prompt.md", "fix.Prompt.md": "fix.prompt.md",
		"fix.prompt.md.txt": "fix.prompt.md", "a.b.markdown": "a.b.prompt.md", "a\xff\xfeb.md": "a_b.prompt.md", "notes.txt": "", "md": "", ".md": "", "fix.prompt.md.tmp": "", "fix.prompt.md~": "", "fix.prompt.md": "", "fix.running.md": "", "who.error.txt": ""} {
		if got := inbox.Meant(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestInboxPaths(t *testing.T) {
	marks := map[string]string{"o/r/feat": "feature/x", "o/r/bad": "a..b", "r/feat": "feature/x", "o/r/main/deep": "release/1"}
	for _, c := range []struct {
		layout    inbox.Layout
		rel, want string // "": refused
	}{
		{inbox.SimpleLayout, "x.prompt.md", "//"},
		{inbox.SimpleLayout, "any/where/x.prompt.md", "//"},
		{inbox.MultiOwner, "o/r/main/x.prompt.md", "o/r/main"},
		{inbox.MultiOwner, "o/r/main/a/b/x.prompt.md", "o/r/main"},
		{inbox.MultiOwner, "o/r/feat/x.prompt.md", "o/r/feature/x"},
		{inbox.MultiOwner, "o/r/feat/sub/x.prompt.md", "o/r/feature/x"},
		{inbox.MultiOwner, "o/r/main/deep/x.prompt.md", "o/r/release/1"},
		{inbox.MultiOwner, "o/r/x.prompt.md", ""},
		{inbox.MultiOwner, "x.prompt.md", ""},
		{inbox.MultiOwner, "o/r/bad/x.prompt.md", ""},
		{inbox.MultiOwner, "o/r/ma in/x.prompt.md", ""},
		{inbox.MultiOwner, "o/../main/x.prompt.md", ""},
		{inbox.MultiOwner, "o//main/x.prompt.md", ""},
		{inbox.MultiOwner, "o/r/main/x.md", ""},
		{inbox.MultiOwner, "o/r/main/x.running.md", ""},
		{inbox.MultiOwner, "o/r/main/\xff.prompt.md", ""},
		{inbox.SingleOwner, "r/main/x.prompt.md", "me/r/main"},
		{inbox.SingleOwner, "r/feat/x.prompt.md", "me/r/feature/x"},
		{inbox.SingleOwner, "r/x.prompt.md", ""},
		{99, "r/main/x.prompt.md", ""},
	} {
		p, err := inbox.ParsePath(c.layout, "me", c.rel, func(dir string) string { return marks[dir] })
		got := strings.Join([]string{p.Owner, p.Repository, p.Branch}, "/")
		if err != nil {
			got = ""
		}
		if got != c.want || err != nil && !errors.Is(err, kernel.ErrInvalid) {
			t.Errorf("%s %q: %q, %v, want %q", c.layout, c.rel, got, err, c.want)
		}
	}
	if _, err := inbox.ParsePath(inbox.SingleOwner, "", "r/main/x.prompt.md", func(string) string { return "" }); err == nil {
		t.Error("an owner was guessed")
	}
}

func TestSplitFront(t *testing.T) {
	for text, want := range map[string][2]string{
		"":                                 {"", ""},
		"text":                             {"", "text"},
		"---\nflow: a\n---\nbody\n---\n":   {"flow: a\n", "body\n---\n"},
		"\ufeff---\r\nflow: a\r\n---\r\nb": {"flow: a\r\n", "b"},
		"---\n---\n":                       {"", ""},
		"---\nflow: a\n...\nb":             {"flow: a\n", "b"},
		"---\nflow: a\n---":                {"flow: a\n", ""},
		"----\nx":                          {"", "----\nx"},
		" ---\nx\n---\n":                   {"", " ---\nx\n---\n"},
		"---":                              {"", "---"},
	} {
		front, body, err := inbox.SplitFront(text)
		if err != nil || front != want[0] || body != want[1] {
			t.Errorf("%q: %q, %q, %v", text, front, body, err)
		}
	}
	for _, text := range []string{"---\nflow: a\n", "---\n", "---\n\n --- x"} {
		if _, _, err := inbox.SplitFront(text); !errors.Is(err, kernel.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A prompt is ready when it was still for long enough, in the order of its
// time and then its name, and never before its namesake is through.
func TestReady(t *testing.T) {
	now := time.Date(2026, 1, 1, 13, 0, 0, 0, time.UTC)
	file := func(rel string, n kernel.PromptName, age time.Duration) inbox.PromptFile {
		return inbox.PromptFile{Rel: rel, Name: n, Inode: 1, Modified: now.Add(-age), Changed: now.Add(-age)}
	}
	l := inbox.Listing{Files: []inbox.PromptFile{
		file("b.prompt.md", 0, 5*time.Second), file("a.prompt.md", 0, 5*time.Second), file("z.prompt.md", 0, 9*time.Second),
		file("young.prompt.md", 0, time.Second), file("future.prompt.md", 0, -time.Hour),
		file("twin.prompt.md", 0, time.Minute), file("twin.prompt.md", kernel.RunningPrompt, time.Minute), file("done.prompt.md", kernel.DonePrompt, time.Minute),
	}}
	rels := func(fs []inbox.PromptFile) string {
		var out []string
		for _, f := range fs {
			out = append(out, strings.TrimSuffix(f.Rel, ".prompt.md"))
		}
		return strings.Join(out, " ")
	}
	ready, seen, wait := l.Ready(now, 2*time.Second, nil)
	if rels(ready) != "z a b" || len(seen) != 2 || wait != time.Second {
		t.Errorf("%q, %d seen, %v", rels(ready), len(seen), wait)
	}
	ready, _, _ = l.Ready(now.Add(3*time.Second), 2*time.Second, seen)
	if rels(ready) != "z a b young future" { // the clock of whoever wrote it is ahead, and it was still
		t.Errorf("%q", rels(ready))
	}
	back := now.Add(-time.Hour)
	if _, again, wait := l.Ready(back, 2*time.Second, seen); wait != 2*time.Second {
		t.Errorf("the clock was set back: %v", wait)
	} else if ready, _, _ = l.Ready(back.Add(2*time.Second), 2*time.Second, again); rels(ready) != "z a b young future" {
		t.Errorf("the clock was set back: %q", rels(ready))
	}
	grown := l
	grown.Files = append([]inbox.PromptFile(nil), l.Files...)
	grown.Files[3].Size, grown.Files[3].Modified = 9, now.Add(3*time.Second)
	if ready, _, _ = grown.Ready(now.Add(3*time.Second), 2*time.Second, seen); rels(ready) != "z a b future" {
		t.Errorf("one that still grows: %q", rels(ready))
	}
	if gone, wait := l.Expired(now, 2*time.Minute); len(gone) != 0 || wait != time.Minute {
		t.Errorf("%v %v", gone, wait)
	}
	if gone, _ := l.Expired(now, time.Minute); rels(gone) != "done" {
		t.Errorf("%v", gone)
	}
}

func FuzzSplitFront(f *testing.F) {
	for _, s := range []string{"---\na: b\n---\nx", "\ufeff---\r\n...\r\n", "---", "---\n", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		front, body, err := inbox.SplitFront(text)
		if err != nil {
			return
		}
		if !strings.Contains(text, front) || !strings.HasSuffix(text, body) || len(front)+len(body) > len(text) {
			t.Fatalf("%q is %q and %q", text, front, body)
		}
	})
}

// Whatever the path: what is taken for a prompt has a repository, a branch that
// leads nowhere, and names that belong together.
func FuzzInboxPath(f *testing.F) {
	for _, s := range []string{"o/r/b/x.prompt.md", "x.prompt.md", "../../../x.prompt.md", "o/r/\x00/x.prompt.md", "o/r/.git/x.prompt.md"} {
		f.Add(uint8(2), s, "feature/x")
	}
	f.Fuzz(func(t *testing.T, layout uint8, rel, mark string) {
		p, err := inbox.ParsePath(inbox.Layout(layout), "me", rel, func(string) string { return mark })
		if err != nil {
			return
		}
		if inbox.Layout(layout) != inbox.SimpleLayout {
			for _, part := range append(strings.Split(p.Branch, "/"), p.Owner, p.Repository) {
				if part == "" || part == ".." || part == "." || part != p.Owner && part != p.Repository && strings.ContainsAny(part, "\x00\n ~^:?*[\\") {
					t.Fatalf("%q: %+v", rel, p)
				}
			}
		}
		for _, n := range []kernel.PromptName{kernel.NewPrompt, kernel.RunningPrompt, kernel.DonePrompt, kernel.ErrorPrompt} {
			if back, m, ok := inbox.PromptOf(inbox.NameOf(n, rel)); !ok || m != n || back != rel {
				t.Fatalf("%q as %s is %q, and that is %q as %s", rel, n, inbox.NameOf(n, rel), back, m)
			}
		}
		in := &kernel.Prompt{Rel: rel, File: "/home/inbox/" + inbox.NameOf(kernel.RunningPrompt, rel)}
		if inbox.Home(in) != "/home" {
			t.Fatalf("the home of %q is %q", in.File, inbox.Home(in))
		}
	})
}

// A prompt that somebody gave a name of no prompt's is told of, as what it is of
// the last job that it had; no other file is.
func TestPromptsWithoutAPromptsName(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	job := func(id kernel.JobID, status kernel.Status, inode uint64) *kernel.Job {
		return &kernel.Job{ID: id, Created: at, Spec: kernel.Spec{Prompt: &kernel.Prompt{Rel: "d/x.prompt.md", Inode: inode, Claimed: at}}, State: kernel.State{Status: status}}
	}
	file := func(rel string, inode uint64, modified time.Time) inbox.PromptFile {
		return inbox.PromptFile{Rel: rel, Inode: inode, Modified: modified}
	}
	l := inbox.Listing{
		Files:  []inbox.PromptFile{file("linked.prompt.md", 4, at)},
		Others: []inbox.PromptFile{file("x.txt", 1, at), file("over.md", 2, at), file("later.txt", 3, at.Add(1)), file("link.txt", 4, at), file("README", 5, at)},
		Strays: []inbox.Stray{{Path: "over.md", Why: "not a prompt's name"}, {Path: "s", Why: "a symbolic link"}},
	}
	jobs := []*kernel.Job{job("a", kernel.Failed, 1), job("b", kernel.Running, 1), job("c", kernel.Succeeded, 2), job("d", kernel.Running, 3), job("e", kernel.Running, 4), {ID: "f"}}
	want := []inbox.Stray{
		{Path: "x.txt", Why: "it is the prompt of job b, which is not over: rename it to d/x.running.md"},
		{Path: "over.md", Why: "it was the prompt of job c, which is over (succeeded): to run it again, rename it to d/x.prompt.md"},
		{Path: "s", Why: "a symbolic link"},
	}
	if got := l.Odd(jobs); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := l.Odd(nil); !slices.Equal(got, l.Strays) {
		t.Errorf("without jobs: %+v", got)
	}
}
