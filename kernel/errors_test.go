package kernel_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

func TestSaid(t *testing.T) {
	one, two := fmt.Errorf("no such flow: %w", kernel.ErrInvalid), fmt.Errorf("job a has ended: %w", kernel.ErrConflict)
	for _, c := range []struct {
		err  error
		want string
	}{
		{one, "no such flow"},
		{errors.Join(one, two), "no such flow\njob a has ended"},
		{fmt.Errorf("line 3: %w", two), "line 3: job a has ended"},
		{fmt.Errorf("the input is invalid: %w", kernel.ErrNotFound), "the input is invalid: no such job"},
		{kernel.ErrInvalid, "invalid"},
	} {
		if got := kernel.Said(c.err); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
