package wire

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
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

// every has a value of each kind.
type every struct {
	Flag   bool
	Number int
	Small  uint16
	Share  float64
	Name   string
	At     time.Time
	Within time.Duration
	Of     kernel.Artifact
	Try    kernel.AttemptID
	Raw    []byte
	List   []string
	ByJob  map[kernel.JobID]int
	Inner  *every
	Status kernel.Status
	Waits  kernel.WaitSet
	Usage  view.Usage
	Mark   string `wire:"always"`
}

// Each kind of value has its form, which is read as the same value. What is zero is left out, unless it is said always.
func TestEachKindOfValue(t *testing.T) {
	full := every{Flag: true, Number: -3, Small: 4, Share: 0.5, Name: "a<b", At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Within: 90 * time.Second,
		Of: kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: "x"}, Try: kernel.AttemptID{Job: "a/b", N: 2}, Raw: []byte("raw"), List: []string{"x", ""},
		ByJob: map[kernel.JobID]int{"b": 1, "a": 2}, Inner: &every{Name: "in", List: []string{}}, Status: kernel.Failed, Waits: kernel.WaitSet{}.With(kernel.OnLocks), Usage: view.Usage{Input: 7}}
	want := `{"at":"2026-01-02T03:04:05.000000006Z","by_job":{"a":2,"b":1},"flag":true,"inner":{"mark":"","name":"in","status":"queued"},"list":["x",""],"mark":"","name":"a<b","number":-3,` +
		`"of":"` + full.Of.String() + `","raw":"raw","share":0.5,"small":4,"status":"failed","try":"a/b/2","usage":{"cached_tokens":0,"cost_usd":0,"input_tokens":7,"output_tokens":0},` +
		`"waits":["` + kernel.OnLocks.String() + `"],"within":"1m30s"}` + "\n"
	got := Compact(full)
	if string(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	var back every
	full.Inner.List = nil
	if err := Read(got, &back); err != nil || !reflect.DeepEqual(back, full) {
		t.Errorf("%v: read as %+v", err, back)
	}
	if got := string(Indented(kernel.AttemptID{Job: "a", N: 1})); got != "\"a/1\"\n" {
		t.Errorf("%s", got)
	}
	if got, want := string(Indented(every{})), "{\n  \"mark\": \"\",\n  \"status\": \"queued\"\n}\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for raw, want := range map[string]string{
		`{"at": "noon"}`:                      `at: parsing time "noon"`,
		`{"within": "long"}`:                  `within: time: invalid duration "long"`,
		`{"of": "?"}`:                         `of: `,
		`{"try": "a/b"}`:                      `try: "a/b" is no JOB/N`,
		`{"try": "3"}`:                        `try: "3" is no JOB/N`,
		`{"status": "odd"}`:                   `status: "odd" is none of queued, `,
		`{"by_job": {"a": 1.5}}`:              `by_job: a: `,
		`{"by_job": {"a": "x"}}`:              `by_job: a: "x" is no int`,
		`{"inner": {"odd": 1}}`:               `inner: odd: no such field`,
		`{"number": {"a": 1}}`:                `number: an object is no int`,
		`{"number": 1.5}`:                     `number: `,
		`{"small": -1}`:                       `small: `,
		`{"share": 1e999}`:                    `share: `,
		`{"name": 1}`:                         `name: 1 is no string`,
		`{"usage": {"input_tokens": "many"}}`: `usage: json: cannot unmarshal`,
		`{"waits": ["odd"]}`:                  `waits: [0]: "odd" is none of `,
	} {
		if err := Read([]byte(raw), new(every)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
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
