package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The resident scheduler, the hooks and senders are started in a session of their own, each from its program, and are known for what they are.
func TestServicesAreStarted(t *testing.T) {
	dir := t.TempDir()
	said := filepath.Join(dir, "said")
	lock := filepath.Join(dir, "lock")
	if err := os.WriteFile(lock, []byte("the lock"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	own, other := "/bin/sh", filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("#!/bin/sh\nexec sh -c \"$2\" \"other of $3\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	told := fmt.Sprintf(`read -r _ _ _ _ _ session _ </proc/$$/stat; [ $session = $$ ] && own=own || own=no; lock=$(cat <&3 2>/dev/null); echo "$0 $* $VIZIER_RUNNER $own session $lock" >%[1]s.new; mv %[1]s.new %[1]s`, said)
	for name, c := range map[string]struct {
		start func(l *Local) error
		want  string
		fails string
	}{
		"resident":         {func(l *Local) error { return l.StartResident(f) }, "__resident  resident own session the lock", "start the resident scheduler: start /no/such/program"},
		"another resident": {func(l *Local) error { l.ResidentExe = other; return l.StartResident(f) }, "other of __resident  resident own session the lock", ""},
		"hooks":            {(*Local).StartHooks, "__hooks  hooks own session ", "start the hooks: start /no/such/program"},
		"hooks of another": {func(l *Local) error { l.HooksExe = other; return l.StartHooks() }, "other of __hooks  hooks own session ", ""},
		"a sender":         {func(l *Local) error { return l.StartSender("slurm") }, "__send slurm send own session ", "start a sender: start /no/such/program"},
	} {
		_ = os.Remove(said)
		if _, err := f.Seek(0, 0); err != nil {
			t.Fatal(err)
		}
		l := &Local{Exe: own, ExeArgs: []string{"-c", told}, Root: dir}
		if err := c.start(l); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []byte
		for end := time.Now().Add(time.Minute); got == nil; time.Sleep(time.Millisecond) {
			if got, err = os.ReadFile(said); err != nil && time.Now().After(end) {
				t.Fatalf("%s: it does nothing", name)
			}
		}
		if string(got) != c.want+"\n" {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if c.fails != "" {
			l.Exe = "/no/such/program"
			if err := c.start(l); err == nil || !strings.HasPrefix(err.Error(), c.fails) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// The environment that a process was started with tells a variable of it. Of a process that is gone it tells nothing.
func TestAVariableOfAProcess(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "echo && read -r line")
	cmd.Env = []string{"AA=wrong", "A=right=", "B="}
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
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it has executed the shell
		t.Fatal(err)
	}
	for name, want := range map[string]string{"A": "right=", "B": "", "C": ""} {
		if got, err := variableOf(cmd.Process.Pid, name); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	_ = in.Close()
	_ = cmd.Wait()
	if got, err := variableOf(cmd.Process.Pid, "A"); err == nil {
		t.Errorf("it is gone: %q", got)
	}
}
