package view_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// step returns the only step of r.
func step(t *testing.T, r kernel.Remedy) (command []string, text string) {
	t.Helper()
	steps := view.Steps([]kernel.Remedy{r})
	if len(steps) != 1 {
		t.Fatalf("%+v: %v", r, steps)
	}
	return steps[0].Command, steps[0].Text
}

// Retries are one command, what is done once is said once, and everything else keeps its place.
func TestTheStepsOfAnExplanation(t *testing.T) {
	retry := func(id kernel.JobID) kernel.Remedy { return kernel.Remedy{Kind: kernel.RetryJob, Job: id} }
	plan := parse(t, []string{"plan_branch:a (draft/a)", "plan_doc:a (draft/a)"})
	var got []string
	for _, s := range view.Steps([]kernel.Remedy{{Kind: kernel.ProduceArtifact, Artifact: plan[0]}, {Kind: kernel.ProduceArtifact, Artifact: plan[1]},
		retry("a"), retry("b"), retry("c"), {Kind: kernel.ApproveJob, Job: "d"}, {Kind: kernel.ApproveJob, Job: "e"}, retry("f")}) {
		got = append(got, cmp.Or(s.Text, strings.Join(s.Command, " ")))
	}
	equal(t, got, []string{"draft the plan: `vizier run draft --name a` with `--spec-text` or `--file`",
		"vizier retry a b c", "vizier jobs approve d", "vizier jobs approve e", "vizier retry f"})
	equal(t, view.Steps(nil), nil)
}

// Every remedy has words of its own or a command, and there is no default that
// would tell a wrong one.
func TestEveryRemedyHasWords(t *testing.T) {
	said := map[string]kernel.RemedyKind{}
	k := kernel.RemedyKind(0)
	for ; !strings.Contains(k.String(), "("); k++ {
		command, text := step(t, kernel.Remedy{Kind: k, Job: "j", Detail: "why", Pinned: kernel.PinnedHead{Branch: "b", Commit: "c"}})
		words := strings.Join(command, " ") + text
		if other, again := said[words]; words == "" || again {
			t.Errorf("%s: %q, as %s", k, words, other)
		}
		said[words] = k
	}
	if command, text := step(t, kernel.Remedy{Kind: k}); len(command) > 0 || text != "" || k == 0 {
		t.Errorf("a kind that there is not: %v %q", command, text)
	}
}

// Who may not approve is told with the command, and what to look at first where the branch has moved.
func TestTheCommandThatApproves(t *testing.T) {
	at, ann := kernel.PinnedHead{Branch: "b", Commit: "new"}, kernel.Barred{Submitter: "Ann"}
	const moved = "branch b has moved: look at `git log --left-right new`, then `vizier jobs approve j --head new`"
	for _, c := range []struct {
		remedy        kernel.Remedy
		command, text string
	}{
		{kernel.Remedy{}, "vizier jobs approve j", ""},
		{kernel.Remedy{Barred: ann}, "vizier jobs approve j", "vizier jobs approve j, by somebody else than Ann"},
		{kernel.Remedy{Pinned: at}, "vizier jobs approve j --head new", moved},
		{kernel.Remedy{Pinned: at, Barred: ann}, "vizier jobs approve j --head new", moved + ", by somebody else than Ann"},
		{kernel.Remedy{Pinned: at, Asked: "old"}, "vizier jobs approve j --head new", strings.Replace(moved, "right new", "right old...new", 1)},
	} {
		c.remedy.Kind, c.remedy.Job = kernel.ApproveJob, "j"
		command, text := step(t, c.remedy)
		equal(t, []string{strings.Join(command, " "), text}, []string{c.command, c.text})
	}
}

// A branch is made again where it was; where it has never been, a person says where.
func TestTheBranchThatIsMade(t *testing.T) {
	for want, at := range map[string]kernel.PinnedHead{
		"git branch b c": {Branch: "b", Commit: "c"},
		"make branch b, as `git branch -- b` does at the commit that is checked out": {Branch: "b"},
	} {
		command, text := step(t, kernel.Remedy{Kind: kernel.MakeBranch, Pinned: at})
		equal(t, strings.Join(command, " ")+text, want)
	}
}

// The token of a plan's stage is made by the command of the stage, another artifact by a job that nobody knows.
func TestTheCommandOfAStage(t *testing.T) {
	for ref, want := range map[string]string{"approve:a": "vizier run approve --name a", "review:a": "queue a job that produces custom:stage_token:review:a"} {
		command, text := step(t, kernel.Remedy{Kind: kernel.ProduceArtifact, Artifact: kernel.Artifact{Kind: kernel.Custom, Name: kernel.StageToken, Ref: ref}})
		if got := strings.Join(command, " ") + text; got != want {
			t.Errorf("%s: %q", ref, got)
		}
	}
	r := kernel.Remedy{Kind: kernel.ProduceArtifact, Artifact: kernel.Artifact{Kind: kernel.Custom, Name: kernel.StageToken, Ref: "approve:a"}, Pinned: kernel.PinnedHead{Branch: "other"}}
	if command, _ := step(t, r); strings.Join(command, " ") != "vizier run approve --name a --branch other" {
		t.Errorf("for another branch: %q", command)
	}
}

