package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// scripted is a repository whose git answers with the first of its answers that begins with a word of the arguments and
// another space, and notes what it was asked: the arguments without settings, and after "<" what it was given.
type scripted struct {
	testing.TB
	*Repo
	answers []string
	asked   []string
}

// fails and no are the answers of a git that fails, and of one that says no by its exit code.
const fails, no = "\x00fails", "\x00no"

var exit1 = sync.OnceValue(func() error { return exec.Command("/bin/sh", "-c", "exit 1").Run() })

func newScripted(t testing.TB, answers ...string) *scripted {
	dir := t.TempDir()
	s := &scripted{TB: t, Repo: Open(Root{Dir: dir + "/repo", CommonDir: dir + "/repo/.git"}), answers: answers}
	s.put("HEAD", "ref: refs/heads/main\n")
	s.cli.exec = s.run
	s.Backend = s.cli
	return s
}

func (s *scripted) run(cmd *exec.Cmd) error {
	args := cmd.Args[2:]
	for args[0] == "-c" {
		args = args[2:]
	}
	asked := strings.Join(args, " ")
	if in, _ := io.ReadAll(cmd.Stdin); len(in) > 0 {
		asked += " <" + string(in)
	}
	s.asked = append(s.asked, asked)
	for _, answer := range s.answers {
		if word, text, _ := strings.Cut(answer, " "); slices.Contains(args, word) {
			if text == no {
				return exit1()
			}
			if text == fails {
				_, err := io.WriteString(cmd.Stderr, onFire+"\n")
				return errors.Join(exit128(), err)
			}
			_, err := io.WriteString(cmd.Stdout, text)
			return err
		}
	}
	return nil
}

// put writes a file, relative to the git directory.
func (s *scripted) put(path, text string) {
	s.Helper()
	path = filepath.Join(s.root.CommonDir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		s.Fatal(err)
	}
}

// linked makes a linked worktree with a reflog, and returns its directory.
func (s *scripted) linked(name, head, log string) string {
	dir := filepath.Join(s.root.Dir, worktreeHome, name)
	s.put("worktrees/"+name+"/gitdir", dir+"/.git\n")
	s.put("worktrees/"+name+"/HEAD", head+"\n")
	s.put("worktrees/"+name+"/logs/HEAD", log)
	s.put("../"+worktreeHome+"/"+name+"/.git", "gitdir: "+filepath.Join(s.root.CommonDir, "worktrees", name)+"\n")
	return dir
}

// id is a commit of one digit.
func id(digit string) string { return strings.Repeat(digit, 40) }

