package joblog

import (
	"testing"
)

// BenchmarkWatch is what the record of order costs a command that writes nothing,
// against bounding its logs alone, and one that writes a line to both.
func BenchmarkWatch(b *testing.B) {
	for name, c := range map[string]struct{ record, write bool }{"bounds": {}, "bounds, writes": {write: true}, "record": {record: true}, "record, writes": {true, true}} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			for b.Loop() {
				stdout, err1 := Append(dir + "/stdout.log")
				stderr, err2 := Append(dir + "/stderr.log")
				if err1 != nil || err2 != nil {
					b.Fatal(err1, err2)
				}
				var w *Watcher
				if c.record {
					w = WatchBoth(1<<26, stdout, stderr, dir+"/order.log")
				} else {
					w = watchOnly(1<<26, stdout, stderr)
				}
				if c.write {
					_, _ = stdout.WriteString("a\n")
					_, _ = stderr.WriteString("b\n")
				}
				w.Close()
			}
		})
	}
}
