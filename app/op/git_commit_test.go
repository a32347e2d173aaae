package op

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// files returns the paths of a commit.
func (w *world) files(commit string) []string {
	w.Helper()
	out := w.git(w.dir, "ls-tree", "-r", "-z", "--name-only", commit)
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
}

func TestStageCommitTakesEverythingButViziersOwn(t *testing.T) {
	w := newWorld(t)
	w.write(w.dir, ".gitignore", "") // nothing is ignored: the operation itself has to know
	w.git(w.dir, "rm", "--quiet", "readme.txt")
	w.write(w.dir, "with space/ünïcode.txt", "1\n")
	w.write(w.dir, "line\nbreak", "2\n")
	w.write(w.dir, "crlf.txt", "a\r\nb\r\n")
	w.write(w.dir, "run.sh", "#!/bin/sh\n")
	os.Chmod(filepath.Join(w.dir, "run.sh"), 0o755)
	for _, own := range []string{"jobs", "tmp", "tmp-worktrees", "sessions", "state"} {
		w.write(w.dir, ".vizier/"+own+"/x/file", "private")
	}
	w.write(w.dir, ".vizier/config.toml", "")
	w.git(w.dir, "add", "--force", ".vizier/jobs") // somebody else staged it
	n := w.node("git.stage_commit", map[string]string{"message": "feat: all\n\n# kept\n\nReviewed-by: Bob"})
	w.want(n, kernel.OutcomeSucceeded, "commit "+w.rev("HEAD")[:0])

	want := []string{".gitignore", ".vizier/config.toml", "crlf.txt", "line\nbreak", "run.sh", "with space/ünïcode.txt"}
	if got := w.files("HEAD"); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	if w.git(w.dir, "cat-file", "blob", "HEAD:crlf.txt") != "a\r\nb" || !strings.HasPrefix(w.git(w.dir, "ls-tree", "HEAD", "run.sh"), "100755") {
		t.Error("content or mode was changed")
	}
	message := w.git(w.dir, "log", "-1", "--format=%B")
	if want := "feat: all\n\n# kept\n\nReviewed-by: Bob\nVizier-Effect: " + effectKey(n, ""); message != want {
		t.Errorf("message %q, want %q", message, want)
	}

	head := w.rev("HEAD")
	w.write(w.dir, "later.txt", "")
	w.want(n, kernel.OutcomeSucceeded, "earlier attempt")
	if w.rev("HEAD") != head {
		t.Error("executed again, it committed again")
	}
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded)
	if w.rev("HEAD^") != head {
		t.Error("a new generation did not commit")
	}
	w.want(w.node("git.stage_commit", nil), kernel.OutcomeSucceeded, "nothing to commit")
}

// A crash between staging and the commit leaves an index for the next attempt.
func TestStageCommitAfterACrashBeforeTheCommit(t *testing.T) {
	w := newWorld(t)
	n := w.node("git.stage_commit", nil)
	w.write(w.dir, "a.txt", "")
	w.git(w.dir, "add", "a.txt")
	w.want(n, kernel.OutcomeSucceeded)
	if got := w.git(w.dir, "log", "-1", "--format=%s"); got != defaultMessage {
		t.Errorf("subject %q", got)
	}
}

func TestStageThenCommit(t *testing.T) {
	w := newWorld(t)
	w.write(w.dir, "dir/[a]*.txt", "")
	w.write(w.dir, "dir/b.txt", "")
	w.write(w.dir, "other.txt", "")
	w.git(w.dir, "rm", "--quiet", "--cached", "readme.txt")
	os.Remove(filepath.Join(w.dir, "readme.txt"))
	w.git(w.dir, "reset", "--quiet")
	w.want(w.node("git.stage", map[string]string{"files_json": `["dir/[a]*.txt", "readme.txt"]`}), kernel.OutcomeSucceeded)
	if got := w.git(w.dir, "diff", "--cached", "--name-only"); got != "dir/[a]*.txt\nreadme.txt" {
		t.Errorf("staged %q", got)
	}
	w.want(w.node("git.commit", nil), kernel.OutcomeSucceeded)
	w.want(w.node("git.stage", map[string]string{"files_json": `["dir"]`}).in(filepath.Join(w.dir, "dir", "..")), kernel.OutcomeSucceeded)
	w.want(w.node("git.stage", map[string]string{"files_json": `["."]`}), kernel.OutcomeSucceeded)
	w.want(w.node("git.commit", map[string]string{"commit_message": "two"}), kernel.OutcomeSucceeded)
	if got := w.files("HEAD"); !slices.Equal(got, []string{".gitignore", "dir/[a]*.txt", "dir/b.txt", "other.txt"}) {
		t.Errorf("files %q", got)
	}
	w.want(w.node("git.stage", map[string]string{"files_json": `["missing"]`}), kernel.OutcomeFailed, "missing")
	w.want(w.node("git.stage", map[string]string{"files_json": `["../out"]`}), kernel.OutcomeFailed, "../out")
	w.want(w.node("git.stage", map[string]string{"files_json": `nonsense`}), kernel.OutcomeFailed, "files_json")
}

