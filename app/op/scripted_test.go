package op

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// scripted is a world in which git answers what is said here, by the method: a value, an error, a function
// of what it is given, or nothing if it is not here.
type scripted struct {
	*desk
	env     *Env
	n       *Node
	stderr  *bytes.Buffer
	answers map[string]any
	asked   []string // with what
}

func newScripted(t *testing.T, answers map[string]any) *scripted {
	t.Helper()
	d, env, n := deskNode(t, "git.integrate_plan_branch", "")
	s := &scripted{d, env, n, new(bytes.Buffer), answers, nil}
	env.Stderr = s.stderr
	answer := func(name string, args []any, do func() (any, error)) (any, error) {
		if _, is := s.answers[name]; !is && do != nil {
			return do()
		}
		s.asked = append(s.asked, strings.TrimSpace(name+" "+fmt.Sprintln(args...)))
		if err, is := s.answers[name].(error); is {
			return nil, err
		}
		if answer, is := s.answers[name].(func([]any) any); is {
			return answer(args), nil
		}
		return s.answers[name], nil
	}
	env.Git = gitCalls{nil, func(name string, args []any, _ func() (any, error)) (any, error) { return answer(name, args, nil) }}
	env.Files = fileCalls{d, answer} // what is not here is the desk's
	return s
}

func (s *scripted) merge() *integration {
	return &integration{env: s.env, n: s.n, slug: "foo", source: "draft/foo", target: "main", tip: "tip", onto: "onto", key: "KEY", dir: s.n.Dir, tree: kernel.Context{Worktree: "tree"}}
}

var errScript = errors.New("disk on fire")

// sweep asks with each of the answers that are asked for replaced by an error, and reports whoever says nothing of it.
func (s *scripted) sweep(t *testing.T, name string, ask func() []any) {
	t.Helper()
	for method := range s.answers {
		was := s.answers[method]
		s.answers[method], s.asked = errScript, nil
		answer := ask()
		asked := slices.ContainsFunc(s.asked, func(a string) bool { return strings.HasPrefix(a+" ", method+" ") })
		if err, _ := answer[len(answer)-1].(error); asked && !errors.Is(err, errScript) {
			t.Errorf("%s: %s fails, and %v is said", name, method, answer)
		}
		s.answers[method] = was
	}
}

// A merge was undone if the worktree is where it began, and git has no note of a merge.
func TestWhetherAMergeWasUndone(t *testing.T) {
	both := func(tracked ...string) any { return two[[]string, []string]{tracked, nil} }
	for name, c := range map[string]struct {
		answers map[string]any
		want    string
	}{
		"undone":          {map[string]any{"HeadCommit": kernel.CommitID("onto"), "Merging": false, "Squashing": false, "Staged": false, "Unstaged": both()}, "true false"},
		"and changed":     {map[string]any{"HeadCommit": kernel.CommitID("onto"), "Merging": false, "Squashing": false, "Staged": false, "Unstaged": both("x")}, "true true"},
		"and staged":      {map[string]any{"HeadCommit": kernel.CommitID("onto"), "Merging": false, "Squashing": false, "Staged": true, "Unstaged": both()}, "true true"},
		"a merge":         {map[string]any{"HeadCommit": kernel.CommitID("onto"), "Merging": true, "Squashing": false, "Staged": false, "Unstaged": both("x")}, "false false"},
		"a squash":        {map[string]any{"HeadCommit": kernel.CommitID("onto"), "Merging": false, "Squashing": true, "Staged": true, "Unstaged": both("x")}, "false false"},
		"it is elsewhere": {map[string]any{"HeadCommit": kernel.CommitID("made"), "Merging": false, "Squashing": false, "Staged": true, "Unstaged": both("x")}, "false false"},
	} {
		s := newScripted(t, c.answers)
		ask := func() []any {
			over, changed, err := undone(t.Context(), s.env, "dir", "onto")
			return []any{over, changed, err}
		}
		if got := fmt.Sprintln(ask()...); got != c.want+" <nil>\n" {
			t.Errorf("%s: %s", name, got)
		}
		s.sweep(t, name, ask)
	}
}

// A worktree contains nothing but the target if it is there, with nothing staged and no merge; and has been left by a merge with
// two parents if it does not have the source, and no merge is in progress.
func TestWhatIsLeftOfAMerge(t *testing.T) {
	for name, c := range map[string]struct {
		answers          map[string]any
		empty, withoutIt bool
	}{
		"nothing":   {map[string]any{"HeadCommit": kernel.CommitID("onto"), "Staged": false, "Merging": false, "IsAncestor": false}, true, true},
		"a change":  {map[string]any{"HeadCommit": kernel.CommitID("onto"), "Staged": true, "Merging": false, "IsAncestor": true}, false, false},
		"a merge":   {map[string]any{"HeadCommit": kernel.CommitID("onto"), "Staged": false, "Merging": true, "IsAncestor": false}, false, false},
		"elsewhere": {map[string]any{"HeadCommit": kernel.CommitID("made"), "Staged": false, "Merging": false, "IsAncestor": true}, false, false},
	} {
		s := newScripted(t, c.answers)
		m := s.merge()
		for what, is := range map[string]struct {
			want bool
			ask  func() []any
		}{
			"empty":      {c.empty, func() []any { is, err := m.empty(t.Context(), "onto"); return []any{is, err} }},
			"without it": {c.withoutIt, func() []any { is, err := m.unparented(t.Context()); return []any{is, err} }},
		} {
			if got := fmt.Sprintln(is.ask()...); got != fmt.Sprintln(is.want, nil) {
				t.Errorf("%s, %s: %s", name, what, got)
			}
			s.sweep(t, name+", "+what, is.ask)
		}
	}
}