// Where a branch that is gone was last is told by what comes last of what is known.
func TestWhereABranchWasLast(t *testing.T) {
	const job = "0123456789abcdef0123456789abcdef"
	parked := func(digit string, at int, rest string) string {
		return fmt.Sprintf("%s %d %s%s\n", id(digit), at, parkedRefs, rest)
	}
	for name, c := range map[string]struct{ log, refs, head, linked, want string }{
		"nowhere":                       {want: ""},
		"left for another":              {log: id("1") + " 100 checkout: moving from draft/a to main\n" + id("2") + " 90 commit: x\n", want: "2"},
		"another was left":              {log: id("1") + " 100 checkout: moving from draft/b to main\n" + id("2") + " 90 commit: x\n", want: ""},
		"checked out":                   {log: id("3") + " 100 commit: x\n" + id("1") + " 90 checkout: moving from main to draft/a\n", want: "1"},
		"git says more":                 {log: "No signature\n" + id("1") + " 100 checkout: moving from draft/a to main\nNo signature\n" + id("2") + " 90 commit: x\n", want: "2"},
		"renamed":                       {log: id("1") + " 100 Branch: renamed refs/heads/draft/a to refs/heads/b\n", want: "1"},
		"left at the end of the reflog": {log: id("1") + " 100 checkout: moving from draft/a to main\n", want: ""},
		"parked":                        {refs: parked("4", 1, "draft-a-444444444444"), want: "4"},
		"parked at no time":             {refs: id("4") + " x " + parkedRefs + "draft-a-444444444444\n", want: ""},
		"parked by a job":               {refs: parked("4", 50, "draft-a-"+job+"-444444444444"), want: "4"},
		"parked by none":                {refs: parked("4", 50, "draft-a-b-444444444444"), want: ""},
		"parked of a submodule":         {refs: parked("4", 50, "draft-a-"+job+"-sub-444444444444"), want: ""},
		"parked of what was staged":     {refs: parked("4", 50, "draft-a-"+job+"-444444444444.staged"), want: ""},
		"parked of another":             {refs: parked("4", 50, "draft-ab-444444444444"), want: ""},
		"parked twice":                  {refs: parked("4", 50, "draft-a-4") + parked("5", 60, "draft-a-5") + parked("6", 55, "draft-a-6"), want: "5"},
		"parked later":                  {log: id("1") + " 100 commit: x\n" + id("2") + " 90 checkout: moving from x to draft/a\n", refs: parked("4", 91, "draft-a-4"), want: "4"},
		"parked then":                   {log: id("2") + " 90 checkout: moving from x to draft/a\n", refs: parked("4", 90, "draft-a-4"), want: "2"},
		"a linked tree left it": {linked: id("7") + " " + id("8") + " Ann <a@x> 100 +0000\tcheckout: moving from draft/a to main\n" +
			id("8") + " " + id("9") + " Ann <a@x> 99 +0000\tcheckout: moving from draft/a to x\n", want: "7"},
		"a linked tree left it twice at once": {linked: id("7") + " " + id("8") + " A <a> 100 +0\tcheckout: moving from draft/a to main\n" +
			id("8") + " " + id("9") + " A <a> 100 +0\tcheckout: moving from draft/a to x\n", want: "8"},
		"a linked tree left it for its other name": {linked: id("7") + " " + id("0") + " A <a> 100 +0\tBranch: renamed refs/heads/draft/a to refs/heads/b\n", want: "7"},
		"and it was deleted first":                 {linked: id("0") + " " + id("8") + " A <a> 100 +0\tBranch: renamed refs/heads/draft/a to refs/heads/b\n", want: "8"},
		"a linked tree left another":               {linked: id("7") + " " + id("8") + " A <a> 100 +0\tcheckout: moving from draft/ab to main\n", want: ""},
		"a line of it is cut off":                  {linked: id("7") + " 100 +0\tcheckout: moving from draft/a to main\n", want: ""},
		"as short as may be":                       {linked: id("7") + " " + id("8") + " 100 +0\tcheckout: moving from draft/a to main\n", want: "7"},
		"parked before a linked tree counts":       {refs: parked("4", 1, "draft-a-4"), linked: id("7") + " " + id("8") + " 100 +0\tcheckout: moving from draft/a to main\n", want: "4"},
		"a linked tree is on it":                   {refs: parked("4", 1, "draft-a-4"), head: "ref: refs/heads/draft/a", linked: id("0") + " " + id("8") + " A\n" + id("8") + " " + id("9") + " A\n" + id("9") + " " + id("0") + " A\nx y", want: "9"},
	} {
		s := newScripted(t, "log "+c.log, "for-each-ref "+c.refs)
		s.linked("t", c.head, c.linked)
		if got, err := s.LastTip(t.Context(), "draft/a"); string(got) != strings.Repeat(c.want, 40) || err != nil {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
	s := newScripted(t, "log "+id("1")+" x checkout: moving from x to draft/a\n")
	if got, err := s.LastTip(t.Context(), "draft/a"); got != "" || err == nil {
		t.Errorf("at no time: %s, %v", got, err)
	}
}

// A conflict that would be committed counts if no side of the merge had it, and the commit did not.
func TestConflictsThatWouldBeCommitted(t *testing.T) {
	const conflict = "<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n"
	raw := func(was, is string) string {
		return ":" + was + " " + is + " " + id("5") + " " + id("6") + " M\x00file\x00"
	}
	for name, c := range map[string]struct {
		resolved, raw, size, now, before string
		left                             bool
	}{
		"a conflict":                   {raw: raw("100644", "100644"), now: conflict, left: true},
		"none":                         {raw: raw("100644", "100644"), now: "x\n"},
		"longer markers":               {raw: raw("100644", "100644"), size: "8", now: conflict},
		"no length":                    {raw: raw("100644", "100644"), size: "0", now: conflict, left: true},
		"the shortest":                 {raw: raw("100644", "100644"), size: "1", now: "< a\nx\n= \ny\n> b\n", left: true},
		"which the commit had":         {raw: raw("100644", "100644"), now: conflict, before: "x\n" + conflict},
		"which an added file's had":    {raw: raw("000000", "100644"), now: conflict, before: "x\n" + conflict, left: true}, // there is none
		"one more than the commit had": {raw: raw("100644", "100644"), now: conflict + strings.ReplaceAll(conflict, "x", "z"), before: conflict, left: true},
		"a program's":                  {raw: raw("100644", "100755"), now: conflict, left: true},
		"a link's":                     {raw: raw("100644", "120000"), now: conflict},
		"a submodule's":                {resolved: "160000 " + id("1") + " 1\tfile\x00", raw: raw("100644", "100644"), now: conflict},
		"another file's":               {resolved: "100644 " + id("1") + " 1\tother\x00", raw: raw("100644", "100644"), now: conflict},
		"cut off":                      {raw: ":100644 100644 " + id("5") + " " + id("6") + "\x00file\x00", now: conflict},
	} {
		object := func(id, text string) string { return fmt.Sprintf("%s blob %d\n%s\n", id, len(text), text) }
		resolved := c.resolved
		if resolved == "" {
			resolved = "100644 " + id("1") + " 1\tfile\x00"
		}
		s := newScripted(t, "ls-files "+resolved, "diff "+c.raw, "check-attr file\x00conflict-marker-size\x00"+c.size+"\x00")
		run := s.run
		s.cli.exec = func(cmd *exec.Cmd) error {
			if !slices.Contains(cmd.Args, "cat-file") {
				return run(cmd)
			}
			asked, err := io.ReadAll(cmd.Stdin)
			for _, of := range strings.Fields(string(asked)) {
				text := map[string]string{id("5"): c.before, id("6"): c.now}[of]
				_, also := io.WriteString(cmd.Stdout, object(of, text))
				err = errors.Join(err, also)
			}
			return err
		}
		s.put("index", "a REUC b")
		left, err := s.Leftover(t.Context(), s.root.Dir)
		if want := []string{"file"}[:map[bool]int{true: 1}[c.left]]; !slices.Equal(left, want) || err != nil {
			t.Errorf("%s: %q, %v", name, left, err)
		}
		s.put("index", "a b")
		if left, err := s.Leftover(t.Context(), s.root.Dir); left != nil || err != nil {
			t.Errorf("%s, never in conflict: %q, %v", name, left, err)
		}
	}
}

// What the lines of an index say.
func TestWhatAnIndexSays(t *testing.T) {
	lines := strings.Join([]string{"H 100644 a 0\tplain", "h 100644 a 0\tassumed", "S 100644 a 0\tskipped", "s 100644 a 0\tboth", "H 160000 a 0\tlink",
		"M 160000 a 1\tmodule", "M 160000 a 2\tmodule", "M 100644 a 1\tfile", "M 100644 a 3\tfile", "H 100644 a 0\t.vizier/tmp/x", "cut off"}, "\x00")
	s := newScripted(t, "ls-files "+lines)
	i, err := s.cli.index(t.Context(), command{})
	if got := fmt.Sprintf("%+v", i); got != "{links:[link module] unmerged:[module file] assumed:[assumed both] skipped:[skipped both] scratch:true}" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	tr := tree{cli: s.cli, w: Worktree{Path: s.root.Dir, gitDir: s.root.CommonDir}}
	s.put("../skipped", "")
	for _, patterns := range []bool{false, true} { // with them, a file that is not there was left out
		want := "[assumed both] [skipped both] <nil>"
		if patterns {
			s.put("info/sparse-checkout", "x")
			want = "[assumed both] [skipped] <nil>"
		}
		assumed, skipped, err := tr.hidden(i)
		if got := fmt.Sprint(assumed, skipped, err); got != want {
			t.Errorf("patterns %t: %s", patterns, got)
		}
	}
}

// What is staged that the commit does not have is told by its blobs, and by the paths of which git has none.
func TestWhatIsStagedBesides(t *testing.T) {
	s := newScripted(t, "ls-tree 100644 blob a\tone\x00", "--resolve-undo 100644 d 1\tfile\x00100644 e 2\tfile\x00",
		"--stage 100644 a 0\tone\x00100644 b 0\ttwo\x00100644 c 0\tgone\x00160000 m 0\tlink\x00100644 b 0\tagain\x00cut off", "cat-file b blob 3\nc missing\nd blob 1\ne missing\n")
	tr := tree{cli: s.cli, w: Worktree{Path: s.root.Dir, gitDir: s.root.CommonDir}}
	blobs, missing, err := tr.besides(t.Context(), nil, "x")
	if got := fmt.Sprint(blobs, missing, err); got != "[b d] [gone] <nil>" {
		t.Error(got)
	}
	if last := s.asked[len(s.asked)-1]; last != "cat-file --batch-check <b\nc\nd\ne\n" {
		t.Errorf("%q", last)
	}
}

// The commits that a worktree's reflog has are parked if a merge was in progress and nothing keeps them.
func TestWhichCommitsOfAReflogAreParked(t *testing.T) {
	line := func(from, to, what string) string { return id(from) + " " + id(to) + " A <a> 1 +0\t" + what + "\n" }
	log := line("0", "1", "") + line("1", "2", "commit: x") + line("2", "3", "commit (amend): x") + line("3", "4", "checkout: moving from a to b") +
		line("4", "5", "reset: moving to x") + line("5", "6", "vizier: released") + line("6", "7", "cherry-pick: y") + "8\tcommit: cut off\n"
	for source, parks := range map[string][]string{id("9"): {id("7"), id("8")}, "": nil} {
		s := newScripted(t, "rev-parse "+source, "rev-list "+id("7")+" "+id("3")+"\n"+id("8")+" "+id("3")+"\n"+id("3")+"\n")
		w := Worktree{Name: "t", Path: s.linked("t", "x", log), gitDir: filepath.Join(s.root.CommonDir, "worktrees/t")}
		var parked []string
		s.OnPark = func(p Parked) { parked = append(parked, string(p.Commit)+p.Worktree) }
		if err := s.saveLogged(t.Context(), w); err != nil {
			t.Error(err)
		}
		if parks == nil {
			if len(parked) > 0 || len(s.asked) != 1 {
				t.Errorf("without a merge: %q, %q", parked, s.asked)
			}
			continue
		}
		if slices.Sort(parked); !slices.Equal(parked, []string{parks[0] + w.Path, parks[1] + w.Path}) || !strings.Contains(s.asked[1], " "+id("3")+" "+id("7")+" --not ") || strings.Contains(s.asked[1], id("2")) {
			t.Errorf("parked %q; asked %q", parked, s.asked)
		}
	}
}

// The commits of a submodule that a worktree was made with are not its own.
func TestTheCommitsThatASubmoduleWasGiven(t *testing.T) {
	s := newScripted(t, "ls-tree 160000 commit aaa\tsub\x00100644 blob bbb\tfile\x00160000 commit ccc\tdir/sub\x00")
	w := Worktree{Name: "t"}
	s.linked("t", "x", id("0")+" "+id("1")+" A\t\n")
	if given, err := s.givenModules(t.Context(), w); fmt.Sprint(given, err) != "[^aaa ^ccc] <nil>" || !strings.HasSuffix(s.asked[0], " "+id("1")) {
		t.Errorf("%q, %v; %q", given, err, s.asked)
	}
	for name, log := range map[string]string{"it was somewhere before": id("2") + " " + id("1") + " A\t\n", "cut off": id("0"), "no commit": id("0") + " x A\n"} {
		s.linked("t", "x", log)
		if given, err := s.givenModules(t.Context(), w); len(given) > 0 || err != nil {
			t.Errorf("%s: %q, %v", name, given, err)
		}
	}
	for list, want := range map[string]string{"": "[]", "a\n": "[a]", "a b c\nb d\nd\ne\n": "[a e]", "b\na b\n": "[b a]"} { // a child comes first
		if got := fmt.Sprint(tips(list)); got != want {
			t.Errorf("%q: %s", list, got)
		}
	}
}

// What git is asked to look for commits.
func TestWhatIsAskedAboutCommits(t *testing.T) {
	ctx, commit := t.Context(), kernel.CommitID(id("a"))
	for want, ask := range map[string]func(*scripted) error{
		"rev-list --first-parent --format=%B%x00 --fixed-strings --grep=Vizier-Effect: m " + id("a") + " --": func(s *scripted) error { return second(s.Marked(ctx, commit, "m", time.Unix(1e9, 0))) },
		"rev-list --first-parent --format=%B%x00 --fixed-strings --grep=Vizier-Effect: m --since=1000000001 " + id("a") + " --": func(s *scripted) error {
			return second(s.Marked(ctx, commit, "m", time.Unix(1e9+1, 0)))
		},
		"rev-list --max-count=1 --since=7 " + id("a") + " -- :(top) :(top,exclude).vizier": func(s *scripted) error {
			return second(s.Touched(ctx, commit, "", "", time.Unix(7, 0)))
		},
		"rev-list --max-count=1 --since=7 " + id("a") + " ^" + id("b") + " --not --exclude=main --branches -- :(top) :(top,exclude).vizier": func(s *scripted) error {
			return second(s.Touched(ctx, commit, kernel.CommitID(id("b")), "main", time.Unix(7, 0)))
		},
	} {
		s := newScripted(t)
		if err := ask(s); err != nil || !slices.Equal(s.asked, []string{want}) {
			t.Errorf("%q, %v; want %q", s.asked, err, want)
		}
	}
}

// A submodule that a merge has left at its former commit is not a change.
func TestASubmoduleThatAMergeLeft(t *testing.T) {
	for name, c := range map[string]struct {
		now, head, before string
		want              string
	}{
		"as the commit has it":    {id("1"), id("1"), id("2"), "[file]"},
		"as it was before":        {id("2"), id("1"), id("2"), "[file]"},
		"elsewhere":               {id("3"), id("1"), id("2"), "[sub file]"},
		"without a commit":        {"", id("1"), id("2"), "[sub file]"},
		"in neither":              {id("3"), no, no, "[sub file]"},
		"new, and as it was":      {id("1"), id("1"), no, "[file]"},
		"git cannot tell what":    {fails, id("1"), id("2"), ""},
		"git cannot tell of what": {id("3"), id("1"), fails, ""},
	} {
		s := newScripted(t, "HEAD^{commit} "+c.now+"\n", "HEAD:sub "+c.head+"\n", "HEAD^:sub "+c.before+"\n", "status  M sub\x00 M file\x00?? new\x00", "ls-files H 160000 x 0\tsub\x00H 160000 x 0\tother\x00")
		for i := range s.answers[:3] {
			if s.answers[i] = strings.TrimSuffix(s.answers[i], "\n"); !strings.Contains(s.answers[i], "\x00") {
				s.answers[i] += "\n"
			}
		}
		s.put("../sub/.git", "x")
		tracked, untracked, err := s.Unstaged(t.Context(), s.root.Dir)
		if c.want == "" {
			noAnswer(t, name, []any{tracked, untracked, err})
		} else if fmt.Sprint(tracked, untracked, err) != c.want+" [new] <nil>" {
			t.Errorf("%s: %q %q %v", name, tracked, untracked, err)
		}
	}
}

// What is there is added to the index, what is not is taken from it, and so is the path of a directory.
func TestWhichPathsAreStaged(t *testing.T) {
	s := newScripted(t)
	for _, path := range []string{"file", "dir/x", "sub/.git"} {
		s.put("../"+path, "")
	}
	if err := s.cli.stagePaths(t.Context(), command{dir: s.root.Dir}, []string{"file", "dir", "sub", "gone", "file/x"}); err != nil {
		t.Error(err)
	}
	want := []string{"update-index --force-remove -z --stdin <dir\x00gone\x00file/x\x00", "update-index --add --remove -z --stdin <file\x00sub\x00"}
	if !slices.Equal(s.asked, want) {
		t.Errorf("%q", s.asked)
	}
}

// Who is nobody's author is Vizier, for what is not configured.
func TestTheIdentityOfWhoHasNone(t *testing.T) {
	for _, v := range []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(v, "")
	}
	s := newScripted(t, "GIT_COMMITTER_IDENT "+fails)
	env := s.cli.fallbackIdentity(t.Context(), "")
	if got := fmt.Sprint(env); got != "[GIT_COMMITTER_NAME=Vizier GIT_COMMITTER_EMAIL=vizier@local]" {
		t.Error(got)
	}
	t.Setenv("GIT_COMMITTER_EMAIL", "x")
	if got := fmt.Sprint(s.cli.fallbackIdentity(t.Context(), "")); got != "[GIT_COMMITTER_NAME=Vizier]" {
		t.Error(got)
	}
	s.asked = nil
	t.Setenv("GIT_COMMITTER_NAME", "x")
	if got := s.cli.fallbackIdentity(t.Context(), ""); got != nil || len(s.asked) != 1 {
		t.Errorf("%q, %q", got, s.asked)
	}
}

// git is run again if another worktree was in its way, up to eight times.
func TestAWorktreeThatGitTriesToMake(t *testing.T) {
	for name, c := range map[string]struct {
		fails int
		says  string
		tries int
		err   string
	}{
		"at once":            {0, "", 1, "git does not list it"},
		"at the third time":  {2, "fatal: could not open .git/worktrees/x", 3, "git does not list it"},
		"something else":     {2, "fatal: no", 1, "git worktree: fatal: no (exit 128)"},
		"never":              {9, "fatal: .git/worktrees/x", 8, "git worktree: fatal: .git/worktrees/x (exit 128)"},
		"at the eighth time": {7, "fatal: .git/worktrees/x", 8, "git does not list it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, tries := newScripted(t), 0
			s.cli.exec = func(cmd *exec.Cmd) error {
				if tries++; tries > c.fails {
					return nil
				}
				_, err := io.WriteString(cmd.Stderr, c.says)
				return errors.Join(exit128(), err)
			}
			w, err := s.addWorktree(t.Context(), s.root.Dir+"/"+worktreeHome+"/x", "", kernel.CommitID(id("1")))
			if w.Name != "" || err == nil || err.Error() != c.err || tries != c.tries {
				t.Errorf("%+v, %v after %d tries", w, err, tries)
			}
		})
	}
}

