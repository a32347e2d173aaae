package op

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// What an agent leaves that has not ended well is no resolution, whatever it did: the files are put back as they
// were, with what a person had resolved of them, and what it left is parked. A person can then resolve them, or
// have an agent asked again.
func TestAConflictsAgentThatFails(t *testing.T) {
	for name, agent := range map[string]struct {
		does   string
		answer kernel.AgentAnswer
	}{
		"it emptied the file":     {": >readme.txt", kernel.AgentAnswer{Exit: 137, Class: kernel.ExitFailure, Reason: "the agent was ended by signal 9 (exit 137)"}},
		"its time was over":       {"echo half >readme.txt; echo half >new.txt; echo made >made.txt", kernel.AgentAnswer{Exit: 143, Class: kernel.Timeout, Reason: "it took too long"}},
		"its limit was reached":   {"rm readme.txt", kernel.AgentAnswer{Class: kernel.RateLimited, Reason: "no more today"}},
		"it staged its half":      {"echo half >readme.txt; git add readme.txt", kernel.AgentAnswer{Exit: 1, Class: kernel.ExitFailure, Reason: "exit code 1"}},
		"it committed its half":   {"echo half >readme.txt; git commit --quiet -am half", kernel.AgentAnswer{Exit: 1, Class: kernel.ExitFailure, Reason: "exit code 1"}},
		"it undid the merge":      {"git reset --quiet --hard; git switch --quiet -c its-own", kernel.AgentAnswer{Exit: 1, Class: kernel.ExitFailure, Reason: "exit code 1"}},
		"it undid the half merge": {"git reset --quiet; git clean --quiet -fd", kernel.AgentAnswer{Exit: 1, Class: kernel.ExitFailure, Reason: "exit code 1"}},
		"it did nothing":          {":", kernel.AgentAnswer{Exit: 1, Class: kernel.ExitFailure, Reason: "exit code 1"}},
	} {
		for _, cut := range []string{"answers", "is cancelled", "is killed"} {
			for _, squash := range []string{"true", "false"} {
				if squash == "false" && cut != "answers" {
					continue
				}
				if all := os.Getenv("VIZIER_LONG") != ""; !all && (squash == "false" || cut != "answers") && name != "it staged its half" {
					continue
				}
				t.Run(name+" and "+cut+" squash "+squash, func(t *testing.T) {
					w := conflicting(t)
					n := w.merge(map[string]string{"squash": squash})
					w.commit(w.dir, "new.txt", "ours\n") // so two files are in conflict
					w.want(n, kernel.OutcomeBlocked)
					dir := w.mergeDir(n)
					w.write(dir, "new.txt", "by hand\n") // a person resolves one of them, and begins with the other
					w.git(dir, "add", "new.txt")
					begun := w.read(dir, "readme.txt") + "begun by hand\n"
					w.write(dir, "readme.txt", begun)
					w.write(dir, "note.txt", "by hand\n")
					before, main := w.git(dir, "ls-files", "--stage")+w.git(dir, "status", "--porcelain"), w.rev("main")

					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					r := &resolver{answer: agent.answer, does: func(dir string) {
						w.shell(dir, agent.does)
						if cut == "is cancelled" {
							stop()
						}
					}}
					w.env.Agents = r
					gate := w.conflictGate(n, map[string]string{"auto_resolve": "true", "prompt_text": "resolve it"})
					if cut == "is killed" { // the gate's next attempt finds what the agent left
						w.killed(gate)
						gate.Job.State.Attempt, gate.Job.State.Lost = 2, 1
						if got := Run(t.Context(), w.env, gate); got.Outcome != kernel.OutcomeFailed || got.Class != kernel.EffectInDoubt || r.asked != 1 {
							t.Fatalf("the attempt after the kill: %v %v %q, asked %d times", got.Outcome, got.Class, got.Reason, r.asked)
						}
					} else {
						got := Run(ctx, w.env, gate)
						class, says := agent.answer.Class, agent.answer.Reason
						if cut == "is cancelled" {
							class, says = kernel.Signal, "told to end"
						} else if !strings.Contains(got.Reason, "resolve readme.txt in .vizier/tmp-worktrees/merge-foo, `git add` them, then `vizier retry "+string(gate.Job.ID)) {
							t.Errorf("no next step in %q", got.Reason)
						}
						if got.Outcome != kernel.OutcomeFailed || got.Class != class || !strings.Contains(got.Reason, says) {
							t.Errorf("the gate: %v %v %q", got.Outcome, got.Class, got.Reason)
						}
						if got := strings.Contains(got.Reason, "what it left half done is parked (`vizier tail"); cut == "answers" && got != (agent.does != ":") {
							t.Errorf("it says that something is parked: %v", got)
						}
					}
					if got := w.git(dir, "ls-files", "--stage") + w.git(dir, "status", "--porcelain"); got != before || w.read(dir, "readme.txt") != begun ||
						w.read(dir, "new.txt") != "by hand\n" || w.read(dir, "note.txt") != "by hand\n" || w.there(dir, "made.txt") {
						t.Errorf("not put back:\n%s\nbefore:\n%s\n%s", got, before, w.read(dir, "readme.txt"))
					}
					if got := w.parked() != ""; got != (agent.does != ":") {
						t.Errorf("parked %q", w.parked())
					}

					w.resolve(n, "both\n")
					gate.Job.State.Generation++
					w.want(gate, kernel.OutcomeSucceeded, "resolved")
					n.Job.State.Generation++
					w.want(n, kernel.OutcomeSucceeded)
					if w.rev("main^") != main || w.read(w.dir, "readme.txt") != "both\n" || w.read(w.dir, "new.txt") != "by hand\n" || r.asked != 1 {
						t.Errorf("not merged as the person resolved it: %s, asked %d times", w.git(w.dir, "log", "--oneline", "main"), r.asked)
					}
					w.tidy()
				})
			}
		}
	}
}

