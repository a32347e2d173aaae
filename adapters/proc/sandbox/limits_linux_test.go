package sandbox

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// limit tries to read and to set limits, of another process and of this one, and says what came of it.
func limit(pid string) {
	of, _ := strconv.Atoi(pid)
	var now unix.Rlimit
	fmt.Println("read:", unix.Prlimit(of, unix.RLIMIT_CORE, nil, &now))
	fmt.Println("set:", unix.Prlimit(of, unix.RLIMIT_CORE, &now, nil))
	fmt.Println("own:", unix.Prlimit(0, unix.RLIMIT_CORE, &now, nil), unix.Setrlimit(unix.RLIMIT_CORE, &now))
	_, _, no := syscall.RawSyscall6(unix.SYS_PRLIMIT64|x32, uintptr(of), unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	fmt.Println("set as x32:", no == syscall.EPERM)
}

// A command in a sandbox cannot set the limits of another process, in no way that its architecture
// has, and can set its own. So can what it starts.
func TestLimitsInASandbox(t *testing.T) {
	if why := limitsLack(); why != "" {
		t.Skip(why)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	pid := strconv.Itoa(other.Process.Pid)
	const want = "read: <nil>\nset: operation not permitted\nown: <nil> <nil>\nset as x32: "
	for name, command := range map[string][]string{"itself": {self, "limit", pid}, "what it starts": {"sh", "-c", `"$0" limit "$1"`, self, pid}} {
		got := run(t, Policy{}, command[0], command[1:]...)
		if !strings.HasPrefix(got, want) || x32Calls() && !strings.HasSuffix(got, "true") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// x32Calls reports whether the architecture has the ABI x32.
func x32Calls() bool { return runtime.GOARCH == "amd64" }

// The filter refuses a new limit for a process that is named, whatever the ABI of the call, and an ABI that it
// does not know. It lets everything else pass.
func TestWhatTheFilterOfLimitsRefuses(t *testing.T) {
	const arm64, elsewhere = unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_S390X
	amd64, arm := callABIs["amd64"], callABIs["arm64"]
	const low, top = 0x10, 0x10 << 32
	for _, c := range []struct {
		abis         []callABI
		arch, number uint32
		pid, limit   uint64
		refused      bool
	}{
		{amd64, unix.AUDIT_ARCH_X86_64, 302, 7, low, true},
		{amd64, unix.AUDIT_ARCH_X86_64, 302, 7, top, true},
		{amd64, unix.AUDIT_ARCH_X86_64, 302, 1<<32 | 7, low, true},
		{amd64, unix.AUDIT_ARCH_X86_64, 302, 1<<64 - 7, low, true},
		{amd64, unix.AUDIT_ARCH_X86_64, 302, 7, 0, false},
		{amd64, unix.AUDIT_ARCH_X86_64, 302, 0, low, false},
		{amd64, unix.AUDIT_ARCH_X86_64, 302, 1 << 32, low, false}, // for the system that is 0
		{amd64, unix.AUDIT_ARCH_X86_64, x32 | 302, 7, low, true},
		{amd64, unix.AUDIT_ARCH_X86_64, x32 | 302, 7, 0, false},
		{amd64, unix.AUDIT_ARCH_X86_64, 340, 7, low, false},
		{amd64, unix.AUDIT_ARCH_X86_64, 59, 7, low, false},
		{amd64, unix.AUDIT_ARCH_I386, 340, 7, low, true},
		{amd64, unix.AUDIT_ARCH_I386, 340, 0, low, false},
		{amd64, unix.AUDIT_ARCH_I386, 302, 7, low, false},
		{amd64, arm64, 261, 0, 0, true},
		{amd64, elsewhere, 1, 0, 0, true},
		{arm, arm64, 261, 7, low, true},
		{arm, arm64, 260, 7, low, false},
		{arm, unix.AUDIT_ARCH_ARM, 369, 7, low, true},
		{arm, unix.AUDIT_ARCH_ARM, 261, 7, low, false},
		{arm, unix.AUDIT_ARCH_X86_64, 1, 0, 0, true},
	} {
		var call [64]byte
		binary.LittleEndian.PutUint32(call[0:], c.number)
		binary.LittleEndian.PutUint32(call[4:], c.arch)
		binary.LittleEndian.PutUint64(call[16:], c.pid)
		binary.LittleEndian.PutUint64(call[32:], c.limit)
		want := uint32(unix.SECCOMP_RET_ALLOW)
		if c.refused {
			want = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		}
		if got := filtered(t, limitFilter(c.abis), call[:]); got != want {
			t.Errorf("%x %d, pid %x, limit %x: %x", c.arch, c.number, c.pid, c.limit, got)
		}
	}
}

// filtered returns what a filter says to a call.
func filtered(t *testing.T, filter []unix.SockFilter, call []byte) uint32 {
	t.Helper()
	var a uint32
	for i := 0; i < len(filter); i++ {
		switch f := filter[i]; f.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = binary.LittleEndian.Uint32(call[f.K:])
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			if a == f.K {
				i += int(f.Jt)
			} else {
				i += int(f.Jf)
			}
		case unix.BPF_RET | unix.BPF_K:
			return f.K
		default:
			t.Fatalf("an instruction %+v", f)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}