// If git does not forget a worktree, its files are where they were, or it is said where.
func TestAWorktreeThatGitDoesNotForget(t *testing.T) {
	for name, c := range map[string]struct {
		taken, present bool
		says           string
	}{
		"and its files":      {false, true, "git worktree: disk on fire (exit 128); fallback cleanup failed: git worktree: disk on fire (exit 128); git worktree: disk on fire (exit 128)"},
		"and another's":      {true, true, "git worktree: disk on fire (exit 128); fallback cleanup failed: git worktree: disk on fire (exit 128); git worktree: disk on fire (exit 128)\nrename DIR/aside DIR/t: "},
		"as it says":         {false, true, "git still lists it; fallback cleanup failed: git still lists it"},
		"whose files are no": {false, false, "git worktree: disk on fire (exit 128); fallback cleanup failed: git worktree: disk on fire (exit 128); git worktree: disk on fire (exit 128)"},
	} {
		s := newScripted(t, "worktree "+fails)
		if name == "as it says" {
			s.answers = nil
		}
		dir := s.linked("t", "x", "")
		aside := filepath.Join(filepath.Dir(dir), "aside")
		if !c.present {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		run := s.run
		s.cli.exec = func(cmd *exec.Cmd) error {
			if c.taken {
				s.put("../"+worktreeHome+"/t/new", "x")
			}
			return run(cmd)
		}
		w := Worktree{Name: "t", Path: dir, gitDir: filepath.Join(s.root.CommonDir, "worktrees/t")}
		err := s.detach(t.Context(), w, dir, aside, c.present)
		want := "failed to prune worktree t: " + strings.ReplaceAll(c.says, "DIR", filepath.Dir(dir))
		if err == nil || !strings.HasPrefix(err.Error(), want) || !c.taken && err.Error() != want {
			t.Errorf("%s: %v\nwant %s", name, err, want)
		}
		if at := NameAt(dir); (at == "t") != (c.present && !c.taken) {
			t.Errorf("%s: at its place is %q", name, at)
		}
		if at := NameAt(aside); (at == "t") != (c.present && c.taken) {
			t.Errorf("%s: aside is %q", name, at)
		}
	}
}

// A commit that a merge in another worktree has made is kept by that.
func TestACommitThatAMergeHasMade(t *testing.T) {
	answer := "for-each-ref " + id("1") + " " + mergeRefs + "source\n" + id("2") + " " + mergeRefs + "target\n" + id("3") + " " + mergeRefs + "merged\n"
	for _, c := range []struct {
		commit, except, answer string
		want                   bool
	}{{"3", "other", answer, true}, {"2", "other", answer, false}, {"3", "t", answer, false}, {"3", "other", "for-each-ref " + fails, false}} {
		s := newScripted(t, c.answer)
		s.linked("t", "x", "")
		if is, err := s.mergedIn(t.Context(), kernel.CommitID(id(c.commit)), c.except); is != c.want || err != nil {
			t.Errorf("%+v: %t, %v", c, is, err)
		}
	}
}

// Worktrees of the repository are told by where they are.
func TestWhereWorktreesAre(t *testing.T) {
	s := newScripted(t)
	home, away := s.linked("home", "ref: refs/heads/a", ""), filepath.Join(s.root.Dir, "away")
	s.linked("away", "x", "")
	s.linked("moved", "ref: refs/heads/b", "")
	s.put("worktrees/away/gitdir", away+"/.git\n")
	s.put("../away/.git", "gitdir: "+filepath.Join(s.root.CommonDir, "worktrees/away")+"\n")
	s.put("worktrees/lost/gitdir", s.root.Dir+"/lost/.git\n")
	s.put("worktrees/moved/gitdir", "/elsewhere/moved/.git\n")
	got, err := s.WorktreesAway()
	if fmt.Sprint(got, err) != "map[away:"+away+"] <nil>" {
		t.Errorf("away: %v, %v", got, err)
	}
	moved, err := s.MovedWorktrees()
	at := worktreeHome + "/moved"
	if !slices.Equal(moved, []kernel.Context{{Root: at, Worktree: at, Name: "moved", Branch: "b", Owned: true}}) || err != nil {
		t.Errorf("moved: %+v, %v", moved, err)
	}
	for dir, want := range map[string]string{home + "/sub": home, away: away, s.root.Dir: "", home + "x": ""} {
		if top, err := s.linkedTop(dir); top != resolved(want) && want != "" || (top == "") != (want == "") || err != nil {
			t.Errorf("the top of %s: %s, %v", dir, top, err)
		}
	}
	s.put("worktrees/within/gitdir", home+"/within/.git\n")
	if top, err := s.linkedTop(home + "/within/x"); top != resolved(home)+"/within" || err != nil {
		t.Errorf("one within another: %s, %v", top, err)
	}
	if _, err := s.named("lost"); err == nil || err.Error() != fmt.Sprintf("git has the worktree lost at %[1]s/lost, and its files are not there: put them back, or give them up with `git worktree remove --force %[1]s/lost`; then retry", s.root.Dir) {
		t.Error(err)
	}
	s.put("worktrees/none/HEAD", "x")
	var names []string
	every, err := s.Worktrees()
	for _, w := range every {
		names = append(names, w.Name)
	}
	if fmt.Sprint(names, err) != "[away home lost moved within] <nil>" {
		t.Errorf("all: %q, %v", names, err)
	}
	s.put("worktrees/moved/"+fmt.Sprintf("link.%d.new/x", os.Getpid()), "x")
	if _, err := s.named("moved"); err == nil || !strings.HasPrefix(err.Error(), "have git find worktree moved at "+filepath.Join(s.root.Dir, at)+": open ") {
		t.Errorf("one whose link cannot be corrected: %v", err)
	}
	undo := looped(t, filepath.Join(s.root.CommonDir, "worktrees"))
	defer undo()
	noAnswer(t, "away", all(s.WorktreesAway()))
	noAnswer(t, "moved", all(s.MovedWorktrees()))
	noAnswer(t, "separate", all(s.SeparateWorktrees()))
	noAnswer(t, "of jobs", all(s.WorktreesOf(nil)))
}

// How far a path leads.
func TestHowFarAPathLeads(t *testing.T) {
	s := newScripted(t)
	s.put("../a/b/file", "x")
	f := &following{repo: s.Repo, w: Worktree{Path: s.root.Dir}}
	for path, want := range map[string]string{"a": "a dir", "a/b": "a/b dir", "a/b/file": "a/b/file file", "a/b/file/x": "a/b/file file", "a/none/x": "a/none none", "none": "none none"} {
		at, info, err := f.reach(path)
		is := "none"
		if info != nil {
			is = map[bool]string{true: "dir", false: "file"}[info.IsDir()]
		}
		if at+" "+is != want || err != nil {
			t.Errorf("%s: %s %s, %v", path, at, is, err)
		}
	}
	for of, want := range map[[2]string]bool{{"a", "a"}: true, {"a", "a/b"}: true, {"a", "ab"}: false, {"a/b", "a"}: false, {"x", "x"}: false, {"a", "b"}: false} {
		if f.holds(of[0], of[1]) != want {
			t.Errorf("%q: %t", of, !want)
		}
	}
}

// A note that was cut off is none, and one that is whole says both commits, and the files.
func TestWhatANoteSays(t *testing.T) {
	from, to := id("a"), id("b")
	for text, want := range map[string]string{
		"": " []", from + "\x00" + to: " []", from + "\x00" + to + "\x00": " []", from + "\x00" + to + "\x00\x00": from + to + " []", from + "\x00" + to + "\x00x\x00y\x00\x00": from + to + " [x y]",
		from + "\x00" + to + "\x00x\x00": " []", "x\x00" + to + "\x00\x00": " []", from + "\x00x\x00\x00": " []",
	} {
		path := filepath.Join(t.TempDir(), "note")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		note, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		f := &following{note: note}
		err = f.read()
		if got := fmt.Sprint(string(f.from)+string(f.to), " ", f.kept); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		note.Close()
	}
}

// A file of a tree that follows is given up if git has it: as one of the commits has it, or the beginning of that.
func TestWhichFilesGitHas(t *testing.T) {
	c := changedFile{"file", fileEntry{"100644", "a"}, fileEntry{"100755", "b"}}
	for name, w := range map[string]struct {
		has  fileEntry
		text string
		cat  string
		want bool
	}{
		"the old one":           {c.old, "x", "other", true},
		"the new one":           {c.new, "x", "other", true},
		"another mode":          {fileEntry{"100755", "a"}, "x", "other", false},
		"nothing":               {fileEntry{"100644", "c"}, "", "other", true},
		"a beginning":           {fileEntry{"100644", "c"}, "oth", "other", true},
		"all that a filter has": {fileEntry{"100755", "c"}, "other", "other", true},
		"one letter":            {fileEntry{"100644", "c"}, "x", "other", false},
		"more":                  {fileEntry{"100644", "c"}, "others", "other", false},
		"a link":                {fileEntry{"120000", "c"}, "oth", "other", false},
		"a filter that fails":   {fileEntry{"100644", "c"}, "oth", fails, false},
	} {
		s := newScripted(t, "cat-file "+w.cat)
		s.put("../file", w.text)
		f := &following{repo: s.Repo, w: Worktree{Path: s.root.Dir, gitDir: s.root.CommonDir}, from: "from", to: "to"}
		if is, err := f.given(t.Context(), c, w.has); is != w.want || err != nil {
			t.Errorf("%s: %t, %v", name, is, err)
		}
		if mode := map[string]string{"100644": "from:file", "100755": "to:file"}[w.has.mode]; len(s.asked) > 0 && s.asked[0] != "cat-file --filters "+mode {
			t.Errorf("%s: asked %q", name, s.asked)
		}
	}
	s := newScripted(t)
	s.put("../file", "x")
	s.cli.exec = func(*exec.Cmd) error { return io.ErrUnexpectedEOF }
	f := &following{repo: s.Repo, w: Worktree{Path: s.root.Dir, gitDir: s.root.CommonDir}, from: "from", to: "to"}
	noAnswer(t, "no git", all(f.given(t.Context(), c, fileEntry{"100644", "c"})))
}

// What a filter has made, and is as its copy, is replaced by what the index has, and what is there anew is left.
func TestAFilteredFileIsBrought(t *testing.T) {
	entry := func(id string) string { return "100644 " + id + " 0\tfile\x00" }
	for text, removed := range map[string]bool{"made": true, "mine": false} {
		s := newScripted(t, "--deleted file\x00other\x00", "--stage "+entry("new"))
		s.put("../file", text)
		s.put(followOld+"/0", "made")
		f := &following{repo: s.Repo, w: Worktree{Path: s.root.Dir, gitDir: s.root.CommonDir}, from: "from", to: "to",
			diff: []changedFile{{"file", fileEntry{"100644", "old"}, fileEntry{"100644", "new"}}}}
		if err := f.bring(t.Context(), s.root.CommonDir+"/index"); err != nil {
			t.Error(err)
		}
		if there, err := exists(filepath.Join(s.root.Dir, "file")); there == removed || err != nil {
			t.Errorf("%s: there %t, %v", text, there, err)
		}
		if last := s.asked[len(s.asked)-1]; last != "checkout-index -z --stdin <file\x00" {
			t.Errorf("%s: last asked %q", text, last)
		}
	}
}

// A file in the place of a submodule that cannot be looked at keeps its tree, and so does one of which git does not tell.
func TestASubmoduleThatCannotBeLookedAt(t *testing.T) {
	s := newScripted(t, "config "+fails, "symbolic-ref refs/heads/x\n")
	f := &following{repo: s.Repo, w: Worktree{Path: s.root.Dir, Branch: "main", gitDir: s.root.CommonDir}, diff: []changedFile{{"sub", fileEntry{moduleMode, "a"}, fileEntry{"100644", "b"}}}}
	undo := looped(t, filepath.Join(s.root.Dir, "sub"))
	noAnswer(t, "looped", all(f.replacedModule()))
	noAnswer(t, "looped, and blocked", all(f.blocked(t.Context())))
	known := newScripted(t)
	_, err := (&following{repo: known.Repo, w: f.w}).makeWay(t.Context(), "sub")
	noAnswer(t, "looped, and to make way", all(err))
	undo()
	s.put("../sub/file", "x")
	if module, err := f.replacedModule(); module != "sub" || err != nil {
		t.Errorf("%q, %v", module, err)
	}
	noAnswer(t, "unknown", all(f.makeWay(t.Context(), "sub")))
	s.put("HEAD", "odd")
	s.put("refs/heads/x", "y")
	if stays, err := f.stays(t.Context()); stays || err != nil {
		t.Errorf("on another branch: %t, %v", stays, err)
	}
	undo = looped(t, filepath.Join(s.root.CommonDir, "refs/heads/x"))
	defer undo()
	noAnswer(t, "a branch that cannot be looked at", all(f.stays(t.Context())))
}

// The copies of files that a filter makes are those of the files that are to change.
func TestWhichFilesAreCopied(t *testing.T) {
	s := newScripted(t, "check-attr a\x00filter\x00lfs\x00b\x00filter\x00unspecified\x00c\x00filter\x00unset\x00d\x00filter\x00set\x00e\x00filter\x00x\x00f\x00filter\x00x\x00")
	f := &following{repo: s.Repo, w: Worktree{Path: s.root.Dir, gitDir: s.root.CommonDir}}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		s.put("../"+name, name)
		f.diff = append(f.diff, changedFile{name, fileEntry{"100644", "x"}, fileEntry{"100644", "y"}})
	}
	f.diff[4].old.mode = "120000"
	if err := errors.Join(os.Remove(filepath.Join(s.root.Dir, "f")), f.preserve(t.Context())); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(f.path(followOld))
	if fmt.Sprint(entries, err) != "[- 0 - 3] <nil>" || s.asked[0] != "check-attr -z --stdin filter <a\x00b\x00c\x00d\x00f\x00" {
		t.Errorf("copied %v, %v; asked %q", entries, err, s.asked)
	}
	f.diff, s.asked = f.diff[4:5], nil
	if err := f.preserve(t.Context()); err != nil || len(s.asked) > 0 {
		t.Errorf("only a link: %v, asked %q", err, s.asked)
	}
}

