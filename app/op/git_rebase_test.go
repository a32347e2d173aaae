package op

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A rebase that an agent left unfinished has one advice, after which the stage goes on.
func TestARebaseThatIsNotFinished(t *testing.T) {
	for name, c := range map[string]struct {
		before string // in the worktree, before the stage begins
		does   string
		steps  []string // of the advice, each on its own
		want   string   // of the branch's readme.txt
	}{
		"onto the target, without the plan":  {"echo plan >plan.txt; git add plan.txt; git commit --quiet -m plan", "git rebase main", []string{"rebase --abort"}, "mine"},
		"onto the target, with the conflict": {":", "git rebase main", []string{"", "-c core.editor=true rebase --continue"}, "both"},
		"onto the target, undone":            {":", "git rebase main", []string{"rebase --abort"}, "mine"},
		"stopped between":                    {":", "git -c sequence.editor='sed -i 1ibreak' rebase --interactive HEAD~1", []string{"-c core.editor=true rebase --continue"}, "mine"},
	} {
		for _, operation := range []string{"git.stage_commit", "git.commit", "gate.stop_condition"} {
			t.Run(name+" "+operation, func(t *testing.T) {
				w := newWorld(t)
				w.env.Shell = script{}
				n := w.stop("git.stage_commit", "true")
				if c.before != ":" {
					w.shell(n.Dir, c.before)
					w.git(w.dir, "worktree", "remove", n.Dir)
					n = w.stop("git.stage_commit", "true")
				}
				n, outcome := w.inStage(n, operation, nil)
				w.commit(n.Dir, "readme.txt", "mine\n")
				w.commit(w.dir, "readme.txt", "target\n")
				w.shell(n.Dir, c.does+" || true")
				r := w.want(n, outcome, "a rebase in ", "tmp-worktrees/", " is not finished", "vizier retry "+string(n.Job.ID)+"`")
				if strings.Count(r.Reason, "vizier retry") != 1 {
					t.Errorf("%q", r.Reason)
				}
				for _, step := range c.steps {
					if step == "" {
						if !strings.Contains(r.Reason, "resolve readme.txt there") {
							t.Errorf("%q", r.Reason)
						}
						w.write(n.Dir, "readme.txt", "both\n")
						w.git(n.Dir, "add", "readme.txt")
						continue
					}
					if !strings.Contains(r.Reason, " "+step+"`") {
						t.Fatalf("%q does not name %q", r.Reason, step)
					}
					w.shell(n.Dir, "git "+step)
				}
				n.Job.State.Generation++
				w.want(n, kernel.OutcomeSucceeded)
				if got := w.git(w.dir, "show", "draft/foo:readme.txt"); got != c.want || c.before != ":" && w.git(w.dir, "show", "draft/foo:plan.txt") != "plan" {
					t.Errorf("the branch has %q", got)
				}
			})
		}
	}
}