// What must not be committed of a merge as it is.
func TestWhatIsUnresolved(t *testing.T) {
	both := func(tracked ...string) any { return two[[]string, []string]{tracked, []string{"new"}} }
	const conflict = "<<<<<<< a\n=======\n>>>>>>> b\n"
	for name, c := range map[string]struct {
		answers map[string]any
		want    string
	}{
		"nothing":                  {map[string]any{"Unmerged": []string(nil), "Unstaged": both(), "Staged": true, "Leftover": []string(nil)}, "[] false"},
		"in conflict":              {map[string]any{"Unmerged": []string{"a"}, "Unstaged": both("b"), "Staged": true, "Leftover": []string{"c"}}, "[a] false"},
		"not staged":               {map[string]any{"Unmerged": []string(nil), "Unstaged": both("b"), "Staged": true, "Leftover": []string(nil)}, "[b] true"},
		"staged with markers":      {map[string]any{"Unmerged": []string(nil), "Unstaged": both("b"), "Staged": true, "Leftover": []string{"c", "b"}}, "[b c] true"},
		"which somebody committed": {map[string]any{"Unmerged": []string(nil), "Unstaged": both(), "Staged": false, "Leftover": []string{"c"}}, "[] false"},
		"with markers still":       {map[string]any{"Unmerged": []string(nil), "Unstaged": both(), "Staged": true, "Leftover": []string(nil)}, "[marked] false"},
	} {
		s := newScripted(t, c.answers)
		put(t, s.n.Dir, "plain", "x")
		put(t, s.n.Dir, "marked", conflict)
		was := []string{"plain", "gone"}
		if name == "with markers still" || name == "which somebody committed" {
			was = append(was, "marked")
		}
		ask := func() []any {
			files, unstaged, err := unresolved(t.Context(), s.env, s.n.Dir, was)
			return []any{files, unstaged, err}
		}
		if got := fmt.Sprintln(ask()...); got != c.want+" <nil>\n" {
			t.Errorf("%s: %s", name, got)
		}
		s.sweep(t, name, ask)
		if err := os.Symlink("loop", filepath.Join(s.n.Dir, "loop")); err != nil {
			t.Fatal(err)
		}
		was = []string{"loop/x"}
		if answer := ask(); s.answers["Staged"] == true && name != "in conflict" && answer[2] == nil {
			t.Errorf("%s, and what cannot be looked at: %v", name, answer)
		}
	}
}

// A file in conflict is decided about if it has no markers, and is not as the merge left it or was written since.
func TestWhatIsDecided(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "file", "x")
	put(t, dir, "marked", "<<<<<<< a\n")
	now, _, err := look(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	at := written(filepath.Join(dir, "file"))
	for name, c := range map[string]struct {
		file, left string
		since      time.Time
		want       bool
	}{
		"as it was left":   {"file", now, at, false},
		"another text":     {"file", "file 00", at, true},
		"written again":    {"file", now, at.Add(-time.Second), true},
		"not known before": {"file", "", at, false},
		"with markers":     {"marked", "file 00", at, false},
		"gone":             {"gone", "file 00", time.Time{}, false},
		"removed since":    {"gone", "file 00", at, true},
	} {
		left := map[string]string{}
		if c.left != "" {
			left[c.file] = c.left
		}
		f := &conflict{mark: &sentinel{Worktree: dir, Left: left}, since: map[string]time.Time{c.file: c.since}}
		if is, err := f.decided(c.file); is != c.want || err != nil {
			t.Errorf("%s: %t, %v", name, is, err)
		}
	}
	if at := written(dir); !at.IsZero() {
		t.Errorf("a directory is written at %v", at)
	}
	for link, to := range map[string]string{"link": "file", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "file"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "long", strings.Repeat("x", 4096)+"<<<<<<< a\n"+strings.Repeat("y", 4095)+"\nx")
	for name, want := range map[string]string{"": "directory", "link": "link to file", "none": "", "file/x": "", "file": "program " + strings.TrimPrefix(now, "file ")} {
		if state, marked, err := look(filepath.Join(dir, name)); state != want || marked || err != nil {
			t.Errorf("%q: %s, %t, %v", name, state, marked, err)
		}
	}
	if _, marked, err := look(filepath.Join(dir, "long")); marked || err != nil {
		t.Errorf("what looks like a marker, in a long line: %t, %v", marked, err)
	}
	if state, marked, err := look(filepath.Join(dir, "loop/x")); state != "" || marked || err == nil {
		t.Errorf("what cannot be looked at: %q, %t, %v", state, marked, err)
	}
}

