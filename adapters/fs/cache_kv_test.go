package fs

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"golang.org/x/sys/unix"
)

// kvHome opens a new directory for a map, as the store does.
func kvHome(t *testing.T) dir {
	t.Helper()
	path := t.TempDir()
	if err := os.MkdirAll(filepath.Join(path, journalDir), 0o700); err != nil {
		t.Fatal(err)
	}
	base, err := openRoot(path, idle{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(base.close)
	return base
}

// freshKV returns a map on the disk that holds just these values.
func freshKV(t *testing.T, base dir, head string, values map[string]string) *kv {
	t.Helper()
	k := &kv{base: base}
	for key, v := range values {
		k.memtable.put(keyValue{key, []byte(v)})
	}
	k, err := k.compact([]byte(head))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// holdsAll asserts that a map holds what the model holds, and nothing at the keys near.
func holdsAll(t *testing.T, k *kv, model map[string]string, near ...string) {
	t.Helper()
	sorted := slices.Sorted(maps.Keys(model))
	for _, key := range append(slices.Clone(sorted), near...) {
		want, there := model[key]
		if got, err := k.get(key); err != nil || string(got) != want || (got != nil) != there {
			t.Fatalf("%q is %q, %v, want %q", key, got, err, want)
		}
	}
	for _, prefix := range append([]string{"", "a", "k", "k1", "k10", "zz"}, near...) {
		for _, from := range []string{prefix, prefix + "0", prefix + "5", prefix + "\xff"} {
			var want, got []string
			for _, key := range sorted {
				if key >= from && strings.HasPrefix(key, prefix) {
					want = append(want, key+"="+model[key])
				}
			}
			err := k.eachFrom(from, prefix, func(key string, v []byte) bool {
				got = append(got, key+"="+string(v))
				return true
			})
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("from %q of %q: %d, want %d, %v", from, prefix, len(got), len(want), err)
			}
		}
	}
	n := 0
	if err := k.each("", func(string, []byte) bool { n++; return n < 3 }); err != nil || n != min(3, len(model)) {
		t.Fatalf("asked for three, and got %d of %d: %v", n, len(model), err)
	}
}

// longest is a disk that remembers the longest read.
type longest struct {
	disk
	most int
}

func (d *longest) readAt(f *os.File, data []byte, at int64) (int, error) {
	d.most = max(d.most, len(data))
	return d.disk.readAt(f, data, at)
}

// Who does not look for a large value does not read it, on whatever side of it the key is.
func TestALargeValueIsReadByNobodyElse(t *testing.T) {
	base := kvHome(t)
	reads := &longest{disk: base.disk}
	base.disk = reads
	const size = 100 * blockSize
	values := map[string]string{"b": strings.Repeat("V", size), "d": strings.Repeat("V", size)}
	for _, prefix := range []string{"a", "c", "e"} {
		for i := range 10 {
			values[prefix+strconv.Itoa(i)] = "v"
		}
	}
	k := freshKV(t, base, "head", values)
	for _, key := range []string{"", "a0", "a5", "a99", "b0", "c", "c0", "c9", "cc", "d0", "e9", "f"} {
		v, err := k.get(key)
		if err != nil || string(v) != values[key] || reads.most > 2*blockSize {
			t.Errorf("%q is %q, %v; the longest read was of %d bytes", key, v, err, reads.most)
		}
	}
	for _, prefix := range []string{"a", "a9", "b0", "c", "d0", "e"} {
		n := 0
		if err := k.each(prefix, func(string, []byte) bool { n++; return true }); err != nil || n == 0 != strings.HasSuffix(prefix, "0") || reads.most > 2*blockSize {
			t.Errorf("%d keys begin with %q, %v; the longest read was of %d bytes", n, prefix, err, reads.most)
		}
	}
	for _, key := range []string{"b", "d"} {
		if v, err := k.get(key); err != nil || len(v) != size || reads.most < size {
			t.Errorf("%q has %d bytes, %v; the longest read was of %d bytes", key, len(v), err, reads.most)
		}
	}
}

// A map on the disk behaves like one in memory, however it is written, followed,
// compacted and opened again.
func TestAMapOnTheDiskIsAMap(t *testing.T) {
	oneGoroutine(t)
	r := drawtest.Of(t)
	base, model := kvHome(t), map[string]string{}
	k := freshKV(t, base, "head 0", nil)
	other, head, err := openKV(base)
	if err != nil || string(head) != "head 0" {
		t.Fatalf("%q %v", head, err)
	}
	notes := []string(nil)
	for round := range 60 {
		var changes []keyValue
		for range r.IntN(80) {
			c := keyValue{key: "k" + strconv.Itoa(r.IntN(900))}
			if r.IntN(4) == 0 {
				delete(model, c.key)
			} else {
				c.value = []byte(strings.Repeat("v", r.IntN(3)*r.IntN(400)) + strconv.Itoa(round))
				if r.IntN(30) == 0 { // larger than a block
					c.value = append(c.value, strings.Repeat("V", r.IntN(3*blockSize))...)
				}
				model[c.key] = string(c.value)
			}
			changes = append(changes, c)
		}
		for _, c := range changes {
			k.memtable.put(c)
		}
		note := fmt.Sprint("note ", round)
		if err := k.add([]byte(note), changes); err != nil {
			t.Fatal(err)
		}
		notes = append(notes, note)
		if other.current() != k.current() || !k.current() {
			t.Fatalf("round %d: it is not the map that counts", round)
		}
		if r.IntN(3) == 0 {
			heard := []string(nil)
			if err := other.readLog(func(n []byte) bool { heard = append(heard, string(n)); return true }); err != nil || !slices.Equal(heard, notes) {
				t.Fatalf("round %d: heard %q of %q, %v", round, heard, notes, err)
			}
			notes = nil
			holdsAll(t, other, model, "k", "k900", "nobody", "")
		}
		if r.IntN(6) == 0 {
			holdsAll(t, k, model)
			head := fmt.Sprint("head ", round)
			if k, err = k.compact([]byte(head)); err != nil {
				t.Fatal(err)
			}
			if other.current() {
				t.Fatalf("round %d: an old log is taken for the new", round)
			}
			other.close()
			var got []byte
			if other, got, err = openKV(base); err != nil || string(got) != head {
				t.Fatalf("round %d: %q %v", round, got, err)
			}
			notes = nil
			var size int64
			for i, tab := range k.tables {
				info, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d/%s", base.fd, tableFile(tab.number)))
				if err != nil || info.Size() != tab.size || i > 0 && tab.number <= k.tables[i-1].number {
					t.Fatalf("table %d: %v, %d bytes", tab.number, err, tab.size)
				}
				size += tab.size
			}
			if k.size != size || len(k.tables) > 6 || k.memtable.size != 0 {
				t.Fatalf("round %d: %d tables of %d bytes, which are %d", round, len(k.tables), k.size, size)
			}
			names, err := base.names(journalDir)
			if err != nil || len(names) != len(k.tables)+1 {
				t.Fatalf("round %d: there lie %q for %d tables, %v", round, names, len(k.tables), err)
			}
			holdsAll(t, other, model, "k", "k900", "nobody", "")
		}
	}
	holdsAll(t, k, model, "k", "k900", "nobody", "")
	k.close()
	other.close()
}

// The memtable sorts its keys, whether they come in order or not; keys that come in
// order fill their chunks.
func TestKeysInMemoryAreInOrder(t *testing.T) {
	var inOrder, anywhere memtable
	var want []string
	for i := range 3*maxChunk + 7 {
		want = append(want, fmt.Sprintf("k%06d", i))
	}
	for i, r := range []*memtable{&inOrder, &anywhere} {
		r.put(keyValue{key: "a", value: []byte("v")})
		r.sort()
		keys := slices.Clone(want)
		if i == 1 {
			drawtest.Of(t).Shuffle(len(keys), func(a, b int) { keys[a], keys[b] = keys[b], keys[a] })
		}
		for _, key := range keys {
			r.put(keyValue{key: key, value: []byte("v")})
			r.sort()
		}
		r.remove("a")
		if got := slices.Concat(r.chunks...); !slices.Equal(got, want) {
			t.Errorf("%d keys, want %d in order", len(got), len(want))
		}
		for k, chunk := range r.chunks {
			if len(chunk) > maxChunk || i == 0 && 0 < k && k < len(r.chunks)-1 && len(chunk) < maxChunk {
				t.Errorf("chunk %d of %d has %d keys", k, len(r.chunks), len(chunk))
			}
		}
	}
}

// Compaction leaves a table alone that is much larger than the later changes, and
// keys that were removed from it stay removed.
func TestALargeTableIsLeftAlone(t *testing.T) {
	base, model := kvHome(t), map[string]string{}
	for i := range 3000 {
		model[fmt.Sprintf("k%05d", i)] = strings.Repeat("v", 8)
	}
	k := freshKV(t, base, "", model)
	if len(k.tables) != 1 || len(k.tables[0].blocks) < 10 {
		t.Fatalf("%d tables", len(k.tables))
	}
	first := k.tables[0].number
	k.memtable.put(keyValue{"k00007", nil})
	k.memtable.put(keyValue{"new", []byte("n")})
	delete(model, "k00007")
	model["new"] = "n"
	k, err := k.compact(nil)
	if err != nil || len(k.tables) != 2 || k.tables[0].number != first {
		t.Fatalf("%d tables, %v", len(k.tables), err)
	}
	holdsAll(t, k, model, "k00007", "k")
	for i := range 3000 {
		key := fmt.Sprintf("k%05d", i)
		k.memtable.put(keyValue{key, nil})
		delete(model, key)
	}
	if k, err = k.compact(nil); err != nil || len(k.tables) != 1 || k.tables[0].size > 100 { // the oldest table needs no entries for removed keys
		t.Fatalf("%d tables, %v", len(k.tables), err)
	}
	holdsAll(t, k, model, "k00007")
	k.close()
}

// A spoiled file of the map leads to an error or to right values, at most without the
// last change, never to wrong ones.
func TestASpoiledMapIsAnErrorOrIsRight(t *testing.T) {
	oneGoroutine(t)
	base, model := kvHome(t), map[string]string{}
	for i := range 150 {
		model[fmt.Sprintf("k%03d", i)] = strings.Repeat("v", i)
	}
	k := freshKV(t, base, "head", model)
	change := []keyValue{{"k001", []byte("changed")}, {"k002", nil}}
	if err := k.add([]byte("note"), change); err != nil {
		t.Fatal(err)
	}
	number := k.tables[0].number
	k.close()
	after := maps.Clone(model)
	after["k001"] = "changed"
	delete(after, "k002")
	look := func() (map[string]string, error) {
		k, _, err := openKV(base)
		if err != nil {
			return nil, err
		}
		defer k.close()
		if err := k.readLog(func(note []byte) bool { return string(note) == "note" }); err != nil {
			return nil, err
		}
		got := map[string]string{}
		err = k.each("", func(key string, v []byte) bool { got[key] = string(v); return true })
		for key, want := range after {
			if v, err2 := k.get(key); err2 != nil {
				err = errors.Join(err, err2)
			} else if err == nil && string(v) != want && want != "changed" {
				return map[string]string{key: string(v)}, nil
			}
		}
		return got, err
	}
	if got, err := look(); err != nil || !maps.Equal(got, after) {
		t.Fatalf("%d of %d, %v", len(got), len(after), err)
	}
	for _, name := range []string{cacheFile, tableFile(number)} {
		good, err := base.read(name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		wrong := func(what string, b []byte) {
			t.Helper()
			if err := base.write(name, b, false); err != nil {
				t.Fatal(err)
			}
			if got, err := look(); err == nil && !maps.Equal(got, after) && !maps.Equal(got, model) {
				t.Errorf("%s %s: %d of %d", name, what, len(got), len(after))
			}
		}
		step := max(1, len(good)/300)
		for i := 0; i < len(good); i += step {
			b := slices.Clone(good)
			b[i] ^= 1 << (i % 8)
			wrong(fmt.Sprint("with another byte at ", i), b)
		}
		for n := 0; n < len(good); n += step {
			wrong(fmt.Sprintf("with %d bytes", n), good[:n])
		}
		wrong("with more", append(slices.Clone(good), 0))
		wrong("with a frame that is none", append(slices.Clone(good), 1, 0, 0, 0, 1, 2, 3, 4, 5))
		if err := base.write(name, good, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := base.remove(tableFile(number)); err != nil {
		t.Fatal(err)
	}
	if _, err := look(); err == nil {
		t.Error("a table that is gone is not missed")
	}
	if _, _, err := openKV(kvHome(t)); err == nil {
		t.Error("there is a map where there is none")
	}
}

// A follower reports a note that it does not accept, and ignores a torn end of the
// log until it is whole.
func TestFollowingAMap(t *testing.T) {
	base := kvHome(t)
	k := freshKV(t, base, "", map[string]string{"a": "1"})
	other, _, err := openKV(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.add([]byte("one"), []keyValue{{"b", []byte("2")}}); err != nil {
		t.Fatal(err)
	}
	if err := other.readLog(func([]byte) bool { return false }); !errors.Is(err, errCache) {
		t.Error(err)
	}
	if got, _ := other.get("b"); got != nil {
		t.Errorf("what was not accepted is there: %q", got)
	}
	whole, err := base.read(cacheFile, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	cut := func(n int) {
		t.Helper()
		if err := os.Truncate(fmt.Sprintf("/proc/self/fd/%d/%s", base.fd, cacheFile), int64(n)); err != nil {
			t.Fatal(err)
		}
	}
	cut(len(whole) - 1)
	notes := 0
	count := func([]byte) bool { notes++; return true }
	if err := other.readLog(count); err != nil || notes != 0 {
		t.Errorf("of a torn end: %d, %v", notes, err)
	}
	if _, err := k.log.WriteAt(whole[len(whole)-1:], int64(len(whole)-1)); err != nil {
		t.Fatal(err)
	}
	if err := other.readLog(count); err != nil || notes != 1 {
		t.Errorf("of a whole one: %d, %v", notes, err)
	}
	if got, err := other.get("b"); string(got) != "2" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if _, _, err := other.frame(int64(len(whole))); !errors.Is(err, io.EOF) {
		t.Errorf("past the end: %v", err)
	}
	if _, _, err := other.frame(int64(len(whole) - 3)); !errors.Is(err, errCache) {
		t.Errorf("in the middle: %v", err)
	}
	k.close()
	other.close()
}

// A map that cannot be written reports it and keeps its former content.
func TestAMapThatCannotBeWritten(t *testing.T) {
	oneGoroutine(t)
	base := kvHome(t)
	d := &faulty{}
	base.disk = d
	big := map[string]string{}
	for i := range 4000 {
		big[fmt.Sprintf("k%05d", i)] = strings.Repeat("v", 40) // more than is written at once
	}
	k := freshKV(t, base, "head", map[string]string{"a": "1"})
	for at := 1; ; at++ {
		d.n, d.at = 0, 0
		for key, v := range big {
			k.memtable.put(keyValue{key, []byte(v)})
		}
		d.at, d.n = at, 0
		next, err := k.compact([]byte("new"))
		if err == nil {
			if at < 5 {
				t.Errorf("%d calls", at)
			}
			next.close()
			break
		}
		if !errors.Is(err, unix.EIO) {
			t.Errorf("call %d: %v", at, err)
		}
		d.at = 0
		was, head, err := openKV(base)
		if err != nil || string(head) != "head" {
			t.Fatalf("call %d: %q %v", at, head, err)
		}
		holdsAll(t, was, map[string]string{"a": "1"})
		was.close()
	}
	k, _, err := openKV(base)
	if err != nil {
		t.Fatal(err)
	}
	d.at, d.n = 1, 0
	if err := k.add(nil, []keyValue{{"b", nil}}); !errors.Is(err, unix.EIO) {
		t.Error(err)
	}
	// compaction writes no table from one that it cannot read
	if err := os.Truncate(fmt.Sprintf("/proc/self/fd/%d/%s", base.fd, tableFile(k.tables[0].number)), 100); err != nil {
		t.Fatal(err)
	}
	for key, v := range big {
		k.memtable.put(keyValue{key + "x", []byte(v)})
	}
	if _, err := k.compact(nil); err == nil {
		t.Error("half a table was taken for one")
	}
	if _, err := k.get("k00001"); !errors.Is(err, errCache) {
		t.Error(err)
	}
	k.close()
}
