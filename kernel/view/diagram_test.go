package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

func dag(s *kernel.Snapshot, o view.ScheduleOptions) string {
	return strings.Join(slices.Collect(view.ScheduleOf(s, o).DAG()), "\n")
}

// small returns a diamond on a finished job, with an artifact from nowhere.
func small(t *testing.T) *kernel.Snapshot {
	return snap(
		job("base", 0, kernel.Succeeded, needs(t, "target_branch:main")),
		job("left", 1, kernel.Running, after("base"), makes(t, "plan_branch:p"), func(j *kernel.Job) {
			j.Spec.Locks = []kernel.Lock{{Key: "branch:p"}, {Key: "r", Mode: kernel.Shared}}
			j.Spec.Pinned = kernel.PinnedHead{Branch: "main", Commit: "abc"}
		}),
		job("right", 2, kernel.WaitingOnDeps, after("base", "gone"), func(j *kernel.Job) {
			j.Spec.Name = `say "hi" <b>`
			j.State.Wait = kernel.WaitReason{Kind: kernel.OnDependencies, Detail: "waiting on job base"}
		}),
		job("top", 3, kernel.WaitingOnDeps, after("right"), needs(t, "plan_branch:p", "custom:tok:x")))
}

func TestDAG(t *testing.T) {
	t.Parallel()
	text(t, dag(small(t), view.ScheduleOptions{MaxDepth: 3}), `
left running [do left] [locks: branch:p:exclusive, r:shared] [pinned: main@abc]
`+"`-- after:success -> base succeeded"+`
    `+"`-- target_branch:main -> [unknown]"+`

right waiting_on_deps [say "hi" <b>] [wait: waiting on job base]
|-- after:success -> base succeeded
|   `+"`-- target_branch:main -> [unknown]"+`
`+"`-- after:success -> gone missing"+`

top waiting_on_deps [do top]
|-- after:success -> right waiting_on_deps
|   |-- after:success -> base succeeded
|   |   `+"`-- target_branch:main -> [unknown]"+`
|   `+"`-- after:success -> gone missing"+`
|-- custom:tok:x -> [unknown]
`+"`-- plan_branch:p (draft/p) -> left running"+`
    `+"`-- after:success -> base succeeded (see above)"+`
`)
}

func TestDAGDepth(t *testing.T) {
	t.Parallel()
	s := snap(job("a", 0, kernel.Queued), job("b", 1, kernel.Queued, after("a")), job("c", 2, kernel.Queued, after("b")))
	for depth, lines := range map[int]int{0: 3 + 2, 1: 5 + 2, 2: 6 + 2, 9: 6 + 2} {
		if got := dag(s, view.ScheduleOptions{MaxDepth: depth}); strings.Count(got, "\n")+1 != lines {
			t.Errorf("depth %d: want %d lines\n%s", depth, lines, got)
		}
	}
}

func TestDAGCutsCyclesAndRepeats(t *testing.T) {
	t.Parallel()
	cycle := snap(job("a", 0, kernel.Queued, after("b")), job("b", 1, kernel.Queued, after("a")))
	text(t, dag(cycle, view.ScheduleOptions{MaxDepth: 9, Focus: "a"}), "a queued [do a]\n`-- after:success -> b queued\n"+
		"    `-- after:success -> a queued (cycle)\n\nb queued [do b]\n`-- after:success -> a queued\n    `-- after:success -> b queued (cycle)")

	// x is met first where the depth ends, so it is drawn again where it does not.
	twice := snap(job("z", 0, kernel.Succeeded), job("y", 1, kernel.Succeeded, after("z")), job("x", 2, kernel.Succeeded, after("y")),
		job("a", 3, kernel.Succeeded, after("x")), job("top", 4, kernel.Queued, after("a", "x")))
	text(t, dag(twice, view.ScheduleOptions{MaxDepth: 3}), `
top queued [do top]
|-- after:success -> a succeeded
|   `+"`-- after:success -> x succeeded"+`
|       `+"`-- after:success -> y succeeded"+`
`+"`-- after:success -> x succeeded"+`
    `+"`-- after:success -> y succeeded"+`
        `+"`-- after:success -> z succeeded"+`
`)

	// What depends on nothing has nothing to be drawn again.
	leaf := snap(job("z", 0, kernel.Succeeded), job("a", 1, kernel.Succeeded, after("z")), job("b", 2, kernel.Succeeded, after("z")), job("top", 3, kernel.Queued, after("a", "b")))
	text(t, dag(leaf, view.ScheduleOptions{MaxDepth: 9}), "top queued [do top]\n|-- after:success -> a succeeded\n|   `-- after:success -> z succeeded\n`-- after:success -> b succeeded\n    `-- after:success -> z succeeded")

	// Ten layers of four, each after the whole layer below: 4^9 paths.
	var jobs []kernel.Job
	var below []kernel.JobID
	for layer := range 10 {
		var row []kernel.JobID
		for i := range 4 {
			j := job(fmt.Sprintf("%d%d", layer, i), layer*4+i, kernel.Queued, after(below...))
			jobs, row = append(jobs, j), append(row, j.ID)
		}
		below = row
	}
	got := dag(snap(jobs...), view.ScheduleOptions{MaxDepth: 99})
	if n := strings.Count(got, "\n"); n > 40*160 {
		t.Errorf("%d lines for 144 edges", n)
	}
	if !strings.Contains(got, "(see above)") {
		t.Error("nothing is named a second time")
	}
}

func TestDOT(t *testing.T) {
	t.Parallel()
	text(t, view.ScheduleOf(small(t), view.ScheduleOptions{}).DOT(), `
digraph schedule {
  rankdir=LR;
  node [shape=box, style=rounded];
  n0 [label="do left\nrunning", color="#1f6feb"];
  n1 [label="say \"hi\" <b>\nwaiting_on_deps", color="#bf8700"];
  n2 [label="do top\nwaiting_on_deps", color="#bf8700"];
  n3 [label="do base\nsucceeded", color="#2da44e", style="rounded,dashed"];
  n4 [label="gone\nmissing", color="#888888", style="rounded,dashed"];
  n5 [label="custom:tok:x", color="#888888", shape=note];
  n3 -> n0;
  n3 -> n1;
  n4 -> n1;
  n1 -> n2;
  n5 -> n2 [label="custom:tok:x"];
  n0 -> n2 [label="plan_branch:p (draft/p)"];
}
`)
}

func TestMermaid(t *testing.T) {
	t.Parallel()
	text(t, view.ScheduleOf(small(t), view.ScheduleOptions{}).Mermaid(), `
flowchart LR
  n0["do left<br/>running"]
  style n0 stroke:#1f6feb
  n1["say #quot;hi#quot; #lt;b#gt;<br/>waiting_on_deps"]
  style n1 stroke:#bf8700
  n2["do top<br/>waiting_on_deps"]
  style n2 stroke:#bf8700
  n3["do base<br/>succeeded"]
  style n3 stroke:#2da44e,stroke-dasharray:4
  n4["gone<br/>missing"]
  style n4 stroke:#888888,stroke-dasharray:4
  n5(["custom:tok:x"])
  style n5 stroke:#888888
  n3 --> n0
  n3 --> n1
  n4 --> n1
  n1 --> n2
  n5 -->|"custom:tok:x"| n2
  n0 -->|"plan_branch:p (draft/p)"| n2
`)
}