func TestDeclaredPlanDocumentIsStagedThoughIgnored(t *testing.T) {
	w := newWorld(t)
	w.write(w.dir, ".gitignore", ".vizier/\n")
	doc := kernel.Artifact{Kind: kernel.PlanDoc, Name: "foo"}
	w.want(w.node("git.stage_commit", nil).declares(doc), kernel.OutcomeFailed, "foo.md is not there")
	w.write(w.dir, planFile("foo"), "plan\n")
	w.want(w.node("git.stage_commit", nil).declares(doc), kernel.OutcomeSucceeded)
	if !slices.Contains(w.files("HEAD"), planFile("foo")) {
		t.Error("it is not in the commit")
	}
	w.write(w.dir, planFile("foo"), "plan 2\n")
	w.want(w.node("git.stage", map[string]string{"files_json": "[]"}).declares(doc), kernel.OutcomeSucceeded)
	if got := w.git(w.dir, "diff", "--cached", "--name-only"); got != planFile("foo") {
		t.Errorf("staged %q", got)
	}
}

func TestCommitMessageFromAPayload(t *testing.T) {
	w := newWorld(t)
	a := kernel.Artifact{Kind: kernel.Custom, Name: "commit_message", Ref: "all"}
	for _, sel := range []string{"commit_message", "commit_message:all"} {
		w.write(w.dir, "a.txt", sel)
		w.git(w.dir, "add", "a.txt")
		n := w.node("git.commit", map[string]string{"message": "read_payload(" + sel + ")"})
		n.Needs = []workflow.ArtifactRecord{workflow.RecordOf(a)}
		if sel == "commit_message" {
			w.want(n, kernel.OutcomeFailed, "commit_message")
			w.produce(a, `{"text": "fix: `+sel+`\n\nwhy\n"}`)
		}
		w.want(n, kernel.OutcomeSucceeded)
		if got := w.git(w.dir, "log", "-1", "--format=%s"); got != "fix: commit_message" {
			t.Errorf("subject %q", got)
		}
	}
	w.want(w.node("git.commit", map[string]string{"message": "read_payload(other)"}), kernel.OutcomeFailed, "0 custom needs")
}

// produce makes a custom artifact exist, with data as its payload.
func (w *world) produce(a kernel.Artifact, data string) {
	w.Helper()
	n := w.node("", nil)
	if err := w.env.Files.WritePayload(n.Job.ID, a, []byte(data)); err != nil {
		w.Fatal(err)
	}
	payloads, _ := filepath.Glob(filepath.Join(w.dir, ".vizier/jobs/artifacts/data/*/*/"+string(n.Job.ID)+".json"))
	if len(payloads) != 1 {
		w.Fatalf("payload files: %v", payloads)
	}
	w.write("/", strings.Replace(payloads[0], "/data/", "/custom/", 1), "{}")
}

