package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// asked starts a program that waits, and returns its process, or the one that it names.
func asked(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	line := make([]byte, 20)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	return mustPID(t, strings.TrimSpace(string(line[:n]))).pid
}

// waits is a command that names its process, and waits until its input ends.
func waits(env ...string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", "echo $$; read -r line")
	cmd.Env = env
	return cmd
}

// Which job a process that sends a request belongs to is known by its environment, or by a runner above it. Of one that may belong to
// any it is said why.
func TestTheJobOfAnotherProcess(t *testing.T) {
	if above, whole := ancestry(os.Getpid()); !whole || above[len(above)-1].pid != 1 || os.Getuid() != 0 {
		t.Skip("the system does not show all that is above this process, or not everything of it")
	}
	w := setup(t)
	a := w.job.Attempt()
	none, sent := kernel.AttemptID{}, waits("PATH="+os.Getenv("PATH"))
	pid := asked(t, sent)
	check := func(what string, pid int, running []kernel.AttemptID, want kernel.AttemptID, why string, inside bool) {
		t.Helper()
		in, says, is := w.InsideJobOf(pid, running)
		if in != want || !strings.HasPrefix(says, why) || (says == "") != (why == "") || is != inside {
			t.Errorf("%s: %v, %q, %t", what, in, says, is)
		}
	}
	all := []kernel.AttemptID{a}
	check("in none", pid, nil, none, "", false)
	check("by its environment", asked(t, waits(envAttemptID+"="+label(a))), nil, a, "", true)
	script := filepath.Join(w.root, "__hooks")
	if err := os.WriteFile(script, []byte("env -i sh -c 'echo $$; read -r line' <&3\n:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hook := exec.Command("/bin/sh", "-c", `cd `+w.root+` && exec 3<&0 && exec /bin/sh __hooks`)
	hook.Env = []string{"PATH=" + os.Getenv("PATH")}
	check("below a hook", asked(t, hook), nil, none, besides, true)
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, why := range map[string]string{"vizier": besides, TopName: besides, "vizier-web": "", "sh": ""} {
		program := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(program, shell, 0o700); err != nil {
			t.Fatal(err)
		}
		command := exec.Command("/bin/sh", "-c", `exec 3<&0 && exec "$0" -c "env -i sh -c 'echo \$\$; read -r line' <&3; :"`, program)
		command.Env = []string{"PATH=" + os.Getenv("PATH")}
		check("below "+name, asked(t, command), nil, none, why, why != "")
	}
	if err := w.Claim(a); err != nil {
		t.Fatal(err)
	}
	check("below its runner", pid, all, a, "", true)
	c, err := readClaim(w.Files.ClaimFile(a))
	if err != nil {
		t.Fatal(err)
	}
	forged := func(change func(*claim)) {
		t.Helper()
		one := c
		one.PID = 1 << 30
		change(&one)
		w.forge(a, one)
	}
	forged(func(c *claim) { own := Self(); c.Child = &own })
	check("below its command", pid, all, a, "", true)
	forged(func(c *claim) { c.Identity = Identify(os.Getppid()) })
	if in, why, is := w.InsideJob(all); in != a || why != "" || !is {
		t.Errorf("left by a command to its runner: %v, %q, %t", in, why, is)
	}
	forged(func(c *claim) { c.Spaces.PID = "pid:[1]" })
	check("of a runner in another namespace", pid, all, a, "it is in another process namespace than the runner", true)
	forged(func(c *claim) { c.Start = 1 })
	check("adopted since a runner began that is gone", pid, all, a, orphaned, true)
	forged(func(c *claim) { c.Start = 1 << 62 })
	check("older than the runner", pid, all, none, "", false)
	forged(func(c *claim) { c.Start, c.Boot = 1, "another" })
	check("of a runner of before the boot", pid, all, none, "", false)
	inPlace(t, w.Files.ClaimFile(a))
	check("with a claim that cannot be read", pid, all, none, "", false)
	if err := os.WriteFile(w.Files.LostFile(), []byte(here().Boot+" 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("adopted since a runner was lost", pid, nil, none, sinceLost, true)
	inPlace(t, w.Files.LostFile())
	check("with lost runners that cannot be read", pid, nil, none, "what is noted of lost runners cannot be read: ", true)
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	check("gone", gone.Process.Pid, nil, none, "its environment cannot be read", true)
	if above, whole := ancestry(gone.Process.Pid); len(above) > 0 || whole {
		t.Errorf("above what is gone: %v, %t", above, whole)
	}
	if mayBeOrphan(nil, 1) {
		t.Error("nothing may be an orphan")
	}
}
