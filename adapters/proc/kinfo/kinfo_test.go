package kinfo

import (
	"encoding/binary"
	"reflect"
	"testing"
)

// entry returns one of a table as the system lays it out.
func entry(pid, parent, session int32, sec, micros uint64, state byte) []byte {
	b := make([]byte, 1088)
	put := func(at int, n int32) { binary.LittleEndian.PutUint32(b[at:], uint32(n)) }
	put(0, 1088)
	put(72, pid)
	put(76, parent)
	put(80, 9999) // its group
	put(84, 9999)
	put(88, session)
	binary.LittleEndian.PutUint64(b[336:], sec)
	binary.LittleEndian.PutUint64(b[344:], micros)
	b[388] = state
	return b
}

func TestFreeBSD(t *testing.T) {
	table := append(entry(70, 1, 60, 1_700_000_000, 250_000, 3), entry(71, 70, 71, 1_700_000_001, 0, 5)...)
	table = append(table, entry(72, 70, 72, 1_700_000_002, 0, 4)...)
	want := []Process{{70, 1, 60, 1_700_000_000_250_000, false, false}, {71, 70, 71, 1_700_000_001_000_000, true, false}, {72, 70, 72, 1_700_000_002_000_000, false, true}}
	if got := FreeBSD(table); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := FreeBSD(append(table, 1, 2, 3)); len(got) != 3 {
		t.Errorf("with a rest: %+v", got)
	}
	other := entry(72, 1, 1, 0, 0, 3)
	other[0]++
	if got := FreeBSD(append(table, other...)); len(got) != 3 {
		t.Errorf("of another layout: %+v", got)
	}
	if got := FreeBSD(nil); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestArgs(t *testing.T) {
	for name, c := range map[string]struct{ in, program, environ string }{
		"usual":                {"\x02\x00\x00\x00/bin/a\x00\x00\x00\x00a\x00-x\x00A=1\x00B=\x00\x00ptr_munge=\x00", "/bin/a", "A=1\x00B=\x00"},
		"to the end":           {"\x01\x00\x00\x00/bin/a\x00a\x00A=1\x00", "/bin/a", "A=1\x00"},
		"an empty argument":    {"\x03\x00\x00\x00/bin/a\x00a\x00\x00-x\x00A=1\x00\x00", "/bin/a", "A=1\x00"},
		"hidden":               {"\x01\x00\x00\x00/bin/a\x00a\x00", "/bin/a", ""},
		"hidden, with a rest":  {"\x01\x00\x00\x00/bin/a\x00a\x00\x00ptr_munge=\x00", "/bin/a", ""},
		"fewer than it says":   {"\x09\x00\x00\x00/bin/a\x00a\x00", "/bin/a", ""},
		"more than could be":   {"\xff\xff\xff\x7f/bin/a\x00a\x00", "/bin/a", ""},
		"fewer than none":      {"\xff\xff\xff\xff/bin/a\x00A=1\x00", "/bin/a", "A=1\x00"},
		"no end of the path":   {"\x01\x00\x00\x00/bin/a", "", ""},
		"too short":            {"\x01\x00", "", ""},
		"nothing":              {"", "", ""},
		"the path and no more": {"\x01\x00\x00\x00/bin/a\x00", "/bin/a", ""},
	} {
		program, environ := Args([]byte(c.in))
		if program != c.program || string(environ) != c.environ {
			t.Errorf("%s: %q %q", name, program, environ)
		}
	}
}
