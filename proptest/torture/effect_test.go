package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// effect is what the tests read of `jobs effects`.
type effect struct {
	Key, Operation, Part, State string
	Generation, Attempt         int
	Result                      *struct {
		Outcome string
		Attempt int
		Reason  string `json:"failure_reason"`
	}
}

func (r *repo) effects(job string) []effect {
	r.t.Helper()
	var doc struct{ Effects []effect }
	text := r.ok("jobs", "effects", job, "--format", "json")
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		r.t.Fatalf("effects of %s: %v\n%s", job, err, text)
	}
	return doc.Effects
}

// node runs a template of one node and returns the id of its job.
func (r *repo) node(uses, more string) string {
	r.t.Helper()
	kind := strings.SplitN(uses, ".", 4)[2]
	r.write("flow.toml", fmt.Sprintf("id = \"one\"\nversion = \"v1\"\n[[nodes]]\nid = \"n\"\nkind = %q\nuses = %q\n%s\n", kind, uses, more))
	var run struct {
		ID string `json:"run_id"`
	}
	out := r.ok("run", "./flow.toml", "--format", "json")
	if err := json.Unmarshal([]byte(out), &run); err != nil {
		r.t.Fatalf("run: %v\n%s", err, out)
	}
	var shown struct{ Job string }
	if err := json.Unmarshal([]byte(r.ok("jobs", "show", run.ID+"/n", "--format", "json")), &shown); err != nil || shown.Job == "" {
		r.t.Fatalf("job of %s/n: %q, %v", run.ID, shown.Job, err)
	}
	return shown.Job
}

// tick runs a job, so that the scheduler ticks.
func (r *repo) tick() { r.wait(r.submit("--", "true")) }

// What a lost attempt of a script may have done is only repeated with
// permission.
func TestAScriptInDoubt(t *testing.T) {
	t.Parallel()
	script := "args = { script = '''" + hold + "''' }\n"
	for policy, more := range map[string]string{
		"fail": "max_reclaims = 2", "ask": `effect_in_doubt = "ask"`, "rejected": `effect_in_doubt = "ask"`,
		"rerun": `effect_in_doubt = "rerun"`, "idempotent": "idempotent = true", "retried": "max_reclaims = 1\nmax_retries = 1\nretry_on = [\"effect_in_doubt\"]",
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, pairBin, "")
			job := r.node("cap.env.shell.command.run", script+more)
			r.held(1)
			if all := r.effects(job); len(all) != 1 || all[0].State != "intent" || all[0].Attempt != 1 {
				t.Errorf("while it runs: %+v", all)
			}
			r.killRunner(job)
			r.tick()
			if policy == "ask" || policy == "rejected" {
				until(t, "a person is asked", func() bool { return r.record(job).Status == "waiting_on_approval" })
				rec := r.is(job, "waiting_on_approval", "effect_in_doubt")
				if d := rec.Schedule.Wait.Detail; !strings.Contains(d, "attempt 1 was cut off in command.run") {
					t.Errorf("it says %q", d)
				}
				if len(r.lines("held")) != 1 {
					t.Error("it was executed again before anyone said so")
				}
				if policy == "rejected" {
					r.ok("jobs", "reject", job)
					r.is(job, "blocked_by_approval", "effect_in_doubt")
					r.coherent()
					return
				}
				r.ok("jobs", "approve", job)
			}
			executions := 2
			if policy == "fail" {
				executions = 1
			} else {
				until(t, "execution 2", func() bool { r.tick(); return len(r.lines("held")) == 2 })
			}
			r.write("release", "")
			r.wait(job)
			if got := len(r.lines("held")); got != executions {
				t.Errorf("%d executions, want %d", got, executions)
			}
			state := "committed"
			if policy == "fail" {
				r.is(job, "failed", "effect_in_doubt")
				state = "intent"
			} else {
				r.is(job, "succeeded", "")
			}
			if all := r.effects(job); len(all) != 1 || all[0].State != state {
				t.Errorf("in the end: %+v", all)
			}
			r.coherent()
		})
	}
}

// The effect of a plain command is its attempt. If the attempt is lost, the job asks
// a person, if its policy says so.
func TestACommandInDoubt(t *testing.T) {
	t.Parallel()
	r := newRepo(t, plainBin, "")
	job := r.submit("--in-doubt", "ask", "--", "sh", "-c", hold)
	next := r.submit("--after", job, "--", "true")
	r.held(1)
	r.killRunner(job)
	r.tick()
	rec := r.is(job, "waiting_on_approval", "worker_lost")
	if d := rec.Schedule.Wait.Detail; !strings.Contains(d, "its runner ended without a result") {
		t.Errorf("it says %q", d)
	}
	r.is(next, "waiting_on_deps", "")
	if all := r.effects(job); len(all) != 1 || all[0].State != "intent" {
		t.Errorf("effects %+v", all)
	}
	r.ok("jobs", "approve", job)
	r.held(2)
	r.write("release", "")
	if code := r.wait(job, next); code != 0 {
		t.Errorf("jobs wait: exit %d", code)
	}
	if exists(r.jobPath(job, "effects")) {
		t.Error("a plain command has a journal")
	}
	r.coherent()
}

// hook makes git's hook of that name run the command hold once. The file hold says
// that it has not run yet.
func (r *repo) hook(name string) {
	r.write(".git/hooks/"+name, "#!/bin/sh\ncd "+r.dir+"\ntest -e hold || exit 0\nrm hold\n"+hold+"\n")
	if err := os.Chmod(r.path(".git/hooks/"+name), 0o755); err != nil {
		r.t.Fatal(err)
	}
	r.write("hold", "")
}

