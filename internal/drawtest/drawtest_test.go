package drawtest_test

import (
	"testing"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
)

func TestASeedDrawsTheSameAgain(t *testing.T) {
	draw := func(seed string) uint64 {
		t.Setenv("RAPID_SEED", seed)
		return drawtest.Of(t).Uint64()
	}
	if first := draw("7"); draw("7") != first || draw("0x7") != first || draw("8") == first {
		t.Error("the seed does not decide what is drawn")
	}
}
