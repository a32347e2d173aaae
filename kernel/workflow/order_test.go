package workflow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// cmdNode returns a shell node with edges: after, and on by outcome.
func cmdNode(id, after string, on ...string) string {
	var refs, outs []string
	for _, a := range strings.Fields(after) {
		refs = append(refs, `{"node_id": "`+a+`"}`)
	}
	for _, o := range on { // "succeeded: a b"
		outcome, targets, _ := strings.Cut(o, ": ")
		outs = append(outs, fmt.Sprintf(`%q: ["%s"]`, outcome, strings.Join(strings.Fields(targets), `", "`)))
	}
	return fmt.Sprintf(`{"id": %q, "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "true"}, "after": [%s], "on": {%s}}`,
		id, strings.Join(refs, ", "), strings.Join(outs, ", "))
}

// Which nodes sleep, and which edges order.
var orderCases = []struct {
	name  string
	nodes []string
	want  string // NODE<PARENTS of those that wait, NODE~ of those that sleep; or a finding after "!"
}{
	{"a chain", []string{cmdNode("a", "", "succeeded: b"), cmdNode("b", "")}, "a b<a"},
	{"after and on.succeeded are one edge", []string{cmdNode("a", "", "succeeded: b"), cmdNode("b", "a")}, "a b<a"},
	{"two on.succeeded parents", []string{cmdNode("a", "", "succeeded: c"), cmdNode("b", "", "succeeded: c"), cmdNode("c", "")}, "a b c<a,b"},
	{"a failure handler sleeps", []string{cmdNode("a", "", "failed: h"), cmdNode("h", "")}, "a h~"},
	{"what follows a sleeper sleeps", []string{cmdNode("a", "", "failed: h"), cmdNode("h", "", "succeeded: i"), cmdNode("i", "h")}, "a h~ i~<h"},
	{"the conflict idiom", []string{
		`{"id": "i", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "foo"}, "on": {"blocked": ["x"], "succeeded": ["t"]}}`,
		`{"id": "x", "kind": "gate", "uses": "control.gate.conflict_resolution", "on": {"succeeded": ["i"]}}`, cmdNode("t", "i")}, "i x~ t<i"},
	{"the conflict idiom, the gate first", []string{
		`{"id": "x", "kind": "gate", "uses": "control.gate.conflict_resolution", "on": {"succeeded": ["i"]}}`,
		`{"id": "i", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "foo"}, "on": {"blocked": ["x"]}}`}, "x~ i"},
	{"a loop by on.failed starts at its target", []string{cmdNode("work", "", "succeeded: check"), cmdNode("check", "", "failed: work")}, "work check<work"},
	{"the same loop, written the other way round", []string{cmdNode("check", "", "failed: work"), cmdNode("work", "", "succeeded: check")}, "check<work work"},
	{"a repair of something with an entry of its own", []string{cmdNode("a", "", "succeeded: check"), cmdNode("check", "", "failed: fix"), cmdNode("fix", "", "succeeded: check")}, "a check<a fix~"},
	{"a repair of something that comes after another", []string{cmdNode("fix", "", "succeeded: check"), cmdNode("start", ""), cmdNode("check", "start", "failed: fix")}, "fix~ start check<start"},
	{"a repair in two steps", []string{cmdNode("a", "", "succeeded: check"), cmdNode("check", "", "failed: fix"), cmdNode("fix", "", "succeeded: fix2"), cmdNode("fix2", "", "succeeded: check")}, "a check<a fix~ fix2~<fix"},
	{"a repair that goes further back", []string{cmdNode("a", "", "succeeded: b"), cmdNode("b", "", "succeeded: check"), cmdNode("check", "", "failed: fix"), cmdNode("fix", "", "succeeded: b")}, "a b<a check<b fix~"},
	{"a loop back into a chain", []string{cmdNode("a", "", "succeeded: b"), cmdNode("b", "a", "succeeded: c"), cmdNode("c", "b", "failed: b")}, "a b<a c<b"},
	{"a handler of on.blocked that returns", []string{cmdNode("a", "", "blocked: h"), cmdNode("h", "", "succeeded: a")}, "a h~"},
	{"a handler of on.cancelled that returns", []string{cmdNode("h", "", "succeeded: a"), cmdNode("a", "", "cancelled: h")}, "h~ a"},
	{"on.blocked back to what comes before by after", []string{cmdNode("a", "", "succeeded: b"), cmdNode("b", "a", "blocked: a")}, "a b<a"},
	{"a loop with two entries", []string{cmdNode("v", "", "succeeded: check"), cmdNode("w", "", "succeeded: check"), cmdNode("check", "", "failed: v w")}, "v w check<v,w"},
	{"two loops", []string{cmdNode("v", "", "succeeded: c"), cmdNode("c", "", "failed: v"), cmdNode("w", "", "succeeded: d"), cmdNode("d", "", "failed: w")}, "v c<v w d<w"},
	{"a loop, then a repair", []string{cmdNode("w", "", "succeeded: c"), cmdNode("c", "", "succeeded: d", "failed: w"), cmdNode("d", "", "failed: fix"), cmdNode("fix", "", "succeeded: d")}, "w c<w d<c fix~"},
	{"sent back to one of two that come before by after", []string{cmdNode("setup", ""), cmdNode("work", ""), cmdNode("check", "setup work", "failed: work")}, "setup work check<setup,work"},
	{"after a sleeper only", []string{cmdNode("a", "", "failed: h"), cmdNode("h", ""), cmdNode("b", "h")}, "!node `b` waits for `h`"},
	{"an edge that is after too says what comes first", []string{cmdNode("a", "", "succeeded: check"), cmdNode("check", "fix", "failed: fix"), cmdNode("fix", "", "succeeded: check")}, "a check<fix,a fix"},
	{"a loop to itself", []string{cmdNode("a", "", "failed: a")}, "a"},
	{"V16 a cycle of after", []string{cmdNode("a", "b"), cmdNode("b", "a")}, "!has a cycle: a -> b -> a"},
	{"a cycle of on.succeeded", []string{cmdNode("a", "", "succeeded: b"), cmdNode("b", "", "succeeded: c"), cmdNode("c", "", "succeeded: a")}, "!has a cycle: a -> b -> c -> a"},
	{"a cycle of one", []string{cmdNode("a", "a")}, "!has a cycle: a -> a"},
	{"a cycle by an artifact", []string{
		`{"id": "a", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "x"}, "needs": [{"plan_doc": {"slug": "s"}}]}`,
		`{"id": "b", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "x"}, "after": [{"node_id": "a"}], "produces": {"succeeded": [{"plan_doc": {"slug": "s", "branch": "draft/s"}}]}}`},
		"!has a cycle: a -> b -> a"},
	{"waiting for a sleeper", []string{cmdNode("a", "", "failed: h"), cmdNode("h", ""), cmdNode("b", "a h")}, "!node `b` waits for `h`, which only an on.failed, on.blocked or on.cancelled route starts"},
	{"a handler that goes on to what follows the failure", []string{cmdNode("a", "", "failed: h", "succeeded: t"), cmdNode("h", "", "succeeded: t"), cmdNode("t", "")}, "!node `t` waits for `h`"},
	{"contexts of two worktrees", []string{worktree("v", "t"), worktree("w", "t"), cmdNode("t", "")},
		"!node `t` would get two execution contexts: the worktree of `v` by `v`, and that of `w` by `w`"},
	{"contexts of three worktrees", []string{worktree("v", "a"), worktree("w", "t"), worktree("x", "t"), cmdNode("a", "", "succeeded: t"), cmdNode("t", "")},
		"!node `t` would get two execution contexts: the worktree of `w` by `w`, and that of `x` by `x`; let one of them come before it by after only\n" +
			"t.json:8: template t@v1 node `t` would get two execution contexts: the worktree of `w` by `w`, and that of `v` by `a`"},
	{"contexts of one worktree after those of two", []string{worktree("v", "t", "a"), worktree("w", "t"), cmdNode("a", "", "succeeded: t"), cmdNode("t", "")},
		"!t.json:7: template t@v1 node `t` would get two execution contexts: the worktree of `v` by `v`, and that of `w` by `w`; let one of them come before it by after only"},
	{"the worktree of a repair", []string{worktree("w", "check"), cmdNode("check", "", "failed: v"), worktree("v", "check")}, "w check<w v~"},
	{"a handler that repeats itself", []string{cmdNode("a", "", "blocked: h"), cmdNode("h", "", "failed: h", "succeeded: a")}, "a h~"},
	{"a conflict gate of a failure too", []string{
		`{"id": "i", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "foo"}, "on": {"blocked": ["x"], "failed": ["x"]}}`,
		`{"id": "x", "kind": "gate", "uses": "control.gate.conflict_resolution", "on": {"succeeded": ["i"]}}`}, "i x~"},
	{"a route to what comes after another", []string{cmdNode("a", ""), cmdNode("b", "", "failed: h"), cmdNode("h", "a")}, "a b h<a"},
	{"on.blocked back into a chain", []string{cmdNode("a", "", "succeeded: b"), cmdNode("b", "", "succeeded: c"), cmdNode("c", "", "blocked: b")}, "a b<a c<b"},
	{"on.blocked back to what comes before by two steps", []string{cmdNode("a", ""), cmdNode("b", "a"), cmdNode("c", "b", "blocked: a")}, "a b<a c<b"},
	{"a handler that returns to what leads to the node", []string{cmdNode("fix", "", "succeeded: work"), cmdNode("work", "", "succeeded: check"), cmdNode("check", "", "blocked: fix")}, "fix~ work check<work"},
	{"a handler of itself", []string{cmdNode("a", "", "failed: h"), cmdNode("h", "", "succeeded: h")}, "!t.json:5: template t@v1 has a cycle: h -> h"},
	{"nothing that starts", []string{cmdNode("a", "", "blocked: b"), cmdNode("b", "", "blocked: a")}, "!t.json:4: template t@v1 has no node that starts: each waits for another or for a route"},
	{"a cycle behind another node", []string{cmdNode("x", "c"), cmdNode("b", "c"), cmdNode("c", "b")}, "!t.json:6: template t@v1 has a cycle: c -> b -> c"},
	{"a route to what waits for its success", []string{cmdNode("a", "", "failed: h"), cmdNode("h", "a")},
		"!t.json:4: template t@v1 node `h` cannot start by on.failed of `a`, since it waits until that has succeeded; let only the route lead to it, or, for a report on any end, only an after with policy = \"any\""},
	{"a route to what waits for its success by another", []string{cmdNode("a", "", "blocked: c"), cmdNode("b", "a"), cmdNode("c", "", "failed: c"), cmdNode("d", "b", "succeeded: c")},
		"!node `c` cannot start by on.blocked of `a`"},
	{"a route to what success leads to", []string{cmdNode("a", "", "succeeded: b", "cancelled: b"), cmdNode("b", "")}, "!node `b` cannot start by on.cancelled of `a`"},
	{"one worktree by two ways", []string{worktree("w", "a", "b"), cmdNode("a", "", "succeeded: t"), cmdNode("b", "", "succeeded: t"), cmdNode("t", "")}, "w a<w b<w t<a,b"},
}