// A plan is made by its draft, on the branch that a draft makes it on.
func TestTheDraftOfAPlan(t *testing.T) {
	for label, want := range map[string]string{
		"plan_branch:a":           "draft the plan: `vizier run draft --name a` with `--spec-text` or `--file`",
		"plan_doc:a (draft/a)":    "draft the plan: `vizier run draft --name a` with `--spec-text` or `--file`",
		"plan_branch:a (other)":   "draft the plan on branch other: `vizier run draft --name a --branch other` with `--spec-text` or `--file`; or bring it to that branch with git",
		"plan_commits:a":          "queue a job that produces plan_commits:a (draft/a)",
		"target_branch:a":         "queue a job that produces target_branch:a",
		"command_patch:draft/a":   "queue a job that produces command_patch:draft/a",
		"custom:plan_doc:draft/a": "queue a job that produces custom:plan_doc:draft/a",
	} {
		if command, text := step(t, kernel.Remedy{Kind: kernel.ProduceArtifact, Artifact: parse(t, []string{label})[0]}); len(command) > 0 || text != want {
			t.Errorf("%s: %v %q", label, command, text)
		}
	}
}

// A job that has ended asks for its approval only once a retry has taken it back, and is retried only once what it needs is made, and what
// the retry takes along has ended. A branch is made before anything else, where it has been at a commit.
func TestInOrder(t *testing.T) {
	of := func(kind kernel.RemedyKind) kernel.Remedy { return kernel.Remedy{Kind: kind, Job: "a"} }
	retry, approve, produce, await, branch := of(kernel.RetryJob), of(kernel.ApproveJob), of(kernel.ProduceArtifact), of(kernel.AwaitEnd), of(kernel.MakeBranch)
	back, moved := branch, approve
	back.Pinned.Commit, moved.Pinned.Commit = "c", "c"
	for _, c := range []struct {
		actions []kernel.Remedy
		want    bool
	}{
		{[]kernel.Remedy{retry, approve}, true}, {[]kernel.Remedy{produce, retry}, true}, {[]kernel.Remedy{await, retry}, true}, {[]kernel.Remedy{back}, true}, {[]kernel.Remedy{retry, branch, approve}, true},
		{[]kernel.Remedy{approve, retry}, false}, {[]kernel.Remedy{retry, produce}, false}, {[]kernel.Remedy{retry, await}, false}, {[]kernel.Remedy{branch, retry}, false},
		{[]kernel.Remedy{approve}, false}, {[]kernel.Remedy{moved}, false}, {[]kernel.Remedy{produce, approve}, false}, {[]kernel.Remedy{retry}, false}, {nil, false},
	} {
		if got := view.InOrder(c.actions); got != c.want {
			t.Errorf("%v: %t", c.actions, got)
		}
	}
}

// What was submitted again and does not run says which command runs it.
func TestWhyASubmissionDoesNotRunAgain(t *testing.T) {
	for want, n := range map[string]kernel.NotRun{
		"it succeeded, and its files were removed since: `vizier retry j` makes them again": {Status: kernel.Succeeded, Removed: true},
		"it failed: a larger limit of executions, or `vizier retry j`, runs it again":       {Status: kernel.Failed},
		"it is blocked_by_dependency: `vizier retry j` runs it again":                       {Status: kernel.BlockedByDependency},
	} {
		equal(t, view.NotRun("j", n), want)
	}
}

// People read references in place of ids, but not within paths and names.
func TestIDsInWhatPeopleRead(t *testing.T) {
	const id, member, other = "0123456789abcdef0123456789abcdef", "1123456789abcdef0123456789abcdef", "2123456789abcdef0123456789abcdef"
	const run = "run_" + id
	s := snap(job(id, 0, kernel.Queued, numbered(3, "")), job(member, 1, kernel.Queued, numbered(4, "build"), node(run, "build")))
	equal(t, view.People(s, "job "+id+": see "+member+", of "+run+"/x, and "+other+" in jobs/"+id), "job 3: see 4/build, of 4/x, and "+other+" in jobs/"+id)
	equal(t, view.People(snap(job(id, 0, kernel.Queued, node(run, "x"))), run), run)
}

// An id is one only where it is no part of a longer word, whatever stands before and behind it.
func TestWhereAnIDBeginsAndEnds(t *testing.T) {
	const id, other = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	const words = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-./:=@~"
	for c := range byte(128) {
		s := string(rune(c))
		word, ends := strings.Contains(words, s), strings.Contains(".:", s)
		for text, want := range map[string]bool{
			s + id: !word, "x" + s + id: !word, id + s + "x": !word, id + s: !word || ends, id + s + " x": !word || ends, id + s + "\nx": !word || ends,
			"run_" + id + s + "x": !word || s == "/", s + "run_" + id: !word,
		} {
			if got := view.IDs(text); len(got) > 0 != want {
				t.Errorf("in %q: %q, want %t", text, got, want)
			}
		}
	}
	equal(t, view.IDs("it says id \""+id+"\", \"run_"+id+"\""), nil) // as a file has it
	equal(t, view.IDs("\""+id+"\""), nil)
	equal(t, view.IDs("\""+id+" and "+id+"\""), []string{id, id})
	equal(t, view.IDs("job "+id+", run_"+other+"; "+id[1:]+" "+id+"0"), []string{id, "run_" + other})
	equal(t, view.Refer(id+" and "+other+".", func(ref string) string { return map[string]string{other: "2"}[ref] }), id+" and 2.")
	equal(t, view.Refer("nothing", func(string) string { return "x" }), "nothing")
	equal(t, view.People(snap(job(id, 0, kernel.Queued, numbered(1, "a"), node("run_"+other, "a"))), "run_"+other), "1")
}

func TestAStatusOnOneLine(t *testing.T) {
	j := job("a", 0, kernel.Failed, numbered(3, ""))
	j.State.Exit = kernel.Exited(2)
	st, err := view.StatusOf(snap(j), "a", view.Paths{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, st.String(), "3 do a [failed] exit 2")
	st.Run = "2 of plan x"
	equal(t, st.String(), "3 do a [failed] exit 2, run 2 of plan x")
}
