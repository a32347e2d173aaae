package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// mustRefuse asserts that b is refused with an error that names all words.
func mustRefuse(t *testing.T, b []byte, words ...string) {
	t.Helper()
	_, _, err := decodeRecord(id(1), b)
	if err == nil {
		t.Errorf("accepted: %.200s", b)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func TestTruncatedRecordIsRefused(t *testing.T) {
	oneGoroutine(t)
	j := fullJob()
	j.ID = id(1)
	b := bytes.TrimSpace(encode(t, &j, nil))
	for n := range len(b) {
		mustRefuse(t, b[:n])
	}
}

// change returns a record of job 1 with v in the place of the value at path.
func change(t *testing.T, v any, path ...string) []byte {
	t.Helper()
	j := fullJob()
	j.ID = id(1)
	m := parseObject(t, encode(t, &j, nil))
	at := m
	for _, p := range path[:len(path)-1] {
		at = at[p].(map[string]any)
	}
	at[path[len(path)-1]] = v
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNonsenseInARecordIsRefused(t *testing.T) {
	mustRefuse(t, nil, "empty")
	mustRefuse(t, []byte(" \n\t"), "empty")
	mustRefuse(t, []byte("not json"), "not JSON", "byte 2")
	mustRefuse(t, []byte("null"))
	mustRefuse(t, []byte("[]"), "expected object, found array")
	mustRefuse(t, []byte("7"))
	mustRefuse(t, append(change(t, 1, "version"), "{}"...), "not JSON")
	mustRefuse(t, bytes.Repeat([]byte("["), 1<<20))
	for _, c := range []struct {
		value any
		path  string
		words string
	}{
		{2, "version", "record format 2|up to 1|newer"},
		{"1", "version", "version"},
		{string(id(2)), "id", string(id(2)) + "|" + string(id(1))},
		{"", "id", string(id(1))},
		{"paused", "status", "status|paused"},
		{"", "status", "status"},
		{-1, "revision", "revision"},
		{nil, "created_at", "created_at"},
		{"yesterday", "created_at", "yesterday|RFC 3339"},
		{12, "finished_at", "time"},
		{-1, "attempt", "attempt"},
		{1.5, "attempt", "attempt"},
		{-1, "retries", "negative"},
		{"7", "exit_code", "exit_code"},
		{"great", "outcome", "outcome|great"},
		{"bad luck", "failure_class", "failure_class|bad luck"},
		{"true", "child_args", "child_args"},
		{[]any{1}, "child_args", "child_args"},
		{"task", "task", "task"},
		{"soon", "task.timeout", "task.timeout|soon"},
		{[]any{"luck"}, "again.retry_on", "again.retry_on|luck"},
		{"x", "schedule.after", "after"},
		{[]any{map[string]any{"job_id": "a", "policy": "always"}}, "schedule.after", "schedule.after|always"},
		{[]any{map[string]any{"artifact": map[string]any{"moon": "x"}}}, "schedule.dependencies", "moon"},
		{[]any{map[string]any{"artifact": map[string]any{}}}, "schedule.dependencies", "one key"},
		{[]any{map[string]any{"custom": map[string]any{"type_id": "", "key": "k"}}}, "schedule.artifacts", "empty name"},
		{[]any{map[string]any{"custom": "x"}}, "schedule.artifacts", "schedule.artifacts"},
		{[]any{nil}, "schedule.artifacts", "schedule.artifacts"},
		{[]any{map[string]any{"artifact": nil}}, "schedule.dependencies", "schedule.dependencies"},
		{[]any{map[string]any{"artifact": map[string]any{"custom": map[string]any{"type_id": "", "key": "k"}}}}, "schedule.dependencies", "schedule.dependencies|empty name"},
		{map[string]any{"missing_producer": "shrug"}, "schedule.dependency_policy", "shrug"},
		{"panic", "schedule.failure_mode", "schedule.failure_mode|panic"},
		{[]any{map[string]any{"key": "", "mode": "shared"}}, "schedule.locks", "schedule.locks"},
		{[]any{map[string]any{"key": "k", "mode": "loose"}}, "schedule.locks", "loose"},
		{[]any{map[string]any{"key": "k", "mode": "shared", "units": -1}}, "schedule.locks", "units"},
		{[]any{map[string]any{"kind": "luck"}}, "schedule.preconditions", "luck"},
		{[]any{map[string]any{"on": "monday", "job_id": string(id(2))}}, "schedule.routes", "monday"},
		{"sometimes", "schedule.transient", "sometimes"},
		{map[string]any{"required": true, "state": "maybe"}, "schedule.approval", "maybe"},
		{map[string]any{"kind": "weather"}, "schedule.wait_reason", "weather"},
		{[]any{"weather"}, "schedule.waited_on", "weather"},
		{"spotless", "metadata.cancel_cleanup_status", "metadata.cancel_cleanup_status|spotless"},
		{7, "metadata.plan", "plan"},
	} {
		t.Run(c.path+fmt.Sprint(c.value), func(t *testing.T) {
			mustRefuse(t, change(t, c.value, strings.Split(c.path, ".")...), strings.Split(c.words, "|")...)
		})
	}
}

// No value of the wrong type passes anywhere a record has a field.
func TestWrongTypesAreRefusedEverywhere(t *testing.T) {
	oneGoroutine(t)
	for level, typ := range map[string]reflect.Type{
		"": reflect.TypeFor[record](), "task": reflect.TypeFor[taskRecord](), "again": reflect.TypeFor[againRecord](),
		"schedule": reflect.TypeFor[schedule](), "metadata": reflect.TypeFor[metadata](),
	} {
		for name := range fieldsOf(typ) {
			path := strings.Split(strings.TrimPrefix(level+"."+name, "."), ".")
			for _, wrong := range []any{map[string]any{"x": []any{}}, []any{map[string]any{}, 1, "x"}, "wrong", 1.25, true} {
				j := fullJob()
				j.ID = id(1)
				was := parseObject(t, encode(t, &j, nil))
				for _, p := range path[:len(path)-1] {
					was = was[p].(map[string]any)
				}
				if _, there := was[path[len(path)-1]]; !there && (level == "" || name == "success_note") { // follows from other fields
					continue
				}
				if sameShape(was[path[len(path)-1]], wrong) {
					continue
				}
				_, _, err := decodeRecord(id(1), change(t, wrong, path...))
				if err == nil {
					t.Errorf("%s: accepted %v instead of %v", strings.Join(path, "."), wrong, was[path[len(path)-1]])
				} else if !strings.Contains(err.Error(), path[len(path)-1]) {
					t.Errorf("%s: %v does not name the field", strings.Join(path, "."), err)
				}
			}
		}
	}
}

// sameShape reports whether wrong has the type of have, and so is not of a wrong type.
func sameShape(have, wrong any) bool {
	switch have.(type) {
	case string:
		_, ok := wrong.(string)
		return ok
	case bool:
		_, ok := wrong.(bool)
		return ok
	case map[string]any:
		_, ok := wrong.(map[string]any)
		return ok
	}
	return false
}

// Whatever stands in the place of one record, a read names that record as unreadable and
// reads all the others.
func TestUnreadableRecordsAreNamedAndTheOthersRead(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)), kernel.Create(plain(2)))
	whole := contentOf(t, s.RecordFile(id(2)))
	cases := []struct {
		name, words string
		make        func(path string) error
	}{
		{"empty", "empty", func(p string) error { return os.WriteFile(p, nil, 0o600) }},
		{"directory", "not a regular file", func(p string) error { return os.Mkdir(p, 0o700) }},
		{"fifo", "not a regular file", func(p string) error { return syscall.Mkfifo(p, 0o600) }},
		{"link to another record", "symbolic link", func(p string) error { return os.Symlink("../"+string(id(2))+"/job.json", p) }},
		{"link out", "", func(p string) error { return os.Symlink("/etc/passwd", p) }},
		{"dangling link", "symbolic link", func(p string) error { return os.Symlink("nowhere", p) }},
		{"link to itself", "", func(p string) error { return os.Symlink("job.json", p) }},
		{"huge", "bytes", func(p string) error {
			return errors.Join(os.WriteFile(p, []byte(whole), 0o600), os.Truncate(p, 1<<40))
		}},
		{"a byte too large", "more than the 16777216", func(p string) error { // as docs/formats/job.md says
			return errors.Join(os.WriteFile(p, []byte(whole), 0o600), os.Truncate(p, 16<<20+1))
		}},
		{"copied from another job", string(id(2)), func(p string) error { return os.WriteFile(p, []byte(whole), 0o600) }},
		{"newer", "newer", func(p string) error {
			return os.WriteFile(p, []byte(strings.Replace(whole, `"version": 1`, `"version": 9`, 1)), 0o600)
		}},
		{"invalid text", "", func(p string) error { return os.WriteFile(p, []byte("\xff\xfe{}"), 0o600) }},
	}
	want := map[kernel.JobID]string{}
	for i, c := range cases {
		bad := id(100 + i)
		if err := errors.Join(os.Mkdir(s.JobDir(bad), 0o700), c.make(s.RecordFile(bad))); err != nil {
			t.Fatal(c.name, err)
		}
		want[bad] = c.words
	}
	writeAt(t, s.JobDir(id(200)), "a file where a job's directory is expected")
	want[id(200)] = "not a directory"
	for _, extra := range []string{"short", strings.Repeat("z", 32), strings.ToUpper(string(id(0xabc)))} {
		writeAt(t, file(dir, "jobs", extra, "job.json"), "not a job")
	}
	if err := os.Mkdir(s.JobDir(id(201)), 0o700); err != nil { // half made, without a record yet
		t.Fatal(err)
	}

	for name, rec := range map[string]kernel.Records{"read": read(t, s), "another's read": read(t, newStore(t, dir))} {
		find(t, rec, id(1))
		find(t, rec, id(2))
		if len(rec.Jobs) != 2 {
			t.Errorf("%s: the others are %d jobs", name, len(rec.Jobs))
		}
		for bad, words := range want {
			why, ok := rec.Unreadable[bad]
			if !ok || !strings.Contains(why, words) || !strings.Contains(why, string(bad)) {
				t.Errorf("%s: %s: unreadable as %q, want it to say %q", name, bad, why, words)
			}
		}
		if len(rec.Unreadable) != len(want) {
			t.Errorf("%s: unreadable %v", name, rec.Unreadable)
		}
	}
	commit(t, s, put(plain(1), func(st *kernel.State) { st.Reason = "goes on" }))
	if got := find(t, read(t, s), id(1)); got.State.Reason != "goes on" {
		t.Errorf("bad neighbours stop a commit: %+v", got.State)
	}
}

