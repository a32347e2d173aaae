package inbox

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

func newTree(t testing.TB) Tree {
	t.Helper()
	tree := Tree{Home: t.TempDir(), Now: time.Now}
	if made, err := tree.Init(); err != nil || !made {
		t.Fatal(made, err)
	}
	return tree
}

func drop(t testing.TB, tree Tree, rel, text string) {
	t.Helper()
	at := filepath.Join(tree.Home, rel)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func content(t testing.TB, tree Tree, rel string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(tree.Home, rel))
	if err != nil {
		return ""
	}
	return string(b)
}

func TestWhereThereIsNone(t *testing.T) {
	tree := Tree{Home: filepath.Join(t.TempDir(), "nowhere"), Now: time.Now}
	if _, err := tree.Scan(); !errors.Is(err, ErrNoInbox) {
		t.Error(err)
	}
	link := Tree{Home: t.TempDir(), Now: time.Now}
	if err := os.Symlink(t.TempDir(), filepath.Join(link.Home, "inbox")); err != nil {
		t.Fatal(err)
	}
	if l, err := link.Scan(); err == nil {
		t.Errorf("a link was followed: %+v", l)
	}
}

// A claim in two steps whose process died in between leaves one file with two
// names.
func TestATornClaimIsCompleted(t *testing.T) {
	tree := newTree(t)
	drop(t, tree, "inbox/d/x.prompt.md", "text")
	at := filepath.Join(tree.Inbox(), "d", "x.prompt.md")
	if err := os.Link(at, filepath.Join(tree.Inbox(), "d", "x.running.md")); err != nil {
		t.Fatal(err)
	}
	drop(t, tree, "inbox/d/y.prompt.md", "another")
	drop(t, tree, "inbox/d/y.running.md", "earlier")
	l, err := tree.Scan()
	if err != nil || len(l.Files) != 3 {
		t.Fatalf("%+v %v", l, err)
	}
	if _, err := os.Lstat(at); !errors.Is(err, iofs.ErrNotExist) {
		t.Error("the new name is left")
	}
	if content(t, tree, "inbox/d/y.prompt.md") != "another" {
		t.Error("a prompt that waits for its namesake is gone")
	}
}

