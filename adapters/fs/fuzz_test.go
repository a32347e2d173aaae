package fs

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// A record that can be decoded can be encoded, and decodes to the same again.
func FuzzDecodeRecord(f *testing.F) {
	full, bare := fullJob(), plain(1)
	full.ID = id(1)
	whole := encode(f, &full, nil)
	f.Add(whole)
	f.Add(withForeign(f, whole))
	f.Add(encode(f, &bare, nil))
	f.Add([]byte(`{"version":1,"status":"queued","created_at":"2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		bothWays(t, b)
		j, foreign, err := decodeRecord(id(1), b)
		if err != nil {
			return
		}
		stable(t, j, foreign)
	})
}

// bothWays asserts that the careful decoder accepts everything that the fast one
// accepts, with the same result.
func bothWays(t *testing.T, b []byte) {
	t.Helper()
	var fast, careful open[record]
	if jsonv2.Unmarshal(b, &fast) != nil {
		return
	}
	if err := json.Unmarshal(b, &careful); err != nil {
		t.Fatalf("only the fast decoder takes it: %v\n%s", err, b)
	}
	a, errA := fast.V.job()
	c, errC := careful.V.job()
	if (errA == nil) != (errC == nil) || !reflect.DeepEqual(a, c) {
		t.Fatalf("fast %v %+v\ncareful %v %+v\n%s", errA, a, errC, c, b)
	}
	for name, v := range careful.Extra {
		if !bytes.Equal(fast.Extra[name], v) {
			t.Fatalf("%s: fast %s, careful %s", name, fast.Extra[name], v)
		}
	}
}

// stable asserts that j can be written and read, and does not change after that. The
// first write may drop values without meaning, such as the requester of a stop that
// has no time.
func stable(t *testing.T, j kernel.Job, f *foreign) {
	t.Helper()
	once, err := encodeRecord(&j, f, t0)
	if err != nil {
		t.Fatalf("read, and cannot be written: %v", err)
	}
	again, f2, err := decodeRecord(id(1), once)
	if err != nil {
		t.Fatalf("%v\n%s", err, once)
	}
	twice, err := encodeRecord(&again, f2, t0)
	if err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("changes when it is written again: %v\n%s\n%s", err, once, twice)
	}
}

// Records in which random values were replaced are refused, or read and written without a change.
func TestScrambledRecords(t *testing.T) {
	oneGoroutine(t)
	r := drawtest.Of(t)
	values := strings.Fields(`null true "" "x" "1h" "queued" "shared" 0 -1 7 1.5 1e300 [] [null] ["x",1] {} {"custom":{"type_id":"a","key":"b"}}
		"2026-01-01T00:00:00.1234567+02:00" "0001-01-01T00:00:00Z" "9999-12-31T23:59:59Z"`)
	accepted := 0
	for range 2000 {
		j := fullJob()
		j.ID = id(1)
		m := parseObject(t, encode(t, &j, nil))
		for range 1 + r.IntN(3) {
			scramble(r, m, values)
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		bothWays(t, b)
		if got, f, err := decodeRecord(id(1), b); err == nil {
			accepted++
			stable(t, got, f)
		}
	}
	if accepted < 100 {
		t.Errorf("only %d records were accepted: the test says little", accepted)
	}
}

// scramble replaces one value somewhere in m.
func scramble(r *rand.Rand, m map[string]any, values []string) {
	keys := slices.Sorted(maps.Keys(m))
	k := keys[r.IntN(len(keys))]
	if inner, ok := m[k].(map[string]any); ok && len(inner) > 0 && r.IntN(8) > 0 {
		scramble(r, inner, values)
		return
	}
	if list, ok := m[k].([]any); ok && len(list) > 0 && r.IntN(2) > 0 {
		if inner, ok := list[0].(map[string]any); ok && len(inner) > 0 {
			scramble(r, inner, values)
			return
		}
	}
	m[k] = json.RawMessage(values[r.IntN(len(values))])
}

func FuzzDecodeEntry(f *testing.F) {
	e := entry{world: []named{{"kernel.Launch", []byte(`{"Attempt":{"Job":"1","N":2}}`)}},
		groups: []group{{job: id(1), rev: 3, record: []byte("{}"), state: "queued",
			ops: []fileOp{{opWrite, "a", "", []byte("b")}, {opRename, "a", "b", nil}}}, {job: id(2), ops: []fileOp{{kind: opRemoveJob}}}}}
	b, err := e.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[8:])
	f.Add([]byte{0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEntry(b)
		if err != nil {
			return
		}
		once, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeEntry(once[8:])
		if err != nil {
			t.Fatalf("%v", err)
		}
		if twice, err := again.encode(); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("changes when it is written again: %v", err)
		}
	})
}

func FuzzDecodeOutcome(f *testing.F) {
	b, err := encodeOutcome(someResult(id(1)), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"id":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeOutcome(id(1), b)
		if err != nil {
			return
		}
		once, err := encodeOutcome(*r, nil)
		if err != nil {
			t.Fatalf("read, and cannot be written: %v", err)
		}
		again, err := decodeOutcome(id(1), once)
		if err != nil {
			t.Fatalf("%v\n%s", err, once)
		}
		if d := diff(*r, *again); d != "" {
			t.Fatal(d)
		}
	})
}

func someResult(job kernel.JobID) kernel.Result {
	return kernel.Result{Attempt: kernel.AttemptID{Job: job, N: 3}, Outcome: kernel.OutcomeFailed, Exit: 124, Class: kernel.Timeout,
		Reason: "too long", Produced: []kernel.Artifact{custom("type", "key"), {Kind: kernel.PlanDoc, Name: "x", Ref: "draft/x"}}, Ended: t0,
		Submitted: []kernel.NewJob{submission(2), submission(3)}}
}

// submission is a job with every field of its spec filled.
func submission(n int) kernel.NewJob {
	j := fullJob()
	return kernel.NewJob{ID: id(n), Spec: j.Spec, Approval: kernel.Require(t0, "ann"), Context: kernel.Context{Root: "w"}}
}
