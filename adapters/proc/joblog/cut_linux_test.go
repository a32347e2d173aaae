//go:build !portable

package joblog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log that cannot be cut stays as it is, and nobody tries that again; where no room is known of, there is some.
func TestALogThatCannotBeCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	text := strings.Repeat("a line\n", 1<<15)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if left, err := Cap(f, 1<<10); left != int64(len(text)) || err == nil {
		t.Errorf("%d bytes are left, %v", left, err)
	}
	if err := drop(f, 1<<12); err == nil || !strings.HasPrefix(err.Error(), "cut log "+path+": ") {
		t.Errorf("%v", err)
	}
	if got, err := os.ReadFile(path); string(got) != text || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	shut, err := os.Open(path)
	if err == nil {
		err = shut.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if size, err := blockSize(shut); size != 0 || err == nil || !strings.HasPrefix(err.Error(), "log "+path+": ") {
		t.Errorf("%d, %v", size, err)
	}
	if left, err := Cap(shut, 1); left != 0 || err == nil {
		t.Errorf("%d, %v", left, err)
	}
	for name, b := range map[string]*boundedLog{"shut": {log: shut}, "given up": {log: f, off: true}} {
		if left, grew := b.bound(1); left != 0 || grew != 0 {
			t.Errorf("%s: %d, %d", name, left, grew)
		}
	}
	if noRoom(shut) || noRoom(f) {
		t.Error("there is no room")
	}
	o := &order{path: filepath.Join(path, "order")}
	if o.write([]Growth{{}}); !o.off || o.out != nil {
		t.Error("an order that cannot be written is written on")
	}
}
