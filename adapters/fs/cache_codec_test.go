package fs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The entry of a job counts only as a whole. Times before 1970, at its beginning, and none at all stay what they are.
func TestEntriesThatAreCutOff(t *testing.T) {
	j := plain(1)
	j.Number, j.Part, j.State.Exit = 3, "a", kernel.Exited(-1)
	j.Created, j.State.Started, j.State.Finished = time.Unix(0, 0).UTC(), time.Unix(-5, 3000).UTC(), time.Time{}
	j.Spec.Needs, j.Spec.Origin.Run = []kernel.Artifact{custom("t", "k")}, "r"
	b := encodeCachedJob(cachedJob{job: &j, file: fileStamp{modified: -1, size: 2, inode: 3}})
	k, err := decodeCachedJob(b)
	if err != nil || !reflect.DeepEqual(*k.job, j) || k.foreignOnDisk || k.file != (fileStamp{-1, 2, 3}) {
		t.Fatalf("%+v, %v, want %+v", k, err, j)
	}
	for n := range b {
		if _, err := decodeCachedJob(b[:n]); !errors.Is(err, errCache) {
			t.Errorf("the first %d of %d bytes: %v", n, len(b), err)
		}
	}
	fields := reflect.TypeFor[kernel.Job]().NumField()
	if fields%8 == 0 {
		return // every bit is of a field
	}
	bits := len(putStamp(nil, k.file)) + 1 + fields/8
	b[bits] |= 1 << 7
	if _, err := decodeCachedJob(b); !errors.Is(err, errCache) {
		t.Errorf("a field that there is not: %v", err)
	}
}

// No two lists of parts have the same key, also with zero bytes in them.
func TestKeysOfParts(t *testing.T) {
	if got := keyOf("n", "a\x00b", ""); got != "na\x00\x01b\x00\x00" {
		t.Errorf("%q", got)
	}
	seen := map[string][]string{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"a"}, {"a", "b"}, {"a\x00", "b"}, {"a\x00b"}, {"a", "\x00b"}, {"a\x00\x01b"}} {
		key := keyOf("n", parts...)
		if other, have := seen[key]; have {
			t.Errorf("%q and %q are %q", other, parts, key)
		}
		seen[key] = parts
	}
}

// A difference is the same for few and for many.
func TestDifferenceOfKeys(t *testing.T) {
	var a []string
	for n := range 40 {
		a = append(a, fmt.Sprint(n))
	}
	for n := range 40 {
		b := append(slices.Clone(a[:n]), "other")
		if got := difference(a, b); !slices.Equal(got, a[n:]) {
			t.Errorf("without the first %d: %v", n, got)
		}
	}
}

// A map in memory goes on when a run of keys is forgotten, or all of them.
func TestAMapInMemoryForgets(t *testing.T) {
	var m memtable
	model := map[string]string{}
	holds := func() {
		t.Helper()
		want := slices.Sorted(maps.Keys(model))
		for _, from := range []string{"", "k0511", "k0512", "k0600", "k0700", "z"} {
			var got []string
			for c := m.seek(from); c.key() != ""; {
				if string(c.value()) != model[c.key()] {
					t.Fatalf("%s is %q, want %q", c.key(), c.value(), model[c.key()])
				}
				got = append(got, c.key())
				if err := c.forward(); err != nil {
					t.Fatal(err)
				}
			}
			if i, _ := slices.BinarySearch(want, from); !slices.Equal(got, want[i:]) {
				t.Fatalf("from %q it has %d keys, want %d", from, len(got), len(want)-i)
			}
		}
	}
	put := func(n int) {
		key, v := fmt.Sprintf("k%04d", n), strings.Repeat("v", n%3)+"."
		model[key] = v
		m.put(keyValue{key, []byte(v)})
	}
	for n := range 3*maxChunk + 10 {
		put(n)
	}
	holds()
	forget := func(n int) { key := fmt.Sprintf("k%04d", n); delete(model, key); m.remove(key) }
	for n := maxChunk; n < 2*maxChunk; n++ { // a whole chunk
		forget(n)
	}
	holds()
	forget(maxChunk)
	put(maxChunk + 1)
	holds()
	for n := range 3*maxChunk + 10 {
		forget(n)
	}
	holds()
	put(7)
	holds()
}

// A file of a later format is told from one that is damaged.
func TestFormatsToCome(t *testing.T) {
	for version, newer := range map[string]bool{"2": true, "17": true, "0": false, "-3": false, "x": false, "": false} {
		if _, _, err := openEvidence([]byte(evidenceKind + version + "\nrest")); errors.Is(err, ErrNewer) != newer || !newer && !errors.Is(err, errEvidence) {
			t.Errorf("evidence %q: %v", version, err)
		} else if want := fmt.Sprintf("evidence format %s: %v", version, ErrNewer); newer && err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if _, _, err := parseHead([]byte(historyKind + version + "\nrest")); errors.Is(err, ErrNewer) != newer || !newer && !errors.Is(err, errSegment) {
			t.Errorf("history %q: %v", version, err)
		} else if want := fmt.Sprintf("history format %s: %v", version, ErrNewer); newer && err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	object := []byte("tree x\n")
	if got, want := objectName(object, 64), digest(sha256.Sum256([]byte("commit 7\x00tree x\n"))).String(); got != want {
		t.Errorf("a commit of SHA-256 is %s, want %s", got, want)
	}
	if got := objectName(object, 40); got != "2d16fbf751869445754e47e127029ab031429c20" { // as git hash-object -t commit --literally says
		t.Errorf("a commit of SHA-1 is %s", got)
	}
}
