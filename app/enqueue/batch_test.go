package enqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/app/memstore"
	"github.com/vizier-scheduler/vizier/kernel"
)

// All that is wrong with a batch is told at once, in the order of its lines, and
// no more than a person reads.
func TestAllThatIsWrongWithABatch(t *testing.T) {
	in := strings.Join([]string{`{"command":["true"],"retries":-1}`, `{"cmd":["x"]}`, ``, `nope`,
		`{"command":["true"],"ref":"a","timeout":"x","env":["=1"],"cwd":"/"}`, `{"command":["true"],"ref":"a"}`}, "\n")
	_, err := requester().Batch(context.Background(), strings.NewReader(in))
	bad, ok := errors.AsType[*BatchError](err)
	if !ok || !errors.Is(err, kernel.ErrInvalid) {
		t.Fatal(err)
	}
	want := []LineError{{1, "--retries -1"}, {2, "unknown key cmd"}, {4, `expected a JSON object such as {"command":["make"]}: invalid character`}, {5, `--timeout "x"`}, {5, `--env "=1"`}, {5, `--cwd "/"`}, {6, `ref "a" is that of line 5 already`}}
	if len(bad.Lines) != len(want) || bad.More != 0 {
		t.Fatalf("%d findings:\n%v", len(bad.Lines), err)
	}
	for i, w := range want {
		if got := bad.Lines[i]; got.Line != w.Line || !strings.Contains(got.Text, w.Text) {
			t.Errorf("finding %d is %+v, want %+v", i, got, w)
		}
	}
	// What refers to a line that could not be read is not wrong for that.
	_, err = builder(nil, nil).Batch(t.Context(), strings.NewReader(`{"ref":"x","cmd":["x"]}`+"\n"+`{"command":["true"],"after":["x"]}`))
	if bad, ok := errors.AsType[*BatchError](err); !ok || len(bad.Lines) != 1 || bad.Lines[0].Line != 1 {
		t.Errorf("%v", err)
	}
	for _, more := range []int{0, 1, 3} {
		_, err = requester().Batch(context.Background(), strings.NewReader(strings.Repeat("{}\n", maxBatchErrors+more)))
		if bad, ok := errors.AsType[*BatchError](err); !ok || len(bad.Lines) != maxBatchErrors || bad.More != more || strings.HasSuffix(err.Error(), fmt.Sprintf("\nand %d more", more)) != (more > 0) {
			t.Errorf("%v", err)
		}
	}
}