func worktree(id string, next ...string) string {
	return fmt.Sprintf(`{"id": %q, "uses": "cap.env.builtin.worktree.prepare", "args": {"branch": %q}, "on": {"succeeded": ["%s"]}}`, id, id, strings.Join(next, `", "`))
}

func TestOrder(t *testing.T) {
	for _, c := range orderCases {
		t.Run(c.name, func(t *testing.T) {
			if finding, bad := strings.CutPrefix(c.want, "!"); bad {
				if _, err := build(wrap(c.nodes...), nil); err == nil || !strings.Contains(err.Error(), finding) {
					t.Fatalf("got  %v\nwant %s", err, finding)
				}
				return
			}
			jobs, m := compile(t, wrap(c.nodes...), nil)
			var got []string
			for _, text := range c.nodes {
				id := text[strings.Index(text, `"id": "`)+7:]
				id = id[:strings.IndexByte(id, '"')]
				s := id
				if jobs[id].Spec.Routed {
					s += "~"
				}
				for i, p := range jobs[id].Spec.After {
					s += map[bool]string{true: "<", false: ","}[i == 0] + strings.TrimPrefix(string(p), "id-")
				}
				got = append(got, s)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got %s, want %s\n%+v", s, c.want, m.Nodes)
			}
		})
	}
}

