package kernel_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// readers are jobs that each wait for one fact that no job makes, what they read, and a change of it.
func readers() map[string]struct {
	job    kernel.Job
	reads  []kernel.Near
	change func(*kernel.Facts)
} {
	key := func(k string) kernel.Near { return kernel.Near{Kind: kernel.Readers, Key: k} }
	of := func(label string) kernel.Near { return kernel.Near{Kind: kernel.Readers, Artifact: artifact(label)} }
	type row = struct {
		job    kernel.Job
		reads  []kernel.Near
		change func(*kernel.Facts)
	}
	confined := func(j *kernel.Job) { j.Spec.Task.Sandbox.Mode = kernel.RequiredSandbox }
	return map[string]row{
		"a pinned branch": {job("a", pinned("pin", "c1")), []kernel.Near{key("pin")},
			func(f *kernel.Facts) { f.Heads["pin"] = kernel.Seen(kernel.CommitID("c2")) }},
		"a branch that has to exist": {job("a", pre(kernel.Precondition{Kind: kernel.BranchExists, Branch: "x"})), []kernel.Near{key("x")},
			func(f *kernel.Facts) { f.Heads["x"] = kernel.Seen(kernel.CommitID("c2")) }},
		"the branch that is checked out": {job("a", pre(kernel.Precondition{Kind: kernel.BranchExists})), []kernel.Near{key(":head")},
			func(f *kernel.Facts) { f.Head = kernel.Seen("other") }},
		"a clean working tree": {job("a", pre(kernel.Precondition{Kind: kernel.CleanWorktree})), []kernel.Near{key(":clean")},
			func(f *kernel.Facts) { f.Clean = kernel.Seen(false) }},
		"what the host enforces": {job("a", confined), []kernel.Near{key(":sandbox")},
			func(f *kernel.Facts) { f.Sandbox = kernel.Seen(kernel.Enforcement{Files: "no"}) }},
		"an artifact of git's": {job("a", needs("plan_branch:x")), []kernel.Near{of("plan_branch:x")},
			func(f *kernel.Facts) { f.Present[artifact("plan_branch:x")] = kernel.Seen(true) }},
		"a marker": {job("a", needs("custom:t:k"), is(kernel.WaitingOnDeps)), []kernel.Near{of("custom:t:k")},
			func(f *kernel.Facts) { f.Markers[artifact("custom:t:k")] = kernel.Seen([]kernel.JobID{"b"}) }},
	}
}

// observed are facts in which each of the readers' facts has a value.
func observed() kernel.Facts {
	f := facts()
	for _, name := range []string{"main", "pin", "x", "other"} {
		f.Heads[name] = kernel.Seen(kernel.CommitID("c1"))
	}
	f.Sandbox = kernel.Seen(kernel.Enforcement{})
	f.Present[artifact("plan_branch:x")] = kernel.Seen(false)
	return marked(f, "custom:t:k")
}

// A change of any fact that no job makes is news for the jobs that read it, and no other change is.
func TestEachFactIsNewsForItsReaders(t *testing.T) {
	rows := readers()
	for name, row := range rows {
		reads, _ := row.job.Reads()
		if !slices.Equal(reads, row.reads) {
			t.Errorf("a job that waits for %s reads %v, want %v", name, reads, row.reads)
			continue
		}
		was := kernel.Outside{Reads: map[kernel.Near]kernel.ReadFact{}, Facts: observed()}
		for _, n := range reads {
			was.Reads[n] = kernel.ReadFact{}
		}
		judged := was.JudgedBy(observed())
		for changed, other := range rows {
			now := kernel.Outside{Reads: map[kernel.Near]kernel.ReadFact{}, Facts: observed()}
			for _, n := range reads {
				now.Reads[n] = kernel.ReadFact{Judged: judged[n]}
			}
			if news := now.News(); len(news) > 0 {
				t.Fatalf("%s: news without a change: %v", name, news)
			}
			other.change(&now.Facts)
			var want []kernel.Near
			if name == changed {
				want = row.reads
			}
			if news := now.News(); !slices.Equal(news, want) {
				t.Errorf("%s changes: for a job that waits for %s %v is news, want %v", changed, name, news, want)
			}
		}
	}
}

