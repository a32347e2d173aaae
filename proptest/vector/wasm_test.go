//go:build !wasm

package vector

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/app/wire"
)

// The kernel in WebAssembly, under node, has the results of every vector, and for
// random snapshots, byte by byte, the results of the native kernel.
func TestInWebAssembly(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node, which runs WebAssembly: ", err)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	host := filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec_node.js")
	if _, err := os.Stat(host); err != nil {
		t.Skip("needs the files of Go for WebAssembly: ", err)
	}
	program := filepath.Join(t.TempDir(), "vector.wasm")
	build := exec.Command("go", "test", "-c", "-o", program, ".")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(in []byte, env string, args ...string) string {
		t.Helper()
		given := filepath.Join(t.TempDir(), "given")
		if err := os.WriteFile(given, in, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(given)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd := exec.Command(node, append([]string{"--stack-size=8192", host, program}, args...)...)
		var out, diagnostics bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = f, &out, &diagnostics
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), env} // wasm_exec limits the size of the environment
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s%s", cmd, err, out.String(), diagnostics.String())
		}
		return out.String()
	}
	if out := run(nil, "", "-test.v", "-test.run=^(TestVectors|TestNothingOfASnapshotIsLost)$"); strings.Count(out, "--- PASS") != 2 {
		t.Errorf("what ran: %s", out)
	}

	n := 300
	if os.Getenv("VIZIER_LONG") != "" {
		n = 1000
	}
	t.Logf("%d snapshots, of the seeds from 0 on", n)
	var in bytes.Buffer
	var want []string
	for _, g := range random(n) {
		in.Write(wire.Compact(g))
		want = append(want, string(wire.Compact(follow(g))))
	}
	got := strings.SplitAfter(run(in.Bytes(), answering+"=1"), "\n")
	if len(got) != n+1 || got[n] != "" {
		t.Fatalf("%d answers, want %d", len(got)-1, n)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("seed %d: in WebAssembly something else follows: %s", i, difference(lines(t, want[i]), lines(t, got[i])))
		}
	}
}

// lines formats a document that is on one line on several.
func lines(t *testing.T, doc string) []byte {
	t.Helper()
	v, err := wire.Parsed([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return wire.Written(v, "  ")
}
