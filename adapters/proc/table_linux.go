package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// readProc returns the content of a file of /proc/PID, or nil.
func readProc(pid int, name string) []byte {
	b, err := readFile("/proc/" + strconv.Itoa(pid) + "/" + name)
	if err != nil {
		return nil
	}
	return b
}

// Fields of /proc/PID/stat after the parenthesised command name, which may
// itself hold spaces and parentheses (proc_pid_stat(5), counted from state).
const (
	statState   = 0
	statParent  = 1
	statSession = 3
	statFlags   = 6
	statThreads = 17
	statStart   = 19
)

// taskExiting is the flag of a thread that is ending (the system's PF_EXITING).
const taskExiting = 1 << 2

// readProcess returns the process of that pid, if there is one. Its start time
// is in clock ticks since boot.
func readProcess(pid int) (process, bool) {
	stat := readProc(pid, "stat")
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) <= statStart {
		return process{}, false
	}
	p := process{}
	p.pid, _ = strconv.Atoi(string(bytes.TrimSpace(stat[:max(bytes.IndexByte(stat, '('), 0)])))
	// A process whose first thread has ended looks like a zombie, but may have
	// others.
	threads, _ := strconv.Atoi(string(f[statThreads]))
	p.zombie = threads < 2 && bytes.ContainsAny(f[statState], "ZX")
	p.stopped = bytes.ContainsAny(f[statState], "Tt")
	flags, _ := strconv.ParseUint(string(f[statFlags]), 10, 64)
	p.ending = flags&taskExiting != 0 || bytes.ContainsAny(f[statState], "ZX")
	p.parent, _ = strconv.Atoi(string(f[statParent]))
	p.session, _ = strconv.Atoi(string(f[statSession]))
	p.start, _ = strconv.ParseUint(string(f[statStart]), 10, 64)
	return p, true
}

// processes returns every process this one can see.
func processes() []process {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var all []process
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := readProcess(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// bootID returns the id of this boot, or "" if it is not known.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// environOf returns the environment that a process was started with, each
// variable followed by a NUL, or nil if it is not readable.
func environOf(pid int) []byte { return readProc(pid, "environ") }

// programOf returns the file that a process executes, or "".
func programOf(pid int) string {
	program, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return program
}

// genuineTable reports whether /proc shows the process table of this process's
// own namespace, and no other was mounted there.
func genuineTable() bool {
	var root unix.Stat_t
	const rootInode = 1
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid()) && unix.Stat("/proc", &root) == nil && root.Ino == rootInode &&
		asMounted("/proc/self/ns", "/proc")
}

// genuine reports whether the system itself shows the process.
func genuine(pid int) bool { return asMounted("/proc/"+strconv.Itoa(pid)+"/stat", "/proc") }

// startsPrograms reports whether no command that a person types runs below a process: it is this
// program, under any name, with a hidden entry point, that is a runner, the resident scheduler or a helper
// of theirs; or it is a command of a person's or the live screen, which start git, pagers and what the
// configuration names. The browser of a person may run below vizier-web.
func startsPrograms(pid int) bool {
	args, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	_, rest, _ := strings.Cut(string(args), "\x00")
	if err == nil && strings.HasPrefix(rest, "__") {
		return true
	}
	program := filepath.Base(strings.TrimSuffix(programOf(pid), " (deleted)"))
	return program == commandName || program == TopName
}

// commandName is the name of the program whose commands people type.
const commandName = "vizier"

// asMounted reports whether path is in the process file system that is mounted
// at or above at, and that nothing was mounted over it.
func asMounted(path, at string) bool {
	var fs unix.Statfs_t
	var a, b unix.Statx_t
	return unix.Statfs(path, &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC &&
		unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &a) == nil &&
		unix.Statx(unix.AT_FDCWD, at, 0, unix.STATX_MNT_ID, &b) == nil && a.Mnt_id == b.Mnt_id
}

// genuineBoot returns the id of this boot, ignoring the environment and
// anything mounted over the file, or "" if it is not known.
func genuineBoot() string {
	if !asMounted("/proc/sys/kernel/random/boot_id", "/proc/sys") { // containers mount that once more
		return ""
	}
	return bootID()
}

// serviceManager reports whether the process manages a user's services, and
// adopts their orphans.
func serviceManager(pid int) bool {
	return strings.TrimSpace(string(readProc(pid, "comm"))) == "systemd"
}
