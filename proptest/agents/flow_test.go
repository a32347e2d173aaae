package agents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/proctest"
	"github.com/vizier-scheduler/vizier/proptest/agents/model"
)

// flows returns a trial with Vizier in its repository. The model makes a plan,
// unless it is asked to implement it.
func flows(t *testing.T, name, config string) *trial {
	t.Helper()
	x := newTrial(t, name)
	x.sh("vizier init")
	x.write("repo/.vizier/config.toml", config)
	x.write("repo/.vizier/prompts/DRAFT_PROMPTS.md", "Plan this: {{persist_plan.spec_text}}\n")
	x.write("repo/.vizier/prompts/APPROVE_PROMPTS.md", model.Marker+"\n")
	x.write("repo/ci.sh", "#!/bin/sh\ngrep -q hello hello.txt\n")
	x.sh("git add -A && git commit -q -m 'use vizier'")
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := x.try("vizier jobs schedule --all; tail .vizier/jobs/*/*.log")
			t.Log(out)
		}
	})
	return x
}

// run enqueues a run and returns its id.
func (x *trial) run(args string) string {
	x.Helper()
	out := x.sh("vizier run " + args)
	for line := range strings.Lines(out) {
		if id, ok := strings.CutPrefix(line, "Run:"); ok {
			return strings.TrimSpace(id)
		}
	}
	x.Fatalf("vizier run %s: no run in %s", args, out)
	return ""
}

// main takes a plan through all stages.
func (x *trial) main() {
	x.Helper()
	merge := x.run("merge --name greet --target main --cicd-script ./ci.sh")
	x.run("approve --name greet")
	x.run("draft --spec-text 'A file that greets' --name greet")
	x.sh("vizier wait " + merge + "/terminal")
	if got := x.read(model.File); got != model.Content {
		x.Errorf("main has %q", got)
	}
	message := x.sh("git log -1 --format=%B main")
	if !strings.Contains(message, model.Plan) || strings.Contains(message, model.Telling) {
		x.Errorf("the plan in the commit: %s", message)
	}
	if left := x.sh("git branch --format='%(refname:short)'; git status --porcelain"); left != "main\n" {
		x.Errorf("left behind: %s", left)
	}
}

func TestDraftApproveMerge(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude", "codex", "gemini"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flows(t, model.Work, "agent = \""+name+"\"\n").main()
		})
	}
	t.Run("mixed", func(t *testing.T) {
		t.Parallel()
		x := flows(t, model.Work, "agent = \"claude\"\n[agents.commands.draft]\nagent = \"gemini\"\n[agents.commands.approve]\nagent = \"codex\"\n")
		x.main()
		asked := ""
		for _, r := range x.model.Requests(model.Work) {
			asked += r.Path + "\n"
		}
		if !strings.Contains(asked, "streamGenerateContent") || !strings.Contains(asked, "/v1/responses") {
			x.Errorf("asked were %s", asked)
		}
	})
}

// Agents keep data by directory: a project. All runs of one stage of a plan share a
// project.
func TestRunsOfAStageAreOneProject(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]string{"claude": ".claude/projects/*", "gemini": ".gemini/tmp/*/.project_root"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := flows(t, model.Work, "agent = \""+name+"\"\n")
			for range 2 {
				approve := x.run("approve --name greet")
				x.run("draft --spec-text 'A file that greets' --name greet")
				x.sh("vizier wait " + approve + "/terminal && git branch -D draft/greet")
			}
			found, err := filepath.Glob(filepath.Join(os.Getenv("HOME"), kept))
			if err != nil {
				t.Fatal(err)
			}
			var projects []string
			for _, path := range found {
				if strings.HasSuffix(path, "-repo") {
					continue // claude's project for the main working tree, for what it remembers of the repository
				}
				text, err := os.ReadFile(path)
				if err == nil && strings.Contains(string(text), x.base) || strings.Contains(path, filepath.Base(x.base)) {
					projects = append(projects, path)
				}
			}
			if asked := len(x.model.Requests(model.Work)); len(projects) != 2 || asked < 4 {
				t.Errorf("projects %q of %d questions, of %d in all", projects, asked, len(found))
			}
		})
	}
}