// U08: an attempt is killed just before git commits, or after that and before it is
// on record. The next attempt finds out which, and there is one commit.
func TestACommitIsMadeOnceWhereverItIsKilled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ uses, args string }{
		{"cap.env.builtin.git.stage_commit", `message = "the work"`},
		{"cap.env.builtin.git.commit", `message = "the work"`},
		{"cap.env.builtin.git.integrate_plan_branch", `message = "the work", slug = "foo", target_branch = "main", delete_branch = "true"`},
	} {
		for _, at := range []string{"pre-commit", "post-commit"} {
			t.Run(c.uses+"/"+at, func(t *testing.T) {
				t.Parallel()
				r := newRepo(t, plainBin, "")
				r.write(".gitignore", "*\n!work.txt\n!later.txt\n!.gitignore\n")
				r.git("add", "-A")
				r.git("commit", "-qm", "what is ignored")
				merges := strings.Contains(c.uses, "integrate")
				if merges {
					r.git("switch", "-qc", "draft/foo")
				}
				r.write("work.txt", "1\n")
				r.git("add", "-A")
				if merges {
					r.git("commit", "-qm", "the plan's")
					r.git("switch", "-q", "main")
				}
				r.hook(at)
				job := r.node(c.uses, "args = { "+c.args+" }")
				r.held(1)
				if all := r.effects(job); len(all) != 1 || all[0].State != "intent" {
					t.Errorf("while it commits: %+v", all)
				}
				r.killRunner(job)
				if !merges {
					r.write("later.txt", "what a second commit would have to commit\n")
				}
				r.tick()
				if code := r.wait(job); code != 0 {
					t.Fatalf("exit %d: %s", code, r.ok("jobs", "tail", job))
				}
				if got := strings.Fields(r.git("log", "--format=%H", "--grep", "^Vizier-Effect: ", "main")); len(got) != 1 {
					t.Errorf("%d commits", len(got))
				}
				if got := r.git("show", "main:work.txt"); got != "1" {
					t.Errorf("the work is %q", got)
				}
				rec, all := r.is(job, "succeeded", ""), r.effects(job)
				if rec.Attempt != 2 || len(all) != 1 || all[0].State != "committed" || all[0].Attempt != 2 {
					t.Errorf("attempt %d, effects %+v", rec.Attempt, all)
				}
				r.coherent()
			})
		}
	}
}

// U22: after a rewind, the effect is made again, under another key, and the effect
// of the earlier generation stays on record.
func TestARewindHasEffectsOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newRepo(t, plainBin, "")
	job := r.node("cap.env.shell.command.run", `args = { script = "echo ran >>ran" }`)
	r.wait(job)
	before := r.effects(job)
	r.ok("jobs", "retry", job)
	r.wait(job)
	after := r.effects(job)
	if len(before) != 1 || len(after) != 2 || after[0].Key != before[0].Key || after[1].Key == before[0].Key {
		t.Fatalf("%+v, then %+v", before, after)
	}
	for n, e := range after {
		if e.State != "committed" || e.Generation != n || e.Attempt != n+1 || e.Result.Outcome != "succeeded" {
			t.Errorf("generation %d: %+v", n, e)
		}
	}
	if got := len(r.lines("ran")); got != 2 {
		t.Errorf("%d executions", got)
	}
	if text := r.ok("jobs", "effects", job); !strings.Contains(text, "command.run, before a retry") {
		t.Errorf("as a table:\n%s", text)
	}
}

// Whatever is killed, and whenever, no script of a node that must not run twice
// begins twice, and a job that succeeded has run its script to the end.
func TestNoScriptIsDoneTwiceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	s := seed(t)
	rng := rand.New(rand.NewPCG(s, 2))
	for left, round := kills(20, 400), 0; left > 0 && !t.Failed(); round++ {
		r := newRepo(t, plainBin, "")
		job := r.node("cap.env.shell.command.run", "args = { script = 'echo begun >>begun; sleep 0.0"+fmt.Sprint(rng.IntN(4))+"; echo done >>done' }\nmax_reclaims = 2")
		struck := 0
		for struck < 3 && !ended(r.record(job).Status) {
			nap(rng, 40)
			if p := r.processes(); len(p) > 0 && r.signal(p[rng.IntN(len(p))], syscall.SIGKILL) {
				struck++
				left--
			}
			cmd := exec.Command(r.bin, "jobs", "submit", "--", "true") // ticks; it may be struck as well
			cmd.Dir, cmd.Env = r.dir, r.environ()
			_ = cmd.Run()
		}
		r.tick()
		r.wait(job)
		rec := r.record(job)
		t.Logf("round %d: %d struck, %s %s in attempt %d", round, struck, rec.Status, rec.Class, rec.Attempt)
		done, begun := 0, 0
		if exists(r.path("done")) {
			done = len(r.lines("done"))
		}
		if exists(r.path("begun")) {
			begun = len(r.lines("begun"))
		}
		if begun > 1 || done > 1 || rec.Status == "succeeded" && done != 1 {
			t.Errorf("begun %d times and done %d times, %s %s", begun, done, rec.Status, rec.Class)
		}
		if struck == 0 {
			left-- // it was over before it was struck
		}
	}
}

// ended reports whether status is terminal: no tick changes it.
func ended(status string) bool {
	switch status {
	case "succeeded", "failed", "cancelled", "blocked_by_dependency", "blocked_by_approval":
		return true
	}
	return false
}
