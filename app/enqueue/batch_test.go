package enqueue

import (
	"context"
	"errors"
	"strings"
	"testing"

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
	_, err = requester().Batch(context.Background(), strings.NewReader(strings.Repeat("{}\n", maxBatchErrors+3)))
	if bad, ok := errors.AsType[*BatchError](err); !ok || len(bad.Lines) != maxBatchErrors || bad.More != 3 || !strings.HasSuffix(err.Error(), "\nand 3 more") {
		t.Errorf("%v", err)
	}
}

// What a decoder of JSON would replace is refused, and what it reads is left alone.
func TestWhatIsNotTextInABatch(t *testing.T) {
	for line, want := range map[string]string{
		"{\"command\":[\"cat\",\"caf\xe9\"]}":                           "not UTF-8",
		`{"command":["\udce9"]}`:                                        `\udce9 is half of a surrogate pair`,
		`{"command":["\ud83d\u0041"]}`:                                  `\ud83d is half of a surrogate pair`,
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
