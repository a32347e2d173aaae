package proc

import (
	"bytes"
	"os"
	"strconv"
)

// readProc is a file of /proc/PID, or nil.
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
	statThreads = 17
	statStart   = 19
)

func readProcess(pid int) (process, bool) {
	stat := readProc(pid, "stat")
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) <= statStart {
		return process{}, false
	}
	p := process{pid: pid}
	// A process whose first thread has ended looks like a zombie, but has others.
	threads, _ := strconv.Atoi(string(f[statThreads]))
	p.zombie = threads < 2 && bytes.ContainsAny(f[statState], "ZX")
	p.parent, _ = strconv.Atoi(string(f[statParent]))
	p.session, _ = strconv.Atoi(string(f[statSession]))
	p.start, _ = strconv.ParseUint(string(f[statStart]), 10, 64)
	return p, true
}

// processes is every process this one can see.
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

// children are the processes whose parent is this process.
func children() []process {
	const tasks = "/proc/self/task"
	d, err := os.Open(tasks)
	if err != nil {
		return nil
	}
	defer d.Close()
	threads, _ := d.Readdirnames(-1)
	var all []process
	for _, t := range threads {
		list, err := os.ReadFile(tasks + "/" + t + "/children")
		if err != nil {
			continue // the thread ended, and its children are another thread's
		}
		for _, field := range bytes.Fields(list) {
			pid, _ := strconv.Atoi(string(field))
			if p, ok := readProcess(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}