// A commit refuses a record that could not be read again.
func TestCommitRefusesWhatItCouldNotReadAgain(t *testing.T) {
	for name, spoil := range map[string]func(*kernel.Job){
		"too large":            func(j *kernel.Job) { j.Spec.Task.Args = []string{strings.Repeat("x", maxRecord)} },
		"an argument in bytes": func(j *kernel.Job) { j.Spec.Task.Args = []string{"\xff"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, t.TempDir())
			j := plain(1)
			spoil(&j)
			tx := begin(t, s)
			load(t, tx)
			err := tx.Commit(kernel.NewPlan(kernel.Create(j)))
			closeTx(t, tx)
			rec := read(t, s)
			if err == nil || len(rec.Jobs)+len(rec.Unreadable) != 0 {
				t.Errorf("commit: %v; then %d jobs, unreadable %v", err, len(rec.Jobs), rec.Unreadable)
			}
		})
	}
}

// Memory and time are not negative.
func TestNegativeFiguresOfARecordAreRefused(t *testing.T) {
	j := fullJob()
	j.ID = id(1)
	j.State.Grown = kernel.Grown{Memory: 9876541, Time: 9876542}
	j.State.Place.Used = kernel.Used{CPU: 1, Memory: 9876543}
	b := string(encode(t, &j, nil))
	for figure, word := range map[string]string{"9876541": "grown", "9876542": "grown", "9876543": "used.memory"} {
		if strings.Count(b, figure) != 1 {
			t.Fatalf("%s is not once in it", figure)
		}
		mustRefuse(t, []byte(strings.Replace(b, figure, "-1", 1)), word)
	}
	if _, _, err := decodeRecord(id(1), []byte(b)); err != nil {
		t.Error(err)
	}
}
