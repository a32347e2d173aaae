package bench

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// peer is another program that runs $N commands: what prepares that, such as a file of
// rules, and what somebody types to run them until they have ended.
type peer struct{ tool, prepare, script string }

//nolint:gochecknoglobals // constants
var (
	// Two at a time.
	spooler = peer{"tsp", `tsp -S 2`, `for i in $(seq $N); do tsp true; done; tsp -w $((N-2)); tsp -w $((N-1))`}
	doit    = peer{"doit", `echo 'def task_j():
    for i in range('$N'):
        yield {"name": str(i), "actions": [["true"]]}' >dodo.py`, `doit -n 2`}
	// Its record of a task is the file that the task makes; true is no program for it.
	goTask = peer{"task", `mkdir out
{ echo 'version: "3"'; echo 'tasks:'; echo '  default: {deps: ['$(seq -f n%.0f -s , $N)']}'
for i in $(seq $N); do echo "  n$i: {status: [test -f out/n$i], cmds: [touch out/n$i]}"; done; } >Taskfile.yml`, `task -C 2 -s`}

	// One after the other.
	spoolerChain = peer{"tsp", `tsp -S 2`, `tsp true; for i in $(seq $((N-1))); do tsp -D $((i-1)) true; done; tsp -w $((N-1))`}
	nqChain      = peer{"nq", ``, `for i in $(seq $N); do nq -q true; done; nq -w`}
	ninjaChain   = peer{"ninja", `{ echo 'rule touch'; echo '  command = touch $out'; echo 'build 0: touch'
for i in $(seq $((N-1))); do echo "build $i: touch $((i-1))"; done; } >build.ninja`, `ninja -j 2`}
)

// run returns how long n commands take, or 0 if the program is not installed.
func (p peer) run(b testing.TB, n int) time.Duration {
	b.Helper()
	if _, err := exec.LookPath(p.tool); err != nil {
		b.Logf("%s is not installed: there is no x-%s", p.tool, p.tool)
		return 0
	}
	dir, err := os.MkdirTemp(scratch, p.tool)
	if err != nil {
		b.Fatal(err)
	}
	sh := func(script string) time.Duration {
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), fmt.Sprintf("N=%d", n), "TMPDIR="+dir, "TS_SOCKET="+dir+"/socket", "NQDIR="+dir)
		return costOf(b, cmd).took
	}
	if p.tool == "tsp" {
		defer sh("tsp -K")
	}
	sh(p.prepare)
	return sh(p.script)
}