// People read the reason of a failure where they look for it.
func TestWhyAnAgentFailed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude", "codex", "gemini"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := flows(t, model.Key, "agent = \""+name+"\"\n")
			run := x.run("draft --spec-text 'A file that greets' --name greet")
			if out, err := x.try("vizier wait " + run + "/terminal"); err == nil {
				x.Fatalf("it succeeded: %s", out)
			}
			if why := x.sh("vizier why " + run + "/terminal"); !strings.Contains(why, name+" is not logged in, or its key is not accepted") {
				x.Errorf("why says %s", why)
			}
			tail := x.sh("vizier tail " + run + "/invoke_agent")
			if n := strings.Count(tail, "is not logged in, or"); n != 1 {
				x.Errorf("told %d times in %s", n, tail)
			}
		})
	}
}

// within waits until ask returns true, and fails the test after limit.
func (x *trial) within(limit time.Duration, what string, ask func() bool) {
	x.Helper()
	for end := time.Now().Add(limit); !ask(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			x.Fatalf("after %s: not %s", limit, what)
		}
	}
}

// processes returns the processes of the trial's jobs, by their environment.
func (x *trial) processes() (found []int) {
	for _, p := range proctest.All() {
		env := strings.Join(p.Environ, "\n")
		if strings.Contains(env, "PWD="+x.base) && strings.Contains(env, "VIZIER_JOB_ID=") {
			found = append(found, p.PID)
		}
	}
	return found
}

func (x *trial) status(job string) string {
	x.Helper()
	var shown struct{ Status string }
	out := x.sh("vizier show --format json " + job)
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		x.Fatalf("%v: %s", err, out)
	}
	return shown.Status
}

// session returns the session of the job's latest attempt, or "" while none is on
// record.
func (x *trial) session(job string) string {
	x.Helper()
	var shown struct {
		Job struct {
			Attempts []struct{ Agent *struct{ Session string } }
		}
	}
	out := x.sh("vizier show --raw --format json " + job)
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		x.Fatalf("%v: %s", err, out)
	}
	if all := shown.Job.Attempts; len(all) > 0 && all[len(all)-1].Agent != nil {
		return all[len(all)-1].Agent.Session
	}
	return ""
}

// kept reports whether the agent has written the prompt to its own file of the
// session. It does so some time later, and can continue the session only then.
func (x *trial) kept(session string) bool {
	x.Helper()
	out, _ := x.try("cd && grep -rlsF " + session + " .claude/projects .codex/sessions .gemini/tmp | xargs -r -d '\\n' grep -lF 'A file that greets'")
	return out != ""
}

// hanging returns a run whose agent waits for its model.
func hanging(t *testing.T, name string) (x *trial, job string) {
	x = flows(t, model.Hang, "agent = \""+name+"\"\n[jobs]\ngrace = \"5s\"\n")
	x.sh(`sed -i 's/^id = "invoke_agent"/&\nresume = true/' .vizier/workflows/draft.toml`)
	run := x.run("draft --spec-text 'A file that greets' --name greet")
	x.within(3*time.Minute, "asked", func() bool { return len(x.model.Requests(model.Hang)) > 0 })
	return x, run + "/invoke_agent"
}

func TestCancelEndsAnAgent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude", "codex", "gemini"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, job := hanging(t, name)
			x.sh("vizier cancel " + job)
			x.within(time.Minute, "cancelled", func() bool { return x.status(job) == "cancelled" })
			x.within(time.Minute, "without processes", func() bool { return len(x.processes()) == 0 })
		})
	}
}

// If the runner is killed, the agent ends with it. The session was on record by
// then, so the attempt that is executed again continues it.
func TestKillDashNine(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude", "codex", "gemini"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, job := hanging(t, name)
			session := ""
			x.within(time.Minute, "told of a session", func() bool { session = x.session(job); return session != "" })
			x.within(time.Minute, "written to the session", func() bool { return x.kept(session) })
			before := x.processes()
			x.at(model.Recall)
			for _, pid := range before {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			if len(before) == 0 {
				x.Fatal("nothing ran")
			}
			_, _ = x.try("vizier jobs schedule")
			x.within(3*time.Minute, "ended", func() bool { s := x.status(job); return s == "succeeded" || s == "failed" })
			if s := x.status(job); s == "failed" {
				x.sh("vizier retry " + job)
			}
			x.within(3*time.Minute, "succeeded", func() bool { return x.status(job) == "succeeded" })
			if again := x.session(job); again != session {
				x.Errorf("session %s, it was %s; %s", again, session, x.sh("vizier tail "+job))
			}
			if text := x.sh("vizier tail " + job); !strings.Contains(text, "You asked first: Plan this: A file that greets") || strings.Contains(text, "begins anew") {
				x.Errorf("it does not go on: %s", text)
			}
		})
	}
}