func TestHooksAreHonoured(t *testing.T) {
	w := newWorld(t)
	hook := filepath.Join(w.dir, ".git/hooks/pre-commit")
	w.write("/", hook, "#!/bin/sh\necho 'lint: line 3 is too long' >&2\nexit 1\n")
	os.Chmod(hook, 0o755)
	w.write(w.dir, "a.txt", "")
	head := w.rev("HEAD")
	n := w.node("git.stage_commit", nil)
	if r := w.want(n, kernel.OutcomeFailed, "lint: line 3 is too long"); r.Class != kernel.ExitFailure {
		t.Errorf("class %v", r.Class)
	}
	if w.rev("HEAD") != head || !strings.Contains(w.stderr.String(), "lint: line 3") {
		t.Error("it was committed, or the log does not say why not")
	}
	// A hook that repairs the commit, and leaves something running that holds
	// its output open.
	w.write("/", hook, "#!/bin/sh\necho added > by-hook.txt\ngit add by-hook.txt\nsleep 15 &\nexit 0\n")
	w.want(n, kernel.OutcomeSucceeded)
	if !slices.Contains(w.files("HEAD"), "by-hook.txt") {
		t.Error("what the hook staged is not in the commit")
	}
}

func TestIdentity(t *testing.T) {
	w := newWorld(t)
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		os.Unsetenv("GIT_" + who + "_NAME")
		os.Unsetenv("GIT_" + who + "_EMAIL")
	}
	author := func() string { return w.git(w.dir, "log", "-1", "--format=%an <%ae> %cn <%ce>") }
	w.write(w.dir, "a.txt", "1")
	w.want(w.node("git.stage_commit", nil), kernel.OutcomeSucceeded)
	if got := author(); got != "Vizier <vizier@local> Vizier <vizier@local>" {
		t.Errorf("without an identity: %s", got)
	}
	w.git(w.dir, "config", "user.name", "Bob")
	w.git(w.dir, "config", "user.email", "bob@example.org")
	w.write(w.dir, "a.txt", "2")
	w.want(w.node("git.stage_commit", nil), kernel.OutcomeSucceeded)
	if got := author(); got != "Bob <bob@example.org> Bob <bob@example.org>" {
		t.Errorf("with an identity: %s", got)
	}
}

func TestSigningIsHonoured(t *testing.T) {
	w := newWorld(t)
	signer := filepath.Join(t.TempDir(), "signer")
	w.write("/", signer, "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho '-----BEGIN PGP SIGNATURE-----'\necho x\necho '-----END PGP SIGNATURE-----'\n")
	os.Chmod(signer, 0o755)
	w.git(w.dir, "config", "gpg.program", signer)
	w.git(w.dir, "config", "commit.gpgSign", "true")
	w.write(w.dir, "a.txt", "1")
	w.want(w.node("git.stage_commit", nil), kernel.OutcomeSucceeded)
	if !strings.Contains(w.git(w.dir, "cat-file", "commit", "HEAD"), "gpgsig") {
		t.Error("the commit is not signed")
	}
}