// sparse returns a world with a conflict in in/a.txt and in out/b.txt, of which the second is outside of the sparse checkout.
func sparse(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	for _, name := range []string{"in/a.txt", "out/b.txt", "out/c.txt"} {
		w.commit(w.dir, name, "one\n")
	}
	w.plan(map[string]string{"in/a.txt": "theirs\n", "out/b.txt": "theirs\n"}) // and its document is outside, too
	w.commit(w.dir, "in/a.txt", "ours\n")
	w.commit(w.dir, "out/b.txt", "ours\n")
	w.write(w.dir, ".vizier/jobs/.keep", "")
	w.git(w.dir, "sparse-checkout", "set", "in")
	return w
}

// narrow makes the worktree of a merge sparse, as a person may, and as versions before this one did where the checkout was.
func (w *world) narrow(n *Node) {
	w.git(w.mergeDir(n), "sparse-checkout", "set", "in")
}

// So it is outside of a sparse checkout: what is in conflict there stays in conflict, and what is not there is not made.
func TestAConflictOutsideOfASparseCheckoutIsPutBack(t *testing.T) {
	for _, does := range []string{"echo made >note", "echo half >out/b.txt", "rm -r out"} {
		for _, confined := range []bool{true, false} {
			w := sparse(t)
			w.env.Confined = confined
			n := w.merge(nil)
			w.want(n, kernel.OutcomeBlocked)
			w.narrow(n)
			dir := w.mergeDir(n)
			state := func() string {
				return w.git(dir, "ls-files", "--stage", "-t") + w.git(dir, "status", "--porcelain") + w.read(dir, "in/a.txt") + w.read(dir, "out/b.txt")
			}
			before := state()
			gate := func(does string, exit int) *Node {
				w.env.Agents = &resolver{does: func(dir string) { w.shell(dir, does) }, answer: kernel.AgentAnswer{Exit: exit, Class: map[int]kernel.FailureClass{1: kernel.ExitFailure}[exit]}}
				return w.conflictGate(n, map[string]string{"auto_resolve": "true", "prompt_text": "resolve it"})
			}
			w.want(gate(does, 1), kernel.OutcomeFailed, "resolve in/a.txt, out/b.txt in", "parked")
			if !w.there(dir, "out/b.txt") || w.there(dir, "out/c.txt") {
				t.Fatalf("%s: out/b.txt is there: %v; out/c.txt is there: %v", does, w.there(dir, "out/b.txt"), w.there(dir, "out/c.txt"))
			}
			if got := state(); got != before {
				t.Errorf("%s: not put back:\n%s\nbefore:\n%s", does, got, before)
			}
			w.want(gate("echo both >in/a.txt", 0), kernel.OutcomeBlocked, "resolve out/b.txt in")
			w.want(gate("echo both >out/b.txt", 0), kernel.OutcomeSucceeded, "resolved")
			n.Job.State.Generation++
			w.want(n, kernel.OutcomeSucceeded)
			if got := w.git(w.dir, "show", "main:in/a.txt", "main:out/b.txt", "main:out/c.txt"); got != "both\nboth\none" {
				t.Errorf("%s: main has %q", does, got)
			}
		}
	}
}

