package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Identity distinguishes a process from every other, including a later one with
// the same pid.
type Identity struct {
	Host  string `json:"host"`
	Boot  string `json:"boot"` // boot id of that host
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // start time in the system's own unit: see readProcess
}

// envHost makes this process appear to run on another host: NAME/BOOT. It is
// for tests of several hosts with one repository.
const envHost = "VIZIER_HOST"

var here = sync.OnceValue(func() Identity {
	if host, boot, ok := strings.Cut(os.Getenv(envHost), "/"); ok {
		return Identity{Host: host, Boot: boot}
	}
	host, _ := os.Hostname()
	return Identity{Host: host, Boot: bootID()}
})

// CheckHost returns an error if the environment variable for this host's name
// is malformed.
func CheckHost() error {
	v, set := os.LookupEnv(envHost)
	if name, boot, _ := strings.Cut(v, "/"); set && (name == "" || boot == "") {
		return fmt.Errorf("%s is %q: expected NAME/BOOT, such as %s=login1/$(cat /proc/sys/kernel/random/boot_id), or leave it unset: %w", envHost, v, envHost, kernel.ErrInvalid)
	}
	return nil
}

// elsewhere reports whether the process belongs to another host. Containers on
// one machine share its boot and its locks, so they count as one host.
func (i Identity) elsewhere() bool {
	return i.Boot != "" && i.Boot != here().Boot && i.Host != here().Host
}

// Boot returns the id of this host's current boot.
func Boot() string { return here().Boot }

// Host returns the name of this host.
func Host() string { return here().Host }

// Self returns the identity of this process.
func Self() Identity { return self() }

var self = sync.OnceValue(func() Identity { return Identify(os.Getpid()) })

// Identify returns the identity of the process pid, which must run on this
// host.
func Identify(pid int) Identity {
	id := here()
	p, _ := readProcess(pid)
	id.PID, id.Start = pid, p.start
	return id
}

// Running reports whether the process exists now on this host. A zombie does
// not count.
func (i Identity) Running() bool {
	_, ok := i.process()
	return ok
}

// adopts reports whether the process exists and adopts the orphans of its
// descendants.
func (i Identity) adopts() bool {
	p, ok := i.process()
	return ok && !p.ending
}

func (i Identity) process() (process, bool) {
	if i.PID <= 0 || i.Start == 0 || i.Boot != here().Boot {
		return process{}, false
	}
	p, ok := readProcess(i.PID)
	return p, ok && p.start == i.Start && !p.zombie
}

// process is an entry of the process table.
type process struct {
	pid, parent, session int
	start                uint64
	zombie               bool
	stopped              bool // by a signal or a debugger
	ending               bool // its first thread has ended or is about to: its children may already have been adopted
}

// signal sends sig if the pid still belongs to the process that was seen.
func (p process) signal(sig os.Signal) {
	handle, err := os.FindProcess(p.pid) // pins the process, so that the check holds
	if err != nil {
		return
	}
	defer func() { _ = handle.Release() }()
	if now, ok := readProcess(p.pid); ok && now.start == p.start {
		_ = handle.Signal(sig) // the process may have ended meanwhile
	}
}

// worksIn reports whether dir is the working directory of the process. Only Linux tells.
func (p process) worksIn(dir string) bool {
	at, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", p.pid))
	if err != nil {
		return false
	}
	own, err := os.Stat(dir)
	return err == nil && os.SameFile(at, own)
}

// signalable reports whether this process may signal it. A command started through
// sudo, for example, cannot be ended.
func (p process) signalable() bool { return syscall.Kill(p.pid, 0) != syscall.EPERM }

// env returns the value of name in the environment that the process was started
// with, or "" if it is not set or not readable.
func (p process) env(name string) string { return lookupRaw(environOf(p.pid), name) }

func lookupRaw(environ []byte, name string) string {
	for v := range bytes.SplitSeq(environ, []byte{0}) {
		if key, value, ok := bytes.Cut(v, []byte("=")); ok && string(key) == name {
			return string(value)
		}
	}
	return ""
}

// runner reports whether the process is a runner, or may be about to become
// one: during an exec a process shows no environment, only its program.
func (p process) runner() (is, maybe bool) {
	environ := environOf(p.pid)
	if len(environ) > 0 {
		return lookupRaw(environ, envRunner) != "", false
	}
	program, own := programOf(p.pid), ownProgram()
	return false, program != "" && (program == own || program == filepath.Join(filepath.Dir(own), ResidentName) || program == filepath.Join(filepath.Dir(own), TopName))
}

var ownProgram = sync.OnceValue(func() string { return programOf(os.Getpid()) })
