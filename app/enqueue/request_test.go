package enqueue

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// trees are a main working tree at /repo, a linked one for temporary files and another within it; / is another repository.
type trees struct{ Trees }

func (trees) TreeOf(path string) (root, tree string, err error) {
	switch {
	case strings.HasPrefix(path, "/repo"):
		return "/repo", "/repo", nil
	case strings.HasPrefix(path, filepath.Join(os.TempDir(), "within")):
		return "/repo", filepath.Join(os.TempDir(), "within"), nil
	case strings.HasPrefix(path, os.TempDir()):
		return "/repo", os.TempDir(), nil
	case path == "/":
		return "/", "/", nil
	}
	return "", "", kernel.ErrNotFound
}

func (trees) HeadBranch(context.Context, string) (string, error) { return "main", nil }

func requester() *Builder {
	return &Builder{Scheduler: &app.Scheduler{NewID: func() kernel.JobID { return "id" }, Now: func() time.Time { return time.Unix(5, 0) }},
		Trees: trees{}, Root: "/repo", Tree: "/repo", By: func() string { return "ann" }, Origin: kernel.Origin{Command: []string{"vizier"}},
		Defaults: Defaults{Timeout: time.Hour}}
}

func given[T any](v T) *T { return &v }

// Each key of a request ends up in the job.
func TestAJobIsAsItWasAskedFor(t *testing.T) {
	key := kernel.Artifact{Kind: kernel.Custom, Name: "a", Ref: "b"}
	for _, c := range []struct {
		q    Request
		want func(*kernel.Spec)
	}{
		{Request{}, func(*kernel.Spec) {}},
		{Request{Name: strings.Repeat("n", maxWord)}, func(s *kernel.Spec) { s.Name = strings.Repeat("n", maxWord) }},
		{Request{Name: "n", Tag: []string{"k=v"}, IdempotencyKey: given(strings.Repeat("k", maxKey)), Timeout: "2s"}, func(s *kernel.Spec) {
			s.Name, s.Tags, s.IdempotencyKey, s.Task.Timeout = "n", []kernel.Tag{{Key: "k", Value: "v"}}, strings.Repeat("k", maxKey), 2*time.Second
		}},
		{Request{Need: []string{"custom:a:b"}, Produce: []string{"custom:a:b"}, MissingProducer: "wait", Transient: "remove"}, func(s *kernel.Spec) {
			s.Needs, s.Produces, s.MissingProducer, s.Transient = []kernel.Artifact{key}, []kernel.Artifact{key}, kernel.Wait, kernel.Remove
		}},
		{Request{Lock: []string{"a", "b:shared", "c:d:exclusive", "branch:main", "e:shard:exclusive"}, Pool: []string{"p", "q=3"}}, func(s *kernel.Spec) {
			s.Locks = []kernel.Lock{{Key: "a"}, {Key: "b", Mode: kernel.Shared}, {Key: "c:d"}, {Key: "branch:main"}, {Key: "e:shard"}, {Key: "p", Units: 1}, {Key: "q", Units: 3}}
		}},
		{Request{Require: []string{"clean_worktree", "branch_exists", "branch_exists=x"}, Pinned: "main@" + commit}, func(s *kernel.Spec) {
			s.Preconditions = []kernel.Precondition{{Kind: kernel.CleanWorktree}, {Kind: kernel.BranchExists}, {Kind: kernel.BranchExists, Branch: "x"}}
			s.Pinned = kernel.PinnedHead{Branch: "main", Commit: commit}
		}},
		{Request{Retries: 1}, func(s *kernel.Spec) {
			s.Budget.Retries = 1
			for _, class := range []kernel.FailureClass{kernel.ExitFailure, kernel.Timeout, kernel.Signal, kernel.OutOfMemory, kernel.LaunchFailure} {
				s.Retry = s.Retry.On(class)
			}
		}},
		{Request{Retries: 2, RetryOn: []string{"timeout"}}, func(s *kernel.Spec) { s.Budget.Retries, s.Retry = 2, kernel.RetryPolicy{}.On(kernel.Timeout) }},
		{Request{Idempotent: true, Resumable: true}, func(s *kernel.Spec) {
			s.Idempotent, s.Resumable, s.Budget = true, true, kernel.Budget{Reclaims: defaultReclaims, Resumes: defaultResumes}
		}},
		{Request{Idempotent: true, Resumable: true, MaxReclaims: given(0), MaxResumes: given(7)}, func(s *kernel.Spec) {
			s.Idempotent, s.Resumable, s.Budget = true, true, kernel.Budget{Resumes: 7}
		}},
		{Request{InDoubt: "rerun", MaxReclaims: given(1)}, func(s *kernel.Spec) { s.InDoubt, s.Budget.Reclaims = kernel.RerunInDoubt, 1 }},
		{Request{InDoubt: "ask", ApprovalTimeout: "1h"}, func(s *kernel.Spec) { s.InDoubt, s.ApprovalTimeout = kernel.AskInDoubt, time.Hour }},
		{Request{Env: []string{"A=b=c", "B"}, Cwd: "sub/.."}, func(s *kernel.Spec) { s.Task.Env, s.Task.PassEnv = []string{"A=b=c"}, []string{"B"} }},
		{Request{Secret: []string{"A=@~/b", "B=c=d"}}, func(s *kernel.Spec) {
			s.Task.Secrets = []kernel.Secret{{Name: "A", Source: "@~/b"}, {Name: "B", Source: "c=d"}}
		}},
		{Request{Estimate: "90s", Timeout: "1ns", Pool: []string{"p=1"}, Container: "img"}, func(s *kernel.Spec) {
			s.Estimate, s.Task.Timeout, s.Locks, s.Task.Container = 90*time.Second, 1, []kernel.Lock{{Key: "p", Units: 1}}, "img"
		}},
		{Request{Estimate: "1us", InDoubt: "ask", ApprovalTimeout: "1us"}, func(s *kernel.Spec) {
			s.Estimate, s.InDoubt, s.ApprovalTimeout = time.Microsecond, kernel.AskInDoubt, time.Microsecond
		}},
		{Request{Sandbox: "required", Network: "none", Write: []string{"x"}}, func(s *kernel.Spec) {
			s.Task.Sandbox = kernel.Sandbox{Mode: kernel.RequiredSandbox, Network: kernel.NoNetwork, Write: []string{"x"}}
		}},
		{Request{Cwd: "sub/x"}, func(s *kernel.Spec) { s.Task.Dir = "sub/x" }},
		{Request{Cwd: "/repo/sub"}, func(s *kernel.Spec) { s.Task.Dir = "sub" }},
		{Request{Cwd: os.TempDir()}, func(s *kernel.Spec) { s.Task.Tree = os.TempDir() }},
	} {
		b := requester()
		want := kernel.Spec{After: []kernel.JobID{"x", "y"}, AfterAny: []kernel.JobID{"y"}, Origin: b.Origin, Task: kernel.Task{Args: []string{"true"}, Timeout: time.Hour}}
		c.want(&want)
		c.q.Command = []string{"true"}
		got, err := b.newJob(context.Background(), c.q, kernel.Spec{After: []kernel.JobID{"x", "y"}, AfterAny: []kernel.JobID{"y"}})
		if err != nil || got.ID != "id" || !reflect.DeepEqual(got.Spec, want) || got.Approval != (kernel.Approval{}) {
			t.Errorf("%+v: %v\ngot  %+v\nwant %+v", c.q, err, got.Spec, want)
		}
	}
	got, err := requester().newJob(context.Background(), Request{Command: []string{"true"}, Approval: true, ApprovalTimeout: "90m"}, kernel.Spec{})
	if err != nil || got.Approval != kernel.Require(time.Unix(5, 0), "ann") || got.Spec.ApprovalTimeout != 90*time.Minute {
		t.Errorf("%+v, %v", got, err)
	}
	tmp, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	if err := os.MkdirAll(filepath.Join(tmp, "within", "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	around := requester()
	around.Tree = tmp
	for cwd, want := range map[string][2]string{"within/sub": {filepath.Join(tmp, "within"), "sub"}, "within": {filepath.Join(tmp, "within"), ""}, "gone/x": {tmp, "gone/x"}, "": {tmp, ""}} {
		got, err := around.newJob(context.Background(), Request{Command: []string{"true"}, Cwd: cwd}, kernel.Spec{})
		if at := [2]string{got.Spec.Task.Tree, got.Spec.Task.Dir}; err != nil || at != want {
			t.Errorf("in %q, which may be a tree within the requester's: %q, %v", cwd, at, err)
		}
	}
	linked := requester()
	linked.Tree = "/linked"
	if got, err := linked.newJob(context.Background(), Request{Command: []string{"true"}, Cwd: "x"}, kernel.Spec{}); err != nil || got.Spec.Task.Tree != "/linked" || got.Spec.Task.Dir != "x" {
		t.Errorf("from a linked worktree: %+v, %v", got.Spec.Task, err)
	}
}

// Each wrong value is told with its flag, and all of them at once.
func TestJobsThatAreRefused(t *testing.T) {
	everything := Request{Retries: -1, Cwd: "../x"}
	for _, c := range []struct {
		q    Request
		want string
	}{
		{Request{Name: "12"}, `--name "12": a number always means the job with that number, so this name could never be used: choose another`},
		{Request{Name: "12/x"}, `--name "12/x": a number always means`},
		{Request{Name: "@last"}, `--name "@last": it always means the newest job`},
		{Request{Name: "run:1"}, `--name "run:1": --after reads run:RUN as the last jobs of a run`},
		{Request{Name: "x:any"}, `--name "x:any": --after reads run:RUN as`},
		{Request{Tag: []string{"kv"}}, "--tag"},
		{Request{Need: []string{"x"}}, "--need: "},
		{Request{Produce: []string{"x"}}, "--produce: "},
		{Request{Lock: []string{" "}}, `--lock " ": expected KEY or KEY:shared`},
		{Request{Lock: []string{"db:exlusive"}}, `--lock "db:exlusive": did you mean db:exclusive? If the key ends so, write db:exlusive:exclusive`},
		{Request{Lock: []string{"a:db:Shard"}}, "did you mean a:db:shared?"},
		{Request{Lock: []string{":shard"}}, `--lock ":shard": did you mean :shared?`},
		{Request{Pool: []string{"p=0"}}, `--pool "p=0": expected NAME or NAME=UNITS, UNITS a positive number`},
		{Request{Pool: []string{"p=x"}}, "UNITS a positive number"},
		{Request{Pool: []string{"=1"}}, `--pool "=1": expected NAME`},
		{Request{Require: []string{"branch_exists="}}, "--require"},
		{Request{Require: []string{"clean_worktree=x"}}, "--require"},
		{Request{Require: []string{"clean_worktree"}, Cwd: os.TempDir()}, "--require clean_worktree is about the main working tree"},
		{Request{Pinned: "main@" + commit[1:]}, "COMMIT a whole id in lowercase hex"},
		{Request{Pinned: "@" + commit}, "COMMIT a whole id in lowercase hex"},
		{Request{Pinned: "main@" + strings.ToUpper(commit)}, "COMMIT a whole id in lowercase hex"},
		{Request{MissingProducer: "x"}, "x"},
		{Request{MissingProducer: "wait"}, "--missing-producer wait has no effect on a job that needs no artifact: add --need ARTIFACT"},
		{Request{Transient: "x"}, "x"},
		{Request{IdempotencyKey: given(strings.Repeat("k", maxKey+1))}, "1 to 512 bytes"},
		{Request{Name: strings.Repeat("n", maxWord+1)}, "--name \"nnn"},
		{Request{Lock: []string{"a", strings.Repeat("l", maxWord+1)}}, "--lock \"lll"},
		{Request{Produce: []string{"custom:t:" + strings.Repeat("p", maxWord)}}, "it has 1033 bytes, and 1024 are the most"},
		{Request{IdempotencyKey: given("")}, "1 to 512 bytes"},
		{Request{IdempotencyKey: given("a\x00")}, "none of them NUL"},
		{Request{Secret: []string{"1=x"}}, `--secret: "1": expected NAME=@FILE or NAME=COMMAND`},
		{Request{Secret: []string{"A"}}, `--secret: "A": expected NAME=@FILE`},
		{Request{Secret: []string{"A=@x"}}, `A: the file "x" is read when the job starts: give a path that begins with / or ~/`},
		{Request{Secret: []string{"A=x", "A=y"}}, "--secret A: given twice"},
		{Request{Retries: -1}, "--retries -1: expected 0 or more"},
		{Request{RetryOn: []string{"exit"}}, "--retry-on has no effect without retries"},
		{Request{Retries: 1, RetryOn: []string{"x"}}, "--retry-on: "},
		{Request{Resumable: true, Retries: 1, RetryOn: []string{"exit", "timeout"}}, "--retry-on timeout has no effect with --resumable"},
		{Request{Resumable: true, Retries: 1, RetryOn: []string{"preempted"}}, "--retry-on preempted has no effect with --resumable"},
		{Request{Retries: 1, RetryOn: []string{"exit", "worker_lost"}}, "--retry-on worker_lost has no effect: nobody knows whether such an attempt did its work; if it may run again all the same, add --idempotent instead"},
		{Request{Retries: 1, RetryOn: []string{"worker_lost"}, InDoubt: "ask"}, "--retry-on worker_lost has no effect: "},
		{Request{Retries: 1, RetryOn: []string{"worker_lost"}, InDoubt: "rerun"}, "--retry-on worker_lost has no effect with --idempotent, which runs such an attempt again up to --max-reclaims times"},
		{Request{Retries: 1, RetryOn: []string{"preempted"}, Idempotent: true}, "--retry-on preempted has no effect with --idempotent"},
		{Request{Retries: 1, RetryOn: []string{"preempted"}, Idempotent: true, MaxResumes: given(1)}, "--max-resumes has no effect: add --resumable"},
		{Request{InDoubt: "x"}, "--in-doubt: "},
		{Request{InDoubt: "rerun", Idempotent: true}, "--in-doubt rerun has no effect on an idempotent job"},
		{Request{MaxReclaims: given(1)}, "--max-reclaims has no effect: add --idempotent, or --in-doubt rerun"},
		{Request{MaxReclaims: given(-1), Idempotent: true}, "--max-reclaims -1: expected 0 or more"},
		{Request{MaxResumes: given(1)}, "--max-resumes has no effect: add --resumable"},
		{Request{ApprovalTimeout: "1h"}, "--approval-timeout has no effect"},
		{Request{ApprovalTimeout: "x", Approval: true}, "expected a duration such as 30m or 4h"},
		{Request{ApprovalTimeout: "0s", Approval: true}, "expected a duration such as 30m or 4h"},
		{Request{Timeout: "0s"}, `--timeout "0s": expected a duration`},
		{Request{Timeout: "x"}, `--timeout "x": expected a duration`},
		{Request{Env: []string{"=x"}}, "--env"},
		{Request{Env: []string{"A B=x"}}, "--env"},
		{Request{Env: []string{"A=\x00"}}, "--env"},
		{Request{Env: []string{"A=" + strings.Repeat("b", mostWord-1)}}, `--env "A=` + strings.Repeat("b", 38) + `"…: it has 131072 bytes, and a program can be given 131071: hand it over in a file`},
		{Request{Executor: "far"}, "far"},
		{Request{Option: []string{"a=b"}}, "has no options"},
		{Request{Container: "a b"}, `container "a b": expected the name of an image`},
		{Request{Container: "-v"}, `container "-v": expected the name of an image`},
		{Request{Container: "img", Sandbox: "required"}, "container img: a sandbox that is required cannot be enforced in a container"},
		{Request{Estimate: "x"}, `--estimate "x": expected a duration such as 90s or 2h`},
		{Request{Estimate: "0s"}, `--estimate "0s": expected a duration`},
		{Request{Pinned: "a..b"}, "--pinned "},
		{Request{Sandbox: "x"}, "--sandbox: "},
		{Request{Sandbox: "required", Network: "x"}, "--network: "},
		{Request{Network: "none"}, "--write and --network have no effect without a sandbox"},
		{Request{Write: []string{"x"}}, "--write and --network have no effect without a sandbox"},
		{Request{Sandbox: "required", Write: []string{"x", ""}}, `--write "": expected a path`},
		{Request{Sandbox: "required", Write: []string{"a\x00"}}, `--write "a\x00": expected a path`},
		{Request{Cwd: "/elsewhere"}, `--cwd "/elsewhere": outside the repository and its worktrees`},
		{Request{Cwd: "/"}, `--cwd "/": outside the repository and its worktrees`},
		{Request{Cwd: "../x"}, `--cwd "../x": outside the repository and its worktrees`},
	} {
		c.q.Command = []string{"true"}
		_, err := requester().newJob(context.Background(), c.q, kernel.Spec{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", c.q, err, c.want)
		}
	}
	_, err := requester().newJob(context.Background(), everything, kernel.Spec{})
	if err == nil || strings.Count(err.Error(), "\n") != 2 || !errors.Is(err, kernel.ErrInvalid) {
		t.Errorf("all at once: %v", err)
	}
}

// branches observes the branches of a repository.
type branches struct {
	of map[string]kernel.Fact[kernel.CommitID]
}

func (b branches) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	for _, name := range p.Branches {
		f.Heads[name] = b.of[name]
	}
}

// A branch without a commit is pinned to the one that it has now.
func TestABranchIsPinnedToItsCommit(t *testing.T) {
	b := requester()
	b.Scheduler.Observers = []app.Observer{branches{map[string]kernel.Fact[kernel.CommitID]{"main": kernel.Seen(kernel.CommitID("c1")), "none": kernel.Seen(kernel.CommitID("")), "odd": kernel.Unseen[kernel.CommitID]("disk on fire")}}}
	for text, want := range map[string]string{"main": "", "none": "--pinned none: no such branch: invalid", "odd": "--pinned odd: disk on fire"} {
		n, err := b.newJob(t.Context(), Request{Command: []string{"true"}, Pinned: text}, kernel.Spec{})
		if want == "" && (err != nil || n.Spec.Pinned != kernel.PinnedHead{Branch: "main", Commit: "c1"}) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %+v, %v, want %s", text, n.Spec.Pinned, err, want)
		}
	}
}

// A command that no system can start is refused when it is asked for.
func TestCommandsThatCannotStart(t *testing.T) {
	for want, command := range map[string][]string{
		"the command's first word is empty: name a program": {"", "x"},
		"word 1 of the command has a NUL byte":              {"\x00"},
		"word 3 of the command has a NUL byte":              {"a", "", "b\x00"},
		"word 2 of the command has 131072 bytes":            {"a", strings.Repeat("b", 128<<10)},
		"":                                                  {"a", "", strings.Repeat("b", 128<<10-1)},
	} {
		if err := checkCommand(command); (err == nil) != (want == "") || err != nil && (!strings.HasPrefix(err.Error(), want) || !errors.Is(err, kernel.ErrInvalid)) {
			t.Errorf("%q: %v, want %q", command, err, want)
		}
	}
	if err := checkCommand(nil); err != nil {
		t.Errorf("no command: %v", err)
	}
	for _, command := range [][]string{{""}, {"a\x00"}, nil} {
		if _, err := requester().newJob(t.Context(), Request{Command: command}, kernel.Spec{}); !errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), "command") {
			t.Errorf("%q: %v", command, err)
		}
	}
}

// Who did not name the executor that would not accept a job is told that the configuration does.
func TestTheExecutorOfTheConfiguration(t *testing.T) {
	for _, c := range []struct {
		own, named string
		byDefault  bool
	}{{"far", "", true}, {"far", "far", false}, {"", "far", false}, {"other", "far", false}} {
		b := requester()
		b.Defaults.Executor = c.own
		_, err := b.newJob(t.Context(), Request{Command: []string{"true"}, Executor: c.named}, kernel.Spec{})
		if err == nil || strings.HasPrefix(err.Error(), `[jobs] executor = "far": there is no executor named far`) != c.byDefault || !strings.Contains(err.Error(), "no executor named far") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