// A file in conflict that is not there is not resolved by that, unless the agent removed it.
func TestAFileInConflictThatIsGone(t *testing.T) {
	w := sparse(t)
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	w.narrow(n)
	dir := w.mergeDir(n)
	w.shell(dir, "rm -r out")
	gate := func(does string) *Node {
		w.env.Agents = &resolver{does: func(dir string) { w.shell(dir, does) }}
		return w.conflictGate(n, map[string]string{"auto_resolve": "true", "prompt_text": "resolve it"})
	}
	w.want(gate("echo both >in/a.txt"), kernel.OutcomeBlocked, "resolve out/b.txt in")
	w.shell(dir, "mkdir out; echo back >out/b.txt")
	w.want(gate("rm out/b.txt"), kernel.OutcomeSucceeded, "resolved")
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded)
	if got := w.git(w.dir, "ls-tree", "-r", "--name-only", "main", "in", "out"); got != "in/a.txt\nout/c.txt" {
		t.Errorf("main has %q", got)
	}
}

// killed runs a gate up to the end of its agent, and no further.
func (w *world) killed(gate *Node) {
	w.Helper()
	real := w.env.Git
	w.env.Git = noMore{real}
	defer func() { w.env.Git = real }()
	if r := w.run(gate); r.Outcome == kernel.OutcomeSucceeded {
		w.Fatalf("%v %q", r.Outcome, r.Reason)
	}
	for key, e := range w.journal.entries { // it did not come to say how it ended
		if e.Job == gate.Job.ID {
			e.State, e.Result = effect.Intended, kernel.Result{}
			w.journal.entries[key] = e
		}
	}
}

// noMore is a git that puts nothing back.
type noMore struct{ Git }

func (noMore) PutBack(context.Context, string) (bool, error) { return false, nil }

// A merge that is retried after its agent was killed takes nothing that the agent left either.
func TestAMergeWhoseConflictsAgentWasKilled(t *testing.T) {
	w := conflicting(t)
	n, main := w.merge(nil), w.rev("main")
	w.want(n, kernel.OutcomeBlocked)
	w.env.Agents = &resolver{does: func(dir string) { w.shell(dir, "echo half >readme.txt; git add readme.txt") }, answer: kernel.AgentAnswer{Exit: 1, Class: kernel.ExitFailure}}
	w.killed(w.conflictGate(n, map[string]string{"auto_resolve": "true", "prompt_text": "resolve it"}))
	if err := w.env.Files.ClearSentinel("foo"); err != nil { // as the kernel does at a retry of the merge
		t.Fatal(err)
	}
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeBlocked, kernel.InConflict, "resolve readme.txt")
	if w.rev("main") != main || !strings.Contains(w.read(w.mergeDir(n), "readme.txt"), "<<<<<<<") || w.parked() == "" {
		t.Errorf("main %s, parked %q", w.git(w.dir, "log", "--oneline", "main"), w.parked())
	}
}

