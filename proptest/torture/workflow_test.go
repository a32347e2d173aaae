package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/proctest"
)

// Whatever is killed while a plan is drafted, approved and merged: a person who waits,
// and types the commands that `jobs why` names, gets one merge and a clean repository.
func TestAPlanIsMergedOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	s := seed(t)
	rng := rand.New(rand.NewPCG(s, 1))
	left := kills(8, 100)
	for round := 0; left > 0 && !t.Failed(); round++ {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			p := newPlanRepo(t)
			n := min(left, 1+int64(rng.IntN(10)))
			left -= n
			stages := []string{p.stage("draft", "feat", "--file", "spec.md"), p.stage("approve", "feat"),
				p.stage("merge", "feat", "--target", "main")}
			struck := p.strike(rng, n)
			t.Logf("killed %v", struck)
			p.heal(stages[2])
			for _, last := range stages[:2] {
				if p.wait(last) != 0 { // what it was to make is merged, and its worktree is left
					p.ok("clean", last, "--yes")
				}
			}
			p.merged("feat")
			p.stage("draft", "next", "--file", "spec.md")
			p.stage("approve", "next")
			p.heal(p.stage("merge", "next", "--target", "main"))
			p.merged("next")
			p.coherent()
		})
	}
}

// planRepo is a repository whose prompts say what the builtin agent does.
type planRepo struct{ *repo }

func newPlanRepo(t *testing.T) planRepo {
	t.Helper()
	r := newRepo(t, plainBin, "")
	r.resident = true
	r.ok("init")
	r.write(".vizier/config.toml", "agent = \"builtin\"\n[scheduler]\nmax_running = 4\nresident_linger = \"300ms\"\n")
	r.write(".vizier/prompts/DRAFT_PROMPTS.md", "The steps of the plan.\n")
	r.write(".vizier/prompts/APPROVE_PROMPTS.md",
		"Do it.\n```sh\nb=$(git branch --show-current)\nsleep 0.05\necho \"made on $b\" >\"${b#draft/}.txt\"\n```\n")
	r.write("spec.md", "What is wanted.\n")
	r.git("add", "-A")
	r.git("commit", "-qm", "use vizier")
	return planRepo{r}
}

// stage enqueues a stage of a plan and returns the id of its last job.
func (p planRepo) stage(name, plan string, args ...string) string {
	p.t.Helper()
	var run struct {
		ID string `json:"run_id"`
	}
	out := p.ok(append([]string{"run", name, "--name", plan, "--format", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &run); err != nil {
		p.t.Fatalf("run %s: %v\n%s", name, err, out)
	}
	return run.ID + "/terminal"
}

// live returns the kinds of all processes that belong to the repository, by pid: one
// of their environment variables, such as HOME, is its directory.
func (p planRepo) live() map[int]string {
	all := map[int]string{}
	for _, live := range proctest.All() {
		if !slices.ContainsFunc(live.Environ, func(kv string) bool { return strings.HasSuffix(kv, "="+p.dir) }) {
			continue
		}
		pid := live.PID
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		kind := strings.TrimSpace(string(comm))
		if q, ok := p.process(live); ok && q.runner == "resident" {
			kind = "resident"
		} else if ok && q.runner != "" {
			kind = "runner"
		}
		all[pid] = kind
	}
	return all
}

// strike kills up to n processes at random moments, as long as there are any. It also
// starts and kills commands that wait, which do not count.
func (p planRepo) strike(rng *rand.Rand, n int64) map[string]int {
	struck := map[string]int{}
	for idle := 0; n > 0 && idle < 20; {
		if rng.IntN(4) == 0 {
			cmd := p.command("jobs", "wait", "@last")
			if err := cmd.Start(); err != nil {
				p.t.Fatal(err)
			}
			nap(rng, 60)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		nap(rng, 80)
		var pids []int
		for pid := range p.live() {
			pids = append(pids, pid)
		}
		if len(pids) == 0 {
			idle++
			continue
		}
		idle = 0
		pid := pids[rng.IntN(len(pids))]
		handle, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if kind, ok := p.live()[pid]; ok && handle.Signal(syscall.SIGKILL) == nil {
			struck[kind]++
			n--
		}
		_ = handle.Release()
	}
	return struck
}

// heal waits for a job and runs the retries that `jobs why` names until it has
// succeeded.
func (p planRepo) heal(job string) {
	p.t.Helper()
	end := time.Now().Add(patience)
	for tries := 0; tries < 20 && time.Now().Before(end); tries++ {
		if p.wait(job) == 0 {
			return
		}
		var why struct {
			Actions []struct{ Command []string }
			Root    struct{ Detail string } `json:"root"`
		}
		text := p.ok("jobs", "why", job, "--format", "json")
		if err := json.Unmarshal([]byte(text), &why); err != nil {
			p.t.Fatal(err)
		}
		acted := false
		for _, a := range why.Actions {
			if len(a.Command) > 2 && a.Command[1] == "retry" {
				res := p.run(a.Command[1:]...)
				p.t.Logf("%s: %v: exit %d %s", why.Root.Detail, a.Command, res.code, res.err)
				acted = true
				if res.code != 0 { // what depends on it still runs
					tries--
					time.Sleep(20 * time.Millisecond)
				}
				break
			}
		}
		if !acted {
			p.t.Fatalf("nothing to do about it:\n%s", text)
		}
	}
	p.t.Fatalf("never merged:\n%s\n%s", p.ok("jobs", "why", job), p.ok("jobs", "list", "--all"))
}

// merged asserts that a plan was merged once, and that nothing else of it is left.
func (p planRepo) merged(plan string) {
	p.t.Helper()
	commits := strings.Fields(p.git("log", "--format=%H", "--grep", "merge plan "+plan+"$", "main"))
	if len(commits) != 1 {
		p.t.Fatalf("%d merges of %s: %v", len(commits), plan, commits)
	}
	body := p.git("log", "-1", "--format=%B", commits[0])
	for _, once := range []string{"Vizier-Effect: ", "\nplan: " + plan + "\n", "The steps of the plan.", "What is wanted."} {
		if n := strings.Count(body, once); n != 1 {
			p.t.Errorf("%q is %d times in the message:\n%s", once, n, body)
		}
	}
	if got, want := p.git("show", commits[0]+":"+plan+".txt"), "made on draft/"+plan; got != want {
		p.t.Errorf("%s.txt is %q, want %q", plan, got, want)
	}
	if tree := p.git("ls-tree", "-r", "--name-only", "main"); strings.Contains(tree, "implementation-plans") {
		p.t.Errorf("the plan's document is on main:\n%s", tree)
	}
	if refs := p.git("for-each-ref", "--format=%(refname)", "refs/heads/draft"); refs != "" {
		p.t.Errorf("branches are left: %s", refs)
	}
	if got := p.git("symbolic-ref", "HEAD"); got != "refs/heads/main" {
		p.t.Errorf("the checkout is on %s", got)
	}
	if status := p.git("status", "--porcelain"); status != "" {
		p.t.Errorf("the checkout is not clean:\n%s", status)
	}
	if left, _ := filepath.Glob(p.path(".vizier", "tmp-worktrees", "*")); len(left) > 0 {
		p.t.Errorf("worktrees are left: %v", left)
	}
	if locks, _ := filepath.Glob(p.path(".git", "*.lock")); len(locks) > 0 {
		p.t.Errorf("locks of git are left: %v", locks)
	}
	p.git("commit", "-q", "--allow-empty", "-m", fmt.Sprintf("a person's own after %s", plan))
	for end := time.Now().Add(patience); len(p.live()) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("processes are left: %v", p.live())
		}
	}
}