// A worktree at a commit has all files; one of a branch is as sparse as git makes it.
func TestHowSparseAWorktreeIs(t *testing.T) {
	for branch, want := range map[string]bool{"": false, "b": true} {
		s := newScripted(t, "for-each-ref "+id("1")+" refs/heads/b\n", "rev-parse "+id("1")+"\n")
		run := s.run
		s.cli.exec = func(cmd *exec.Cmd) error {
			if slices.Contains(cmd.Args, "add") {
				s.linked("new", id("1"), "")
				s.put("worktrees/new/info/sparse-checkout", "x")
				s.put("worktrees/new/locked", initializing)
			}
			return run(cmd)
		}
		if c, err := s.EnsureWorktree(t.Context(), "new", "place", branch, kernel.CommitID(id("1"))); c.Worktree != worktreeHome+"/place" || err != nil {
			t.Errorf("%q: %+v, %v", branch, c, err)
		}
		if sparse, err := exists(filepath.Join(s.root.CommonDir, "worktrees/new/info/sparse-checkout")); sparse != want || err != nil {
			t.Errorf("%q: sparse %t, %v", branch, sparse, err)
		}
		if link, err := os.ReadFile(filepath.Join(s.root.CommonDir, "worktrees/new/gitdir")); string(link) != filepath.Join(s.root.Dir, worktreeHome, "place/.git")+"\n" || err != nil {
			t.Errorf("%q: git has it at %q, %v", branch, link, err)
		}
	}
	s := newScripted(t)
	s.put("worktrees/new/info/sparse-checkout/x", "x")
	if err := whole(Worktree{gitDir: filepath.Join(s.root.CommonDir, "worktrees/new")}); err == nil {
		t.Error("the patterns cannot be removed, and nothing is said")
	}
}

