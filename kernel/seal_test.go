package kernel_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// granted returns j, approved as it is.
func granted(j kernel.Job) kernel.Job {
	j.State.Approval.State = kernel.Approved
	j.State.Approval.Grant = &kernel.Grant{How: "script", Digest: j.Spec.Digest(), Statement: j.Spec.Statement()}
	return j
}

func everything() kernel.Spec {
	return kernel.Spec{
		Task: kernel.Task{Args: []string{"sh", "-c", "echo \"ä\"\n"}, Tree: "/t", Dir: "d", Env: []string{"A=b=c", "N"}, PassEnv: []string{"P", "Q"}, Secrets: []kernel.Secret{{Name: "S", Source: "@/f"}, {Name: "T", Source: "pass \"t\""}}, Executor: "far",
			Options: []string{"k=v"}, Timeout: 90 * time.Second, Builtin: true,
			Container: "img", Sandbox: kernel.Sandbox{Mode: kernel.RequiredSandbox, Write: []string{"out"}, Network: kernel.NoNetwork, ReadOnly: true}},
		Pinned: kernel.PinnedHead{Branch: "main", Commit: "c0ffee"},
		Origin: kernel.Origin{Node: "n", Template: kernel.Template{Selector: "s@v1", ID: "s", Version: "v1", PolicyHash: "ab"},
			About: kernel.NodeInfo{Operation: "agent.invoke", Control: "gate.approval", Gates: []string{"approval(required=true)"}}, Manifest: "cd"},
	}
}

// The format of a statement never changes, since grants on record have digests
// of it.
func TestStatement(t *testing.T) {
	sp := everything()
	want := `vizier-approval 1
command "sh" "-c" "echo \"\u00e4\"\n"
program "vizier"
worktree "/t"
directory "d"
env "A" "` + string(kernel.DigestOf("b=c")) + `"
env "N" "` + string(kernel.DigestOf("")) + `"
pass_env "P" "Q"
secret "S" "@/f"
secret "T" "pass \"t\""
executor "far"
options "k=v"
sandbox "required"
write "out"
network "none"
read_only "worktree"
container "img"
pinned_head "main" "c0ffee"
timeout "1m30s"
template "s@v1" "s" "v1"
policy "ab"
node "n" "agent.invoke" "gate.approval"
gates "approval(required=true)"
manifest "cd"
`
	if got := sp.Statement(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := (&kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}).Digest(); got != "415dfb9b0c3a89d633b4a82efd7b60719a438f7af94d9f3e0f76cda619cfc97e" {
		t.Errorf("the digest of `true` is %s", got)
	}
}

// What an attempt does, and where, is part of what is approved, so any change
// of it is noticed. What decides when it runs is not part of it.
func TestWhatIsSealed(t *testing.T) {
	open := map[string]string{
		"Name": "for people", "Tags": "for people", "After": "when", "AfterAny": "when", "Needs": "when", "Produces": "for others", "ProducesOn": "for foresight", "MissingProducer": "when",
		"FailureMode": "of the run", "Preconditions": "when", "ApprovalTimeout": "of the question", "Estimate": "for foresight", "Locks": "when", "Routes": "what follows", "Routed": "when",
		"OwnsContext": "of the run", "Transient": "when", "IdempotencyKey": "of the submission", "Budget": "how often", "Retry": "how often", "Resumable": "how often",
		"Idempotent": "how often", "KeepSession": "how often", "Prompt": "its run has a manifest", "InDoubt": "how often", "Configured": "for people",
		"Task.Grace": "how it ends", "Origin.Run": "its manifest is sealed", "Origin.Command": "for people", "Origin.Alias": "for people", "Origin.Plan": "its manifest is sealed",
		"Origin.Branch": "its manifest is sealed", "Origin.Target": "its manifest is sealed", "Origin.Parent": "for people", "Origin.TraceParent": "for people", "Origin.Ephemeral": "what goes after it",
		"Origin.About.Name": "for people", "Origin.About.Class": "of the operation",
	}
	base := everything()
	var look func(path string, at func(*kernel.Spec) reflect.Value)
	look = func(path string, at func(*kernel.Spec) reflect.Value) {
		zero := everything()
		v := at(&zero)
		if v.Kind() == reflect.Struct && open[path] == "" {
			for i := range v.NumField() {
				name := strings.TrimPrefix(path+"."+v.Type().Field(i).Name, ".")
				look(name, func(s *kernel.Spec) reflect.Value { return at(s).Field(i) })
			}
			return
		}
		if open[path] != "" {
			return
		}
		if v.IsZero() {
			t.Errorf("%s is not in the example, nor said to be left open", path)
		}
		v.SetZero()
		if zero.Digest() == base.Digest() {
			t.Errorf("%s is not part of what is approved", path)
		}
	}
	look("", func(s *kernel.Spec) reflect.Value { return reflect.ValueOf(s).Elem() })
}

