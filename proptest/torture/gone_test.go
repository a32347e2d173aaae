package torture

import (
	"os"
	"strconv"
	"testing"
)

// A runner whose repository is deleted does not stay behind for ever.
func TestARunnerEndsWithItsRepository(t *testing.T) {
	t.Parallel()
	r := newRepo(t, pairBin, "")
	job := r.submit("--", "sh", "-c", `echo "$VIZIER_ATTEMPT $$" >> held; sleep 1`)
	r.held(1)
	p, ok := r.runnerOf(job)
	if !ok {
		t.Fatal("no runner")
	}
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	until(t, "the runner is gone", func() bool { return !exists("/proc/" + strconv.Itoa(p.pid)) })
}