// What a person stages after the agent was killed counts, where no agent can have staged it. All else that changed
// since is put back and parked, and may be a part of what the person did: nothing is merged before the next retry.
func TestAPersonResolvesAfterTheAgentWasKilled(t *testing.T) {
	for _, confined := range []bool{true, false} {
		w := conflicting(t)
		w.env.Confined = confined
		n := w.merge(nil)
		w.want(n, kernel.OutcomeBlocked)
		r := &resolver{does: func(dir string) { w.shell(dir, "echo half >readme.txt; echo half >new.txt; echo made >made.txt") }, answer: kernel.AgentAnswer{Exit: 1, Class: kernel.ExitFailure, Reason: "no"}}
		w.env.Agents = r
		gate := w.conflictGate(n, map[string]string{"auto_resolve": "true", "prompt_text": "resolve it"})
		w.killed(gate)
		w.resolve(n, "both\n")
		gate.Job.State.Generation++
		if !confined {
			w.want(gate, kernel.OutcomeFailed, "resolve readme.txt in", "parked")
			if ref := w.parked(); r.asked != 2 || w.git(w.dir, "show", strings.Fields(ref)[0]+":readme.txt") != "both" && w.git(w.dir, "show", strings.Fields(ref)[1]+":readme.txt") != "both" {
				t.Errorf("parked %q, asked %d times", ref, r.asked)
			}
			continue
		}
		w.want(gate, kernel.OutcomeBlocked, "not staged is put back, and parked (`vizier tail "+string(gate.Job.ID)+"`)", "whole without that, `vizier retry "+string(gate.Job.ID)+"`")
		gate.Job.State.Generation++
		w.want(gate, kernel.OutcomeSucceeded, "resolved")
		if dir := w.mergeDir(n); w.git(dir, "status", "--porcelain") != "A  new.txt\nM  readme.txt" {
			t.Errorf("beside what is staged: %s", w.git(dir, "status", "--porcelain"))
		}
		if ref := w.parked(); w.git(w.dir, "show", ref+":new.txt") != "half" || w.git(w.dir, "show", ref+":made.txt") != "made" {
			t.Errorf("parked: %s", ref)
		}
		n.Job.State.Generation++
		w.want(n, kernel.OutcomeSucceeded)
		if w.read(w.dir, "readme.txt") != "both\n" || w.read(w.dir, "new.txt") != "new\n" || w.there(w.dir, "made.txt") || r.asked != 1 {
			t.Errorf("not merged as the person resolved it, or asked %d times", r.asked)
		}
		w.tidy()
	}
}

// So it is if the person retries the merge.
func TestAPersonRetriesTheMergeAfterTheAgentWasKilled(t *testing.T) {
	w := conflicting(t)
	w.env.Confined = true
	n, main := w.merge(nil), w.rev("main")
	w.want(n, kernel.OutcomeBlocked)
	w.env.Agents = &resolver{does: func(dir string) { w.shell(dir, "echo half >readme.txt") }, answer: kernel.AgentAnswer{Exit: 1, Class: kernel.ExitFailure}}
	w.killed(w.conflictGate(n, map[string]string{"auto_resolve": "true", "prompt_text": "resolve it"}))
	w.write(w.mergeDir(n), "new.txt", "by hand\n")
	w.resolve(n, "both\n")
	if err := w.env.Files.ClearSentinel("foo"); err != nil { // as the kernel does at a retry of the merge
		t.Fatal(err)
	}
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeBlocked, "not staged is put back, and parked", "whole without that, `vizier retry "+string(n.Job.ID)+"`")
	if ref := w.parked(); w.rev("main") != main || w.git(w.dir, "show", ref+":new.txt") != "by hand" {
		t.Errorf("parked %q, main %s", ref, w.git(w.dir, "log", "--oneline", "main"))
	}
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded)
	if w.read(w.dir, "readme.txt") != "both\n" || w.read(w.dir, "new.txt") != "new\n" {
		t.Error("not merged as the person resolved it")
	}
	w.tidy()
}

// The same holds for a part of the resolution: only the other files are in conflict then.
func TestAPersonResolvesAPartAfterTheAgentWasKilled(t *testing.T) {
	w := conflicting(t)
	w.env.Confined = true
	w.commit(w.dir, "new.txt", "ours\n")
	n := w.merge(nil)
	w.want(n, kernel.OutcomeBlocked)
	dir := w.mergeDir(n)
	left := w.read(dir, "new.txt")
	gate := w.conflictGate(n, map[string]string{"auto_resolve": "true", "prompt_text": "resolve it"})
	w.env.Agents = &resolver{does: func(dir string) { w.shell(dir, "echo half >readme.txt; echo half >new.txt") }, answer: kernel.AgentAnswer{Exit: 1, Class: kernel.ExitFailure, Reason: "no"}}
	w.killed(gate)
	w.resolve(n, "both\n")
	w.write(dir, "readme.txt", "both, and more\n")
	gate.Args["auto_resolve"] = "false"
	gate.Job.State.Generation++
	w.want(gate, kernel.OutcomeBlocked, "resolve new.txt in")
	if w.read(dir, "readme.txt") != "both, and more\n" || w.git(dir, "show", ":readme.txt") != "both" || w.read(dir, "new.txt") != left {
		t.Errorf("readme.txt %q, new.txt %q", w.read(dir, "readme.txt"), w.read(dir, "new.txt"))
	}
	if ref := w.parked(); w.git(w.dir, "show", ref+":new.txt") != "half" {
		t.Errorf("parked: %s", ref)
	}
}

