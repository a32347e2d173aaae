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

// Identity tells one process from every other, also from a later one with the
// same pid.
type Identity struct {
	Host  string `json:"host"`
	Boot  string `json:"boot"` // boot id of that host
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // start time as the system counts: see readProcess
}

// envHost makes this process one of another host: NAME/BOOT. It is for tests of
// what several hosts do with one repository.
const envHost = "VIZIER_HOST"

var here = sync.OnceValue(func() Identity {
	if host, boot, ok := strings.Cut(os.Getenv(envHost), "/"); ok {
		return Identity{Host: host, Boot: boot}
	}
	host, _ := os.Hostname()
	return Identity{Host: host, Boot: bootID()}
})

// CheckHost says what is wrong with the environment's name for this host, if it has one.
func CheckHost() error {
	v, set := os.LookupEnv(envHost)
	if name, boot, _ := strings.Cut(v, "/"); set && (name == "" || boot == "") {
		return fmt.Errorf("%s is %q: expected NAME/BOOT, such as %s=login1/$(cat /proc/sys/kernel/random/boot_id), or leave it unset: %w", envHost, v, envHost, kernel.ErrInvalid)
	}
	return nil
}

// elsewhere reports that it is of another host. Containers of one machine,
// which share its boot, share its locks as well.
func (i Identity) elsewhere() bool {
	return i.Boot != "" && i.Boot != here().Boot && i.Host != here().Host
}

// Boot is the id of this boot of this host.
func Boot() string { return here().Boot }

// Self identifies this process.
func Self() Identity { return self() }

var self = sync.OnceValue(func() Identity { return Identify(os.Getpid()) })

// Identify identifies the process of that id, which runs on this host.
func Identify(pid int) Identity {
	id := here()
	p, _ := readProcess(pid)
	id.PID, id.Start = pid, p.start
	return id
}

// Running reports that the process exists now, on this host. A zombie does
// not.
func (i Identity) Running() bool {
	_, ok := i.process()
	return ok
}

// adopts reports that the process is there to adopt what the processes below it
// leave behind.
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

// process is a line of the process table.
type process struct {
	pid, parent, session int
	start                uint64
	zombie               bool
	ending               bool // its first thread is about to end, or has: who it started may have been adopted already
}

// signal sends sig if the process is still the one that was seen.
func (p process) signal(sig os.Signal) {
	handle, err := os.FindProcess(p.pid) // pins the process, so that the check holds
	if err != nil {
		return
	}
	defer func() { _ = handle.Release() }()
	if now, ok := readProcess(p.pid); ok && now.start == p.start {
		_ = handle.Signal(sig) // it may have ended meanwhile
	}
}

// endable reports that this process may signal it: one that a command started
// through sudo can only be left alone.
func (p process) endable() bool { return syscall.Kill(p.pid, 0) != syscall.EPERM }

// env is the value of name in the environment the process was started with, or
// "" if it has none or keeps it to itself.
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
// one: in the middle of an exec a process has no environment, only its program.
func (p process) runner() (is, maybe bool) {
	environ := environOf(p.pid)
	if len(environ) > 0 {
		return lookupRaw(environ, envRunner) != "", false
	}
	program, own := programOf(p.pid), ownProgram()
	return false, program != "" && (program == own || program == filepath.Join(filepath.Dir(own), ResidentName) || program == filepath.Join(filepath.Dir(own), TopName))
}

var ownProgram = sync.OnceValue(func() string { return programOf(os.Getpid()) })
