package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/proc/sandbox"
	"github.com/vizier-scheduler/vizier/kernel"
)

// roles are the commands that the tests' jobs run.
var roles = map[string]func(args []string) int{
	"nothing": func([]string) int { return 0 },

	sandbox.Entry: func(args []string) int { return sandbox.Serve(args, os.Stderr) },

	// heir inherits a job's lock, and lists what a child of another's making has
	// open.
	"heir": func(args []string) int {
		a, err := ParseAttempt(args[1])
		if err != nil {
			return fail(err)
		}
		if _, err := newLocal(args[0]).Inherited(a); err != nil {
			return fail(err)
		}
		list := exec.Command("ls", "-l", "/proc/self/fd/")
		list.Stdout = os.Stdout
		return fail(list.Run())
	},

	// fileSize raises its limit on the size of files, and says that of what it starts.
	"fileSize": func([]string) int {
		var limit, now unix.Rlimit
		err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit)
		low := limit
		low.Cur = 1 << 20
		err = errors.Join(err, unix.Setrlimit(unix.RLIMIT_FSIZE, &low))
		RaiseFileSize()
		for range 2 { // also after something was started
			pid, failed := withOwnFileSize(func() (int, error) {
				return syscall.ForkExec("/bin/sh", []string{"sh", "-c", "ulimit -S -f"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
			})
			if err = errors.Join(err, failed); err == nil {
				wait(pid)
			}
			err = errors.Join(err, unix.Getrlimit(unix.RLIMIT_FSIZE, &now))
			if now.Cur != limit.Max {
				err = errors.Join(err, fmt.Errorf("the limit is %d, not %d", now.Cur, limit.Max))
			}
		}
		return fail(err)
	},

	// sleeper says its pid and stays.
	"sleeper": func([]string) int {
		fmt.Println("sleeper", os.Getpid())
		return stay()
	},

	// stubborn is a sleeper that TERM does not end.
	"stubborn": func([]string) int {
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("stubborn", os.Getpid())
		return stay()
	},

	// polite ends on TERM, with code 0.
	"polite": func([]string) int {
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		fmt.Println("polite", os.Getpid())
		<-asked
		fmt.Println("goodbye")
		return 0
	},

	// bystander ends with code 42 on USR1, which nobody sends by mistake.
	"bystander": func([]string) int {
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGUSR1)
		fmt.Println("bystander", os.Getpid())
		<-asked
		return 42
	},

	// parent starts each of args in a session of its own and stays.
	"parent": func(args []string) int {
		for _, role := range args {
			daemon(role, os.Environ())
		}
		fmt.Println("parent", os.Getpid())
		return stay()
	},

	// abandon is parent, but does not stay.
	"abandon": func(args []string) int {
		for _, role := range args {
			daemon(role, os.Environ())
		}
		return 0
	},

	// scrubbed starts a role in this session, in a process group of its own, with
	// an environment that says nothing of a job, and stays.
	"scrubbed": func(args []string) int {
		cmd := exec.Command(os.Args[0], args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Env = []string{mark + "=" + os.Getenv(mark)}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if cmd.Run() != nil {
			return 1
		}
		return 0
	},

	// hidden does the same in a session of its own and exits at once.
	"hidden": func(args []string) int {
		daemon(args[0], []string{mark + "=" + os.Getenv(mark)}, args[1:]...)
		return 0
	},

	// away is hidden with the environment of the job.
	"away": func(args []string) int {
		daemon(args[0], os.Environ(), args[1:]...)
		return 0
	},

	"tooFewFiles": func([]string) int {
		fmt.Println("too few:", TightLimit())
		if l := (&Local{Exe: "/bin/true"}); TightLimit() != "" {
			fmt.Println(l.StartResident(os.Stdin))
		}
		return 0
	},

	"tooFewProcesses": func([]string) int {
		heldToProcesses = func(int) bool { return true }
		err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: fewestProcesses - 1, Max: fewestProcesses - 1})
		fmt.Println(TightLimit(), err)
		return 0
	},

	"args": func(args []string) int {
		fmt.Printf("%q\n", args)
		return 0
	},

	// descriptors says what each of its descriptors is, those of its Go runtime
	// aside.
	"descriptors": func([]string) int {
		links, _ := filepath.Glob("/proc/self/fd/*")
		for _, fd := range links {
			if to, err := os.Readlink(fd); err == nil && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/proc/") && !strings.HasPrefix(to, "/sys/") {
				fmt.Println(filepath.Base(fd), filepath.Base(to))
			}
		}
		return 0
	},

	// flood writes args[0] bytes to each stream, by turns.
	"flood": func(args []string) int {
		n := 0
		_, _ = fmt.Sscan(args[0], &n)
		for chunk := bytes.Repeat([]byte("0123456789abcde\n"), 4096); n > 0; n -= len(chunk) {
			_, _ = os.Stdout.Write(chunk)
			_, _ = os.Stderr.Write(chunk)
		}
		return 0
	},

	// inside says which job it is in, of those named.
	"inside": func(args []string) int {
		return sayInside(args)
	},

	// insideLater does so once there is a file called later.
	"insideLater": func(args []string) int {
		fmt.Println("insideLater", os.Getpid())
		for {
			if _, err := os.Stat(args[0] + "/later"); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		_ = sayInside(args)
		return stay()
	},

	// submit starts another attempt in the same repository.
	"submit": func(args []string) int {
		a, err := ParseAttempt(args[0])
		if err == nil {
			err = newLocal(os.Getenv(envRoot)).Start(context.Background(), a)
		}
		return fail(err)
	},
}

func stay() int {
	time.Sleep(10 * time.Minute)
	return 0
}

// farthest returns the role that hides what it starts as well as can be seen
// through on this system: in a session of its own and, where a runner is the
// parent of orphans, with an environment that says nothing.
func farthest() string {
	if adoptsOrphans {
		return "hidden"
	}
	return "away"
}

func daemon(role string, env []string, args ...string) {
	cmd := exec.Command(os.Args[0], append([]string{role}, args...)...)
	cmd.Env, cmd.Stdout = env, os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_ = cmd.Start()
}

func sayInside(args []string) int {
	var running []kernel.AttemptID
	for _, s := range args[1:] {
		a, _ := ParseAttempt(s)
		running = append(running, a)
	}
	if a, _, ok := newLocal(args[0]).InsideJob(running); ok {
		fmt.Println("inside", label(a))
	} else {
		fmt.Println("inside nothing")
	}
	return 0
}