// A stage fails whose work git cannot read, and commits it once it can be read.
func TestACommitWhereADirectoryCannotBeRead(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	w := newWorld(t)
	w.git(w.dir, "branch", "draft/foo")
	tree, err := w.env.Git.EnsureWorktree(t.Context(), "stage-x", "stage-x", "draft/foo", "")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(w.dir, tree.Worktree)
	node := func() *Node {
		n := w.node("git.stage_commit", nil).in(dir)
		n.Job.State.Context = tree
		return n
	}
	w.write(dir, "closed/file", "work")
	w.write(dir, "open", "work")
	chmod := func(mode os.FileMode) {
		if err := os.Chmod(filepath.Join(dir, "closed"), mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod(0)
	t.Cleanup(func() { chmod(0o755) })
	w.want(node(), kernel.OutcomeFailed, "git.stage_commit: cannot read closed in "+tree.Worktree)
	if got := w.rev("draft/foo"); got != w.rev("main") {
		t.Errorf("committed as %s", got)
	}
	chmod(0o755)
	w.want(node(), kernel.OutcomeSucceeded, "commit ")
	if got := w.git(w.dir, "show", "draft/foo:closed/file", "draft/foo:open"); got != "workwork" {
		t.Errorf("committed %q", got)
	}
}

func TestCommitsInUnusualPlaces(t *testing.T) {
	w := newEmptyWorld(t)
	w.write(w.dir, "first.txt", "")
	w.want(w.node("git.stage_commit", nil), kernel.OutcomeSucceeded)
	if got := w.git(w.dir, "rev-list", "--count", "main"); got != "1" {
		t.Errorf("%s commits on an unborn branch", got)
	}
	w.want(w.node("git.commit", nil), kernel.OutcomeSucceeded, "nothing to commit")

	w = newWorld(t)
	w.git(w.dir, "checkout", "--quiet", "--detach")
	w.write(w.dir, "a.txt", "")
	w.want(w.node("git.stage_commit", nil), kernel.OutcomeSucceeded)
	if w.rev("HEAD^") != w.rev("main") {
		t.Error("no commit on a detached HEAD")
	}

	sub := newWorld(t)
	w.git(w.dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.dir, "sub")
	w.want(w.node("git.stage_commit", nil), kernel.OutcomeSucceeded)
	sub.commit(filepath.Join(w.dir, "sub"), "in-sub.txt", "")
	w.git(w.dir, "config", "diff.ignoreSubmodules", "all")
	w.want(w.node("git.stage_commit", nil), kernel.OutcomeSucceeded, "commit ")
	if got := w.rev("HEAD:sub"); got != w.rev("HEAD", filepath.Join(w.dir, "sub")) {
		t.Errorf("the submodule is recorded at %s", got)
	}
	for _, f := range []string{"in-sub.txt", "untracked.txt"} {
		w.write(w.dir, "sub/"+f, "x\n")
		w.want(w.node("git.stage_commit", nil), kernel.OutcomeFailed, "lies within sub, and a commit of a submodule is made there")
		w.want(w.node("git.commit", nil), kernel.OutcomeSucceeded, "nothing to commit")
		w.git(filepath.Join(w.dir, "sub"), "stash", "--quiet", "--include-untracked")
	}
}

func TestLocksOfAKilledGit(t *testing.T) {
	w := newWorld(t)
	dir, _ := w.prepared(map[string]string{"slug": "foo"})
	w.write(dir, "a.txt", "")
	lock := filepath.Join(w.git(dir, "rev-parse", "--git-dir"), "index.lock")
	n := w.node("git.stage_commit", nil).in(dir)
	w.write("/", lock, "")
	n.Job.State.Started = time.Now().Add(-time.Hour)
	w.want(n, kernel.OutcomeFailed, "index.lock") // somebody is at work now
	n.Job.State.Started = time.Now().Add(time.Hour)
	w.want(n, kernel.OutcomeSucceeded)

	// So it is in the worktree that has the branch that a job takes.
	other := w.node("worktree.prepare", map[string]string{"slug": "foo"})
	w.write("/", filepath.Join(filepath.Dir(lock), "HEAD.lock"), "")
	other.Job.State.Started = time.Now().Add(-time.Hour)
	w.want(other, kernel.OutcomeFailed, "HEAD.lock")
	other.Job.State.Started = time.Now().Add(time.Hour)
	w.want(other, kernel.OutcomeSucceeded)

	main := w.node("git.stage_commit", nil)
	main.Job.State.Started = time.Now().Add(time.Hour)
	w.write(w.dir, "a.txt", "")
	w.write(w.dir, ".git/index.lock", "")
	w.want(main, kernel.OutcomeFailed, "index.lock")
	if !w.there(w.dir, ".git/index.lock") {
		t.Error("a lock of the operator's was removed")
	}
}

// Whatever an agent made of its branch, the advice works as it is typed, and all that the agent did
// is on the branch afterwards.
func TestAnAgentThatLeavesItsBranch(t *testing.T) {
	for name, c := range map[string]struct {
		agent string
		typed []int // which of the commands that the reason names
	}{
		"a branch of its own":              {"git switch -q -c feature/x; $commit", []int{0}},
		"no branch":                        {"git switch -q --detach; $commit", []int{0}},
		"a branch from elsewhere":          {"git switch -q -c feature/x main~; $commit", []int{0, 1}},
		"no branch, elsewhere":             {"git switch -q --detach main~; $commit", []int{0, 1}},
		"a branch, nothing committed":      {"git switch -q -c feature/x; echo w >f", []int{0}},
		"a renamed branch":                 {"git branch -m mine; echo w >f", []int{0}},
		"a renamed branch, committed":      {"git branch -m mine; $commit", []int{0}},
		"a branch that it deleted":         {"git switch -q -c feature/x; git branch -q -D draft/foo; $commit", []int{0}},
		"no branch, and it deleted it":     {"git switch -q --detach; git branch -q -D draft/foo; $commit", []int{0}},
		"deleted, and a branch elsewhere":  {"git switch -q -c feature/x main~; git branch -q -D draft/foo; echo w >f", []int{0, 1}},
		"deleted while the tree was on it": {"git update-ref -d refs/heads/draft/foo; echo w >f", []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.commit(w.dir, "base.txt", "")
			dir, prepared := w.prepared(map[string]string{"slug": "foo"})
			w.commit(dir, planFile("foo"), "plan\n")
			w.shell(dir, strings.ReplaceAll(c.agent, "$commit", "echo w >f; git add f; git commit -q -m w"))
			n := w.node("git.stage_commit", map[string]string{"allow_empty": "false"}).in(dir)
			n.Job.Created, n.Job.State.Context = time.Now().Add(-time.Hour), *prepared.Context // its run was there before the agent
			r := w.want(n, kernel.OutcomeFailed, "draft/foo", "`vizier retry "+string(n.Job.ID)+"`")
			parts := strings.Split(r.Reason, "`")
			for _, k := range c.typed {
				w.shell(w.dir, parts[2*k+1])
			}
			n.Job.State.Generation++
			w.want(n, kernel.OutcomeSucceeded)
			if got := w.files("draft/foo"); !slices.Contains(got, "f") || !slices.Contains(got, planFile("foo")) {
				t.Errorf("after %q the branch has %q", r.Reason, got)
			}
		})
	}
}

// An agent that rewrites what was on its branch before its stage has failed, and the advice puts that back with what
// the agent did on top. It may amend what it committed itself.
func TestAnAgentThatRewritesItsBranch(t *testing.T) {
	for name, c := range map[string]struct {
		agent     string
		rewritten bool
	}{
		"a history of its own":       {"git checkout -q --orphan fresh; echo w >f; git add f; git commit -q -m w; git branch -M fresh draft/foo", true},
		"put back":                   {"git reset -q --hard HEAD~1; echo w >f", true},
		"the plan's commit, amended": {"echo w >f; git add f; git commit -q --amend -m mine", true},
		"its own commit, amended":    {"echo v >f; git add f; git commit -q -m v; echo w >f; git commit -qa --amend -m w", false},
		"its own commits, squashed":  {"echo v >f; git add f; git commit -q -m v; git commit -q --allow-empty -m u; git reset -q --soft HEAD~2; echo w >f; git commit -qa -m w", false},
	} {
		for _, operation := range []string{"git.stage_commit", "gate.stop_condition"} {
			t.Run(name+", "+operation, func(t *testing.T) {
				w := newWorld(t)
				w.env.Shell = script{}
				w.plan(nil)
				base := w.rev("draft/foo")
				n, outcome := w.stop("git.stage_commit", "true"), kernel.OutcomeBlocked
				if operation == "git.stage_commit" {
					gate := n
					n, outcome = w.node(operation, map[string]string{"allow_empty": "false"}).in(gate.Dir), kernel.OutcomeFailed
					n.Job.State.Context = gate.Job.State.Context
				}
				w.shell(n.Dir, c.agent)
				if c.rewritten {
					r := w.want(n, outcome, "draft/foo does not contain "+base[:12]+" any more", "`vizier retry "+string(n.Job.ID)+"`")
					if w.git(w.dir, "for-each-ref", "--contains="+base) == "" {
						t.Error("nothing keeps what the branch lost")
					}
					w.shell(w.dir, strings.Split(r.Reason, "`")[1])
					n.Job.State.Generation++
				}
				w.want(n, kernel.OutcomeSucceeded)
				if name == "put back" {
					w.git(w.dir, "cat-file", "-e", "draft/foo:.vizier/implementation-plans/foo.md")
				}
				if w.git(w.dir, "merge-base", base, "draft/foo") != base || w.git(w.dir, "show", "draft/foo:f") != "w" {
					t.Errorf("the branch is\n%s", w.git(w.dir, "log", "--stat", "draft/foo"))
				}
			})
		}
	}
}

// shell runs a script in dir as a person would.
func (w *world) shell(dir, text string) {
	w.Helper()
	cmd := exec.Command("sh", "-ec", text)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("%s: %v\n%s", text, err, out)
	}
}