func TestScanOfWhatMayLieThere(t *testing.T) {
	tree := newTree(t)
	odd := []string{"a b.prompt.md", "new\nline.prompt.md", "ä日本.prompt.md", "\xff.prompt.md", "-.prompt.md", "$(x).prompt.md", strings.Repeat("n", 240) + ".prompt.md"}
	for _, name := range odd {
		drop(t, tree, "inbox/"+name, "x")
	}
	drop(t, tree, "inbox/.x.prompt.md.1.1.tmp", "half")
	drop(t, tree, "inbox/notes.md", "x")
	drop(t, tree, "inbox/sub/.branch", "feature/x\n")
	drop(t, tree, "inbox/empty/.branch", "\n")
	err := errors.Join(os.Mkdir(filepath.Join(tree.Inbox(), "dir.prompt.md"), 0o755), os.Symlink("/etc/passwd", filepath.Join(tree.Inbox(), "link.prompt.md")),
		os.Symlink(t.TempDir(), filepath.Join(tree.Inbox(), "linked")), syscall.Mkfifo(filepath.Join(tree.Inbox(), "pipe.prompt.md"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	l, err := tree.Scan()
	if err != nil {
		t.Fatal(err)
	}
	strays := map[string]bool{}
	for _, s := range l.Strays {
		strays[s.Path] = true
	}
	if len(l.Files) != len(odd) || len(l.Dirs) != 3 || l.Branches["sub"] != "feature/x" || l.Branches["empty"] == "" {
		t.Errorf("%d files, dirs %q, branches %q", len(l.Files), l.Dirs, l.Branches)
	}
	for _, want := range []string{"dir.prompt.md", "link.prompt.md", "pipe.prompt.md", "empty/.branch", "notes.md"} {
		if !strays[want] {
			t.Errorf("%s is not told of: %v", want, l.Strays)
		}
	}
	for _, f := range l.Files {
		if text, now, err := tree.Read(f.Rel, f.Name); text != "x" || now != f || err != nil || !tree.Still(f.Rel, f.Name, f.Inode) || tree.Still(f.Rel, f.Name, f.Inode+1) {
			t.Errorf("%+v: %q %+v %v", f, text, now, err)
		}
	}
}

// A prompt that somebody else has moved away is not told as finished, and one that cannot be moved is an error.
func TestFinishingWhatIsNotThere(t *testing.T) {
	tree := newTree(t)
	for _, n := range []kernel.PromptName{kernel.DonePrompt, kernel.ErrorPrompt} {
		if to, err := tree.Finish("gone.prompt.md", n); err != nil || to != "" {
			t.Errorf("%v: %q, %v", n, to, err)
		}
	}
	drop(t, tree, "inbox/d/x.done.md", "text")
	drop(t, tree, "finished/d", "a file in the place of the directory")
	if to, err := tree.Finish("d/x.prompt.md", kernel.DonePrompt); err == nil || to != "" || content(t, tree, "inbox/d/x.done.md") != "text" {
		t.Errorf("%q, %v", to, err)
	}
}

// No ended prompt is overwritten, neither in the inbox nor below finished.
func TestNamesAreUsedAgain(t *testing.T) {
	tree := newTree(t)
	for i := range 5 {
		drop(t, tree, "inbox/x.prompt.md", fmt.Sprint("text ", i))
		if err := tree.Fail("x.prompt.md", kernel.NewPrompt, fmt.Sprint("reason ", i)); err != nil {
			t.Fatal(err)
		}
		if content(t, tree, "inbox/x.error.txt") != fmt.Sprintf("reason %d\n", i) {
			t.Errorf("%q", content(t, tree, "inbox/x.error.txt"))
		}
	}
	for range 2 { // a second time is no error
		if to, err := tree.Finish("x.prompt.md", kernel.ErrorPrompt); err != nil || to != "" && content(t, tree, to) != "text 4" {
			t.Fatal(to, err)
		}
	}
	texts, _ := filepath.Glob(filepath.Join(tree.Home, "finished", "*.md"))
	reasons, _ := filepath.Glob(filepath.Join(tree.Home, "finished", "*.txt"))
	if len(texts) != 5 || len(reasons) != 5 {
		t.Errorf("%q %q", texts, reasons)
	}
	for _, at := range texts { // each reason is beside its prompt
		b, err := os.ReadFile(at)
		r, err2 := os.ReadFile(strings.TrimSuffix(at, ".md") + ".txt")
		if err != nil || err2 != nil || strings.TrimPrefix(string(b), "text ") != strings.TrimSuffix(strings.TrimPrefix(string(r), "reason "), "\n") {
			t.Errorf("%s: %q %q %v %v", at, b, r, err, err2)
		}
	}
}

// A crash may follow each step of tending; repeating it has the same result.
func TestTendingMayBeRepeated(t *testing.T) {
	tree := newTree(t)
	drop(t, tree, "inbox/d/x.running.md", "text")
	_, file, err := tree.Read("d/x.prompt.md", kernel.RunningPrompt)
	if err != nil {
		t.Fatal(err)
	}
	j := &kernel.Job{ID: kernel.JobID(strings.Repeat("a", 32)), Spec: kernel.Spec{Prompt: &kernel.Prompt{Owner: "o", Repository: "r", Branch: "f/x",
		File: tree.File("d/x.prompt.md", kernel.RunningPrompt), Rel: "d/x.prompt.md", Inode: file.Inode, SHA256: textSum, Archive: true}}}
	tend := func(want kernel.PromptName, archived bool) {
		t.Helper()
		for range 3 {
			found, kept, err := Tender{tree}.TendPrompt(j, want, j.State.Reason, nil)
			if err != nil || !found || kept != archived {
				t.Fatalf("%v %v %v", found, kept, err)
			}
		}
	}
	tend(kernel.RunningPrompt, false)
	if content(t, tree, "processed/o/r/f/x/"+string(j.ID)+"/prompt.md") != "text" {
		t.Error("no copy")
	}
	j.State.Status, j.State.Reason = kernel.Failed, "it broke"
	tend(kernel.ErrorPrompt, true)
	if content(t, tree, "inbox/d/x.error.md") != "text" || !strings.Contains(content(t, tree, "inbox/d/x.error.txt"), "it broke") ||
		content(t, tree, "failed/o/r/f/x/"+string(j.ID)+"/x.prompt.md") != "text" {
		t.Error("not named failed, or not archived")
	}
	drop(t, tree, "inbox/d/x.running.md", "a later one") // of the same name
	j.State.Status, j.State.Generation = kernel.Succeeded, 1
	tend(kernel.DonePrompt, false)
	if content(t, tree, "inbox/d/x.done.md") != "text" || content(t, tree, "inbox/d/x.running.md") != "a later one" || content(t, tree, "inbox/d/x.error.txt") != "" {
		t.Error("the later prompt was taken for this one")
	}
	if to, err := tree.Finish("d/x.prompt.md", kernel.DonePrompt); err != nil || to != "finished/d/x.done.md" {
		t.Fatal(to, err)
	}
	j.State.Status = kernel.Cancelled
	tend(kernel.ErrorPrompt, true)
	if content(t, tree, "finished/d/x.error.md") != "text" || content(t, tree, "finished/d/x.error.txt") == "" {
		t.Error("not renamed where it went")
	}
}

// A prompt that is gone before it could be copied leaves a note.
func TestNoInput(t *testing.T) {
	tree := newTree(t)
	j := &kernel.Job{ID: kernel.JobID(strings.Repeat("a", 32)), Spec: kernel.Spec{Prompt: &kernel.Prompt{Owner: "o", Repository: "r", Branch: "m",
		File: tree.File("x.prompt.md", kernel.RunningPrompt), Rel: "x.prompt.md", Inode: 1}}}
	if found, _, err := (Tender{tree}).TendPrompt(j, kernel.RunningPrompt, j.State.Reason, nil); found || err != nil {
		t.Fatal(found, err)
	}
	if note := content(t, tree, "processed/o/r/m/"+string(j.ID)+"/NO_INPUT.md"); !strings.Contains(note, j.Spec.Prompt.File) {
		t.Errorf("%q", note)
	}
	j.Spec.Prompt.File = "/etc/passwd"
	if _, _, err := (Tender{tree}).TendPrompt(j, kernel.RunningPrompt, j.State.Reason, nil); err == nil {
		t.Error("any file will do")
	}
}

// A prompt that is saved while it is claimed is a new prompt again, and its job, which has the text of before, is told that
// there is none. So it is after a kill between the two names, and if another prompt was dropped meanwhile, that one stays.
func TestAPromptThatIsSavedWhileItIsClaimed(t *testing.T) {
	for _, c := range []struct{ text, at, dropped string }{
		{"text", "x.prompt.md", ""},
		{"saved", "x.prompt.md", ""},
		{"saved", "x.running.md", ""},
		{"saved", "x.running.md", "another"},
	} {
		tree := newTree(t)
		drop(t, tree, "inbox/"+c.at, c.text)
		_, name, _ := inbox.PromptOf(c.at)
		_, file, err := tree.Read("x.prompt.md", name)
		if err != nil {
			t.Fatal(err)
		}
		if c.dropped != "" {
			drop(t, tree, "inbox/x.prompt.md", c.dropped)
		}
		j := &kernel.Job{ID: kernel.JobID(strings.Repeat("a", 32)), Spec: kernel.Spec{Prompt: &kernel.Prompt{Owner: "o", Repository: "r", Branch: "m", Inode: file.Inode,
			File: tree.File("x.prompt.md", kernel.RunningPrompt), Rel: "x.prompt.md", Claimed: time.Now(), SHA256: digest([]byte("text"))}}}
		same := c.text == "text"
		if found, _, err := (Tender{tree}).TendPrompt(j, kernel.RunningPrompt, "", nil); found != same || err != nil {
			t.Errorf("%+v: %v, %v", c, found, err)
		}
		want := []string{"", "saved"}
		switch {
		case same:
			want = []string{"text", ""}
		case c.dropped != "":
			want = []string{"saved", "another"}
		}
		if got := []string{content(t, tree, "inbox/x.running.md"), content(t, tree, "inbox/x.prompt.md")}; !slices.Equal(got, want) {
			t.Errorf("%+v: running and new prompt are %q, want %q", c, got, want)
		}
		if copied := content(t, tree, "processed/o/r/m/"+string(j.ID)+"/prompt.md"); copied == "saved" || same != (copied == "text") {
			t.Errorf("%+v: the copy says %q", c, copied)
		}
	}
}

// On a full disk no prompt is lost: it keeps its name until there is room.
func TestAFullDisk(t *testing.T) {
	dir := disktest.Small(t, 64<<10)
	tree := Tree{Home: dir, Now: time.Now} // this also covers an inbox on another file system
	if _, err := tree.Init(); err != nil {
		t.Fatal(err)
	}
	drop(t, tree, "inbox/x.running.md", "text")
	full := filepath.Join(dir, "full")
	if err := os.WriteFile(full, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("there is room")
	}
	if err := tree.Fail("x.prompt.md", kernel.RunningPrompt, strings.Repeat("why ", 5000)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
	if content(t, tree, "inbox/x.running.md") != "text" || content(t, tree, "inbox/x.error.txt") != "" {
		t.Error("half done")
	}
	if err := errors.Join(os.Remove(full), tree.Fail("x.prompt.md", kernel.RunningPrompt, "why")); err != nil {
		t.Fatal(err)
	}
	if content(t, tree, "inbox/x.error.md") != "text" || content(t, tree, "inbox/x.error.txt") != "why\n" {
		t.Error("not named")
	}
}

// Temporary files are not prompts, and are removed when they are old.
func TestTemporaryFilesAreSwept(t *testing.T) {
	tree := newTree(t)
	drop(t, tree, "inbox/.x.prompt.md.99.1.tmp", "half")
	for _, c := range []struct {
		later time.Duration
		left  string
	}{{time.Minute, "half"}, {2 * time.Hour, ""}} {
		tree.Now = func() time.Time { return time.Now().Add(c.later) }
		if l, err := tree.Scan(); err != nil || len(l.Files) != 0 || content(t, tree, "inbox/.x.prompt.md.99.1.tmp") != c.left {
			t.Errorf("after %v: %+v %v", c.later, l, err)
		}
	}
}

// Parsing any prompt does not panic. What it says survives Stamp, and so does
// the text.
func FuzzParsePrompt(f *testing.F) {
	for _, s := range []string{"", "text", "---\nflow: a\nset: {x: 1, y: [z]}\n---\nbody", "---\n&a [*a]\n---\n", "---\nvizier: {job_id: " + strings.Repeat("a", 32) + "}\nx: # c\n  - 1\n---\n",
		"---\n? [a]\n: b\nflow: x\n---\n", "---\n<<: {flow: x}\n---\n", "\ufeff---\r\npv: {job_id: x}\r\n---\r\n", "---\n!!binary x: 1\n---\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		front, body, err := ParsePrompt(text)
		if err != nil {
			if !errors.Is(err, kernel.ErrInvalid) {
				t.Fatalf("%v", err)
			}
			return
		}
		id := kernel.JobID(strings.Repeat("b", 32))
		stamped, err := Stamp(text, inbox.Front{Job: id, Set: map[string]string{"k": "v: 'x'\n#"}}, time.Unix(0, 0), "a \"b\"")
		if err != nil {
			return // only a mapping can be stamped
		}
		again, rest, err := ParsePrompt(stamped)
		if err != nil {
			t.Fatalf("%v\n%s", err, stamped)
		}
		if again.Job != id || again.Flow != front.Flow || again.Set["k"] != "v: 'x'\n#" || rest != body {
			t.Fatalf("%+v, %q became %+v, %q", front, body, again, rest)
		}
	})
}

// A stamp adds what Vizier is told, and leaves the rest of a prompt as it is.
func TestStamp(t *testing.T) {
	when, id := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), kernel.JobID(strings.Repeat("b", 32))
	own := "    job_id: \"" + string(id) + "\"\n    created_at: \"2026-01-02T03:04:05Z\"\n    source: \"web\"\n"
	for text, want := range map[string]string{
		"body\n": "---\nvizier:\n    job_id: \"" + string(id) + "\"\n    created_at: \"2026-01-02T03:04:05Z\"\n    source: \"web\"\n---\nbody\n",
		"---\nflow: a # its template\nvizier: {owner: o, job_id: " + strings.Repeat("a", 32) + "}\nother: [1, 2]\n---\nbody\n": "---\nflow: a # its template\nvizier: {owner: o, job_id: \"" + string(id) +
			"\", created_at: \"2026-01-02T03:04:05Z\", source: \"web\"}\nother: [1, 2]\n---\nbody\n",
		"---\n# what this is for\n\nflow: draft\n# below\n---\nbody\n": "---\n# what this is for\n\nflow: draft\n# below\n\nvizier:\n" + own + "---\nbody\n",
		"---\nother: &vizier x\n*vizier : {a: b}\n---\n":               "---\nother: &vizier x\n*vizier: {a: b}\nvizier:\n" + own + "---\n",
		"---\n# nothing is set\n---\nbody\n":                           "---\n# nothing is set\n\nvizier:\n" + own + "---\nbody\n",
	} {
		if got, err := Stamp(text, inbox.Front{Job: id}, when, "web"); got != want || err != nil {
			t.Errorf("%v:\n%s\nwant\n%s", err, got, want)
		}
	}
	all := inbox.Front{Flow: "f", Set: map[string]string{"b": "2", "a": "1"}, Job: id, Owner: "o", Repository: "r", Branch: "main"}
	want := "---\nset:\n    c: \"3\"\nvizier:\n    set:\n        b: \"2\"\n        a: \"1\"\n    flow: \"f\"\n    job_id: \"" + string(id) +
		"\"\n    owner: \"o\"\n    repository: \"r\"\n    branch: \"main\"\n    created_at: \"2026-01-02T03:04:05Z\"\n---\n"
	if got, err := Stamp("---\nset:\n    c: \"3\"\nvizier:\n    set: {b: \"0\"}\n---\n", all, when, ""); got != strings.Replace(want, "\n        b: \"2\"\n        a: \"1\"", " {b: \"2\", a: \"1\"}", 1) || err != nil {
		t.Errorf("%v:\n%s\nwant\n%s", err, got, want)
	}
}

// A pass costs only as much as the inbox holds: a scan with 10,000 finished
// prompts reads as many names as one with 10.
func BenchmarkScan(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint("finished=", n), func(b *testing.B) {
			tree := newTree(b)
			for i := range n {
				drop(b, tree, fmt.Sprintf("finished/p%d.done.md", i), "")
			}
			for i := range 20 {
				drop(b, tree, fmt.Sprintf("inbox/p%d.running.md", i), "")
			}
			b.ReportAllocs()
			for b.Loop() {
				if l, err := tree.Scan(); err != nil || len(l.Files) != 20 {
					b.Fatal(err)
				}
			}
		})
	}
}

