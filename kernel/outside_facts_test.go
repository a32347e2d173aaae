package kernel_test

import (
	"reflect"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// asks are the probes for what each of the readers reads, in the order in which they are asked for.
var asks = map[string][]kernel.Probes{
	"a pinned branch":                {{Branches: []string{"pin"}}},
	"a branch that has to exist":     {{Branches: []string{"x"}}},
	"the branch that is checked out": {{Head: true}, {Branches: []string{"main"}}},
	"a clean working tree":           {{Clean: true}},
	"what the host enforces":         {{Sandbox: true}},
	"an artifact of git's":           {{Artifacts: []kernel.Artifact{artifact("plan_branch:x")}}},
	"a marker":                       {{Markers: []kernel.Artifact{artifact("custom:t:k")}}},
}

// outsideOf returns what is outside for jobs that read something. They were judged by what judged says.
func outsideOf(reads []kernel.Near, judged map[kernel.Near]string, f kernel.Facts) kernel.Outside {
	o := kernel.Outside{Reads: map[kernel.Near]kernel.ReadFact{}, Facts: f}
	for _, n := range reads {
		o.Reads[n] = kernel.ReadFact{Judged: judged[n], Awaited: true}
	}
	return o
}

// What jobs read is asked for until it is known, and nothing else is.
func TestAskingForWhatIsOutside(t *testing.T) {
	all := observed()
	for name, row := range readers() {
		o := outsideOf(row.reads, nil, kernel.NewFacts())
		var got []kernel.Probes
		for p := o.Asking(); !p.Empty() && len(got) < 3; p = o.Asking() {
			got = append(got, p)
			for _, a := range p.Artifacts {
				o.Facts.Present[a] = all.Present[a]
			}
			for _, a := range p.Markers {
				o.Facts.Markers[a] = all.Markers[a]
			}
			for _, b := range p.Branches {
				o.Facts.Heads[b] = all.Heads[b]
			}
			if p.Head {
				o.Facts.Head = all.Head
			}
			if p.Clean {
				o.Facts.Clean = all.Clean
			}
			if p.Sandbox {
				o.Facts.Sandbox = all.Sandbox
			}
		}
		if !reflect.DeepEqual(got, asks[name]) {
			t.Errorf("a job that waits for %s asks for %+v, want %+v", name, got, asks[name])
		}
	}
}

// The facts of some readers are those that they read, with their values, and no others.
func TestFactsOfReaders(t *testing.T) {
	f := observed()
	rows := readers()
	for name, row := range rows {
		only := f.Of(row.reads)
		for other, it := range rows {
			if o := outsideOf(it.reads, nil, only); o.Asking().Empty() != (name == other) {
				t.Errorf("of the facts for %s, a job that waits for %s asks for %+v", name, other, o.Asking())
			}
		}
		whole := outsideOf(row.reads, nil, f)
		if o := outsideOf(row.reads, whole.JudgedBy(f), only); len(o.News()) > 0 {
			t.Errorf("%s: its own fact is news: %+v", name, only)
		}
	}
	none := kernel.NewFacts()
	for name, row := range rows {
		if got := none.Of(row.reads); !reflect.DeepEqual(got, none) {
			t.Errorf("%s, of which nothing is known: %+v", name, got)
		}
	}
}

// What other jobs wait for outside is watched beside what is watched already, each of it once. What changed
// is not, since its readers are judged now, nor is what holds nobody up, nor what a host enforces. What
// could not be observed is tried again.
func TestWhatIsWatchedBesideTheJobsOfATick(t *testing.T) {
	all := kernel.Probes{Head: true, Clean: true, Sandbox: true, Branches: []string{"pin", "x", "main"},
		Artifacts: []kernel.Artifact{artifact("plan_branch:x")}, Markers: []kernel.Artifact{artifact("custom:t:k")}}
	for name, row := range readers() {
		f := observed()
		first := outsideOf(row.reads, nil, f)
		o := outsideOf(row.reads, first.JudgedBy(f), f)
		var want kernel.Probes
		for _, p := range asks[name] {
			want.Head, want.Clean = want.Head || p.Head, want.Clean || p.Clean
			want.Branches, want.Artifacts, want.Markers = append(want.Branches, p.Branches...), append(want.Artifacts, p.Artifacts...), append(want.Markers, p.Markers...)
		}
		if got := o.Beside(kernel.Wakes{}, kernel.Records{Reads: o.Reads}); !reflect.DeepEqual(got, kernel.Wakes{Outside: want}) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		for held, now := range map[string]map[kernel.Near]kernel.ReadFact{"nobody reads it any more": {}, "it holds nobody up": {row.reads[0]: {Judged: "v"}}} {
			if got := o.Beside(kernel.Wakes{Poll: true}, kernel.Records{Reads: now}); !reflect.DeepEqual(got, kernel.Wakes{Poll: true}) {
				t.Errorf("%s, but %s: %+v", name, held, got)
			}
		}
		if got := o.Beside(kernel.Wakes{Outside: all}, kernel.Records{Reads: o.Reads}); !reflect.DeepEqual(got, kernel.Wakes{Outside: all}) {
			t.Errorf("%s, which is watched: %+v", name, got)
		}
		row.change(&o.Facts)
		if got := o.Beside(kernel.Wakes{}, kernel.Records{Reads: o.Reads}); !reflect.DeepEqual(got, kernel.Wakes{}) {
			t.Errorf("%s, which changed: %+v", name, got)
		}
	}
	branch := kernel.Near{Kind: kernel.Readers, Key: "x"}
	f := kernel.NewFacts()
	f.Heads["x"] = kernel.Unseen[kernel.CommitID]("no repository")
	first := outsideOf([]kernel.Near{branch}, nil, f)
	o := outsideOf([]kernel.Near{branch}, first.JudgedBy(f), f)
	if got, want := o.Beside(kernel.Wakes{}, kernel.Records{Reads: o.Reads}), (kernel.Wakes{Poll: true, Outside: kernel.Probes{Branches: []string{"x"}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("a branch that cannot be observed: %+v, want %+v", got, want)
	}
}

// A fact that was another one when a tick judged is not what its readers were judged by. One that the tick did not ask
// for is: it judged by none.
func TestWhatReadersWereJudgedBy(t *testing.T) {
	for name, row := range readers() {
		o := outsideOf(row.reads, nil, observed())
		at := row.reads[0]
		want := o.JudgedBy(observed())[at]
		if want == "" {
			t.Errorf("%s: it is not known what judged it", name)
		}
		if got := o.JudgedBy(kernel.NewFacts()); len(got) != 1 || got[at] != want {
			t.Errorf("%s, which the tick did not ask for: judged by %v, want %q", name, got, want)
		}
		now := observed()
		row.change(&now)
		if got, known := o.JudgedBy(now)[at]; got != "" || !known {
			t.Errorf("%s, which has changed since: judged by %q", name, got)
		}
	}
}