// How a merge is committed: anew, by its trailer alone, or as somebody has done already.
func TestHowAMergeIsCommitted(t *testing.T) {
	trailer := effect.Trailer + "KEY\n"
	for name, c := range map[string]struct {
		answers map[string]any
		merged  kernel.CommitID
		last    string // that is asked, with DIR
	}{
		"staged":  {map[string]any{"HeadCommit": kernel.CommitID("head"), "IsAncestor": true, "Staged": true, "Merging": false, "Commit": kernel.CommitID("made"), "LastFile": []byte(" doc\x00 ")}, "made", "Commit DIR feat: merge plan foo\n\ndoc\n\n" + trailer},
		"merging": {map[string]any{"HeadCommit": kernel.CommitID("head"), "IsAncestor": true, "Staged": false, "Merging": true, "Commit": kernel.CommitID("made"), "LastFile": []byte(nil)}, "made", "Commit DIR feat: merge plan foo\n\n" + trailer},
		"by hand": {map[string]any{"HeadCommit": kernel.CommitID("head"), "IsAncestor": true, "Staged": false, "Merging": false, "Message": "mine", "Amend": kernel.CommitID("made")}, "made", "Amend DIR mine\n\n" + trailer},
		"forged":  {map[string]any{"HeadCommit": kernel.CommitID("head"), "IsAncestor": true, "Staged": true, "Merging": false, "Commit": kernel.CommitID("made"), "LastFile": []byte("doc\n" + trailer)}, "made", "Commit DIR feat: merge plan foo\n\ndoc\n\n" + trailer},
		"already": {map[string]any{"HeadCommit": kernel.CommitID("head"), "IsAncestor": true, "Staged": false, "Merging": false, "Message": "mine\n\nVizier-Effect: KEY"}, "head", "Message head"},
	} {
		s := newScripted(t, c.answers)
		m := s.merge()
		ask := func() []any { made, err := m.commit(t.Context(), "onto"); return []any{made.merged, err} }
		answer := ask()
		if got := s.asked[len(s.asked)-1]; answer[0] != c.merged || answer[1] != nil || strings.ReplaceAll(got, s.n.Dir, "DIR") != strings.TrimSpace(c.last) {
			t.Errorf("%s: %v; asked %q", name, answer, got)
		}
		delete(s.answers, "Commit") // whose failure is the user's
		delete(s.answers, "Amend")
		s.sweep(t, name, ask)
	}
	s := newScripted(t, map[string]any{"HeadCommit": kernel.CommitID("0123456789abcdef"), "IsAncestor": false})
	made, err := s.merge().commit(t.Context(), "fedcba9876543210")
	if want := "worktree tree is at 0123456789ab, which does not contain fedcba987654: put it back with `git -C " + s.n.Dir + " update-ref --no-deref HEAD fedcba9876543210`"; made.merged != "" || err == nil || err.Error() != want {
		t.Errorf("elsewhere: %+v, %v", made, err)
	}
}

// What becomes of the source branch of a merge is said.
func TestWhatBecomesOfTheSource(t *testing.T) {
	advance := func(obstacle string, moved bool) any { return two[string, bool]{obstacle, moved} }
	had := func(args []any) any { return map[any][]byte{kernel.CommitID("tip"): []byte("doc")}[args[0]] } // the plan's document, which is removed
	for name, c := range map[string]struct {
		drop    bool
		merged  kernel.CommitID
		answers map[string]any
		says    string
	}{
		"deleted":                {true, "tip", map[string]any{}, ""},
		"not what was merged":    {true, "other", map[string]any{"FileAt": []byte("doc")}, "; branch draft/foo is kept: it is not what was merged"},
		"it cannot be deleted":   {true, "tip", map[string]any{"DeleteBranch": errScript}, "; branch draft/foo is kept: disk on fire"},
		"nor moved":              {true, "new", map[string]any{"FileAt": had, "Parent": kernel.CommitID("tip"), "DeleteBranch": errScript, "Advance": advance("it is busy", false)}, "; branch draft/foo is kept: disk on fire; branch draft/foo keeps the plan's document: it is busy"},
		"it moved itself":        {false, "new", map[string]any{"FileAt": had, "Parent": kernel.CommitID("tip"), "Advance": advance("", false)}, "; branch draft/foo keeps the plan's document: it has moved"},
		"moved":                  {false, "new", map[string]any{"FileAt": had, "Parent": kernel.CommitID("tip"), "Advance": advance("", true)}, ""},
		"kept":                   {false, "tip", map[string]any{}, ""},
		"kept, and not current":  {false, "other", map[string]any{"FileAt": []byte("doc")}, ""},
		"moved to what it lacks": {false, "tip", map[string]any{"Advance": advance("", true)}, ""},
	} {
		s := newScripted(t, c.answers)
		m := s.merge()
		m.drop = c.drop
		if said, err := m.leave(t.Context(), c.merged); said != c.says || err != nil {
			t.Errorf("%s: %q, %v", name, said, err)
		}
		if told := strings.Contains(s.stderr.String(), "disk on fire"); told != (c.answers["DeleteBranch"] != nil) {
			t.Errorf("%s: stderr %q", name, s.stderr)
		}
	}
}

