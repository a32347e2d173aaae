package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The test binary is the step, and what runs in the sandbox.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Entry {
		os.Exit(Serve(os.Args[2:], os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "reach" {
		reach(os.Args[2:])
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "limit" {
		limit(os.Args[2])
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "enforcement" {
		if len(os.Args) > 2 { // the limit is that of this user namespace
			_ = os.WriteFile("/proc/sys/user/max_net_namespaces", []byte("0"), 0)
		}
		fmt.Printf("%d %s; %s\n", os.Geteuid(), This().Enforcement().Network, Words(kernel.Sandbox{Network: kernel.NoNetwork}))
		out, err := runPolicy(Policy{Required: true, Offline: true}, os.Environ(), "grep", "-E", "^(Uid|Gid|CapAmb):", "/proc/self/status")
		fmt.Println(strings.Join(strings.Fields(out), " "))
		if err != nil {
			fmt.Println(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// reach tries each NETWORK=ADDRESS, and says for which it was answered.
func reach(targets []string) {
	for _, t := range targets {
		network, address, _ := strings.Cut(t, "=")
		c, err := net.DialTimeout(network, address, time.Second)
		if err == nil && network == "udp" {
			_ = c.SetDeadline(time.Now().Add(time.Second))
			if _, err = c.Write([]byte("x")); err == nil {
				_, err = c.Read(make([]byte, 1))
			}
		}
		fmt.Println(network, err == nil)
	}
}

func run(t *testing.T, p Policy, program string, args ...string) string {
	t.Helper()
	return runWith(t, p, os.Environ(), program, args...)
}

func runWith(t *testing.T, p Policy, env []string, program string, args ...string) string {
	t.Helper()
	out, err := runPolicy(p, env, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// runPolicy returns what a program prints, and how it failed.
func runPolicy(p Policy, env []string, program string, args ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if program, err = exec.LookPath(program); err != nil {
		return "", err
	}
	cmd := exec.Command(self)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	step := p.Wrap([]string{self}, Command{program, append([]string{program}, args...), env}, cmd.SysProcAttr)
	for _, v := range step.Env {
		if strings.HasPrefix(v, "LD_") || strings.HasPrefix(v, "GODEBUG=") {
			return "", fmt.Errorf("the step itself has %s", v)
		}
	}
	cmd.Path, cmd.Args, cmd.Env = step.Path, step.Args, step.Env
	out, err := cmd.CombinedOutput()
	if err != nil {
		out = fmt.Appendf(out, "%v", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func enforced(t *testing.T) {
	t.Helper()
	if why := This().Enforcement().Files; why != "" {
		t.Skip(why)
	}
}

// Files below a path can be written to, except for guarded ones and the targets
// of links; files beside it cannot.
func TestWhatASandboxOpens(t *testing.T) {
	enforced(t)
	dir, elsewhere := t.TempDir(), t.TempDir()
	for _, d := range []string{"a/b", "a/guarded/c", "plain"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, "a", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "file"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := Policy{Required: true, Write: []string{filepath.Join(dir, "a"), filepath.Join(dir, "plain"), filepath.Join(dir, "missing")}, Guarded: []string{filepath.Join(dir, "a", "guarded")}}
	for path, want := range map[string]bool{
		"a/b/new": true, "a/file": true, "plain/new": true,
		"a/new": false, "a/guarded/new": false, "a/guarded/c/new": false, "a/link/new": false, "beside": false, "missing": false,
	} {
		got := run(t, p, "sh", "-c", `echo x >"$1" && echo done`, "sh", filepath.Join(dir, path)) == "done"
		if got != want {
			t.Errorf("%s is written to: %v", path, got)
		}
	}
	if got := run(t, p, "sh", "-c", `cat "$1" && mv "$2"/b/new "$2"/b/moved && rm "$2"/b/moved && ln -s x "$2"/b/l && echo x >/dev/null && echo done`, "sh", "/etc/hostname", filepath.Join(dir, "a")); !strings.HasSuffix(got, "done") {
		t.Errorf("reading, moving, removing, linking: %s", got)
	}
}

// What cannot be resolved is an error: a command that may write nothing there would fail without a reason.
func TestALoopOfLinksInASandboxIsAnError(t *testing.T) {
	enforced(t)
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	if got := run(t, Policy{Required: true, Write: []string{dir, loop}}, "echo", "it runs"); strings.Contains(got, "it runs") || !strings.Contains(got, loop) {
		t.Error(got)
	}
}

// named returns the paths of files that are open, by their descriptors.
func named(t *testing.T, fds []string) (out []string) {
	for _, fd := range fds {
		path, err := os.Readlink(fd)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, path)
	}
	return out
}

// What a sandbox opens is known before it is entered. A path that cannot be looked at is an error, and so is a step that cannot be taken.
func TestTheStepIntoASandbox(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"a/open", "a/guarded/in", "b"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("b", filepath.Join(dir, "a", "link")), os.WriteFile(filepath.Join(dir, "a", "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	p := Policy{Write: []string{filepath.Join(dir, "none"), filepath.Join(dir, "a"), filepath.Join(dir, "b")}, Guarded: []string{filepath.Join(dir, "a", "guarded")}}
	files, dirs, err := p.paths()
	if got, want := named(t, files), []string{filepath.Join(dir, "a/file")}; !slices.Equal(got, want) || err != nil {
		t.Errorf("files %q, %v", got, err)
	}
	if got, want := named(t, dirs), []string{filepath.Join(dir, "a/open"), filepath.Join(dir, "b")}; !slices.Equal(got, want) {
		t.Errorf("directories %q", got)
	}
	for _, link := range []string{"a/link", "a/link/none"} {
		p.Write = []string{filepath.Join(dir, link)}
		if files, dirs, err := p.paths(); !errors.Is(err, errLink) {
			t.Errorf("%s: %q, %q, %v", link, files, dirs, err)
		}
	}
	long := filepath.Join(dir, strings.Repeat("x", 300))
	p.Write = []string{long}
	if _, _, err := p.paths(); !errors.Is(err, syscall.ENAMETOOLONG) || !strings.HasPrefix(err.Error(), long+": ") {
		t.Errorf("a long path: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for says, args := range map[string][]string{
		"expected a policy, a program and its arguments: Vizier starts this, nobody else": {"{}", "/bin/true"},
		"unexpected end of JSON input":                               {"{", "/bin/true", "true"},
		"cannot execute /no/such/program: no such file or directory": {"{}", "/no/such/program", "another"},
	} {
		out, err := exec.Command(self, append([]string{Entry}, args...)...).CombinedOutput()
		if got, _, _ := strings.Cut(string(out), "\n"); got != "vizier sandbox: "+says {
			t.Errorf("%q: %q", args, out)
		}
		if exit, is := errors.AsType[*exec.ExitError](err); !is || exit.ExitCode() != 126 {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// A file that is linked to from where a sandbox may write stays as it is.
func TestNoLinkLeadsOutOfASandbox(t *testing.T) {
	enforced(t)
	dir := t.TempDir()
	record := filepath.Join(dir, "guarded", "record")
	for _, d := range []string{"open", "guarded"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(record, []byte("as it was"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{`ln "$1" x`, `ln -s "$1" x`, `mv "$1" x`, `mkdir d; mount --bind "$1" d; exit 1`, `unshare -Urm sh -c "touch x && mount --bind $1 x && echo forged >x"; exit 1`} {
		got := run(t, Policy{Required: true, Write: []string{filepath.Join(dir, "open")}}, "sh", "-c", `cd "$2" && { `+link+`; } 2>/dev/null && echo forged >x`, "sh", record, filepath.Join(dir, "open"))
		if text, _ := os.ReadFile(record); string(text) != "as it was" {
			t.Errorf("%s: %q, %s", link, text, got)
		}
		_ = os.Remove(filepath.Join(dir, "open", "x"))
	}
}

// A library that a job's variables make the dynamic linker load is loaded into
// the command, and not into the step before it.
func TestTheStepHasNoneOfTheCommandsVariables(t *testing.T) {
	enforced(t)
	got := runWith(t, Policy{Required: true}, []string{"LD_PRELOAD_X=/x.so", "GODEBUG=x", "_A=b", "EMPTY="}, "env")
	if want := "LD_PRELOAD_X=/x.so\nGODEBUG=x\n_A=b\nEMPTY="; got != want {
		t.Errorf("the command has %q", got)
	}
}

// A process outside is out of reach, one's own children are not.
func TestSignalsInASandbox(t *testing.T) {
	enforced(t)
	got := run(t, Policy{Required: true}, "sh", "-c", `kill -0 `+strconv.Itoa(os.Getpid())+` 2>/dev/null; echo $?; sleep 60 & kill $! && echo own`)
	if got != "1\nown" {
		t.Errorf("%q", got)
	}
}

// servers returns one of each kind that answers, as targets of reach.
func servers(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, l := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", fmt.Sprintf("@vizier-sandbox-%d", os.Getpid())}} {
		s, err := net.Listen(l[0], l[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		out = append(out, l[0]+"="+s.Addr().String())
	}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Close() })
	go func() {
		for b := make([]byte, 1); ; {
			_, from, err := u.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = u.WriteTo(b, from)
		}
	}()
	return append(out, "udp="+u.LocalAddr().String())
}

func TestNetworkOfASandbox(t *testing.T) {
	enforced(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	targets := append([]string{"reach"}, servers(t)...)
	if got := run(t, Policy{Required: true}, self, targets...); got != "tcp true\nunix false\nudp true" {
		t.Errorf("with a network: %q", got)
	}
	if why := This().Enforcement().Network; why == "" {
		if got := run(t, Policy{Required: true, Offline: true}, self, targets...); got != "tcp false\nunix false\nudp false" {
			t.Errorf("without one: %q", got)
		}
	} else {
		t.Log(why)
	}
	// Where no namespace can be made TCP alone is stopped, and nobody calls it more.
	alone := Policy{Offline: true, Write: []string{t.TempDir()}}
	text := fmt.Sprintf(`{"Offline":true,"Write":[%q]}`, alone.Write[0])
	out, err := exec.Command(self, append([]string{Entry, text, self, self}, targets...)...).CombinedOutput()
	if got := strings.TrimSpace(string(out)); got != "tcp false\nunix false\nudp true" {
		t.Errorf("by Landlock alone: %q, %v", got, err)
	}
	out, _ = exec.Command(self, append([]string{Entry, `{"Required":true,"Offline":true}`, self, self}, targets...)...).CombinedOutput()
	if !strings.Contains(string(out), noNamespace) {
		t.Errorf("what is required and cannot be: %q", out)
	}
}

// Without root, a command reaches no network either if the host allows user
// namespaces. If it does not, a required sandbox does not start, and neither
// does root's.
func TestNetworkOfOthersThanRoot(t *testing.T) {
	enforced(t)
	if why := This().Enforcement().Network; why != "" {
		t.Skip(why)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	as := func(id int, args ...string) string {
		cmd := exec.Command(self, append([]string{"enforcement"}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: id, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: id, HostID: os.Getgid(), Size: 1}}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Skipf("this host makes no user namespaces: %v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	files := This().words() + "; "
	if got, want := as(1000), "1000 ; "+files+"no network (namespace)\nUid: 1000 1000 1000 1000 Gid: 1000 1000 1000 1000 CapAmb: 0000000000000000"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := as(0, "none"), "0 "+noNamespace+"; "+files+"no TCP (Landlock); other protocols are open\nvizier sandbox: "+noNamespace; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The network is said to be kept from commands where that can be done, and only there.
func TestWhetherTheNetworkCanBeIsolated(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "true")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	isolateNetwork(cmd.SysProcAttr)
	if err := cmd.Run(); canIsolateNetwork() != (err == nil) {
		t.Errorf("it is said to be possible: %v; tried: %v", canIsolateNetwork(), err)
	}
}

func TestWhatAHostLacks(t *testing.T) {
	for abi, want := range map[int]string{0: "this host's kernel has no Landlock, or it is switched off", 5: "this host's kernel has Landlock 5, and it takes 6", 6: "", 9: ""} {
		if got := (Host{ABI: abi}).lacks(); got != want {
			t.Errorf("%d: %q", abi, got)
		}
	}
	for abi, want := range map[int]string{0: "no files: no Landlock", 1: "no files: Landlock 1 would stop moves within the working tree", 2: "files, but for cutting them off (Landlock 2)",
		3: "files (Landlock 3)", 6: "files, signals, abstract sockets (Landlock 6)"} {
		if got := (Host{ABI: abi}).files(); got != want {
			t.Errorf("%d: %q", abi, got)
		}
	}
	for abi, want := range map[int]string{0: "the network is open", 3: "the network is open", 4: "no TCP (Landlock); other protocols are open", 9: "no TCP (Landlock); other protocols are open"} {
		if got := (Host{ABI: abi}).offline(false); got != want {
			t.Errorf("%d: %q", abi, got)
		}
		if got := (Host{ABI: abi}).offline(true); got != "no network (namespace)" {
			t.Errorf("%d: %q", abi, got)
		}
	}
	for h, want := range map[Host][2]string{
		{ABI: 7}:               {"", "files, signals, abstract sockets (Landlock 7), limits of other processes (seccomp)"},
		{ABI: 7, Limits: "no"}: {"no", "files, signals, abstract sockets (Landlock 7); limits of other processes are open"},
		{ABI: 5, Limits: "no"}: {(Host{ABI: 5}).lacks(), "files (Landlock 5); limits of other processes are open"},
		{Limits: "no"}:         {(Host{}).lacks(), "no files: no Landlock; limits of other processes are open"},
	} {
		if got := [2]string{h.lacks(), h.words()}; got != want {
			t.Errorf("%+v: %q", h, got)
		}
	}
	none := errors.New("none")
	for _, c := range []struct {
		abi, errata   int
		none, unknown error
		want          int
	}{
		{7, 3, none, none, 0}, {5, 0, nil, none, 5}, {5, 0, nil, nil, 5}, {6, 0, nil, nil, 5}, {6, 1, nil, nil, 5}, {6, 2, nil, none, 5}, {6, 2, nil, nil, 6}, {7, 7, nil, nil, 7}, {7, 5, nil, nil, 5},
	} {
		if got := abiOf(c.abi, c.none, c.errata, c.unknown); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	for _, c := range []struct {
		p    Policy
		abi  int
		want string
	}{
		{Policy{}, 0, ""}, {Policy{Offline: true}, 0, ""}, {Policy{Required: true}, 6, ""}, {Policy{Required: true}, 5, (Host{ABI: 5}).lacks()},
		{Policy{Required: true, Offline: true}, 6, noNamespace}, {Policy{Required: true, Offline: true, Apart: true}, 6, ""},
	} {
		if err := c.p.refused(Host{ABI: c.abi}); (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%+v with Landlock %d: %v", c.p, c.abi, err)
		}
	}
	if got := (kernel.Enforcement{Network: "no"}).Lacks(kernel.Sandbox{Mode: kernel.RequiredSandbox}); got != "" {
		t.Errorf("who asks for a network lacks %q", got)
	}
}
