package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sshServer is an ssh server on this machine, with a port and keys of its own. Every
// host in its client's configuration is this machine; nothing answers for the host away.
type sshServer struct {
	dir string
	cmd *exec.Cmd
}

const sshd = "/usr/sbin/sshd" // it insists on being called by its path

// newSSHServer starts a server with its files in dir. It returns nil if there is no sshd.
func newSSHServer(dir string) (*sshServer, error) {
	if _, err := os.Stat(sshd); err != nil {
		return nil, nil //nolint:nilnil,nilerr // tests skip then
	}
	s := &sshServer{dir: dir}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	_ = os.Mkdir("/run/sshd", 0o755) // as sshd's service does; not needed without root
	for _, name := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	files := map[string]string{
		"sshd_config": fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %[2]s/host\nAuthorizedKeysFile %[2]s/user.pub\nPidFile none\nStrictModes no\nUsePAM no\n"+
			"Subsystem sftp internal-sftp\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 100\nMaxSessions 100\n"+
			"SetEnv SHLVL=1\n", port, dir), // so that bash reads nobody's .bashrc, which may take a second
		"config": fmt.Sprintf("Host a b\n  HostName 127.0.0.1\n  Port %d\nHost away\n  HostName 127.0.0.1\n  Port 1\nHost *\n  IdentityFile %[2]s/user\n  IdentitiesOnly yes\n"+
			"  UserKnownHostsFile %[2]s/known\n  StrictHostKeyChecking no\n  LogLevel ERROR\n"+
			"  ControlMaster auto\n  ControlPath %[2]s/%%C\n  ControlPersist 1m\n", port, dir),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return s, s.start()
}

func (s *sshServer) start() error {
	s.cmd = exec.Command(sshd, "-D", "-f", filepath.Join(s.dir, "sshd_config"), "-E", filepath.Join(s.dir, "log"))
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	var out []byte
	var err error
	for range 100 {
		if out, err = exec.Command("ssh", "-F", filepath.Join(s.dir, "config"), "-o", "BatchMode=yes", "a", "true").CombinedOutput(); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return errors.Join(fmt.Errorf("no ssh to this machine: %w: %s\n%s", err, out, log), s.stop())
}

// stop ends the server and its connections.
func (s *sshServer) stop() error {
	for _, host := range []string{"a", "b"} {
		_ = exec.Command("ssh", "-F", filepath.Join(s.dir, "config"), "-O", "exit", host).Run() // there may be no connection
	}
	pid := s.cmd.Process.Pid
	_ = syscall.Kill(pid, syscall.SIGSTOP) // so that it accepts no more connections
	connected := childrenOf(pid)
	err := syscall.Kill(-pid, syscall.SIGKILL)
	for _, c := range connected { // each is in a process group of its own
		_ = syscall.Kill(c, syscall.SIGKILL)
	}
	_ = s.cmd.Wait()
	return err
}

// childrenOf returns the processes that pid started.
func childrenOf(pid int) (children []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		b, _ := os.ReadFile(path)
		_, rest, _ := strings.Cut(string(b), ") ") // the name before it may have spaces
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			children = append(children, child)
		}
	}
	return children
}

// needsHosts skips the test where there is no ssh server.
func needsHosts(t *testing.T) {
	t.Helper()
	if server == nil {
		t.Skip("no " + sshd + " here: apt-get install openssh-server")
	}
}

// engines returns the configuration of the executors with other engines than Slurm's: the
// same Slurm cluster by the user's commands, and hosts by ssh.
func engines(examples, ssh string) string {
	return fmt.Sprintf(`
[executors.own]
kind = "command"
submit = ["%[1]s/submit.sh"]
list = ["%[1]s/list.sh"]
cancel = ["%[1]s/cancel.sh"]
timeout = "40s"
poll = "500ms"
lease = "5s"

[executors.few]
kind = "ssh"
hosts = ["a", "b:2"]
ssh = ["ssh", "-F", "%[2]s/config"]
timeout = "40s"
poll = "500ms"
lease = "5s"

[executors.fewpacked]
kind = "ssh"
hosts = ["a", "away"]
ssh = ["ssh", "-F", "%[2]s/config"]
cpus = 4
pack = "auto"
timeout = "40s"
poll = "500ms"
lease = "5s"
`, examples, ssh)
}

// needs skips the test if this machine lacks what an executor needs.
func needs(t *testing.T, executor string) {
	t.Helper()
	if strings.HasPrefix(executor, "few") {
		needsHosts(t)
	}
	if _, err := exec.LookPath("jq"); executor == "own" && err != nil {
		t.Skip("no jq here, which the shipped commands for Slurm need: apt-get install jq")
	}
}
