package wire

import (
	"reflect"
	"testing"

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
