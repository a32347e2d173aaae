package torture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	workWord = "__torture_work"
	logName  = "torture.log"
)

// work is the command of the jobs of a storm: it says that it started, takes a slot
// of each of its resources, lives for a while, mostly with a child of its own, and
// says that it ended. The arguments are MILLISECONDS RESOURCE=CAPACITY... It returns
// the exit code.
//
// A slot is a file lock that the child inherits, so it is taken for exactly as
// long as any process of the attempt lives. Finding no slot free means that the
// scheduler ran more jobs at once than it may.
func work(args []string) int {
	root := os.Getenv("VIZIER_ROOT")
	log, err := os.OpenFile(filepath.Join(root, logName), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 70
	}
	say := func(word string) {
		fmt.Fprintf(log, "%s %s %s %d\n", word, os.Getenv("VIZIER_JOB_ID"), os.Getenv("VIZIER_ATTEMPT"), os.Getpid())
	}
	say("start")
	var slots []*os.File
	for _, text := range args[1:] {
		name, capacity, _ := strings.Cut(text, "=")
		n, _ := strconv.Atoi(capacity)
		slot := takeSlot(root, name, n)
		if slot == nil {
			say("overlap:" + name)
			return 71
		}
		slots = append(slots, slot)
	}
	ms, _ := strconv.Atoi(args[0])
	if ms%3 == 0 {
		time.Sleep(time.Duration(ms) * time.Millisecond)
	} else {
		child := exec.Command("sleep", fmt.Sprintf("0.%03d", ms))
		child.ExtraFiles = slots
		if err := child.Run(); err != nil { // it was killed, and the job ends with it
			say("childless")
			return 72
		}
	}
	say("end")
	return 0
}

func takeSlot(root, name string, capacity int) *os.File {
	for i := range capacity {
		f, err := os.OpenFile(filepath.Join(root, fmt.Sprintf("slot-%s-%d", name, i)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return f
		}
		_ = f.Close()
	}
	return nil
}