// An approval is of the spec that was shown. If the spec changes, the job
// waits, says what has changed, and asks again.
func TestAnApprovalIsOfWhatWasShown(t *testing.T) {
	j := job("q", approval(kernel.Pending, ""))
	j.Spec.Task.Env = []string{"KEEP=1", "TOKEN=a"}
	s := snapshot(facts(), j)
	if _, err := kernel.Approve(s, "q", kernel.Consent{By: "ann", Digest: kernel.DigestOf("something else")}); !errors.Is(err, kernel.ErrConflict) {
		t.Errorf("approved by a digest that is not the job's: %v", err)
	}
	p, err := kernel.Approve(s, "q", kernel.Consent{By: "ann", How: "terminal", Digest: j.Spec.Digest()})
	if err != nil {
		t.Fatal(err)
	}
	approved := *s.Apply(p).Job("q")
	expect(t, snapshot(facts(), approved), "q", "running")

	changed := approved
	changed.Spec.Task.Args, changed.Spec.Task.Env = []string{"rm", "-rf"}, []string{"KEEP=1", "MORE=x"}
	s = snapshot(facts(), changed)
	expect(t, s, "q", "waiting_on_approval approval: changed since it was approved: command, env \"TOKEN\", env \"MORE\"")
	s = s.Apply(kernel.Decide(s))
	if p, err = kernel.Approve(s, "q", kernel.Consent{By: "bob"}); err != nil {
		t.Fatal(err)
	}
	expect(t, s.Apply(p), "q", "running")

	forged := changed
	forged.State.Approval.Grant = &kernel.Grant{Digest: approved.State.Approval.Grant.Digest, Statement: changed.Spec.Statement()}
	expect(t, snapshot(facts(), forged), "q", "waiting_on_approval approval: changed since it was approved")
	if _, err = kernel.Reject(snapshot(facts(), forged), "q", kernel.Refusal{By: "ann"}); err != nil {
		t.Fatal(err)
	}
}

// If the configuration asks for it, the submitter of a job cannot approve it,
// not even after a retry by somebody else.
func TestSomebodyElseApproves(t *testing.T) {
	j := job("q", is(kernel.Failed))
	j.State.Approval = kernel.Require(t0, "ann")
	j.State.Approval.State = kernel.Approved
	o := kernel.Observation{Now: t0, Facts: facts(), Jobs: []kernel.Job{j}, Limits: kernel.Limits{OthersApprove: true}}
	s := kernel.NewSnapshot(o)
	p, err := kernel.Retry(s, "q", "bob")
	if err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	for who, want := range map[string]string{"ann": "job q was submitted by ann: ", "bob": "job q was retried by bob: ", "cyd": ""} {
		_, err := kernel.Approve(s, "q", kernel.Consent{By: who})
		if want == "" && err != nil || want != "" && (!errors.Is(err, kernel.ErrOwn) || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", who, err, want)
		}
	}
}

