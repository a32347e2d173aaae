package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/kernel"
)

// engine is one of which each program is this script, which finds what it reads in
// the file in.
func engine(t *testing.T, script string) Engine {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "program"), []byte("#!/bin/sh\ncat >in\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	argv := []string{"./program"}
	return Engine{Settings{Submit: argv, List: argv, Cancel: argv, Options: []string{"queue=a b"}, Dir: dir}}
}

// read is what the program was asked.
func read[T any](t *testing.T, e Engine) (v T) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(e.Settings.Dir, "in"))
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestQuestions(t *testing.T) {
	e := engine(t, `echo '{"id": "7", "jobs": [{"id": "7", "name": "p-a", "state": "running", "node": "n1"}, {"id": "8", "name": "q-a", "state": "lost"}]}'`)
	r := cluster.Request{Name: "p-a", Argv: []string{"x y", "'"}, Dir: "/d", Log: "/l", Options: []string{"more"}}
	if id, err := e.Submit(t.Context(), r); err != nil || id != "7" {
		t.Errorf("%q, %v", id, err)
	}
	if got, want := read[SubmitRequest](t, e), (SubmitRequest{1, "p-a", []string{"x y", "'"}, "/d", "/l", []string{"queue=a b", "more"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	jobs, err := e.List(t.Context(), "p-")
	if want := []cluster.Job{{ID: "7", Name: "p-a", State: cluster.Running, Node: "n1"}}; err != nil || !reflect.DeepEqual(jobs, want) {
		t.Errorf("%+v, %v", jobs, err)
	}
	if got := read[ListRequest](t, e); got != (ListRequest{1, "p-"}) {
		t.Errorf("%+v", got)
	}
	if err := e.Cancel(t.Context(), jobs); err != nil {
		t.Error(err)
	}
	if got, want := read[CancelRequest](t, e), (CancelRequest{1, []NamedJob{{"7", "p-a"}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// A list may say what jobs used, if that can be true.
func TestFigures(t *testing.T) {
	list := func(figures string) ([]cluster.Job, error) {
		return engine(t, `echo '{"jobs": [{"id": "7", "name": "p-a", "state": "lost", `+figures+`}]}'`).List(t.Context(), "p-")
	}
	jobs, err := list(`"seconds": 12, "cpu_seconds": 1.5, "peak_memory_bytes": 1048576`)
	if want := (cluster.Figures{Seconds: 12, CPUSeconds: 1.5, PeakMemory: 1 << 20}); err != nil || len(jobs) != 1 || jobs[0].Figures != want {
		t.Errorf("%+v, %v", jobs, err)
	}
	for _, odd := range []string{`"seconds": -1`, `"seconds": 1e10`, `"cpu_seconds": -0.5`, `"cpu_seconds": 1e300`, `"cpu_seconds": "1.5s"`, `"peak_memory_bytes": -1`, `"peak_memory_bytes": 0.5`} {
		if jobs, err := list(odd); err == nil {
			t.Errorf("%s is taken: %+v", odd, jobs)
		}
	}
}

// What a program says, or does, is a refusal of the job or a cluster that cannot be asked.
func TestAnswers(t *testing.T) {
	const away = -1
	for script, want := range map[string]struct {
		submit, list cluster.RefusalKind // away: it cannot be asked
		said         string
	}{
		`echo '{"refused": "no"}'`:         {cluster.Never, cluster.Never, "no"},
		`echo '{"refused": "no"}'; exit 3`: {cluster.Never, cluster.Never, "no"},
		`echo '{"full": "no"}'`:            {cluster.Later, cluster.Later, "no"},
		`echo '{"away": "no"}'`:            {away, away, "no"},
		`echo no >&2; exit 1`:              {cluster.Unclear, away, "./program: no"},
		`exit 1`:                           {cluster.Unclear, away, "./program: exit status 1"},
		`echo 7`:                           {cluster.Unclear, away, "./program printed what is no answer"},
		`true`:                             {cluster.Unclear, away, "./program printed no"},
		`echo '{"jobs": [{"id": "7", "name": "p-"}]}'`: {cluster.Unclear, away, "./program printed"},
	} {
		e := engine(t, script)
		_, submitted := e.Submit(t.Context(), cluster.Request{Name: "p-a", Argv: []string{"true"}})
		_, listed := e.List(t.Context(), "p-")
		for of, c := range map[string]struct {
			err  error
			want cluster.RefusalKind
		}{"submit": {submitted, want.submit}, "list": {listed, want.list}} {
			got := cluster.RefusalKind(away)
			if no, refused := errors.AsType[*cluster.Refusal](c.err); refused {
				got = no.Kind
			}
			if c.err == nil || got != c.want || !strings.Contains(c.err.Error(), want.said) {
				t.Errorf("%s: %s: %v (%d, want %d)", script, of, c.err, got, c.want)
			}
		}
	}
}

// What a program says goes on record, where a long text would be written again with each change.
func TestWordsAreCut(t *testing.T) {
	const long = `head -c 1000000 /dev/zero | tr '\0' x`
	for _, script := range []string{
		`printf '{"refused": "'; ` + long + `; printf '"}'`,
		`printf '{"full": "'; ` + long + `; printf '"}'`,
		`printf '{"away": "'; ` + long + `; printf '"}'`,
		`printf '{"jobs": [{"id": "7", "name": "p-", "state": "'; ` + long + `; printf '"}]}'`,
		long + ` >&2; exit 1`,
	} {
		if _, err := engine(t, script).List(t.Context(), "p-"); err == nil || len(err.Error()) > 5000 || !strings.Contains(err.Error(), "xxx …") {
			t.Errorf("%s: %.80v", script, err)
		}
	}
	jobs, err := engine(t, `printf '{"jobs": [{"id": "7", "name": "p-", "state": "pending", "reason": "'; `+long+`; printf '"}]}'`).List(t.Context(), "p-")
	if err != nil || len(jobs) != 1 || len(jobs[0].Reason) > 5000 {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
}

// One that does not answer in time may have submitted the job: that is no refusal.
func TestNoAnswer(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := engine(t, "exec sleep 600").Submit(ctx, cluster.Request{Name: "p-a"}); err == nil || errors.As(err, new(*cluster.Refusal)) {
		t.Errorf("%v", err)
	}
}

func TestMissing(t *testing.T) {
	e := engine(t, "true")
	if f := e.Missing(); f != nil {
		t.Errorf("%+v", f)
	}
	e.Settings.Cancel = []string{"./no-such-program"}
	if f := e.Missing(); f == nil || !strings.Contains(f.Problem, "the program of cancel cannot be run") {
		t.Errorf("%+v", f)
	}
}

// The schema has the states that an answer may have.
func TestSchemaHasTheStates(t *testing.T) {
	b, err := os.ReadFile("../../../../docs/schemas/executor_list_answer.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, s := range cluster.States {
		words = append(words, string(s))
	}
	if want := `"pattern": "^(` + strings.Join(words, "|") + `)$"`; !strings.Contains(string(b), want) {
		t.Errorf("it lacks %s", want)
	}
}

// Options are texts on one line. Without any, the program reads an empty list, and no null.
func TestOptions(t *testing.T) {
	e := engine(t, `echo '{"id": "7"}'`)
	if err := e.Accepts([]string{"queue=a b", "x"}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "a\nb", "a\x00b"} {
		want := fmt.Sprintf("option %q: expected a text on one line that is not empty: invalid", bad)
		if err := e.Accepts([]string{"x", bad}); !errors.Is(err, kernel.ErrInvalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	e.Settings.Options = nil
	if _, err := e.Submit(t.Context(), cluster.Request{Name: "a"}); err != nil {
		t.Error(err)
	}
	if in, err := os.ReadFile(filepath.Join(e.Settings.Dir, "in")); err != nil || !strings.Contains(string(in), `"options":[]`) {
		t.Errorf("%s, %v", in, err)
	}
	if next := e.Mend(cluster.Listing); next != "see what `./program` says, and docs/user/executors.md" {
		t.Error(next)
	}
}