// A resolution of which something cannot be read waits for that as a whole. Whoever makes it readable and retries, the
// gate or the merge, has all of it in the target, and the agent is asked once.
func TestAResolutionOfWhichSomethingCannotBeRead(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	for _, closed := range []string{"lib", "lib/helper", "readme.txt"} {
		for _, confined := range []bool{true, false} {
			for _, retried := range []string{"gate", "merge"} {
				name := fmt.Sprintf("%s, confined %v, %s", closed, confined, retried)
				w := conflicting(t)
				w.env.Confined = confined
				n := w.merge(nil)
				w.want(n, kernel.OutcomeBlocked)
				dir := w.mergeDir(n)
				r := &resolver{does: func(dir string) {
					w.shell(dir, "echo '. lib/helper' >readme.txt; mkdir lib; echo helper >lib/helper; chmod 000 "+closed)
				}}
				w.env.Agents = r
				gate := w.conflictGate(n, map[string]string{"auto_resolve": "true", "prompt_text": "resolve it"})
				for range 2 { // as often as it is still closed
					w.want(gate, kernel.OutcomeFailed, "cannot read "+closed)
					gate.Job.State.Generation++
				}
				w.shell(dir, "chmod -R u+rwX .")
				if retried == "gate" {
					w.want(gate, kernel.OutcomeSucceeded, "resolved")
				}
				n.Job.State.Generation++
				w.want(n, kernel.OutcomeSucceeded)
				if w.read(w.dir, "readme.txt") != ". lib/helper\n" || !w.there(w.dir, "lib/helper") || r.asked != 1 || w.parked() != "" {
					t.Errorf("%s: the target has %s, asked %d times, parked %q", name, w.git(w.dir, "show", "--stat", "main"), r.asked, w.parked())
				}
			}
		}
	}
}

// A person who meanwhile undoes the merge, or ends it otherwise, is not overruled by what was to be staged.
func TestAResolutionThatAPersonDrops(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	for does, want := range map[string]string{
		"git reset --quiet --hard": "ours\n", // and nothing is merged yet
		"echo mine >readme.txt; git add readme.txt; git commit --quiet --message 'by hand'": "mine\n",
	} {
		w := conflicting(t)
		n := w.merge(nil)
		w.want(n, kernel.OutcomeBlocked)
		r := &resolver{does: func(dir string) {
			w.shell(dir, "echo theirs >readme.txt; mkdir lib; echo x >lib/helper; chmod 000 lib")
		}}
		w.env.Agents = r
		gate := w.conflictGate(n, map[string]string{"auto_resolve": "true", "prompt_text": "resolve it"})
		w.want(gate, kernel.OutcomeFailed, "cannot read lib")
		w.shell(w.mergeDir(n), "chmod -R u+rwX .; "+does)
		if staged := w.git(w.mergeDir(n), "diff", "--cached", "--name-only"); staged != "" {
			t.Fatalf("staged: %s", staged)
		}
		gate.Args["auto_resolve"] = "false"
		gate.Job.State.Generation++
		said := w.run(gate)
		if staged := w.git(w.mergeDir(n), "diff", "--cached", "--name-only"); staged != "" {
			t.Errorf("%s: staged %s", does, staged)
		}
		n.Job.State.Generation++
		w.run(n)
		if got := w.git(w.dir, "show", "main:readme.txt") + "\n"; got != want || w.there(w.dir, "lib") {
			t.Errorf("%s: main has %q, the gate said %q", does, got, said.Reason)
		}
	}
}

