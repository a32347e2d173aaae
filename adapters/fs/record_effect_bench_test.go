package fs

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// BenchmarkEffect measures what the journal of an operation costs: an intent and its
// result. The metric "outcomes" compares it with the replacement of one small file
// (outcome.json), which every attempt needs anyway. Both are measured in turns, so that
// a slow disk affects both.
func BenchmarkEffect(b *testing.B) {
	for _, durable := range []bool{true, false} {
		b.Run("durable="+strconv.FormatBool(durable), func(b *testing.B) {
			o := options()
			o.Durable = durable
			s := newStoreWith(b, b.TempDir(), o)
			j := plain(1)
			j.State.Status, j.State.Attempt, j.State.Started = kernel.Running, 1, t0
			commit(b, s, kernel.Create(j))
			outcome := applied(intent(j)).Result
			var journal, one time.Duration
			n := 0
			record := func(e effect.Record) {
				if err := s.RecordEffect(b.Context(), e); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				n++
				sum := sha256.Sum256([]byte(strconv.Itoa(n)))
				e := intent(j)
				e.Key = hex.EncodeToString(sum[:])
				begun := time.Now()
				record(e)
				record(applied(e))
				done := time.Now()
				if err := s.Conclude(outcome); err != nil {
					b.Fatal(err)
				}
				journal, one = journal+done.Sub(begun), one+time.Since(done)
			}
			b.ReportMetric(float64(journal)/float64(one), "outcomes")
			b.ReportMetric(float64(journal.Microseconds())/float64(n), "µs-journal/op")
		})
	}
}