// The plan and the branch of a merge are those that are named, or follow from where the job comes from.
func TestWhatAMergeIsOf(t *testing.T) {
	for _, c := range []struct{ slug, branch, plan, of, want string }{
		{"", "", "", "", "me "},
		{"a", "", "p", "o", "a draft/a"},
		{"", "b", "p", "o", "p b"},
		{"", "", "p", "o", "p o"},
		{"", "", "p", "", "p draft/p"},
		{"", "draft/b", "", "", "b draft/b"},
		{"", "", "", "x/o", "x-o x/o"},
		{"a", "b", "p", "o", "a b"},
	} {
		n := &Node{Job: kernel.Job{ID: "me"}, ManifestNode: workflow.ManifestNode{Args: map[string]string{"slug": c.slug, "branch": c.branch}}}
		n.Job.Spec.Origin.Plan, n.Job.Spec.Origin.Branch = c.plan, c.of
		if slug, source := mergeOf(n); slug+" "+source != c.want {
			t.Errorf("%+v: %s %s", c, slug, source)
		}
	}
}

// A merge has happened if the target has its commit, or what is on record of it.
func TestWhatAnEarlierGenerationMerged(t *testing.T) {
	for name, c := range map[string]struct {
		marked kernel.CommitID
		target kernel.CommitID
		there  any
		has    kernel.CommitID
		says   string
	}{
		"by its trailer":         {"made", "", false, "made", ""},
		"by its record":          {"", "was", true, "was", ""},
		"and not any more":       {"", "was", false, "", ""},
		"not on record":          {"", "", true, "", ""},
		"the commit is gone":     {"", "was", errScript, "", "disk on fire\n"},
		"by its trailer, rather": {"made", "was", true, "made", ""},
	} {
		s := newScripted(t, map[string]any{"Marked": c.marked, "IsAncestor": c.there})
		s.env.Effects = &journal{entries: map[string]effect.Record{effectKeyOf(s.n, 1, ""): {State: effect.Applied, Merge: effect.Merge{Target: c.target}}}}
		was, has, err := merged(t.Context(), s.env, s.n, 1, "onto")
		if was.Target != c.target || has != c.has || err != nil || s.stderr.String() != c.says {
			t.Errorf("%s: %+v, %s, %v, %q", name, was, has, err, s.stderr)
		}
	}
	s := newScripted(t, map[string]any{"Marked": kernel.CommitID("forged")})
	s.env.Effects = &journal{}
	if _, has, err := merged(t.Context(), s.env, s.n, 1, "onto"); has != "" || err != nil {
		t.Errorf("what never began has merged %s, %v", has, err)
	}
	s.env.Effects = &journal{entries: map[string]effect.Record{effectKeyOf(s.n, 1, ""): {Attempt: s.n.Job.State.Attempt}}}
	if _, has, err := merged(t.Context(), s.env, s.n, 1, "onto"); has != "" || err != nil {
		t.Errorf("what this attempt is about to do has merged %s, %v", has, err)
	}
}

// What a prompt becomes is bounded while its placeholders are filled in.
func TestAPromptThatGrowsTooLong(t *testing.T) {
	_, _, n := deskNode(t, "prompt.resolve", "")
	n.Args["half"] = strings.Repeat("x", maxText/2)
	if text, err := render(n, "{{half}}{{half}}"); len(text) != maxText || err != nil {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if text, err := render(n, "{{half}}{{half}}{{own}}"); text != "" || err == nil || err.Error() != fmt.Sprintf("the prompt is longer than %d bytes", maxText) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	for key, want := range map[string]string{"a__near.x": "outer stage", "near.x": "same stage", ".x": "", "top.x": "at the top", "x": ""} {
		n.Manifest.Nodes["top"] = workflow.ManifestNode{Args: map[string]string{"x": "at the top"}}
		n.Manifest.Nodes[""] = workflow.ManifestNode{Args: map[string]string{"x": "of none"}}
		if text, err := n.placeholder(key); text != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", key, text, err)
		}
	}
}

// A source is what was merged, or that without the plan's document.
func TestWhetherAMergeIsOfTheSourceAsItIs(t *testing.T) {
	doc := func(of ...any) func([]any) any {
		return func(args []any) any {
			if slices.Contains(of, args[0]) {
				return []byte("doc")
			}
			return []byte(nil)
		}
	}
	tip := kernel.CommitID("tip")
	for name, c := range map[string]struct {
		source  kernel.CommitID
		answers map[string]any
		want    bool
	}{
		"none":                     {"", map[string]any{}, false},
		"the source":               {"tip", map[string]any{}, true},
		"without its document":     {"new", map[string]any{"FileAt": doc(tip), "Parent": tip}, true},
		"another with a document":  {"new", map[string]any{"FileAt": doc(tip, kernel.CommitID("new")), "Parent": tip}, false},
		"on top of something else": {"new", map[string]any{"FileAt": doc(tip, kernel.CommitID("old")), "Parent": kernel.CommitID("old")}, false},
		"that never had one":       {"new", map[string]any{"FileAt": doc(), "Parent": tip}, false},
	} {
		s := newScripted(t, c.answers)
		ask := func() []any {
			m := s.merge()
			is, err := current(t.Context(), m.env, m.slug, c.source, m.tip)
			return []any{is, err}
		}
		if got := fmt.Sprintln(ask()...); got != fmt.Sprintln(c.want, nil) {
			t.Errorf("%s: %s", name, got)
		}
		s.sweep(t, name, ask)
	}
}

