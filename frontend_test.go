package vizier_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/disktest"
)

// TestAnotherFrontEnd compiles examples/frontend, a module of its own, and uses
// it: jobs run as its own processes, and nothing of the command line is needed.
func TestAnotherFrontEnd(t *testing.T) {
	program := filepath.Join(t.TempDir(), "frontend")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join("examples", "frontend")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	dir := disktest.Dir(t)
	run := func(name string, args ...string) string {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir, c.Env = dir, append(os.Environ(), "USER=ann", "HOME="+dir, "VIZIER_SCHEDULER_RESIDENT=false")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	becomes := func(job, status string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			got := run(program, "why", job)
			if strings.HasPrefix(got, job+" "+status) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("never %s: %s", status, got)
			}
		}
	}
	run("git", "init", "-q", "-b", "main")
	run("git", "-c", "user.name=ann", "-c", "user.email=ann@example.com", "commit", "-q", "--allow-empty", "-m", "first")

	job := run(program, "submit", "sh", "-c", "echo $VIZIER_JOB_ID >done")
	if got := run(program, "why", job); !strings.Contains(got, "waiting_on_approval") || !strings.Contains(got, "vizier jobs approve "+job) {
		t.Errorf("why: %s", got)
	}
	run(program, "approve", job)
	becomes(job, "succeeded")
	if got, err := os.ReadFile(filepath.Join(dir, "done")); err != nil || string(got) != job+"\n" {
		t.Errorf("the job wrote %q, %v", got, err)
	}

	if err := os.MkdirAll(filepath.Join(dir, ".vizier", "workflows"), 0o755); err != nil {
		t.Fatal(err)
	}
	template := "id = \"t\"\nversion = \"v1\"\n[params]\nword = \"x\"\n[[nodes]]\nid = \"say\"\nkind = \"shell\"\nuses = \"cap.env.shell.command.run\"\n" +
		"[nodes.args]\ncommand = \"echo ${word} >said\"\n"
	if err := os.WriteFile(filepath.Join(dir, ".vizier", "workflows", "t.toml"), []byte(template), 0o644); err != nil {
		t.Fatal(err)
	}
	flow := run(program, "run", "t", "word=hello")
	node := strings.Fields(run(program, "why", flow+"/say"))[0]
	becomes(node, "succeeded")
	if got, err := os.ReadFile(filepath.Join(dir, "said")); err != nil || string(got) != "hello\n" {
		t.Errorf("the node wrote %q, %v", got, err)
	}
}
