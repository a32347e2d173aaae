// Package drawtest makes the random draws of tests, so that they can be repeated.
package drawtest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Of returns a random generator for a test, and logs its seed. RAPID_SEED in the
// environment sets the seed, to draw the same again; rapid reads it too.
func Of(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given, is := os.LookupEnv("RAPID_SEED"); is {
		var err error
		if seed, err = strconv.ParseUint(given, 0, 64); err != nil {
			t.Fatalf("RAPID_SEED: %v", err)
		}
	}
	t.Logf("RAPID_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}