// Of a damaged worktree is told what is damaged, and what git's files of it are made.
func TestWhatADamagedWorktreeLacks(t *testing.T) {
	s := newScripted(t, "rev-parse "+id("5")+"\n")
	c := kernel.Context{Name: "t", Worktree: worktreeHome + "/t"}
	s.put("../"+worktreeHome+"/t/file", "x")
	for at, want := range map[string]string{
		"gitdir: " + filepath.Join(s.root.CommonDir, "worktrees/t"): "git does not know it any more" + anew,
		"gitdir: " + filepath.Join(s.root.CommonDir, "worktrees/u"): "",
	} {
		s.put("../"+worktreeHome+"/t/.git", at+"\n")
		if why, shut, err := s.Damage(c); why != want || shut || err != nil {
			t.Errorf("%q: %q, %t, %v", at, why, shut, err)
		}
	}
	if err := os.Remove(filepath.Join(s.root.Dir, worktreeHome, "t/.git")); err != nil {
		t.Fatal(err)
	}
	const gone = "its file .git is missing, and git does not know it any more: a retry of the job that made it makes another one, and leaves this as it is"
	if why, _, err := s.Damage(c); why != gone || err != nil {
		t.Errorf("without .git: %q, %v", why, err)
	}
	for log, want := range map[string]string{"": id("5"), "one": id("5"), id("1") + " " + id("2"): id("2"), id("1") + " x": id("5")} {
		dir := s.linked("t", "damaged", log)
		w, err := s.mend(t.Context(), Worktree{Name: "t", Path: dir, Branch: "b", gitDir: filepath.Join(s.root.CommonDir, "worktrees/t")}, "b")
		head, _ := os.ReadFile(filepath.Join(w.gitDir, "HEAD"))
		common, _ := os.ReadFile(filepath.Join(w.gitDir, "commondir"))
		if string(head) != want+"\n" || string(common) != "../..\n" || w.Branch != "" || err != nil {
			t.Errorf("%q: at %q, common %q, %+v, %v", log, head, common, w, err)
		}
	}
	s.put("worktrees/t/index/x", "x")
	if _, err := s.mend(t.Context(), Worktree{Name: "t", gitDir: filepath.Join(s.root.CommonDir, "worktrees/t")}, ""); err == nil {
		t.Error("its index is a directory, and nothing is said")
	}
}

