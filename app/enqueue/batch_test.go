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
	want := []LineError{{1, "--retries -1"}, {2, "unknown key cmd"}, {4, "invalid character"}, {5, `--timeout "x"`}, {5, `--env "=1"`}, {5, `--cwd "/"`}, {6, `ref "a" is that of line 5 already`}}
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
