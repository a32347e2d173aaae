package torture

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
)

// fillDisk leaves no free byte on the file system of dir, until undone.
func fillDisk(t *testing.T, dir string) (undo func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<16); len(block) > 0; block = block[:len(block)/2] {
		for err = nil; err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// On a full disk, a command fails with a message and changes nothing. A job that runs
// stays running until its end can be recorded, and is settled once there is room.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	dir := disktest.Small(t, 4<<20)
	r := repoAt(t, dir, plainBin, "[scheduler]\nmax_running = 2\n")
	running := r.submit("--", "sh", "-c", "echo > up; until test -e go; do sleep 0.02; done")
	until(t, "the job runs", func() bool { return exists(r.path("up")) })
	next := r.submit("--after", running, "--", "true")
	waiting := r.submit("--approval", "--", "sh", "-c", ": "+strings.Repeat("long ", 2000)) // it does not fit into the rest of an allocated block
	before := map[string]string{}
	for _, id := range []string{running, next, waiting} {
		before[id] = r.read(r.jobPath(id, "job.json"))
	}
	r.git("update-index", "-q", "--refresh") // so that git's own files exist
	undo := fillDisk(t, dir)
	res := r.exits(1, "jobs", "submit", "--", "sh", "-c", ": "+strings.Repeat("long ", 5000))
	if !strings.Contains(res.err, "no space left on device") {
		t.Errorf("submit on a full disk says %q", res.err)
	}
	r.exits(1, "jobs", "approve", waiting)
	r.ok("jobs", "list", "--all")
	for id, text := range before {
		if now := r.read(r.jobPath(id, "job.json")); now != text {
			t.Errorf("the record of %s changed on a full disk:\n%s", id, now)
		}
	}
	if err := os.Rename(r.path("up"), r.path("go")); err != nil {
		t.Fatal(err)
	}
	until(t, "the command has ended", func() bool { return commandEnded(r, running) })
	r.is(running, "running", "")
	undo()
	r.ok("jobs", "approve", waiting)
	if code := r.wait(running, next, waiting); code != 0 {
		t.Errorf("jobs wait: exit %d", code)
	}
	if all := r.records(); len(all) != 3 {
		t.Errorf("%d jobs, want 3", len(all))
	}
	r.coherent()
}

// commandEnded reports whether a job has no process but its runner.
func commandEnded(r *repo, id string) bool {
	for _, p := range r.processes() {
		if p.runner == "" && strings.HasPrefix(p.job, id+"/") {
			return false
		}
	}
	return true
}

// In a read-only repository all reading commands work, and writing ones are
// refused with the reason.
func TestAReadOnlyRepository(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to become somebody else")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("needs setpriv")
	}
	dir, err := os.MkdirTemp("", "vizier-readonly-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := repoAt(t, dir, plainBin, "")
	r.env = []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}
	job := r.submit("--approval", "--", "true")
	ended := r.submit("--", "true")
	r.wait(ended)
	r.noneLeft() // running jobs write files
	before := r.read(r.jobPath(job, "job.json"))
	const nobody = 65534
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Type() == 0 {
			err = os.Chmod(path, 0o400)
		} else if err == nil && info.IsDir() {
			err = os.Chmod(path, 0o500)
		}
		return errors.Join(err, os.Lchown(path, nobody, nobody))
	})
	if err != nil {
		t.Fatal(err)
	}
	asNobody := func(args ...string) result {
		cmd := r.command()
		cmd.Path, _ = exec.LookPath("setpriv")
		cmd.Args = append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", r.bin}, args...)
		return r.finish(cmd)
	}
	for _, args := range [][]string{{"jobs", "list", "--all"}, {"jobs", "show", job}, {"jobs", "why", job}, {"jobs", "schedule"}} {
		if res := asNobody(args...); res.code != 0 || !r.tells(res.out, job) {
			t.Errorf("%v: exit %d\n%s%s", args, res.code, res.out, res.err)
		}
	}
	if res := asNobody("wait", ended); res.code != 0 {
		t.Errorf("wait for what has ended: exit %d\n%s%s", res.code, res.out, res.err)
	}
	if res := asNobody("doctor"); res.code != 1 || !strings.Contains(res.out, "it can be read and not written") {
		t.Errorf("doctor: exit %d\n%s%s", res.code, res.out, res.err)
	}
	for _, args := range [][]string{{"jobs", "submit", "--", "true"}, {"jobs", "approve", job}, {"jobs", "cancel", job}, {"jobs", "gc"}} {
		if res := asNobody(args...); res.code != 1 || !strings.Contains(res.err, "permission denied") {
			t.Errorf("%v: exit %d\n%s%s", args, res.code, res.out, res.err)
		}
	}
	if r.read(r.jobPath(job, "job.json")) != before {
		t.Error("the record changed")
	}
}