// A long path is told by its first directories.
func TestTheBeginningOfAPath(t *testing.T) {
	long := strings.Repeat("x", 60)
	for path, want := range map[string]string{"a/b": "a/b", long: long, long + "/y": long, long + "y/z": long + "y", long + "yy": long + "yy", "a/" + long[2:] + "/y": "a/" + long[2:]} {
		if got := beginning(path); got != want {
			t.Errorf("%q: %q", path, got)
		}
	}
}

// clean is an engine that says whether the working tree is.
type clean struct {
	broken
	is  bool
	err error
}

func (c clean) Clean(context.Context) (bool, error) { return c.is, c.err }

// What another engine takes for changed is looked at by git.
func TestWhoSaysThatATreeIsClean(t *testing.T) {
	for name, c := range map[string]struct {
		first  clean
		status string
		want   bool
	}{
		"it is":           {clean{is: true}, "status  M file\x00", true},
		"it is not":       {clean{}, "status  M file\x00", false},
		"git knows more":  {clean{}, "", true},
		"it cannot tell":  {clean{err: errBroken}, "", true},
		"nor is it clean": {clean{is: true, err: errBroken}, "status  M file\x00", false},
	} {
		s := newScripted(t, c.status)
		if is, err := (&fallback{Backend: s.cli, first: c.first}).Clean(t.Context()); is != c.want || err != nil {
			t.Errorf("%s: %t, %v", name, is, err)
		}
	}
}

// What git added of an agent's repositories is taken from the index, unless git does not tell what that is.
func TestWhichRepositoriesAreTakenFromTheIndex(t *testing.T) {
	added := func(name string) string { return ":000000 160000 0 a A\x00" + name + "\x00" }
	answers := []string{"diff " + added("agents") + added("unseen") + added("known") + added("empty") + ":160000 160000 0 a M\x00moved\x00:100644 100644 0 a M\x00file\x00:000000 100644 0 a A\x00made\x00:\x00cut off\x00",
		"config submodule.x.path\nknown\x00", "ls-files new\x00"}
	links := []string{"agents", "unseen", "known", "empty", "moved"}
	for _, failing := range []string{"", "diff", "config", "ls-files", "update-index"} {
		s := newScripted(t, slices.Insert(slices.Clone(answers), 0, failing+" "+fails)...)
		s.put("../agents/.git/HEAD", "x")
		s.put("../known/.git/HEAD", "x")
		for _, name := range []string{"moved", "file", "made"} {
			s.put("../"+name+"/.git/HEAD", "x")
		}
		s.put("../unseen/new", "x")
		left, err := s.dropAdded(t.Context(), s.root.Dir, links)
		if (err != nil) != (failing != "") {
			t.Errorf("%s fails: %v", failing, err)
		}
		if last := s.asked[len(s.asked)-1]; failing == "" && (!slices.Equal(left, []string{"known", "empty", "moved"}) || last != "update-index --force-remove -z --stdin <agents\x00unseen\x00") {
			t.Errorf("left are %q; last asked %q", left, last)
		}
	}
	s := newScripted(t, answers...)
	for _, name := range []string{"agents", "unseen", "known", "empty"} {
		defer looped(t, filepath.Join(s.root.Dir, name))()
	}
	if left, err := s.dropAdded(t.Context(), s.root.Dir, links); !slices.Equal(left, links) || err == nil || len(s.asked) != 2 {
		t.Errorf("one that cannot be looked at: left are %q, %v", left, err)
	}
}

// A merge that git ends with 1 is one in conflict, or one whose conflicts are resolved as before.
func TestHowAMergeEnds(t *testing.T) {
	const renamed = "update-index --force-remove -z --stdin <old\x00"
	for name, c := range map[string]struct {
		squash  bool
		answers []string
		fails   bool
		last    string
	}{
		"at once":                    {false, nil, false, "merge --quiet --no-commit --no-ff x"},
		"a squash at once":           {true, nil, false, "merge --quiet --squash --ff x"},
		"in conflict":                {false, []string{"merge " + no, "--unmerged 100644 a 1\tfile\x00", "status UU file\x00DD old\x00"}, false, renamed},
		"in a conflict git forgot":   {false, []string{"merge " + no, "--unmerged " + fails}, true, ""},
		"renamed by nobody knows":    {false, []string{"merge " + no, "--unmerged 100644 a 1\tfile\x00", "status " + fails}, true, ""},
		"in conflict, to be told":    {false, []string{"merge " + no, "--unmerged 100644 a 1\tfile\x00", "status DD old\x00", "update-index " + fails}, true, ""},
		"resolved as before":         {false, []string{"merge " + no, "rev-parse " + id("1")}, false, ""},
		"a squash, as before":        {true, []string{"merge " + no, "rev-parse " + no, "diff " + no}, false, ""},
		"a squash of nothing":        {true, []string{"merge " + no, "rev-parse " + no}, true, ""},
		"staged, and no merge":       {false, []string{"merge " + no, "rev-parse " + no, "diff " + no}, true, ""},
		"it fails, with one to come": {false, []string{"merge " + fails, "rev-parse " + id("1")}, true, ""},
	} {
		s := newScripted(t, c.answers...)
		err := s.Merge(t.Context(), s.root.Dir, "x", c.squash)
		if last := s.asked[len(s.asked)-1]; (err != nil) != c.fails || c.last != "" && last != c.last {
			t.Errorf("%s: %v; last asked %q", name, err, last)
		}
	}
}