// Facts that a store leaves out are as they were, unless a tick saw that one has changed.
func TestWhatIsLeftOutIsAsItWas(t *testing.T) {
	reader := func(label string) kernel.Near { return kernel.Near{Kind: kernel.Readers, Artifact: artifact(label)} }
	o := kernel.Outside{Reads: map[kernel.Near]kernel.ReadFact{}, Elided: []string{"t"}, Facts: facts()}
	for _, label := range []string{"custom:t:same", "custom:t:differs"} {
		o.Reads[reader(label)] = kernel.ReadFact{}
		o.Facts = marked(o.Facts, label)
	}
	now := marked(kernel.NewFacts(), "custom:t:same")
	now.Heads["new"] = kernel.Seen(kernel.CommitID("c1"))
	now.Markers[artifact("custom:t:differs")] = kernel.Seen([]kernel.JobID{"b"})
	now.Markers[artifact("custom:t:made")] = kernel.Seen([]kernel.JobID{"b"})
	now.Markers[artifact("custom:t:absent")] = kernel.Seen[[]kernel.JobID](nil)
	now.Markers[artifact("custom:u:made")] = kernel.Seen([]kernel.JobID{"b"})
	branch := kernel.Near{Kind: kernel.Readers, Key: "new"}
	got := o.JudgedBy(now)
	next := kernel.Outside{Reads: map[kernel.Near]kernel.ReadFact{reader("custom:u:made"): {Judged: got[reader("custom:u:made")]}, branch: {Judged: got[branch]}}, Facts: now}
	if news := next.News(); len(news) > 0 {
		t.Errorf("what nobody read before and has not changed since is news: %v", news)
	}
	delete(got, reader("custom:u:made"))
	delete(got, branch)
	want := map[kernel.Near]string{reader("custom:t:same"): kernel.JudgedNone, reader("custom:t:absent"): kernel.JudgedNone, reader("custom:t:differs"): "", reader("custom:t:made"): ""}
	if !maps.Equal(got, want) {
		t.Errorf("judged by %v, want %v", got, want)
	}
	if got := (&kernel.Outside{Facts: facts()}).JudgedBy(now); got != nil {
		t.Errorf("without reads: %v", got)
	}
}

// What is watched beside a tick's own jobs: what other jobs wait for and has not changed, also
// if the store left it out before the transaction or does so after it.
func TestWhatOthersWaitForIsWatched(t *testing.T) {
	reader := func(label string) kernel.Near { return kernel.Near{Kind: kernel.Readers, Artifact: artifact(label)} }
	awaited := kernel.ReadFact{Judged: kernel.JudgedNone, Awaited: true}
	o := kernel.Outside{Reads: map[kernel.Near]kernel.ReadFact{reader("custom:a:same"): awaited, reader("custom:a:news"): {Judged: "v0", Awaited: true}, reader("custom:a:ended"): awaited},
		Elided: []string{"t"}, Facts: marked(facts(), "custom:a:same")}
	for _, label := range []string{"custom:a:same", "custom:a:news", "custom:a:ended"} {
		o.Facts.Markers[artifact(label)] = kernel.Seen[[]kernel.JobID](nil)
	}
	now := kernel.Records{Elided: []string{"u"}, Reads: map[kernel.Near]kernel.ReadFact{}}
	for label, yes := range map[string]bool{"custom:a:same": true, "custom:a:news": true, "custom:a:new": true, "custom:t:left": true, "custom:t:passed": false} {
		now.Reads[reader(label)] = kernel.ReadFact{Awaited: yes}
	}
	w := o.Beside(kernel.Wakes{}, now)
	slices.SortFunc(w.Outside.Markers, func(a, b kernel.Artifact) int { return strings.Compare(a.String(), b.String()) })
	want := kernel.Probes{Types: []string{"u"}, Markers: []kernel.Artifact{artifact("custom:a:same"), artifact("custom:t:left")}}
	if !reflect.DeepEqual(w.Outside, want) {
		t.Errorf("watched: %+v, want %+v", w.Outside, want)
	}
	if w := o.Beside(kernel.Wakes{}, kernel.Records{Elided: []string{"u"}}); w.Empty() {
		t.Error("nothing is watched of jobs whose facts are left out")
	}
}