// All output of a job is kept, byte by byte.
func TestOutputOfAnyKind(t *testing.T) {
	t.Parallel()
	r := newRepo(t, pairBin, "")
	huge := r.submit("--", "sh", "-c", "yes 0123456789abcde | head -c 67108864; head -c 1048576 /dev/zero >&2")
	binary := r.submit("--", "sh", "-c", `printf '\000\001\377\376\033[2J\r\n\303\050'; printf 'no end' >&2`)
	if code := r.wait(huge, binary); code != 0 {
		t.Errorf("jobs wait: exit %d", code)
	}
	for stream, size := range map[string]int64{"stdout.log": 64 << 20, "stderr.log": 1 << 20} {
		if info, err := os.Stat(r.jobPath(huge, stream)); err != nil || info.Size() != size {
			t.Errorf("%s: %v, want %d bytes (%v)", stream, info.Size(), size, err)
		}
	}
	const want = "\x00\x01\xff\xfe\x1b[2J\r\n\xc3("
	if out := r.ok("jobs", "tail", "--stream", "stdout", binary); out != want {
		t.Errorf("tail: %q, want %q", out, want)
	}
	cmd := r.command("jobs", "attach", huge)
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	n, _ := io.Copy(io.Discard, pipe)
	if err := cmd.Wait(); err != nil || n < 65<<20 {
		t.Errorf("attach printed %d bytes, %v", n, err)
	}
	r.coherent()
}

// A batch of thousands of jobs is one transaction: if it is refused, no job is
// enqueued.
func TestAHugeBatch(t *testing.T) {
	t.Parallel()
	n := 1000
	if long {
		n = 10_000
	}
	r := newRepo(t, pairBin, "[store]\ndurability = \"relaxed\"\n")
	gate := r.submit("--approval", "--", "true")
	var b strings.Builder
	for i := range n {
		b.WriteString(`{"command": ["true"], "after": ["` + gate + `"], "ref": "` + strings.Repeat("r", 1+i%3) + strings.Repeat("0", i%7) + `-` + strconv.Itoa(i) + `"}` + "\n")
	}
	lines := strings.SplitAfter(b.String(), "\n")
	wrong := append([]string{}, lines...)
	wrong[6] = `{"command": ["true"], "lock": [7]}` + "\n"
	res := r.runWith(strings.Join(wrong, ""), "jobs", "submit", "--batch")
	if res.code != 2 || !strings.Contains(res.err, "line 7: lock: expected") || res.out != "" {
		t.Errorf("a batch with an error in line 7: exit %d, %q\n%s", res.code, res.out, res.err)
	}
	if all := r.records(); len(all) != 1 {
		t.Fatalf("it left %d records", len(all)-1)
	}
	res = r.runWith(b.String(), "jobs", "submit", "--batch")
	made := strings.Fields(res.out)
	if res.code != 0 || len(made) != n {
		t.Fatalf("exit %d, %d jobs\n%s", res.code, len(made), res.err)
	}
	r.ok("jobs", "reject", gate, "--reason", "enough")
	blocked := 0
	for _, rec := range r.records() {
		if rec.Status == "blocked_by_dependency" {
			blocked++
		}
	}
	if blocked != n {
		t.Errorf("%d of %d jobs are blocked by the rejection", blocked, n)
	}
	r.noneLeft()
}