// What a decoder of JSON would replace is refused, and what it reads is left alone.
func TestWhatIsNotTextInABatch(t *testing.T) {
	for line, want := range map[string]string{
		"{\"command\":[\"cat\",\"caf\xe9\"]}":                           "not UTF-8",
		`{"command":["\udce9"]}`:                                        `\udce9 is half of a surrogate pair`,
		`{"command":["\ud83d\u0041"]}`:                                  `\ud83d is half of a surrogate pair`,
		`{"command":["\n\udce9"]}`:                                      `\udce9 is half of a surrogate pair`,
		`{"command":["\\\udce9"]}`:                                      `\udce9 is half of a surrogate pair`,
		`{"command":["\ud83d\ude00\udce9"]}`:                            `\udce9 is half of a surrogate pair`,
		`{"command":["\ud83dxude00"]}`:                                  `\ud83d is half of a surrogate pair`,
		`{"command":["\ud83d\xde00"]}`:                                  `\ud83d is half of a surrogate pair`,
		`{"command":["\ud83d`:                                           `\ud83d is half of a surrogate pair`,
		`{"command":["\ud83`:                                            "expected a JSON object",
		`{"command":["\`:                                                "expected a JSON object",
		`{"command":["\ud83d"]}`:                                        `\ud83d is half of a surrogate pair`,
		`{"command":["\ud83d\ude00","\ufffd","\\udce9","caf\u00e9\\"]}`: "",
		`{"command":["\u"]}`:                                            "invalid character",
	} {
		got := ""
		if b, err := requester().Batch(t.Context(), strings.NewReader(line)); err != nil {
			got = err.Error()
		} else if args := b.Jobs[0].Spec.Task.Args; strings.Join(args, " ") != "\U0001f600 \ufffd \\udce9 café\\" {
			t.Errorf("%s: the command is %q", line, args)
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// The lines of a batch refer to each other without a store. Only what is not among them is looked up, unless that comes later.
func TestReferencesInABatch(t *testing.T) {
	far := kernel.JobID(strings.Repeat("f", 32))
	lines := func(after string) *strings.Reader {
		return strings.NewReader(`{"command":["a"],"after":["b"]}` + "\n" + `{"command":["` + strings.Repeat("b", 70_000) + `"],"ref":"b"}` + "\n" + `{"command":["c"],"after":["b:any",` + after + `]}`)
	}
	builder := func(late bool) *Builder {
		n, t := 0, requester()
		t.Scheduler.NewID = func() kernel.JobID { n++; return kernel.JobID(fmt.Sprintf("%032x", n)) }
		t.Late = late
		return t
	}
	b, err := builder(true).Batch(t.Context(), lines(`"`+string(far)+`"`))
	if err != nil {
		t.Fatal(err)
	}
	id := func(i int) kernel.JobID { return b.Jobs[i].ID }
	first, last := b.Jobs[0].Spec, b.Jobs[2].Spec
	if len(b.Jobs) != 3 || !slices.Equal(first.After, []kernel.JobID{id(1)}) || len(first.AfterAny) > 0 || b.Jobs[1].Part != "b" || !slices.Equal(last.After, []kernel.JobID{id(1), far}) || !slices.Equal(last.AfterAny, []kernel.JobID{id(1)}) {
		t.Errorf("%+v after %v, any %v", first.After, last.After, last.AfterAny)
	}
	for _, late := range []bool{false, true} {
		for _, ref := range []string{string(far), "nobody"} {
			if late && ref != "nobody" {
				continue
			}
			own := builder(late)
			own.Scheduler.Store = memstore.NewVault().Open()
			if _, err := own.Batch(t.Context(), lines(`"`+ref+`"`)); !errors.Is(err, kernel.ErrNotFound) || !strings.Contains(err.Error(), "line 3: unknown --after job id: "+ref) {
				t.Errorf("late %v, %s: %v", late, ref, err)
			}
		}
	}
	for _, c := range []struct {
		err   error
		want  string
		class error
	}{
		{&kernel.NewJobError{Job: id(2), Err: fmt.Errorf("job %s waits for %s and job %s: %w", id(2), id(1), far, kernel.ErrConflict)}, fmt.Sprintf("line 3: line 3 waits for b and job %s", far), kernel.ErrConflict},
		{&kernel.NewJobError{Job: id(0), Err: fmt.Errorf("there is no such thing: %w", kernel.ErrNotFound)}, "line 1: there is no such thing", kernel.ErrNotFound},
		{&kernel.NewJobError{Job: id(1), Err: fmt.Errorf("so it is: %w", kernel.ErrInvalid)}, "line 2: so it is", kernel.ErrInvalid},
		{&kernel.NewJobError{Job: id(0), Err: &kernel.PoolError{Pool: "gpu", Has: 1, Asked: 2}}, "line 1: pool gpu has 1 of the 2 units asked for: it could never start", kernel.ErrInvalid},
		{&kernel.NewJobError{Job: far, Err: kernel.ErrConflict}, kernel.ErrConflict.Error(), kernel.ErrConflict},
		{kernel.ErrStale, kernel.ErrStale.Error(), kernel.ErrStale},
	} {
		got := b.Locate(c.err)
		_, pool := errors.AsType[*kernel.PoolError](got)
		_, was := errors.AsType[*kernel.PoolError](c.err)
		if got.Error() != c.want || !errors.Is(got, c.class) || pool != was {
			t.Errorf("%v is %v, want %s", c.err, got, c.want)
		}
	}
}
