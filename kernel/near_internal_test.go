package kernel

import (
	"slices"
	"testing"
	"time"
)

// A tick reads the jobs that something other than a job may change, if only by
// the facts that they read, and no others; otherwise it would read all waiting jobs.
func TestWhoIsAttended(t *testing.T) {
	token := Artifact{Kind: Custom, Name: "t", Ref: "x"}
	branch := Artifact{Kind: PlanBranch, Name: "p", Ref: "draft/p"}
	wait := func(detail string) WaitReason { return WaitReasonOf(OnDependencies, detail) }
	for name, c := range map[string]struct {
		spec     Spec
		state    State
		attended bool
	}{
		"it waits for a job":                     {Spec{Needs: []Artifact{token}}, State{Status: WaitingOnDeps, Wait: wait("waiting on job x")}, false},
		"and has a pinned head":                  {Spec{Pinned: PinnedHead{Branch: "b"}}, State{Status: WaitingOnDeps, Wait: wait("waiting on job x")}, false},
		"it waits for a pinned head":             {Spec{Pinned: PinnedHead{Branch: "b"}}, State{Status: WaitingOnDeps, Wait: WaitReason{Kind: OnPinnedHead, Detail: "d"}}, true},
		"it waits for a lock, with a pinned one": {Spec{Pinned: PinnedHead{Branch: "b"}}, State{Status: WaitingOnLocks, Wait: WaitReason{Kind: OnLocks, Detail: "d"}}, true},
		"a condition":                            {Spec{Preconditions: []Precondition{{}}}, State{Status: Queued}, true},
		"a token that a job makes":               {Spec{Needs: []Artifact{token}}, State{Status: WaitingOnDeps, Wait: wait("waiting on custom:t:x")}, false},
		"a token that nobody makes":              {Spec{Needs: []Artifact{token}}, State{Status: WaitingOnDeps, Wait: wait("awaiting producer for custom:t:x")}, true},
		"a branch that a job makes":              {Spec{Needs: []Artifact{branch}}, State{Status: WaitingOnDeps, Wait: wait("waiting on plan_branch:p")}, true},
		"it waits for a lock, and had a token":   {Spec{Needs: []Artifact{token}}, State{Status: WaitingOnLocks, Wait: WaitReason{Kind: OnLocks, Detail: "d"}}, false},
		"it waits for a lock, and had a branch":  {Spec{Needs: []Artifact{branch}}, State{Status: WaitingOnLocks, Wait: WaitReason{Kind: OnLocks, Detail: "d"}}, true},
		"it failed and is tried again":           {Spec{Needs: []Artifact{branch}}, State{Status: FailedRetryable}, true},
		"it runs":                                {Spec{}, State{Status: Running}, true},
		"it is over":                             {Spec{Needs: []Artifact{branch}}, State{Status: Failed}, false},
		"it sleeps":                              {Spec{Needs: []Artifact{branch}, Routed: true}, State{Status: Unscheduled}, false},
		"it is transient":                        {Spec{Transient: OnDemand}, State{Status: WaitingOnLocks}, true},
		"it is transient, and over":              {Spec{Transient: OnDemand}, State{Status: Succeeded}, false},
		"its files are to go":                    {Spec{Transient: Remove}, State{Status: Succeeded}, true},
		"its files are gone":                     {Spec{Transient: Remove}, State{Status: Succeeded, Removed: time.Unix(1, 0)}, false},
		"its files are to go, and it failed":     {Spec{Transient: Remove}, State{Status: Failed}, false},
		"it is ephemeral":                        {Spec{Origin: Origin{Ephemeral: true}}, State{Status: WaitingOnLocks}, false},
		"it is ephemeral, and over":              {Spec{Origin: Origin{Ephemeral: true}}, State{Status: Failed}, true},
		"a prompt that says so":                  {Spec{Prompt: &Prompt{}}, State{Status: Failed, Prompt: PromptState{Named: ErrorPrompt}}, false},
		"a prompt that does not":                 {Spec{Prompt: &Prompt{}}, State{Status: Failed, Prompt: PromptState{Named: RunningPrompt}}, true},
	} {
		j := Job{ID: "a", Spec: c.spec, State: c.state}
		if got := j.attended() || j.outside(); got != c.attended {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A change in one run for a branch reaches the runs that wait for the branch, and not those that
// wait for something else, however many they are.
func TestRunsBehindOthersAreNotJudged(t *testing.T) {
	job := func(id, run string, st State) Job {
		j := Job{ID: JobID(id), State: st}
		j.Spec.Origin = Origin{Run: RunID(run), Branch: "draft/p"}
		j.Spec.Origin.About.Operation = prepare
		return j
	}
	held := State{Status: WaitingOnDeps, Wait: WaitReason{Kind: OnDependencies, Detail: "another run works on branch draft/p"}}
	jobs := []Job{job("a", "ra", State{Status: Running, Attempt: 1}), job("b", "rb", held), job("c", "rc", held)}
	for _, n := range []string{"d", "e", "f", "g"} {
		k := job(n, "r"+n, State{Status: WaitingOnDeps, Wait: WaitReasonOf(OnDependencies, "waiting on job c")})
		k.Spec.After = []JobID{"c"}
		asked := job("p"+n, "rp"+n, State{Status: WaitingOnApproval, Wait: WaitReason{Kind: OnApproval}})
		jobs = append(jobs, k, asked)
	}
	s := NewSnapshot(Observation{Jobs: jobs, Near: []Near{{Kind: Rivals, Key: "draft/p"}}, Dirty: []JobID{"a"}})
	set := dirtySet{s: s, seen: map[int32]bool{}, changed: map[JobID]bool{"a": true}, created: map[JobID]bool{}}
	set.widen(-1)
	var got []JobID
	for _, i := range set.list {
		got = append(got, s.jobs[i].ID)
	}
	if want := []JobID{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("judged are %v, want %v", got, want)
	}
}