// An error in front matter is found at any depth.
func TestFrontMatterThatMakesNoSense(t *testing.T) {
	for _, c := range []struct{ front, want string }{
		{"vizier:\n  flow: &x draft\n  branch: *x\n", "line 4: an alias"},
		{"vizier:\n  flow: draft\n  flow: merge\n", `line 4: "flow" stands twice`},
		{"vizier:\n  set:\n    b: 1\n    b: 2\n", `line 5: "b" stands twice`},
		{"vizier: {set: {b: {c: {d: {e: 1}}}}}\n", "line 2: too deep"},
		{"flow: a\nset: {x: 1}\nflow: b\n", "line 4: flow stands twice"},
		{"flow: [\n", "front matter: line "},
		{"- flow\n", "line 2: expected keys and values"},
		{"flow: a\n--- # more\nother: b\n", "begins another document"},
		{"flow: a\n--- [\n", "begins another document"},
		{"other: " + strings.Repeat("x", maxFront) + "\n", "more than 65536"},
	} {
		if _, _, err := ParsePrompt("---\n" + c.front + "---\ntext\n"); !errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.front, err, c.want)
		}
	}
}

// Keys that are not for Vizier may be of any kind, and so may the old one.
func TestFrontMatterOfOthers(t *testing.T) {
	front, body, err := ParsePrompt("---\nother: &x [1, 2]\nother: *x\npv: {a: *x}\nflow: draft\n---\ntext\n")
	if err != nil || front.Flow != "draft" || body != "text\n" {
		t.Errorf("%+v, %q, %v", front, body, err)
	}
	if front, _, err = ParsePrompt("---\nother: &flow x\n*flow : z\n---\ntext\n"); err != nil || front.Flow != "" {
		t.Errorf("an alias is taken for a key: %+v, %v", front, err)
	}
	if front, _, err = ParsePrompt("---\nset: {a: 1}\n---\ntext\n"); err != nil || front.Set["a"] != "1" {
		t.Errorf("%+v, %v", front, err)
	}
	for text, want := range map[string]string{"---\n~\n---\ntext\n": "text\n", "---\n---\ntext\n": "text\n", "text\n": "text\n"} {
		if f, body, err := ParsePrompt(text); err != nil || f.Flow != "" || body != want {
			t.Errorf("%q: %+v, %q, %v", text, f, body, err)
		}
	}
	for text, want := range map[string]string{"a\x00b": "", "---\nflow: draft\n": "", "---\nflow: [\n---\n": "front matter: "} {
		if f, body, err := ParsePrompt(text); !errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), want) || body != "" || f.Flow != "" {
			t.Errorf("%q: %+v, %q, %v", text, f, body, err)
		}
		if out, err := Stamp(text, inbox.Front{}, time.Now(), "here"); !errors.Is(err, kernel.ErrInvalid) || out != "" {
			t.Errorf("%q is stamped: %q, %v", text, out, err)
		}
	}
}