// What is to resolve a conflict is put back unless it ends well, and what it resolved is staged.
func TestWhatBecomesOfATryToResolve(t *testing.T) {
	both := two[[]string, []string]{}
	for name, c := range map[string]struct {
		exit   int
		err    error
		files  []string
		asked  string
		parked bool
	}{
		"nothing to resolve": {0, nil, nil, "Remember Forget", false},
		"resolved":           {0, nil, []string{"file"}, "Remember Settle MergeState Unmerged Unstaged Staged", false},
		"failed":             {3, nil, []string{"file"}, "Remember PutBack MergeState Unmerged Unstaged Staged", true},
		"broken":             {0, os.ErrClosed, []string{"file"}, "Remember PutBack MergeState Unmerged Unstaged Staged", true},
	} {
		s := newScripted(t, map[string]any{"Remember": nil, "Forget": nil, "Settle": nil, "PutBack": true, "MergeState": [3]kernel.CommitID{}, "Unmerged": []string(nil), "Unstaged": both, "Staged": false})
		put(t, s.n.Dir, "file", "x")
		again := func() *conflict { return &conflict{slug: "foo", mark: &sentinel{Worktree: s.n.Dir}, files: c.files} }
		tried := again()
		exit, err := tried.try(t.Context(), s.env, s.n, func() (int, error) { return c.exit, c.err })
		var names []string
		for _, a := range s.asked {
			name, _, _ := strings.Cut(a, " ")
			names = append(names, name)
		}
		if exit != c.exit || !errors.Is(err, c.err) || strings.Join(names, " ") != c.asked || (tried.parked == "what it left half done is parked (`vizier tail me`)") != c.parked {
			t.Errorf("%s: %d, %v; asked %q; %q", name, exit, err, names, tried.parked)
		}
		s.sweep(t, name, func() []any {
			exit, err := again().try(t.Context(), s.env, s.n, func() (int, error) { return c.exit, c.err })
			return []any{exit, err}
		})
	}
	s := newScripted(t, map[string]any{"Remember": nil})
	if err := os.Symlink("loop", filepath.Join(s.n.Dir, "loop")); err != nil {
		t.Fatal(err)
	}
	lost := &conflict{mark: &sentinel{Worktree: s.n.Dir}, files: []string{"loop/x"}}
	if err := lost.stage(t.Context(), s.env); err == nil || len(s.asked) > 0 {
		t.Errorf("a file that cannot be looked at: %v; asked %q", err, s.asked)
	}
}