// A gate that may ask the agent does not, once nothing is in conflict any more: what a person has not staged yet may be half done.
func TestAPersonIsAtWorkOnAConflict(t *testing.T) {
	w := conflicting(t)
	n, main := w.merge(nil), w.rev("main")
	w.want(n, kernel.OutcomeBlocked)
	r := &resolver{does: func(dir string) { w.shell(dir, "touch new.txt") }}
	w.env.Agents = r
	gate := w.conflictGate(n, map[string]string{"auto_resolve": "true", "prompt_text": "resolve it"})
	w.want(gate, kernel.OutcomeBlocked, "resolve readme.txt in")
	w.resolve(n, "both\n")
	w.write(w.mergeDir(n), "new.txt", "half\n")
	for range 2 {
		gate.Job.State.Generation++
		w.want(gate, kernel.OutcomeBlocked, "resolve new.txt in", "`git add` them")
	}
	if r.asked != 1 || w.git(w.mergeDir(n), "diff", "--name-only") != "new.txt" || w.rev("main") != main {
		t.Errorf("asked %d times, not staged: %q", r.asked, w.git(w.mergeDir(n), "diff", "--name-only"))
	}
	w.write(w.mergeDir(n), "new.txt", "whole\n")
	w.git(w.mergeDir(n), "add", "new.txt")
	gate.Job.State.Generation++
	w.want(gate, kernel.OutcomeSucceeded, "resolved")
	n.Job.State.Generation++
	w.want(n, kernel.OutcomeSucceeded)
	if w.read(w.dir, "readme.txt") != "both\n" || w.read(w.dir, "new.txt") != "whole\n" || r.asked != 1 {
		t.Errorf("not merged as the person resolved it, or asked %d times", r.asked)
	}
	w.tidy()
}

// What an agent that ended well changed and made belongs to its resolution, also of a part: it is merged with what a person resolves
// after it. What a person had changed or made before stays for the person to stage.
func TestAnAgentResolvesAPart(t *testing.T) {
	for _, cut := range []bool{false, true} {
		if cut && !disktest.AsUser(t) {
			return
		}
		w := newWorld(t)
		w.plan(map[string]string{"readme.txt": "theirs\n", "new.txt": "new\n", "a.txt": "theirs\n", "b.txt": "theirs\n"})
		w.commit(w.dir, "readme.txt", "ours\n")
		w.commit(w.dir, "new.txt", "ours\n")
		n := w.merge(nil)
		w.want(n, kernel.OutcomeBlocked)
		dir := w.mergeDir(n)
		w.write(dir, "a.txt", "half\n")
		w.write(dir, "notes.txt", "a person's\n")
		does := "echo both >readme.txt; echo repaired >b.txt; mkdir lib; echo made >lib/made.txt"
		if cut {
			does += "; chmod 000 lib"
		}
		w.env.Agents = &resolver{does: func(dir string) { w.shell(dir, does) }}
		gate := w.conflictGate(n, map[string]string{"auto_resolve": "true", "prompt_text": "resolve it"})
		if cut {
			w.want(gate, kernel.OutcomeFailed, "cannot read lib")
			w.shell(dir, "chmod -R u+rwX .")
			gate.Args["auto_resolve"] = "false"
			gate.Job.State.Generation++
		}
		w.want(gate, kernel.OutcomeBlocked, "resolve new.txt in")
		w.write(dir, "new.txt", "both\n")
		w.git(dir, "add", "new.txt")
		gate.Job.State.Generation++
		w.want(gate, kernel.OutcomeBlocked, "resolve a.txt in")
		w.write(dir, "a.txt", "whole\n")
		w.git(dir, "add", "a.txt")
		gate.Job.State.Generation++
		w.want(gate, kernel.OutcomeSucceeded, "resolved")
		n.Job.State.Generation++
		w.want(n, kernel.OutcomeSucceeded)
		for name, want := range map[string]string{"readme.txt": "both\n", "new.txt": "both\n", "a.txt": "whole\n", "b.txt": "repaired\n", "lib/made.txt": "made\n"} {
			if !w.there(w.dir, name) || w.read(w.dir, name) != want {
				t.Errorf("cut %v: %s is not merged as it was resolved:\n%s", cut, name, w.git(w.dir, "show", "main"))
			}
		}
		if ref := w.parked(); w.there(w.dir, "notes.txt") || w.git(w.dir, "show", ref+":notes.txt") != "a person's" {
			t.Errorf("cut %v: a person's notes are merged, or lost: %q", cut, ref)
		}
	}
}