// A prompt that somebody renamed is found by its inode number, its content and
// its modification time, and gets the name for its run's end. Another prompt
// with that number is left alone.
func TestARenamedPromptIsFound(t *testing.T) {
	for what, c := range map[string]struct {
		change func(tree Tree, at string) error
		want   string // content of the file with the name that the job's prompt gets
	}{
		"renamed": {func(Tree, string) error { return nil }, "text"},
		"written since": {func(_ Tree, at string) error {
			return os.Chtimes(at, time.Time{}, time.Now().Add(time.Hour))
		}, ""},
		"other content": {func(_ Tree, at string) error {
			old, err := os.Stat(at)
			return errors.Join(err, os.WriteFile(at, []byte("txet"), 0o600), os.Chtimes(at, time.Time{}, old.ModTime()))
		}, ""},
	} {
		tree := newTree(t)
		drop(t, tree, "inbox/x.running.md", "text")
		_, file, err := tree.Read("x.prompt.md", kernel.RunningPrompt)
		if err != nil {
			t.Fatal(err)
		}
		j := &kernel.Job{ID: kernel.JobID(strings.Repeat("a", 32)), Spec: kernel.Spec{Prompt: &kernel.Prompt{Owner: "o", Repository: "r", Branch: "m", Inode: file.Inode,
			SHA256: textSum, File: tree.File("x.prompt.md", kernel.RunningPrompt), Rel: "x.prompt.md", Claimed: time.Now().Add(time.Minute)}}}
		if _, _, err := (Tender{tree}).TendPrompt(j, kernel.RunningPrompt, j.State.Reason, nil); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(tree.Inbox(), "d", "y.running.md")
		err = errors.Join(os.Mkdir(filepath.Dir(at), 0o755), os.Rename(filepath.Join(tree.Inbox(), "x.running.md"), at), c.change(tree, at))
		if err != nil {
			t.Fatal(err)
		}
		j.State.Status, j.State.Prompt.Named = kernel.Succeeded, kernel.RunningPrompt
		if found, _, err := (Tender{tree}).TendPrompt(j, kernel.DonePrompt, j.State.Reason, nil); !found || err != nil {
			t.Fatalf("%s: %v %v", what, found, err)
		}
		if have := content(t, tree, "inbox/x.done.md"); have != c.want {
			t.Errorf("%s: x.done.md holds %q, want %q", what, have, c.want)
		}
		if left := content(t, tree, "inbox/d/y.running.md"); (left == "") != (c.want != "") {
			t.Errorf("%s: y.running.md holds %q", what, left)
		}
	}
}

