package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// unknownVerb is a verb of no version.
type unknownVerb struct{ history.Tick }

// A verb is read as it was written, a submission of many jobs as any other.
func TestVerbsAreReadAsTheyWereWritten(t *testing.T) {
	news := []kernel.NewJob{{ID: id(1), Spec: plain(1).Spec, Part: "a"}, {ID: id(2), Spec: plain(2).Spec, Approval: kernel.Require(t0, "ann")}}
	many := history.Submit{By: "ann"}
	for n := range 100 {
		many.Jobs = append(many.Jobs, kernel.NewJob{ID: id(n + 1), Spec: plain(n + 1).Spec})
	}
	one, more := []kernel.JobID{id(1)}, []kernel.JobID{id(1), id(2)}
	for _, v := range []history.Verb{
		history.Tick{}, history.Settle{}, history.Number{}, history.Submit{Jobs: news, By: "ann"}, many, history.Enqueue{Jobs: news},
		history.Approve{Job: id(1), Consent: kernel.Consent{By: "ann", How: "web", Digest: "d", Head: "c"}}, history.Reject{Job: id(1), By: "ann", How: "web", Reason: "no"},
		history.Cancel{Jobs: more, By: "ann", Cleanup: true, Runs: []kernel.RunID{"r"}},
		history.Retry{Jobs: one, By: "ann", Gone: []string{"w"}}, history.Retry{Jobs: more, By: "ann"},
		history.Finish{Result: kernel.Result{Attempt: kernel.AttemptID{Job: id(1), N: 2}, Outcome: kernel.OutcomeFailed, Exit: 3, Class: kernel.ExitFailure, Reason: "no", Started: t0, Ended: t0}},
		history.Refuse{Attempt: kernel.AttemptID{Job: id(1), N: 2}, Why: "no", Final: true},
		history.CleanedUp{Job: id(1), Context: kernel.Context{Root: "/r", Worktree: "w", Name: "n", Branch: "b", Owned: true}, Cancel: true, Cleanup: kernel.Cleanup{Status: kernel.CleanupDegraded, Error: "busy"}},
		history.Tended{Job: id(1), Name: kernel.DonePrompt, Found: true, Archived: true},
		retention.Old{Than: time.Hour, Worktrees: true}, retention.Cleaning{Jobs: one, Force: true}, retention.Cleaning{Jobs: more, Worktrees: true},
		retention.Keeping{Policy: retention.Policy{Age: time.Hour, Count: 2, Bytes: 3}, Sizes: map[kernel.JobID]int64{id(1): 4}, Most: 5},
	} {
		name, args, err := encodeVerb(new(Tx).Condense(v))
		if err != nil {
			t.Fatalf("%T: %v", v, err)
		}
		var text []byte
		if args != nil {
			if text, err = jsonv2.Marshal(args); err != nil {
				t.Fatalf("%T: %v", v, err)
			}
		}
		if read, err := decodeVerb(name, text); err != nil || !reflect.DeepEqual(read, v) {
			t.Errorf("%s %s is read as %+v, %v", name, text, read, err)
		}
	}
	if name, _, err := encodeVerb(unknownVerb{}); !errors.Is(err, errVerb) {
		t.Errorf("%s: %v", name, err)
	}
	s := kernel.NewSnapshot(kernel.Observation{Now: t0})
	c := new(Tx).Condense(many)
	if _, is := c.(condensed); !is || !reflect.DeepEqual(c.Scope(), many.Scope()) {
		t.Errorf("%T of %+v", c, c.Scope())
	}
	want, err := many.Decide(s)
	if got, again := c.Decide(s); err != nil || again != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("decided is %+v, %v; %v", got, err, again)
	}
}

// A verb whose arguments cannot be read is an error, and never a verb with other arguments.
func TestArgumentsOfVerbsThatCannotBeRead(t *testing.T) {
	job := fmt.Sprintf(`"job":%q`, id(1))
	for name, more := range map[string][]string{
		"submit": {`{"jobs":[1]}`}, "enqueue": {`{"jobs":[1]}`}, "approve": nil, "reject": nil, "cancel": nil, "retry": nil,
		"finish":     {`{` + job + `}`, `{` + job + `,"result":[]}`, `{` + job + `,"result":{"outcome":"odd"}}`},
		"refuse":     nil,
		"cleaned_up": {`{` + job + `,"status":"odd"}`},
		"tended":     {`{` + job + `,"name":"odd"}`},
		"gc":         nil, "clean": nil, "keep": nil,
		"of the future": {`{}`},
	} {
		for _, args := range append(more, `[]`, `{`) {
			if v, err := decodeVerb(name, json.RawMessage(args)); err == nil {
				t.Errorf("%s %s is read as %+v", name, args, v)
			}
		}
	}
}
