package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

// textSum is the SHA-256 of "text".
const textSum = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"

// promptJob returns a job that stands for the prompt rel, whose file has the
// given inode number.
func promptJob(tree Tree, n int, rel string, inode uint64) *kernel.Job {
	return &kernel.Job{ID: kernel.JobID(fmt.Sprintf("%032x", n)), Spec: kernel.Spec{Prompt: &kernel.Prompt{Owner: "o", Repository: "r", Branch: "b",
		File: tree.File(rel, kernel.RunningPrompt), Rel: rel, Inode: inode, SHA256: textSum}}}
}

func inodeOf(t testing.TB, tree Tree, name string) uint64 {
	t.Helper()
	list, err := tree.Scan()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list.Files {
		if inbox.NameOf(f.Name, f.Rel) == name {
			return f.Inode
		}
	}
	t.Fatalf("no %s in %+v", name, list)
	return 0
}

// fileNames returns all files of the trees except the locks.
func fileNames(t testing.TB, tree Tree) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(tree.Home, func(path string, d iofs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(tree.Home, path); !d.IsDir() && d.Name() != ".lock" {
			out = append(out, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

// Files in the trees that belong to nothing are reported, with a fix if they
// may be removed.
func TestInspect(t *testing.T) {
	tree := newTree(t)
	tree.Now = func() time.Time { return time.Now().Add(61 * time.Minute) }
	known, gone := strings.Repeat("a", 32), strings.Repeat("b", 32)
	for _, name := range []string{"inbox/x.error.txt", "inbox/y.error.txt", "inbox/y.error.md", "inbox/z.error.txt", "inbox/z.running.md", "inbox/.n.1.2.tmp", "inbox/.keep", "inbox/d/e/.m.tmp", "inbox/d/w.error.txt",
		"finished/v.error.txt", "processed/o/r/b/" + known + "/prompt.md", "processed/o/r/b/" + gone + "/prompt.md", "failed/o/r/b/" + gone + "/x.error.txt", "inbox/" + gone + "/x.prompt.md", "inbox/tmp.tmp"} {
		drop(t, tree, name, "")
	}
	odd, err := tree.Inspect(map[kernel.JobID]bool{kernel.JobID(known): true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range odd {
		text := o.Path + ": " + o.Text
		if o.Fix != nil {
			text += " [fix]"
			if err := o.Fix(); err != nil {
				t.Error(err)
			}
		}
		got = append(got, text)
	}
	slices.Sort(got)
	want := []string{"failed/o/r/b/" + gone + ": the copy of a prompt whose job is not on record", "finished/v.error.txt: a reason without its prompt [fix]", "inbox/.n.1.2.tmp: a temporary file that somebody left [fix]",
		"inbox/d/e/.m.tmp: a temporary file that somebody left [fix]", "inbox/d/w.error.txt: a reason without its prompt [fix]", "inbox/x.error.txt: a reason without its prompt [fix]",
		"processed/o/r/b/" + gone + ": the copy of a prompt whose job is not on record"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if odd, err = tree.Inspect(map[kernel.JobID]bool{kernel.JobID(known): true}); len(odd) != 2 || err != nil {
		t.Errorf("after the fixes: %+v %v", odd, err)
	}
	tree.Now = func() time.Time { return time.Now().Add(59 * time.Minute) }
	drop(t, tree, "inbox/.n.1.2.tmp", "")
	if odd, err = tree.Inspect(map[kernel.JobID]bool{kernel.JobID(known): true, kernel.JobID(gone): true}); len(odd) != 0 || err != nil {
		t.Errorf("of what is young: %+v %v", odd, err)
	}
}

// A watched directory reports prompts and markers in it, but not files that are
// being written or that are elsewhere.
func TestNotices(t *testing.T) {
	tree := newTree(t)
	drop(t, tree, "inbox/a/old.md", "")
	drop(t, tree, "inbox/b/old.md", "")
	n := NewNotices(tree)
	defer n.Close()
	if n.notify == nil {
		if w, err := fsnotify.NewWatcher(); err == nil {
			t.Error(w.Close(), "nothing is watched")
		}
		t.Skip("the system allows no watch")
	}
	if !n.Watch([]string{"", "a"}) || n.Watch([]string{"a", ""}) || !n.Watch([]string{"", "a", "b"}) || n.Watch([]string{"a"}) || n.Watch([]string{"a", "nowhere"}) {
		t.Error("what is watched anew")
	}
	if have := n.notify.WatchList(); len(have) != 1 || have[0] != filepath.Join(tree.Inbox(), "a") {
		t.Errorf("watches %v", have)
	}
	heard := func() bool {
		select {
		case <-n.Changed():
			return true
		case <-time.After(10 * time.Second):
			return false
		}
	}
	drop(t, tree, "inbox/a/.x.tmp", "")
	drop(t, tree, "inbox/b/x.prompt.md", "")
	select {
	case <-n.Changed():
		t.Error("heard of a temporary file, or of another directory")
	case <-time.After(50 * time.Millisecond):
	}
	drop(t, tree, "inbox/a/"+inbox.BranchMarker, "m")
	if !heard() {
		t.Error("heard of no marker")
	}
	drop(t, tree, "inbox/a/x.prompt.md", "")
	if !heard() {
		t.Error("heard of no prompt")
	}
}

// Where the system allows no watch, nothing is watched.
func TestNoticesWithoutAWatch(t *testing.T) {
	n := &Notices{tree: newTree(t)}
	defer n.Close()
	if n.Watch([]string{""}) {
		t.Error("a directory is watched anew")
	}
}

// A prompt stays where it is if no name is free for it below finished, and goes to another file system as to its own.
func TestWhereAPromptGoes(t *testing.T) {
	tree := newTree(t)
	tree.Now = func() time.Time { return time.Unix(1e9, 0) }
	names := []string{"finished/x.done.md", "finished/x." + strconv.FormatInt(1e18, 36) + strconv.Itoa(os.Getpid()%10) + ".done.md"}
	for _, name := range names {
		drop(t, tree, "inbox/x.done.md", "text")
		if to, err := tree.Finish("x.prompt.md", kernel.DonePrompt); to != name || err != nil || content(t, tree, to) != "text" {
			t.Errorf("to %q, want %q: %v", to, name, err)
		}
	}
	drop(t, tree, "inbox/x.done.md", "another")
	if to, err := tree.Finish("x.prompt.md", kernel.DonePrompt); to != "" || err == nil || err.Error() != "move x.done.md below finished: no free name" || content(t, tree, "inbox/x.done.md") != "another" {
		t.Errorf("to %q: %v", to, err)
	}
	drop(t, tree, "inbox/y.error.md", "failed")
	drop(t, tree, "inbox/y.error.txt", "why")
	disktest.Bind(t, filepath.Join(tree.Home, "finished"))
	if to, err := tree.Finish("y.prompt.md", kernel.ErrorPrompt); to != "finished/y.error.md" || err != nil || content(t, tree, to) != "failed" || content(t, tree, "finished/y.error.txt") != "why" ||
		content(t, tree, "inbox/y.error.md")+content(t, tree, "inbox/y.error.txt") != "" {
		t.Errorf("to %q: %v; files %s", to, err, fileNames(t, tree))
	}
	drop(t, tree, "inbox/z.done.md", strings.Repeat("x", 1<<20))
	if err := tree.with(func(c fs.Confined) error { return move(c, "inbox/z.done.md", "finished/y.error.md") }); !errors.Is(err, iofs.ErrExist) || content(t, tree, "finished/y.error.md") != "failed" || content(t, tree, "inbox/z.done.md") == "" {
		t.Errorf("over another: %v", err)
	}
}

// A job's prompt is the file with its inode number, whatever its name; or a
// file with the running name, as long as no other prompt can have that name.
func TestWhichFileIsAJobsPrompt(t *testing.T) {
	sum := func(text string) string { h := sha256.Sum256([]byte(text)); return hex.EncodeToString(h[:]) }
	hour := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		lies   string // where the file is
		other  bool   // it has another inode number
		taken  bool   // the inode number is another job's
		change func(*kernel.Job)
		found  bool
	}{
		"running":                             {lies: "inbox/x.running.md", found: true},
		"done":                                {lies: "inbox/x.done.md", found: true},
		"failed":                              {lies: "inbox/x.error.md", found: true},
		"finished":                            {lies: "finished/x.done.md", found: true},
		"finished, and failed":                {lies: "finished/x.error.md", found: true},
		"another's":                           {lies: "inbox/x.running.md", taken: true},
		"written anew":                        {lies: "inbox/x.running.md", other: true, found: true},
		"done, and another file":              {lies: "inbox/x.done.md", other: true},
		"running, and the job ended before":   {lies: "inbox/x.running.md", change: func(j *kernel.Job) { j.State.Status, j.State.Finished = kernel.Failed, time.Now().Add(-time.Hour) }},
		"running, and the job ended since":    {lies: "inbox/x.running.md", change: func(j *kernel.Job) { j.State.Status, j.State.Finished = kernel.Failed, hour }, found: true},
		"running, and it never ran":           {lies: "inbox/x.running.md", change: func(j *kernel.Job) { j.State.Status = kernel.Cancelled }, found: true},
		"rewound, and the same text":          {lies: "inbox/x.running.md", change: func(j *kernel.Job) { j.State.Generation, j.Spec.Prompt.SHA256 = 1, sum("text") }, found: true},
		"ended, and another text":             {lies: "inbox/x.done.md", change: func(j *kernel.Job) { j.Spec.Prompt.SHA256 = sum("other") }},
		"rewound, and another text":           {lies: "inbox/x.running.md", change: func(j *kernel.Job) { j.State.Generation, j.Spec.Prompt.SHA256 = 1, sum("other") }},
		"rewound, and written anew":           {lies: "inbox/x.running.md", other: true, change: func(j *kernel.Job) { j.State.Generation, j.Spec.Prompt.SHA256 = 1, sum("text") }},
		"rewound, and finished with a stamp":  {lies: "finished/x.abc.done.md", change: func(j *kernel.Job) { j.State.Generation, j.Spec.Prompt.Claimed = 1, hour }, found: true},
		"it made way for another":             {lies: "finished/y.done.md", change: func(j *kernel.Job) { j.Spec.Prompt.Claimed = hour }, found: true},
		"finished, and written later":         {lies: "finished/x.abc.done.md"},
		"rewound, and another with a stamp":   {lies: "finished/x.abc.done.md", other: true, change: func(j *kernel.Job) { j.State.Generation = 1 }},
		"rewound, and stamped like no prompt": {lies: "finished/x.abc.txt", change: func(j *kernel.Job) { j.State.Generation = 1 }},
		"rewound, and of another name":        {lies: "finished/y.abc.done.md", change: func(j *kernel.Job) { j.State.Generation = 1 }},
		"gone":                                {lies: "inbox/y.running.md"},
	} {
		tree := newTree(t)
		drop(t, tree, c.lies, "text")
		info, err := os.Stat(filepath.Join(tree.Home, c.lies))
		if err != nil {
			t.Fatal(err)
		}
		inode := inodeNumber(info)
		j := promptJob(tree, 1, "x.prompt.md", inode)
		var others []uint64
		if c.other {
			j.Spec.Prompt.Inode++
		}
		if c.taken {
			others = []uint64{5, inode}
		}
		if c.change != nil {
			c.change(j)
		}
		found, archived, err := Tender{tree}.TendPrompt(j, kernel.RunningPrompt, j.State.Reason, others)
		if found != c.found || archived || err != nil {
			t.Errorf("%s: %t %t %v", name, found, archived, err)
		}
		copyOf := content(t, tree, "processed/o/r/b/"+string(j.ID)+"/prompt.md")
		note := content(t, tree, "processed/o/r/b/"+string(j.ID)+"/NO_INPUT.md")
		if (copyOf == "text") != c.found || (note == "") != c.found {
			t.Errorf("%s: the copy is %q, the note %q", name, copyOf, note)
		}
	}
}

// The name of a prompt follows its job, in the inbox and after it has left. Its
// reason is beside it while it is called failed.
func TestNamesFollowTheJob(t *testing.T) {
	for name, c := range map[string]struct {
		lies   []string
		want   kernel.PromptName
		change func(*kernel.Job)
		after  string
	}{
		"done":                       {[]string{"inbox/d/x.running.md"}, kernel.DonePrompt, nil, "inbox/d/x.done.md"},
		"done over one that is":      {[]string{"inbox/d/x.running.md", "inbox/d/x.done.md"}, kernel.DonePrompt, nil, "finished/d/x.done.md inbox/d/x.done.md"},
		"failed":                     {[]string{"inbox/d/x.running.md"}, kernel.ErrorPrompt, nil, "inbox/d/x.error.md inbox/d/x.error.txt"},
		"running again":              {[]string{"inbox/d/x.error.md", "inbox/d/x.error.txt"}, kernel.RunningPrompt, nil, "inbox/d/x.running.md"},
		"running beside another":     {[]string{"inbox/d/x.error.md", "inbox/d/x.error.txt", "inbox/d/x.running.md"}, kernel.RunningPrompt, nil, "inbox/d/x.error.md inbox/d/x.error.txt inbox/d/x.running.md"},
		"done after it failed":       {[]string{"inbox/d/x.error.md", "inbox/d/x.error.txt"}, kernel.DonePrompt, nil, "inbox/d/x.done.md"},
		"finished, and running":      {[]string{"finished/d/x.error.md", "finished/d/x.error.txt"}, kernel.RunningPrompt, nil, "finished/d/x.error.md finished/d/x.error.txt"},
		"finished, and done":         {[]string{"finished/d/x.error.md", "finished/d/x.error.txt"}, kernel.DonePrompt, nil, "finished/d/x.done.md"},
		"finished, and done already": {[]string{"finished/d/x.done.md"}, kernel.DonePrompt, nil, "finished/d/x.done.md"},
		"finished, and failed":       {[]string{"finished/d/x.done.md"}, kernel.ErrorPrompt, nil, "finished/d/x.error.md finished/d/x.error.txt"},
		"archived":                   {[]string{"inbox/d/x.running.md"}, kernel.ErrorPrompt, func(j *kernel.Job) { j.Spec.Prompt.Archive = true }, "failed/o/r/b/ID/x.prompt.md inbox/d/x.error.md inbox/d/x.error.txt"},
		"archived, but it is done":   {[]string{"inbox/d/x.running.md"}, kernel.DonePrompt, func(j *kernel.Job) { j.Spec.Prompt.Archive = true }, "inbox/d/x.done.md"},
	} {
		tree := newTree(t)
		for _, at := range c.lies {
			drop(t, tree, at, "text")
		}
		info, err := os.Stat(filepath.Join(tree.Home, c.lies[0]))
		if err != nil {
			t.Fatal(err)
		}
		j := promptJob(tree, 1, "d/x.prompt.md", inodeNumber(info))
		if c.change != nil {
			c.change(j)
		}
		if name == "running beside another" {
			j.State.Generation = 1
		}
		for range 2 {
			found, archived, err := Tender{tree}.TendPrompt(j, c.want, j.State.Reason, nil)
			if !found || err != nil || archived != strings.HasPrefix(c.after, "failed") {
				t.Errorf("%s: %t %t %v", name, found, archived, err)
			}
		}
		got := strings.ReplaceAll(fileNames(t, tree), string(j.ID), "ID")
		if got = strings.TrimSuffix(got, " processed/o/r/b/ID/prompt.md"); got != c.after {
			t.Errorf("%s: %s\nwant %s", name, got, c.after)
		}
	}
}

func TestReasonsOfPrompts(t *testing.T) {
	tree := newTree(t)
	drop(t, tree, "inbox/x.running.md", "text")
	j := promptJob(tree, 2, "x.prompt.md", inodeOf(t, tree, "x.running.md"))
	if _, _, err := (Tender{tree}).TendPrompt(j, kernel.ErrorPrompt, "failed: why", nil); err != nil {
		t.Fatal(err)
	}
	if got := content(t, tree, "inbox/x.error.txt"); got != fmt.Sprintf("job %[1]s failed: why\nnext: vizier why %[1]s\nid: %[1]s\n", j.ID) {
		t.Errorf("%q", got)
	}
	odd := promptJob(tree, 3, "x.prompt.md", 1)
	odd.Spec.Prompt.File = "/elsewhere/x.running.md"
	if _, _, err := (Tender{tree}).TendPrompt(odd, kernel.DonePrompt, odd.State.Reason, nil); err == nil || !strings.Contains(err.Error(), "does not end in x.running.md") {
		t.Error(err)
	}
	odd.Spec.Prompt.File = "inbox/x.running.md"
	if _, _, err := (Tender{tree}).TendPrompt(odd, kernel.DonePrompt, odd.State.Reason, nil); err == nil {
		t.Error("a relative home was taken")
	}
}

func TestLimitsOfPrompts(t *testing.T) {
	tree := newTree(t)
	drop(t, tree, "inbox/full.running.md", strings.Repeat("x", MaxPrompt))
	drop(t, tree, "inbox/more.running.md", strings.Repeat("x", MaxPrompt+1))
	if text, _, err := tree.Read("full.prompt.md", kernel.RunningPrompt); err != nil || len(text) != MaxPrompt {
		t.Errorf("%d %v", len(text), err)
	}
	if _, _, err := tree.Read("more.prompt.md", kernel.RunningPrompt); !errors.Is(err, kernel.ErrInvalid) {
		t.Error(err)
	}
	if _, _, err := tree.Read("none.prompt.md", kernel.RunningPrompt); !errors.Is(err, iofs.ErrNotExist) {
		t.Error(err)
	}
	deep := strings.Repeat("d/", maxDepth)
	drop(t, tree, "inbox/"+deep+"x.prompt.md", "")
	drop(t, tree, "inbox/"+deep+"e/x.prompt.md", "")
	drop(t, tree, "inbox/"+deep+"y.error.txt", "")
	drop(t, tree, "inbox/"+deep+"e/y.error.txt", "")
	if odd, err := tree.Inspect(nil); err != nil || len(odd) != 1 || odd[0].Path != "inbox/"+deep+"y.error.txt" {
		t.Errorf("odd are %+v, %v", odd, err)
	}
	list, err := tree.Scan()
	if err != nil || len(list.Strays) != 1 || list.Strays[0] != (inbox.Stray{Path: deep + "e", Why: "too deep"}) || len(list.Dirs) != maxDepth+1 || inodeOf(t, tree, deep+"x.prompt.md") == 0 {
		t.Errorf("%+v, %d directories, %v", list.Strays, len(list.Dirs), err)
	}
}

// Drop does nothing if a file has one of the prompt's names.
func TestDropAndMark(t *testing.T) {
	for _, word := range []string{"prompt", "running", "done", "error"} {
		tree := newTree(t)
		drop(t, tree, "inbox/x."+word+".md", "old")
		if err := tree.Drop("x.prompt.md", "new"); !errors.Is(err, iofs.ErrExist) || content(t, tree, "inbox/x."+word+".md") != "old" {
			t.Errorf("%s: %v", word, err)
		}
	}
	tree := newTree(t)
	if err := errors.Join(tree.Drop("a/x.prompt.md", "new"), tree.Mark("a", "feature/x")); err != nil || content(t, tree, "inbox/a/x.prompt.md") != "new" || content(t, tree, "inbox/a/.branch") != "feature/x\n" {
		t.Error(err)
	}
	f, free, err := tree.Lock()
	if err != nil || !free {
		t.Fatal(free, err)
	}
	if _, again, err := tree.Lock(); err != nil || again {
		t.Error(again, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if made, err := tree.Init(); made || err != nil {
		t.Error(made, err)
	}
	if err := os.RemoveAll(filepath.Join(tree.Home, "failed")); err != nil {
		t.Fatal(err)
	}
	if made, err := tree.Init(); !made || err != nil {
		t.Error(made, err)
	}
}

func inodeNumber(info os.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// Failed prompts below finished are found at any depth, and why they failed is read where they are.
func TestWhatIsToldOfFailedPrompts(t *testing.T) {
	tree := newTree(t)
	for name, text := range map[string]string{"finished/x.error.md": "x", "finished/x.error.txt": "why x\n", "finished/d/e/y.error.md": "y", "finished/d/e/y.error.txt": " why y \n", "finished/z.done.md": "z",
		"inbox/x.error.md": "x", "inbox/x.error.txt": "another\n", "finished/odd.txt": ""} {
		drop(t, tree, name, text)
	}
	if err := os.Mkdir(filepath.Join(tree.Home, "finished", "dir.error.md"), 0o700); err != nil {
		t.Fatal(err)
	}
	gone, err := tree.Gone()
	var names []string
	for _, f := range gone {
		names = append(names, fmt.Sprint(f.Rel, " ", f.Name, " ", f.Size))
	}
	if slices.Sort(names); err != nil || !slices.Equal(names, []string{"d/e/y.prompt.md error 1", "x.prompt.md error 1"}) {
		t.Errorf("%q, %v", names, err)
	}
	for _, row := range []struct {
		rel      string
		finished bool
		want     string
	}{{"x.prompt.md", true, "why x"}, {"x.prompt.md", false, "another"}, {"d/e/y.prompt.md", true, "why y"}, {"d/e/y.prompt.md", false, ""}, {"z.prompt.md", true, ""}} {
		why, at := tree.Why(row.rel, row.finished)
		if why != row.want || at.IsZero() != (row.want == "") || row.want != "" && time.Since(at).Abs() > time.Hour {
			t.Errorf("%s, finished %v: %q at %s", row.rel, row.finished, why, at)
		}
	}
	drop(t, tree, "finished/"+strings.Repeat("d/", maxDepth+1)+"deep.error.md", "")
	if gone, err := tree.Gone(); err != nil || len(gone) != 2 {
		t.Errorf("too deep: %+v, %v", gone, err)
	}
}

// What is in the way of a prompt's end is an error, and no text is lost. Once the way is free, the end is as if nothing
// had been there.
func TestWhatIsInTheWayOfAPromptsEnd(t *testing.T) {
	const running = "inbox/d/x.running.md"
	job := strings.Repeat("0", 31) + "2"
	for name, row := range map[string]struct {
		way  string // a directory, or a file if it ends in !
		want kernel.PromptName
	}{
		"a directory for the reason":           {way: "inbox/d/x.error.txt", want: kernel.ErrorPrompt},
		"a file for the directory of copies":   {way: "processed!", want: kernel.DonePrompt},
		"a file for the directory of failures": {way: "failed!", want: kernel.ErrorPrompt},
		"a directory of that name":             {way: "failed/o/r/b/" + job + "/x.prompt.md", want: kernel.ErrorPrompt},
	} {
		t.Run(name, func(t *testing.T) {
			tree := newTree(t)
			drop(t, tree, running, "text")
			j := promptJob(tree, 2, "d/x.prompt.md", inodeOf(t, tree, "d/x.running.md"))
			j.Spec.Prompt.Archive = true
			way, isFile := strings.CutSuffix(row.way, "!")
			at := filepath.Join(tree.Home, way)
			if err := os.RemoveAll(at); err != nil {
				t.Fatal(err)
			}
			if isFile {
				drop(t, tree, way, "")
			} else if err := os.MkdirAll(at, 0o700); err != nil {
				t.Fatal(err)
			}
			tend := func() (bool, error) {
				_, archived, err := (Tender{tree}).TendPrompt(j, row.want, "why", nil)
				return archived, err
			}
			if archived, err := tend(); err == nil || archived && row.way != "inbox/d/x.error.txt" || content(t, tree, running) != "text" {
				t.Errorf("%v, %v; files %s", archived, err, fileNames(t, tree))
			}
			if err := os.RemoveAll(at); err != nil {
				t.Fatal(err)
			}
			archived, err := tend()
			if err != nil || archived != (row.want == kernel.ErrorPrompt) || content(t, tree, inbox.Processed(j.Spec.Prompt, j.ID)) != "text" ||
				content(t, tree, path.Join(inbox.Dir, inbox.NameOf(row.want, "d/x.prompt.md"))) != "text" || content(t, tree, running) != "" ||
				archived && content(t, tree, inbox.Failed(j.Spec.Prompt, j.ID)) != "text" {
				t.Errorf("%v, %v; files %s", archived, err, fileNames(t, tree))
			}
		})
	}
}

// A prompt that was moved below finished meanwhile gets the name for its run's end there, beside one that has it.
func TestAnEndBelowFinished(t *testing.T) {
	tree := newTree(t)
	drop(t, tree, "inbox/x.done.md", "text")
	drop(t, tree, "finished/x.error.md", "an earlier one")
	j := promptJob(tree, 2, "x.prompt.md", inodeOf(t, tree, "x.done.md"))
	j.Spec.Prompt.Claimed = time.Now().Add(time.Minute)
	if err := os.Rename(filepath.Join(tree.Home, "inbox", "x.done.md"), filepath.Join(tree.Home, "finished", "x.done.md")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (Tender{tree}).TendPrompt(j, kernel.ErrorPrompt, "why", nil); err != nil {
		t.Fatal(err)
	}
	stamped := "finished/x." + string(j.ID)
	if content(t, tree, "finished/x.error.md") != "an earlier one" || content(t, tree, stamped+".error.md") != "text" || !strings.Contains(content(t, tree, stamped+".error.txt"), "why") ||
		content(t, tree, "finished/x.done.md") != "" {
		t.Errorf("files %s", fileNames(t, tree))
	}
	if _, _, err := (Tender{tree}).TendPrompt(j, kernel.DonePrompt, "", nil); err != nil {
		t.Fatal(err)
	}
	if content(t, tree, stamped+".done.md") != "text" || content(t, tree, stamped+".error.txt") != "" {
		t.Errorf("after another attempt: files %s", fileNames(t, tree))
	}
}

// Of what lies below finished, only files that are called failed prompts are told as such.
func TestWhichFinishedPromptsFailed(t *testing.T) {
	tree := newTree(t)
	for _, rel := range []string{"x.error.md", "x.error.txt", "x.done.md", "notes.md", "d/y.error.md", "d/link/z.error.md"} {
		drop(t, tree, "finished/"+rel, "text")
	}
	below := filepath.Join(tree.Home, "finished")
	if err := errors.Join(os.Symlink("x.error.md", filepath.Join(below, "link.error.md")), syscall.Mkfifo(filepath.Join(below, "pipe.error.md"), 0o600),
		os.Mkdir(filepath.Join(below, "dir.error.md"), 0o700), os.Rename(filepath.Join(below, "d/link"), filepath.Join(tree.Home, "away")), os.Symlink("../../away", filepath.Join(below, "d/link"))); err != nil {
		t.Fatal(err)
	}
	files, err := tree.Gone()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		if got = append(got, f.Rel); f.Name != kernel.ErrorPrompt || f.Size != 4 || f.Inode == 0 || f.Modified.IsZero() || f.Changed.IsZero() {
			t.Errorf("%+v", f)
		}
	}
	slices.Sort(got)
	if want := []string{"d/y.prompt.md", "x.prompt.md"}; !slices.Equal(got, want) {
		t.Errorf("failed are %q, want %q", got, want)
	}
}