// Who may not approve, where others have to, is told as it is decided; of a job that has ended, as it will be after a retry.
func TestWhoMayNotApprove(t *testing.T) {
	for name, row := range map[string]struct {
		status kernel.Status
		asked  kernel.Approval
		want   string
		barred []string
	}{
		"the submitter":        {kernel.WaitingOnApproval, kernel.Approval{RequestedBy: "ann"}, "somebody else than ann", []string{"ann"}},
		"and who retried it":   {kernel.WaitingOnApproval, kernel.Approval{RequestedBy: "bob", Submitter: "ann"}, "somebody else than ann and bob", []string{"ann", "bob"}},
		"ended":                {kernel.BlockedByApproval, kernel.Approval{RequestedBy: "ann"}, "somebody else than ann", nil},
		"ended, after a retry": {kernel.BlockedByApproval, kernel.Approval{RequestedBy: "bob", Submitter: "ann"}, "somebody else than ann", nil},
	} {
		j := job("q", is(row.status))
		j.State.Approval = row.asked
		j.State.Approval.State = kernel.Pending
		o := kernel.Observation{Now: t0, Facts: facts(), Jobs: []kernel.Job{j}}
		if by := kernel.NewSnapshot(o).Barred(&j); by.Else() != "" {
			t.Errorf("%s: where everybody may: %+v", name, by)
		}
		o.Limits.OthersApprove = true
		s := kernel.NewSnapshot(o)
		if got := s.Barred(&j).Else(); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
		for _, who := range []string{"ann", "bob", "cy"} {
			_, err := kernel.Approve(s, "q", kernel.Consent{By: who})
			if !row.status.Terminal() && errors.Is(err, kernel.ErrOwn) != slices.Contains(row.barred, who) {
				t.Errorf("%s: %s: %v", name, who, err)
			}
		}
	}
}

// The commit of a branch counts for that branch, and only while the approval does (docs/adr/0068).
func TestTheApprovedHead(t *testing.T) {
	j := granted(job("a", func(j *kernel.Job) {
		j.Spec.Origin = kernel.Origin{Run: "r", Branch: "b", About: kernel.NodeInfo{Operation: "git.integrate_plan_branch"}}
		j.State.Approval = kernel.Require(t0, "ann")
	}))
	j.State.Approval.Head = "c1"
	if got := j.ApprovedHead("b"); j.Spec.ApprovedBranch() != "b" || got != "c1" || j.ApprovedHead("other") != "" {
		t.Errorf("%q of %q", got, j.Spec.ApprovedBranch())
	}
	j.State.Approval.State = kernel.Pending
	if got := j.ApprovedHead("b"); got != "" {
		t.Errorf("%q, and it is asked for again", got)
	}
	p, err := kernel.Approve(snapshot(facts(), j), "a", kernel.Consent{By: "ann", Head: "c2"})
	if err != nil || snapshot(facts(), j).Apply(p).Job("a").ApprovedHead("b") != "c2" {
		t.Errorf("%+v, %v", p, err)
	}
}