// A commit that is replayed has the files of both, and its further parents; one that conflicts or brings nothing is none.
func TestWhatIsReplayed(t *testing.T) {
	show := func(parents string) string { return "show " + parents + "\x00Ann\x00a@x\x001 +0\x00text\n" }
	one, two := id("1"), id("1")+" "+id("2")+" "+id("3")
	for name, c := range map[string]struct {
		answers []string
		want    string
		fails   bool
		last    string
	}{
		"onto":                 {[]string{show(one), "merge-tree " + id("7") + "\n", "--verify " + id("8"), "commit-tree " + id("9")}, id("9"), false, "commit-tree -p " + id("c") + " " + id("7") + " <text\n"},
		"with two parents":     {[]string{show(two), "merge-tree " + id("7") + "\n", "commit-tree " + id("9")}, id("9"), false, "commit-tree -p " + id("c") + " -p " + id("2") + " -p " + id("3") + " " + id("7") + " <text\n"},
		"signed":               {[]string{show(two), "config true\n", "merge-tree " + id("7") + "\n", "commit-tree " + id("9")}, id("9"), false, "commit-tree -p " + id("c") + " -p " + id("2") + " -p " + id("3") + " -S " + id("7") + " <text\n"},
		"nothing":              {[]string{show(one), "merge-tree " + id("7") + "\n", "--verify " + id("7") + "\n"}, id("c"), false, ""},
		"in conflict":          {[]string{show(one), "merge-tree " + no}, "", false, ""},
		"git does not show it": {[]string{"show " + fails}, "", true, ""},
		"nor copies it":        {[]string{show(one), "vizier " + fails}, "", true, ""},
		"nor merges it":        {[]string{show(one), "merge-tree " + fails}, "", true, ""},
	} {
		s := newScripted(t, c.answers...)
		got, err := s.Replay(t.Context(), kernel.CommitID(id("a")), kernel.CommitID(id("b")), kernel.CommitID(id("c")))
		if last := s.asked[len(s.asked)-1]; string(got) != c.want || (err != nil) != c.fails || c.last != "" && last != c.last {
			t.Errorf("%s: %s, %v; last asked %q", name, got, err, last)
		}
	}
}

// What git says no to by its exit code is a no, and what it fails at is an error.
func TestWhatGitSaysNoTo(t *testing.T) {
	ctx, a, b := t.Context(), kernel.CommitID(id("a")), kernel.CommitID(id("b"))
	for name, c := range map[string]struct {
		ask     func(s *scripted) (bool, error)
		yes, no string // the answers
	}{
		"staged":   {func(s *scripted) (bool, error) { return s.Staged(ctx, "") }, no, ""},
		"related":  {func(s *scripted) (bool, error) { return s.Related(ctx, a, b) }, "", no},
		"ancestor": {func(s *scripted) (bool, error) { return s.IsAncestor(ctx, a, b) }, "", no},
		"merging":  {func(s *scripted) (bool, error) { return s.Merging(ctx, "") }, "", no},
		"there":    {func(s *scripted) (bool, error) { return s.Has(ctx, a) }, id("a"), no},
	} {
		for answer, want := range map[string]string{c.yes: "true <nil>", c.no: "false <nil>", fails: ""} {
			s := newScripted(t)
			s.cli.exec = func(cmd *exec.Cmd) error {
				s.answers = []string{cmd.Args[len(cmd.Args)-1] + " " + answer}
				return s.run(cmd)
			}
			is, err := c.ask(s)
			if got := fmt.Sprint(is, " ", err); want != "" && got != want || want == "" && (is || err == nil) {
				t.Errorf("%s, answered %q: %s", name, answer, got)
			}
		}
	}
	for answer, want := range map[string]bool{"": true, no: false, fails: false} {
		s := newScripted(t, "apply "+answer)
		if is, err := s.Applied(ctx, "", nil); is != want || err != nil {
			t.Errorf("applied, answered %q: %t, %v", answer, is, err)
		}
	}
	s := newScripted(t)
	s.cli.exec = func(*exec.Cmd) error { return io.ErrUnexpectedEOF }
	noAnswer(t, "applied, without git", all(s.Applied(ctx, "", nil)))
}

// What git cannot tell is told by nobody else, and nothing is taken for it.
func TestWhatGitCannotTell(t *testing.T) {
	ctx, a, b := t.Context(), kernel.CommitID(id("a")), kernel.CommitID(id("b"))
	const dir = worktreeHome + "/t"
	for name, c := range map[string]struct {
		fails string // a word of what git is asked
		ask   func(s *scripted) []any
	}{
		"what a tree has that is ready":    {"ls-files", func(s *scripted) []any { return all(second2(s.ready(ctx, s.root.Dir, false))) }},
		"what is tracked":                  {"ls-files", func(s *scripted) []any { return all(s.Tracked(ctx, "x")) }},
		"what is tracked in a directory":   {"ls-files", func(s *scripted) []any { return all(s.TrackedIn(ctx, "x")) }},
		"where a branch is, for a tree":    {"for-each-ref", func(s *scripted) []any { return all(s.addWorktree(ctx, s.root.Dir+"/"+dir, "main", a)) }},
		"whether a branch goes":            {"for-each-ref", func(s *scripted) []any { return all(s.DropBranch(ctx, "x")) }},
		"whether a branch moves":           {"update-ref", func(s *scripted) []any { return all(s.Advance(ctx, "x", a, b)) }},
		"the commit that a patch is from":  {"rev-parse", func(s *scripted) []any { return all(s.Patch(ctx, s.root.Dir)) }},
		"whether anything was touched":     {"rev-list", func(s *scripted) []any { return all(s.Touched(ctx, a, "", "", time.Unix(1, 0))) }},
		"whether a checkout is sparse":     {"config", func(s *scripted) []any { return all(s.Sparse(ctx, s.root.Dir)) }},
		"what may go that was only staged": {"for-each-ref", func(s *scripted) []any { s.put(parkedRefs+"x", ""); return all(s.DropStaged(ctx, time.Unix(1, 0))) }},
		"what is staged since Remember":    {"ls-files", func(s *scripted) []any { return all(s.tree().stagedSince(ctx, nil)) }},
		"what is to be put back":           {"ls-files", func(s *scripted) []any { return all(s.tree().withStaged(ctx, a, b)) }},
	} {
		s := newScripted(t, c.fails+" "+fails, "for-each-ref "+id("a")+" refs/heads/x\n", "rev-parse "+id("a")+"\n")
		s.put("HEAD", "odd")
		noAnswer(t, name, c.ask(s))
	}
	looks := map[string]func(s *scripted) []any{ // the file that cannot be looked at
		"packed-refs":  func(s *scripted) []any { return all(s.DropStaged(ctx, time.Unix(1, 0))) },
		"refs/heads/x": func(s *scripted) []any { return all(s.symbolic(ctx, "refs/heads/x")) },
	}
	for path, ask := range looks {
		s := newScripted(t)
		s.put(filepath.Join(path, "x"), "")
		undo := looped(t, filepath.Join(s.root.CommonDir, path))
		noAnswer(t, path, ask(s))
		undo()
	}
}

