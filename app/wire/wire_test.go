package wire

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What the kernel keeps packed is written as what it has in it, and read again as the same.
func TestPackedValues(t *testing.T) {
	policies := []kernel.RetryPolicy{{}, {Base: 1, Cap: 2}}
	for c := range WordsOf(reflect.TypeFor[kernel.FailureClass]()) {
		policies = append(policies, kernel.RetryPolicy{}.On(kernel.FailureClass(c)))
	}
	for code := range 256 {
		policies = append(policies, kernel.RetryPolicy{Exits: kernel.ExitSet{}.With(code)})
	}
	for _, p := range policies {
		var got kernel.RetryPolicy
		if err := Read(Compact(p), &got); err != nil || got != p {
			t.Errorf("%+v is written as %s and read as %+v, %v", p, Compact(p), got, err)
		}
	}
}

// What is written of a snapshot has all of its jobs, and the records that cannot be read.
func TestTakenOfASnapshot(t *testing.T) {
	o := kernel.Observation{Now: time.Unix(9, 0).UTC(), Jobs: []kernel.Job{{ID: "a", Created: time.Unix(1, 0).UTC(), Rev: 1}, {ID: "b", Created: time.Unix(2, 0).UTC(), Rev: 2}},
		Unreadable: map[kernel.JobID]string{"c": "torn", "d": "gone"}, Facts: kernel.NewFacts(), Archived: 3}
	got := Taken(kernel.NewSnapshot(o))
	if len(got.Jobs) != 2 || got.Jobs[0].ID != "a" || got.Jobs[1].Rev != 2 || !maps.Equal(got.Unreadable, o.Unreadable) || got.Archived != 3 || !got.Now.Equal(o.Now) {
		t.Errorf("%+v", got)
	}
	o.Unreadable = nil
	if got := Taken(kernel.NewSnapshot(o)); got.Unreadable != nil {
		t.Errorf("%+v", got.Unreadable)
	}
}

// What does not fit is an error that names the place.
func TestWhatCannotBeRead(t *testing.T) {
	type inner struct {
		Flag  bool
		List  []int
		Named map[string]string
		Bytes []byte
		At    kernel.AttemptID
	}
	for raw, want := range map[string]string{
		`{`:                   "unexpected EOF",
		`{"flag": 1}`:         "flag: ",
		`{"flag": "yes"}`:     `flag: "yes" is no bool`,
		`{"list": true}`:      "list: true is no []int",
		`{"list": [1, true]}`: "list: [1]: true is no int",
		`{"list": {"a": 1}}`:  "list: an object is no []int",
		`{"other": 1}`:        "other: no such field",
		`{"at": "a"}`:         `at: "a" is no JOB/N`,
	} {
		var v inner
		if err := Read([]byte(raw), &v); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
	var v inner
	if err := Read([]byte(`{"bytes": "text", "flag": true, "at": "a/2"}`), &v); err != nil || string(v.Bytes) != "text" || !v.Flag || v.At != (kernel.AttemptID{Job: "a", N: 2}) {
		t.Errorf("%+v, %v", v, err)
	}
}