// When a job begins to wait for its approval, the commit of the branch that it takes goes on record, and stays
// as it is until the job asks again.
func TestWhatABranchIsAtWhenAJobAsks(t *testing.T) {
	at := func(c kernel.CommitID) kernel.Facts {
		f := facts()
		f.Heads["b"] = kernel.Seen(c)
		return f
	}
	asks := job("a", func(j *kernel.Job) {
		j.Spec.Origin = kernel.Origin{Run: "r", Branch: "b", About: kernel.NodeInfo{Operation: "worktree.prepare"}}
		j.State.Approval = kernel.Require(t0, "ann")
	})
	head := func(want kernel.CommitID, s *kernel.Snapshot) *kernel.Snapshot {
		t.Helper()
		s = s.Apply(kernel.Decide(s))
		if st := s.Job("a").State; st.Status != kernel.WaitingOnApproval || st.Approval.Head != want {
			t.Errorf("%s at %q, not %q", st.Status, st.Approval.Head, want)
		}
		return s
	}
	if p := snapshot(facts(), asks).Probes(); !slices.Equal(p.Branches, []string{"b"}) {
		t.Errorf("asks for %+v", p)
	}
	s := head("c1", snapshot(at("c1"), asks))
	if s = head("c1", s.WithFacts(at("c2"))); !snapshot(facts(), *s.Job("a")).Probes().Empty() {
		t.Error("it still asks for the branch")
	}
	elsewhere := *s.Job("a")
	elsewhere.State.Status, elsewhere.State.Wait = kernel.WaitingOnDeps, kernel.WaitReason{Kind: kernel.OnDependencies, Detail: "x"}
	head("c2", snapshot(at("c2"), elsewhere))
	head("", snapshot(at(""), elsewhere))
	unseen := facts()
	unseen.Heads["b"] = kernel.Unseen[kernel.CommitID]("no")
	head("", snapshot(unseen, elsewhere))
	head("", snapshot(at("c1"), job("a", func(j *kernel.Job) { j.State.Approval = kernel.Require(t0, "ann") })))
	doubt := asks
	doubt.State.Approval.InDoubt = true
	head("", snapshot(at("c1"), doubt))
}

// An approval that would be refused, since the branch is elsewhere, is not what starts the job.
func TestToApproveABranchThatIsElsewhere(t *testing.T) {
	asks := job("a", func(j *kernel.Job) {
		j.Spec.Origin = kernel.Origin{Run: "r", Branch: "b", About: kernel.NodeInfo{Operation: "git.integrate_plan_branch"}}
		j.State.Approval = kernel.Require(t0, "ann")
		j.State.Status, j.State.Wait, j.State.Approval.Head = kernel.WaitingOnApproval, kernel.WaitReason{Kind: kernel.OnApproval, Detail: "awaiting human approval"}, "c1"
	})
	approve := kernel.Remedy{Kind: kernel.ApproveJob, Job: "a"}
	moved := kernel.Remedy{Kind: kernel.ApproveJob, Job: "a", Pinned: kernel.PinnedHead{Branch: "b", Commit: "c2"}, Asked: "c1"}
	for name, c := range map[string]struct {
		now  kernel.Fact[kernel.CommitID]
		want []kernel.Remedy
	}{
		"not asked":      {kernel.Fact[kernel.CommitID]{}, []kernel.Remedy{approve}},
		"cannot be read": {kernel.Unseen[kernel.CommitID]("no"), []kernel.Remedy{approve}},
		"as it was":      {kernel.Seen(kernel.CommitID("c1")), []kernel.Remedy{approve}},
		"moved":          {kernel.Seen(kernel.CommitID("c2")), []kernel.Remedy{moved}},
		"gone":           {kernel.Seen(kernel.CommitID("")), []kernel.Remedy{{Kind: kernel.MakeBranch, Pinned: kernel.PinnedHead{Branch: "b", Commit: "c1"}}, approve}},
	} {
		f := facts()
		f.Heads["b"] = c.now
		e, err := kernel.Explain(snapshot(f, asks), "a")
		if err != nil || !slices.Equal(e.Actions, c.want) {
			t.Errorf("%s: %+v, %v", name, e.Actions, err)
		}
	}
	if p := snapshot(facts(), asks).ProbesOf("a"); !slices.Equal(p.Branches, []string{"b"}) {
		t.Errorf("an explanation asks for %+v", p)
	}
	shown := kernel.Consent{By: "ann", How: "page", Digest: asks.Spec.Digest(), Head: "c1"}
	if c := kernel.ConsentTo(&asks, "ann", "page"); c != shown {
		t.Errorf("a front end says %+v", c)
	}
	asks.State.Approval.InDoubt = true
	if p := snapshot(facts(), asks).ProbesOf("a"); !p.Empty() {
		t.Errorf("an approval of no commit asks for %+v", p)
	}
	if c := kernel.ConsentTo(&asks, "ann", "page"); c.Head != "" {
		t.Errorf("a front end says %+v to what is in doubt", c)
	}
}