// tree is the main working tree.
func (s *scripted) tree() tree {
	return tree{cli: s.cli, w: Worktree{Path: s.root.Dir, gitDir: s.root.CommonDir}, dir: s.root.Dir}
}

func second2[A, B any](_ A, _ B, err error) error { return err }

// A tree with conflicts is not ready to be committed, nor is there a patch of it.
func TestATreeInConflictIsNotReady(t *testing.T) {
	s := newScripted(t, "ls-files M 100644 a 1\tfile\x00M 100644 a 2\tfile\x00")
	want := s.root.Dir + " has files in conflict: file"
	if _, top, err := s.ready(t.Context(), s.root.Dir, false); top != "" || err == nil || err.Error() != want {
		t.Errorf("%q, %v", top, err)
	}
	if _, err := s.Patch(t.Context(), s.root.Dir); err == nil || err.Error() != want {
		t.Errorf("a patch: %v", err)
	}
	if err := s.Apply(t.Context(), s.root.Dir, []byte("x")); err == nil || err.Error() != want || s.askedFor("apply") {
		t.Errorf("to apply one: %v, asked %q", err, s.asked)
	}
}

// What a patch is made of has nothing of Vizier's own, and begins at nothing where there is no commit.
func TestWhatAPatchHas(t *testing.T) {
	s := newScripted(t, "hash-object "+id("e")+"\n", "rev-parse "+no, "diff text")
	s.put("HEAD", "odd")
	patch, err := s.Patch(t.Context(), s.root.Dir)
	last, rest := s.asked[len(s.asked)-1], ""
	for _, d := range scratch {
		rest += " :(top,exclude)" + d
	}
	if string(patch) != "text" || err != nil || !strings.HasSuffix(last, " "+id("e")+" -- :(top)"+rest) {
		t.Errorf("%q, %v; asked %q", patch, err, last)
	}
}

// What is only staged is kept, without what was staged before Remember if that counts for nothing.
func TestWhatIsOnlyStagedIsKept(t *testing.T) {
	entry := func(digit, path string) string { return "100644 " + id(digit) + " 0\t" + path + "\x00" }
	for name, c := range map[string]struct {
		since      bool
		then, work string // entries at Remember, and the paths that are not as in the files
		want       string
	}{
		"removed":                         {false, "", "file\x00", id("9")},
		"removed, staged before":          {false, entry("1", "file"), "file\x00", id("9")},
		"put back":                        {true, "", "file\x00", id("9")},
		"put back, staged otherwise then": {true, entry("2", "file"), "file\x00", id("9")},
		"put back, staged before":         {true, entry("1", "file"), "file\x00", ""},
		"the files have it":               {false, "", "other\x00", ""},
	} {
		s := newScripted(t, "diff file\x00", "write-tree "+id("7")+"\n", "mergeRefs "+no, "rev-parse "+no, "diff-tree "+c.work, "commit-tree "+id("9")+"\n")
		run := s.run
		s.cli.exec = func(cmd *exec.Cmd) error {
			if !slices.Contains(cmd.Args, "ls-files") {
				return run(cmd)
			}
			text := entry("1", "file")
			if slices.ContainsFunc(cmd.Env, func(v string) bool { return strings.HasSuffix(v, besideIndex+"/index") }) {
				text = c.then
			}
			_, err := io.WriteString(cmd.Stdout, text)
			return err
		}
		if got, err := s.tree().staged(t.Context(), kernel.CommitID(id("a")), kernel.CommitID(id("b")), c.since); string(got) != c.want || err != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// Of every tree that is on its way and has not begun, the note goes.
func TestEveryTreeIsBrought(t *testing.T) {
	s := newScripted(t)
	var on []Worktree
	for _, name := range []string{"a", "b", "c"} {
		dir := s.linked(name, "ref: refs/heads/x", "")
		s.put("worktrees/"+name+"/"+followNote, "")
		on = append(on, Worktree{Name: name, Path: dir, Branch: "x", gitDir: filepath.Join(s.root.CommonDir, "worktrees", name)})
	}
	for _, end := range []func() (string, error){
		func() (string, error) { return s.endAll(t.Context(), "x", on[:2]) },
		func() (string, error) { return s.endAll(t.Context(), "x", nil) },
	} {
		if obstacle, err := end(); obstacle != "" || err != nil {
			t.Errorf("%q, %v", obstacle, err)
		}
		for _, w := range on {
			if there, err := exists(filepath.Join(w.gitDir, followNote)); there || err != nil {
				t.Errorf("%s: there %t, %v", w.Name, there, err)
			}
			s.put("worktrees/"+w.Name+"/"+followNote, "")
		}
	}
}

// What git says of changes, and what puts them aside.
func TestWhichChangesAreInTheWay(t *testing.T) {
	entry := func(kind, xy, sub, path string) string {
		return kind + " " + xy + " " + sub + " m m m h h " + path + "\x00"
	}
	for text, want := range map[string]string{
		entry("1", ".M", "N...", ".vizier/tmp/x"): "",
		entry("u", "UU", "N...", "x"):             "`git -C D stash`",
		entry("1", ".M", "N...", "x"):             "`git -C D stash`",
		entry("1", ".A", "N...", "x"):             "`git -C D reset -- x`",
		entry("1", "A.", "SC..", "s"):             "`git -C D reset -- s`",
		entry("1", "M.", "SC..", "s"):             "`git -C D reset -- s`, then `git -C D submodule update -- s`",
		entry("1", ".M", "SC..", "s"):             "`git -C D submodule update -- s`",
		"1 .M cut off\x00":                        "",
		entry("1", ".M", "SC..", "s") + entry("1", ".A", "N...", "y") + entry("1", "M.", "N...", "x"): "`git -C D reset -- y`, then `git -C D submodule update -- s`, then `git -C D stash`",
	} {
		s := newScripted(t, "status "+text)
		c, err := s.cli.changed(t.Context(), s.root.Dir)
		if got := c.undo("D"); got != want || c.any() != (want != "") || c.shut != "" || err != nil {
			t.Errorf("%q: %s, %+v, %v", text, got, c, err)
		}
	}
}

// What a name of a ref may have, it has.
func TestAPartOfARef(t *testing.T) {
	for name, want := range map[string]string{"azAZ09_-": "azAZ09_-", "a/z.A Z:0@9`{[": "a-z-A-Z-0-9---"} {
		if got := refPart(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	for version, want := range map[string][2]int{"2.41.3": {2, 41}, "12.9.x": {12, 9}, "3": {3, 0}, "2.5rc1": {2, 5}, "2.4.1.7": {2, 4}} {
		if got := numbers(version); got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
}

// A file that Remember copied is put back, and one that was not there goes.
func TestAFileIsPutBack(t *testing.T) {
	for _, copied := range []bool{true, false} {
		for _, there := range []bool{true, false} {
			s := newScripted(t)
			from, to := filepath.Join(s.root.CommonDir, "from"), filepath.Join(s.root.CommonDir, "to")
			if copied {
				s.put("from", "then")
			}
			if there {
				s.put("to", "now")
			}
			err := restore(from, to)
			text, unread := os.ReadFile(to)
			if err != nil || string(text) != map[bool]string{true: "then"}[copied] || (unread == nil) != copied {
				t.Errorf("copied %t, there %t: %q, %v, %v", copied, there, text, unread, err)
			}
		}
	}
}