// Giving a job's prompt the running name is idempotent and removes the reason
// of an earlier failure, but not a reason that has its own prompt.
func TestAClaimMayBeRepeated(t *testing.T) {
	for _, failed := range []bool{false, true} {
		tree := newTree(t)
		drop(t, tree, "inbox/x.prompt.md", "text")
		drop(t, tree, "inbox/x.error.txt", "why")
		if failed {
			drop(t, tree, "inbox/x.error.md", "an earlier one")
		}
		_, file, err := tree.Read("x.prompt.md", kernel.NewPrompt)
		if err != nil {
			t.Fatal(err)
		}
		j := &kernel.Job{ID: kernel.JobID(strings.Repeat("a", 32)), Spec: kernel.Spec{Prompt: &kernel.Prompt{Owner: "o", Repository: "r", Branch: "m", Inode: file.Inode,
			File: tree.File("x.prompt.md", kernel.RunningPrompt), Rel: "x.prompt.md", Claimed: time.Now()}}}
		for range 3 {
			if found, _, err := (Tender{tree}).TendPrompt(j, kernel.RunningPrompt, j.State.Reason, nil); !found || err != nil {
				t.Fatal(found, err)
			}
			if content(t, tree, "inbox/x.running.md") != "text" || content(t, tree, "inbox/x.prompt.md") != "" || (content(t, tree, "inbox/x.error.txt") != "") != failed {
				t.Errorf("failed before: %v; running %q, reason %q", failed, content(t, tree, "inbox/x.running.md"), content(t, tree, "inbox/x.error.txt"))
			}
		}
		drop(t, tree, "inbox/x.prompt.md", "a later one")
		j.State.Prompt.Named = kernel.RunningPrompt
		if _, _, err := (Tender{tree}).TendPrompt(j, kernel.RunningPrompt, j.State.Reason, nil); err != nil || content(t, tree, "inbox/x.prompt.md") != "a later one" {
			t.Errorf("%v: the later one is gone", err)
		}
	}
}

// An inbox that is not there cannot be listed, and neither can what it has finished.
func TestWhatCannotBeListedIsTold(t *testing.T) {
	tree := newTree(t)
	if err := os.RemoveAll(filepath.Join(tree.Home, inbox.Dir)); err != nil {
		t.Fatal(err)
	}
	if l, err := tree.Scan(); !errors.Is(err, ErrNoInbox) {
		t.Errorf("%+v, %v", l, err)
	}
	if gone, err := tree.Gone(); !errors.Is(err, ErrNoInbox) {
		t.Errorf("failed prompts: %v, %v", gone, err)
	}
}

// A directory that cannot be listed is a stray and keeps nothing else back; an inbox that cannot be is an error.
func TestADirectoryThatCannotBeListed(t *testing.T) {
	tree := newTree(t)
	long := strings.Repeat("x", 1000)
	for depth, told := range []bool{false, true, true} {
		var l inbox.Listing
		err := tree.with(func(c fs.Confined) error { return tree.scan(c, &l, long, depth) })
		if (err == nil) != told || len(l.Strays) > 0 != told || told && l.Strays[0].Path != long || len(l.Dirs) > 0 {
			t.Errorf("at depth %d: %+v, %v", depth, l, err)
		}
	}
}