// An agent is told the conflict after the prompt that it has, and how it ended is the gate's.
func TestWhatAnAgentAtAConflictIsAsked(t *testing.T) {
	const about = "## The conflict\n\nSource branch: draft/foo\nTarget branch: main\nWorktree: DIR\n\nFiles in conflict:\n- a\n- b\n" +
		"\nA file that has conflict markers is resolved once it has none. One that has none is resolved by writing it, also with what it has (`touch` it), or by removing it.\n"
	for name, c := range map[string]struct {
		with   func(*scripted)
		exit   int
		asked  string
		stderr string
		err    string
	}{
		"with a prompt":    {func(s *scripted) { s.n.Args["prompt_text"] = "resolve {{own}}\n\n" }, 0, "resolve mine\n\n" + about, "", ""},
		"without":          {func(s *scripted) { s.n.Args["prompt_text"] = "{{file:none}}" }, 0, about, "warning: placeholder `{{file:none}}`: there is no such file in DIR\n", ""},
		"a bad one":        {func(s *scripted) { s.n.Args["prompt_text"] = "{{" }, 0, "", "", "found unclosed placeholder; expected `}}`"},
		"an agent's exit":  {func(s *scripted) { s.n.Args["prompt_text"] = "x"; s.told.Class, s.told.Exit = kernel.ExitFailure, 7 }, 7, "x\n\n" + about, "", ""},
		"an agent's class": {func(s *scripted) { s.n.Args["prompt_text"] = "x"; s.told.Class = kernel.ExitFailure }, 1, "x\n\n" + about, "", ""},
	} {
		s := newScripted(t, nil)
		c.with(s)
		gate := &conflict{mark: &sentinel{Source: "draft/foo", Target: "main", Worktree: s.n.Dir}, files: []string{"a", "b"}}
		exit, err := gate.ask(t.Context(), s.env, s.n)
		said := ""
		if err != nil {
			said = err.Error()
		}
		here := func(text string) string { return strings.ReplaceAll(text, "DIR", s.n.Dir) }
		if exit != c.exit || said != c.err || s.desk.asked != here(c.asked) || s.stderr.String() != here(c.stderr) {
			t.Errorf("%s: %d, %v; asked %q; stderr %q", name, exit, err, s.desk.asked, s.stderr)
		}
	}
	failed := workflow.Step{Outcome: kernel.OutcomeFailed, Exit: 1, Reason: "it failed"}
	for name, c := range map[string]struct {
		gate *conflict
		step workflow.Step
		want Result
	}{
		"none":               {nil, failed, Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure, Reason: "it failed"}},
		"no agent":           {&conflict{}, failed, Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure, Reason: "it failed"}},
		"an agent's failure": {&conflict{answer: kernel.AgentAnswer{Class: kernel.Timeout, Reason: "too long"}}, failed, Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.Timeout, Reason: "too long"}},
		"blocked":            {&conflict{answer: kernel.AgentAnswer{Class: kernel.Timeout}}, workflow.Step{Outcome: kernel.OutcomeBlocked, Reason: "no"}, Result{Outcome: kernel.OutcomeBlocked, Reason: "no"}},
	} {
		s := newScripted(t, nil)
		if r, err := c.gate.end(t.Context(), s.env, s.n, c.step); fmt.Sprintf("%+v", r) != fmt.Sprintf("%+v", c.want) || err != nil {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// A gate looks for the conflict of the plan that it names, or that its job is of.
func TestWhichConflictAGateLooksFor(t *testing.T) {
	for slug, want := range map[string]string{"": "[Sentinel p]", "a": "[Sentinel a]"} {
		s := newScripted(t, map[string]any{"Sentinel": []byte(nil)})
		s.n.Control, s.n.Args["slug"], s.n.Job.Spec.Origin.Plan = "gate.conflict_resolution", slug, "p"
		if c, err := openConflict(t.Context(), s.env, s.n); c != nil || err != nil || fmt.Sprint(s.asked) != want {
			t.Errorf("%+v, %v; asked %q", c, err, s.asked)
		}
		s.sweep(t, slug, func() []any { c, err := openConflict(t.Context(), s.env, s.n); return []any{c, err} })
	}
}

// A worktree of a gate is removed, and what is left of it is told.
func TestTheWorktreeOfAGate(t *testing.T) {
	for name, c := range map[string]struct {
		gone        kernel.Cleanup
		stderr, err string
	}{
		"removed": {kernel.Cleanup{Status: kernel.CleanupDone}, "", ""},
		"left":    {kernel.Cleanup{Status: kernel.CleanupDone, Error: "left aside"}, "left aside\nleft aside\n", ""},
		"kept":    {kernel.Cleanup{Status: kernel.CleanupFailed, Error: "no"}, "", "no"},
		"known":   {kernel.Cleanup{Status: kernel.CleanupDegraded, Error: "no"}, "", "no"},
	} {
		s := newScripted(t, map[string]any{"OwnedWorktree": kernel.Context{}, "EnsureWorktree": kernel.Context{Worktree: "tree"}, "RemoveWorktree": c.gone})
		ask := func() []any {
			r, err := inTree(t.Context(), s.env, s.n, "at", func(n *Node) (Result, error) { return ok(strings.TrimPrefix(n.Dir, s.n.Root)), nil })
			return []any{r.Reason, err}
		}
		answer, want := ask(), []any{"/tree", nil}
		if c.err != "" {
			want = []any{"", errors.New(c.err)}
		}
		if fmt.Sprint(answer...) != fmt.Sprint(want...) || s.stderr.String() != c.stderr {
			t.Errorf("%s: %v; stderr %q", name, answer, s.stderr)
		}
		delete(s.answers, "RemoveWorktree")
		s.sweep(t, name, ask)
	}
}

// A branch that another has made meanwhile is there.
func TestABranchThatIsMadeAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		after any // what Heads answers then
		err   error
	}{"made by another": {map[string]kernel.CommitID{"b": "x"}, nil}, "not made": {map[string]kernel.CommitID{}, errScript}, "nobody knows": {errors.New("no"), errScript}} {
		s := newScripted(t, map[string]any{"HeadCommit": kernel.CommitID("at"), "CreateBranch": errScript})
		s.answers["Heads"] = func([]any) any {
			s.answers["Heads"] = c.after
			return map[string]kernel.CommitID{}
		}
		if err := ensureBranch(t.Context(), s.env, s.n, "b"); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A node declares a plan's document by its kind and name.
func TestWhichPlanANodeDeclares(t *testing.T) {
	for name, c := range map[string]struct {
		record workflow.ArtifactRecord
		want   bool
	}{
		"it":           {workflow.RecordOf(kernel.Artifact{Kind: kernel.PlanDoc, Name: "p", Ref: "b"}), true},
		"another":      {workflow.RecordOf(kernel.Artifact{Kind: kernel.PlanDoc, Name: "q", Ref: "b"}), false},
		"its branch":   {workflow.RecordOf(kernel.Artifact{Kind: kernel.PlanBranch, Name: "p", Ref: "b"}), false},
		"nothing like": {workflow.ArtifactRecord{}, false},
	} {
		n := &Node{ManifestNode: workflow.ManifestNode{Artifacts: map[string][]workflow.ArtifactRecord{"succeeded": {c.record}}}}
		if n.declaresPlan("p") != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}

// What is staged with conflict markers is not committed.
func TestWhatIsStagedWithMarkersIsNotCommitted(t *testing.T) {
	s := newScripted(t, map[string]any{"Staged": true, "Leftover": []string{"f"}, "Commit": kernel.CommitID("0123456789abcdef")})
	s.n.Args["message"] = "fix: x"
	r, err := commit(t.Context(), s.env, s.n, false)
	want := strings.ReplaceAll("DIR has files that were in conflict and still have conflict markers: f: resolve them there and `git -C DIR add` them, or commit them there if the markers are meant; then `vizier retry me`", "DIR", s.n.Dir)
	if r.Outcome != kernel.OutcomeFailed || r.Reason != want || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	s.answers["Leftover"] = []string(nil)
	if r, err := commit(t.Context(), s.env, s.n, false); r.Outcome != kernel.OutcomeSucceeded || r.Reason != "commit 0123456789ab" || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// A conflict is marked with how the merge left each file, or not at all.
func TestHowAConflictIsMarked(t *testing.T) {
	s := newScripted(t, nil)
	s.env.Files = fileCalls{s.desk, func(name string, _ []any, _ func() (any, error)) (any, error) {
		s.asked = append(s.asked, name)
		return nil, nil
	}}
	put(t, s.n.Dir, "file", "x")
	s.n.Routes = map[string][]workflow.ManifestRoute{"blocked": {{Node: "other"}, {Node: "gate"}}}
	s.n.Manifest.Nodes = map[string]workflow.ManifestNode{"other": {Job: "other"}, "gate": {Job: "gate", Control: "gate.conflict_resolution"}}
	m := s.merge()
	r, err := m.conflict(t.Context(), []string{"file", "gone"})
	if err != nil || r.Outcome != kernel.OutcomeBlocked || len(s.asked) != 3 || s.asked[1] != "WriteSentinel" || // the third is how to resolve it
		r.Reason != "merging draft/foo into main "+kernel.InConflict+": resolve file, gone in "+s.n.Dir+", `git add` them, then `vizier retry gate`" ||
		!slices.Equal(r.Produced, []kernel.Artifact{{Kind: kernel.MergeSentinel, Name: "foo"}}) {
		t.Errorf("%+v, %v; asked %q", r, err, s.asked)
	}
	if err := os.Symlink("loop", filepath.Join(s.n.Dir, "loop")); err != nil {
		t.Fatal(err)
	}
	s.asked = nil
	if r, err := m.conflict(t.Context(), []string{"file", "loop/x"}); r != nil || err == nil || fmt.Sprint(s.asked) != "[Sentinel]" {
		t.Errorf("a file that cannot be looked at: %+v, %v; asked %q", r, err, s.asked)
	}
}

// A mark is made again of the merge that is blocked by a conflict of the gate's plan, and of no other.
func TestWhichMergeIsMarkedAgain(t *testing.T) {
	inConflict := "merging draft/p into main " + kernel.InConflict + ": " + toResolve(t.Context(), &Env{Git: plain{}}, ".vizier/tmp-worktrees/merge-p", []string{"f"}, "gate")
	for name, c := range map[string]struct {
		plan, to, reason string
		status           kernel.Status
		want             bool
	}{
		"its own":           {"p", "gate", inConflict, kernel.BlockedByDependency, true},
		"of another plan":   {"q", "gate", inConflict, kernel.BlockedByDependency, false},
		"of another gate":   {"p", "other", inConflict, kernel.BlockedByDependency, false},
		"has run since":     {"p", "gate", inConflict, kernel.Succeeded, false},
		"not by a conflict": {"p", "gate", "main has changes", kernel.BlockedByDependency, false},
		"by one behind":     {"p", "gate", strings.Replace(inConflict, kernel.InConflict, kernel.BehindConflict, 1), kernel.BlockedByDependency, false},
		"by one nowhere":    {"p", "gate", "merging it " + kernel.InConflict, kernel.BlockedByDependency, false},
	} {
		s := newScripted(t, map[string]any{"Sentinel": []byte(nil), "WriteSentinel": nil})
		s.n.Node, s.n.Control, s.n.Args["slug"] = "gate", "gate.conflict_resolution", "p"
		s.n.Manifest.Nodes = map[string]workflow.ManifestNode{"merge": {Job: "m", Args: map[string]string{"slug": c.plan},
			Routes: map[string][]workflow.ManifestRoute{"blocked": {{Node: c.to}}}}}
		s.env.Records = past{{ID: "m", State: kernel.State{Status: c.status, Reason: c.reason}}}
		_, err := openConflict(t.Context(), s.env, s.n)
		if marked := slices.Contains(s.asked, "WriteSentinel p"); marked != c.want || err != nil {
			t.Errorf("%s: %v; asked %q", name, err, s.asked)
		}
	}
}

// A gate judges whether its branch has a merge if that is what the gate comes after, and is into that branch.
func TestWhichMergeAGateComesAfter(t *testing.T) {
	for name, c := range map[string]struct {
		merge workflow.ManifestNode
		want  error
	}{
		"its own":         {workflow.ManifestNode{Job: "m", Operation: "git.integrate_plan_branch", Args: map[string]string{"target": "main"}}, kernel.ErrNotFound},
		"named otherwise": {workflow.ManifestNode{Job: "m", Operation: "git.integrate_plan_branch", Args: map[string]string{"target_branch": "main", "target": "dev"}}, kernel.ErrNotFound},
		"by default":      {workflow.ManifestNode{Job: "m", Operation: "git.integrate_plan_branch"}, kernel.ErrNotFound},
		"elsewhere":       {workflow.ManifestNode{Job: "m", Operation: "git.integrate_plan_branch", Args: map[string]string{"target": "dev"}}, nil},
		"not before it":   {workflow.ManifestNode{Job: "other", Operation: "git.integrate_plan_branch"}, nil},
		"no merge":        {workflow.ManifestNode{Job: "m", Operation: "git.commit"}, nil},
	} {
		s := newScripted(t, nil)
		s.env.Records, s.n.Job.Spec.After = past{}, []kernel.JobID{"m"}
		s.n.Manifest.Nodes = map[string]workflow.ManifestNode{"merge": c.merge}
		if lacks, err := lacksMerge(t.Context(), s.env, s.n, "main", "tip"); lacks != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v", name, lacks, err)
		}
	}
}

// Nothing is in the way of a merge unless working trees on one of its branches could not follow.
func TestWhatIsInTheWayOfAMerge(t *testing.T) {
	for branch, want := range map[string]string{"main": "no; then run `vizier retry me`", "draft/foo": "no; then run `vizier retry me`", "other": ""} {
		s := newScripted(t, nil)
		s.answers = map[string]any{"Obstacle": func(args []any) any { return map[any]string{branch: "no"}[args[len(args)-1]] }}
		ask := func() []any { stop, err := s.merge().clear(t.Context()); return []any{deref(stop).Reason, err} }
		if answer := ask(); answer[0] != want || answer[1] != nil {
			t.Errorf("%s: %v", branch, answer)
		}
		s.sweep(t, branch, ask)
	}
}

// The worktree of another job's conflict is where git has it or, if git has lost it, where its mark says.
func TestWhereAnotherConflictIs(t *testing.T) {
	for name, c := range map[string]struct{ named, marked, want string }{
		"known":                {"/elsewhere", "there", "/elsewhere"},
		"lost":                 {"", "there", "ROOT/there"},
		"lost and gone":        {"", "gone", ""},
		"lost, and this is it": {"", "tree", ""},
	} {
		s := newScripted(t, map[string]any{"WorktreeNamed": c.named})
		put(t, s.n.Root, "there/f", "")
		put(t, s.n.Root, "tree/f", "")
		ask := func() []any {
			at, err := s.merge().treeOf(&sentinel{Slug: "foo", Job: "other", Worktree: c.marked})
			return []any{at, err}
		}
		if answer := ask(); answer[0] != strings.Replace(c.want, "ROOT", s.n.Root, 1) || answer[1] != nil {
			t.Errorf("%s: %v", name, answer)
		}
		s.sweep(t, name, ask)
	}
}

// Where the target has moved into a conflict, a squash goes on with its result, unless that was changed; a merge starts over.
func TestWhatBecomesOfAMergeThatCollides(t *testing.T) {
	both := func(tracked ...string) any { return two[[]string, []string]{tracked, nil} }
	for name, c := range map[string]struct {
		squash bool
		edited any
		anew   bool
	}{
		"a squash":              {true, both(), false},
		"a squash with changes": {true, both("f"), true},
		"a merge":               {false, both(), true},
		"a merge with changes":  {false, both("f"), true},
	} {
		s := newScripted(t, map[string]any{"Unmerged": []string(nil), "Unstaged": c.edited, "Detach": nil, "Related": true, "Merge": nil, "HeadCommit": kernel.CommitID("now"),
			"Staged": true, "Merging": false, "SetMergeState": nil, "FileAt": []byte(nil), "EnsureWorktree": kernel.Context{Worktree: "tree"}, "RemoveWorktree": kernel.Cleanup{Status: kernel.CleanupDone}})
		ask := func() []any {
			m := s.merge()
			m.squash = c.squash
			r, err := m.collide(t.Context(), "result", "now")
			return []any{r.Exit, r.Reason, err}
		}
		if answer := ask(); fmt.Sprintln(answer...) != "1 branch main moved while it was being merged into: `vizier retry me` <nil>\n" || strings.Contains(strings.Join(s.asked, "\n"), "EnsureWorktree") != c.anew {
			t.Errorf("%s: %v; asked %q", name, answer, s.asked)
		}
		delete(s.answers, "RemoveWorktree")
		delete(s.answers, "Merge") // that git refuses is a result
		s.sweep(t, name, ask)
	}
}