func TestRoutesOfTheConflictIdiom(t *testing.T) {
	jobs, m := compile(t, wrap(orderCases[5].nodes...), nil)
	want := []kernel.Route{{On: kernel.OutcomeSucceeded, To: "id-t"}, {On: kernel.OutcomeBlocked, To: "id-x"}}
	if got := jobs["i"].Spec.Routes; !slices.Equal(got, want) {
		t.Errorf("routes of i: %+v", got)
	}
	if got := jobs["x"].Spec.Routes; !slices.Equal(got, []kernel.Route{{On: kernel.OutcomeSucceeded, To: "id-i"}}) {
		t.Errorf("routes of x: %+v", got)
	}
	if got := fmt.Sprint(m.Nodes["i"].Routes, m.Nodes["x"].Routes["succeeded"]); got != "map[blocked:[{x retry_job}] cancelled:[] failed:[] succeeded:[{t propagate_context}]] [{i retry_job}]" {
		t.Errorf("manifest routes: %s", got)
	}
}

func TestARunWithoutFailuresStartsEveryNodeThatIsAwake(t *testing.T) {
	for _, c := range orderCases {
		if strings.HasPrefix(c.want, "!") {
			continue
		}
		jobs, _ := compile(t, wrap(c.nodes...), nil)
		for id, j := range jobs {
			for _, p := range j.Spec.After {
				if parent := jobs[strings.TrimPrefix(string(p), "id-")]; parent.Spec.Routed && !j.Spec.Routed {
					t.Errorf("%s: %s waits for %s, which sleeps", c.name, id, p)
				}
			}
		}
	}
}
