package bench

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// onDisk returns the size of the store on the disk, in bytes.
func (r *repository) onDisk() (bytes int64) {
	r.Helper()
	err := filepath.WalkDir(filepath.Join(r.dir, ".vizier"), func(path string, _ fs.DirEntry, err error) error {
		var st syscall.Stat_t
		if err == nil {
			err = syscall.Lstat(path, &st)
		}
		bytes += st.Blocks * 512
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
	return bytes
}

// The size of an ended job on the disk before and after it is packed, with its
// share of journal, cache and event log; against the smallest file on the same disk,
// which is 4 KiB on most; and the cost of packing it.
func BenchmarkPack(b *testing.B) {
	const n = 2000
	var before, after int64
	var spent time.Duration
	for b.Loop() {
		r := newRepository(b, relaxed)
		r.run(batch(n, []string{"true"}, none))
		before += r.onDisk()
		b.Setenv("VIZIER_GC_PACK_AFTER", "1ms")
		took, _ := r.spentBy("", "jobs", "gc")
		spent, after = spent+took.cpu, after+r.onDisk()
	}
	least := filepath.Join(scratch, "least")
	var st syscall.Stat_t
	if err := errors.Join(os.WriteFile(least, []byte("x"), 0o600), syscall.Lstat(least, &st)); err != nil {
		b.Fatal(err)
	}
	jobs := float64(n * b.N)
	b.ReportMetric(float64(before)/jobs, "B/job-before")
	b.ReportMetric(float64(after)/jobs, "B/job")
	b.ReportMetric(float64(after)/jobs/float64(st.Blocks*512), "x-file")
	b.ReportMetric(float64(spent.Microseconds())/jobs, "cpu-us/job")
	b.ReportMetric(0, "ns/op")
}
