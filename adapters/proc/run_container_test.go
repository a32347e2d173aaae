package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/podmantest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// fakePodman notes what it is asked, and runs commands without a container. It removes none as long as
// there is a file of the same name with .held, and refuses, as docker does, to remove one that is being removed.
const fakePodman = `#!/bin/sh
printf '%s\n' "$*" >>"$ENGINE_CALLS"
if [ "$1" != run ]; then
	for name; do :; done
	mkdir "$ENGINE_CALLS.$name" || exit 1
	while [ -e "$ENGINE_CALLS.held" ]; do sleep 0.02; done
	rmdir "$ENGINE_CALLS.$name"
	exit 0
fi
shift
while :; do
	case $1 in
	--workdir=*) cd "${1#*=}" || exit 125 ;;
	--*) ;;
	*) break ;;
	esac
	shift
done
shift
exec "$@"
`

// inFake has podman be one that runs commands without a container. The function is what it was asked.
func inFake(t *testing.T) (calls func() []string) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/podman", []byte(fakePodman), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("ENGINE_CALLS", dir+"/calls")
	return func() []string {
		b, _ := os.ReadFile(dir + "/calls")
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
}

// contained returns setup for a job in a container.
func contained(t *testing.T, args ...string) *world {
	w := setup(t, args...)
	w.job.Spec.Task.Container = podmantest.Image
	return w
}

func TestContainerHasWhatTheJobHas(t *testing.T) {
	podmantest.Setup(t, t.Setenv)
	own, err := os.MkdirTemp("", "t") // others have theirs in the usual one
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(own) })
	t.Setenv("TMPDIR", own)
	w := contained(t, "sh", "-c", `
		test -e /inside || echo outside
		pwd; id -u; echo "$GIVEN $VIZIER_JOB_ID"; echo x >made; echo y >"$TMPDIR/own"; echo z >"$VIZIER_CHECKPOINT_DIR/at"
		echo '{"reason": "as it said"}' >"$VIZIER_RESULT_FILE"
		exit 5`)
	w.job.Spec.Task.Dir, w.job.Spec.Task.Env, w.job.Spec.Resumable = "src", []string{"GIVEN=a b"}, true
	must(t, os.Mkdir(w.root+"/src", 0o755))
	r := w.Run(bg, &w.job)
	if want := fmt.Sprintf("%s/src\n%d\na b %s\n", w.root, os.Getuid(), w.job.ID); r.Exit != 5 || r.Reason != "as it said" || w.log("stdout") != want {
		t.Fatalf("exit %d, reason %q, output %q, want %q; stderr %s", r.Exit, r.Reason, w.log("stdout"), want, w.log("stderr"))
	}
	for _, path := range []string{w.root + "/src/made", w.Files.CheckpointDir(w.job.ID) + "/at"} {
		st, err := os.Stat(path)
		if err != nil || int(st.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
			t.Fatalf("%s: %v, %v", path, st, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(own, ownTemporary+"*")); len(left) != 0 {
		t.Fatal("temporary directories are left:", left)
	}
	if left := podmantest.Containers(t); left != "" {
		t.Fatal("containers are left:", left)
	}
}

func TestContainerEndsWithItsJob(t *testing.T) {
	for name, end := range map[string]func(w *world, a kernel.AttemptID){
		"told to stop": func(w *world, a kernel.AttemptID) {
			must(w.t, w.Stop(bg, a))
			if r := w.outcome(a); r.Reason != "cancelled by tester" {
				w.t.Fatalf("%+v", r)
			}
		},
		"runner killed": func(w *world, a kernel.AttemptID) {
			must(w.t, syscall.Kill(w.claim(a).PID, syscall.SIGKILL))
			if os.Getuid() != 0 { // without control groups podman ends the first process alone, and leaves the others to whoever finds the attempt lost
				w.eventually("no container", func() bool { return podmantest.Containers(t) == "" })
				must(w.t, w.Sweep(bg, a))
			}
		},
		"swept": func(w *world, a kernel.AttemptID) { must(w.t, w.Sweep(bg, a)) },
	} {
		for how, script := range map[string]string{
			"obedient": `echo "up $$"; sleep 1000 & wait`,
			"stubborn": `trap "" TERM; echo "up $$"; while :; do sleep 1; done`,
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				podmantest.Setup(t, t.Setenv)
				w := contained(t, "sh", "-c", script)
				w.job.Spec.Task.Grace = time.Second
				a := w.launch()
				inside := mustPID(t, w.said("up "))
				end(w, a)
				w.eventually("the end of what was inside", func() bool { return !alive(inside) })
				w.eventually("no container", func() bool { return podmantest.Containers(t) == "" })
				w.eventually("no process of the engine's", func() bool { return len(strays()) == 0 })
			})
		}
	}
}

// What ends by itself needs no removal; what was ended has one, and so has a sweep.
func TestContainerIsRemovedOnceItsJobWasEnded(t *testing.T) {
	removals := func(calls []string) (n int) {
		for _, c := range calls {
			if strings.HasPrefix(c, "rm ") && strings.Contains(c, "vizier-") {
				n++
			}
		}
		return n
	}
	calls := inFake(t)
	w := contained(t, "sh", "-c", "exit 7")
	if r := w.Run(bg, &w.job); r.Exit != 7 || removals(calls()) != 0 {
		t.Fatalf("%+v, asked %q", r, calls())
	}
	w = contained(t, "sleep", "1000")
	ctx, stop := context.WithTimeoutCause(bg, 50*time.Millisecond, errors.New("enough"))
	defer stop()
	if r := w.Run(ctx, &w.job); r.Reason != "enough" || removals(calls()) != 1 {
		t.Fatalf("%+v, asked %q", r, calls())
	}
	a := w.job.Attempt()
	must(t, w.Provide(bg, &w.job))
	must(t, w.Claim(a))
	w.removeContainer("") // asks for nothing
	c, err := readClaim(w.Files.ClaimFile(a))
	must(t, err)
	if c.Container != w.containerName(a) {
		t.Fatalf("the claim has %q", c.Container)
	}
	c.PID = 1 << 30
	w.forge(a, c)
	must(t, w.Sweep(bg, a))
	w.eventually("a second removal", func() bool { return removals(calls()) == 2 })
}

// A sweep waits for no engine, and one that hangs is ended.
func TestAnEngineThatHangs(t *testing.T) {
	w := contained(t, "true")
	w.file("rm.sh", "#!/bin/sh\necho $$ >>"+w.root+"/asked\nexec sleep 1000\n", 0o700)
	w.Containers.Remove = []string{"./rm.sh", "{name}"}
	asked := func() (pid int) {
		w.eventually("a removal", func() bool {
			b, err := os.ReadFile(w.root + "/asked")
			line, whole := strings.CutSuffix(string(b), "\n")
			pid, _ = strconv.Atoi(line)
			return err == nil && whole
		})
		return pid
	}
	runs := func(pid int) bool { p, ok := readProcess(pid); return ok && !p.zombie }
	a := w.job.Attempt()
	must(t, w.Provide(bg, &w.job))
	must(t, w.Claim(a))
	c, err := readClaim(w.Files.ClaimFile(a))
	must(t, err)
	c.PID = 1 << 30
	w.forge(a, c)
	must(t, w.Sweep(bg, a))
	removing := asked()
	if !runs(removing) {
		t.Error("the sweep has waited for the engine")
	}
	group, err := syscall.Getpgid(removing)
	must(t, err)
	must(t, syscall.Kill(-group, syscall.SIGKILL))

	must(t, os.Remove(w.root+"/asked"))
	cmd := exec.Command("/bin/sh", "-c", keeperScript, "sh", "1", w.root+"/rm.sh")
	cmd.Dir, cmd.SysProcAttr = w.root, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err == nil || err.Error() != "signal: killed" {
		t.Error("a keeper whose engine hangs ends by itself:", err)
	}
	removing = asked()
	w.eventually("the end of the engine", func() bool { return !runs(removing) })
}

// An attempt starts nothing while the container of a lost one is being removed, says so, and can be ended.
func TestAnAttemptWaitsForTheContainerOfALostOne(t *testing.T) {
	calls := inFake(t)
	asked := func(what string, a kernel.AttemptID, w *world) (n int) {
		for _, c := range calls() {
			if strings.HasPrefix(c, what+" ") && strings.Contains(c, w.containerName(a)) {
				n++
			}
		}
		return n
	}
	held := os.Getenv("ENGINE_CALLS") + ".held"
	must(t, os.WriteFile(held, nil, 0o600))
	w := contained(t, "sh", "-c", "echo up; sleep 1000")
	t.Cleanup(func() { w.eventually("no process of the engine's", func() bool { return len(strays()) == 0 }) }) // the sweep at the end starts some
	first := w.launch()
	w.said("up")
	must(t, syscall.Kill(w.claim(first).PID, syscall.SIGKILL))
	must(t, w.Sweep(bg, first))

	next := func() kernel.AttemptID {
		w.job.State.Attempt++
		a := w.job.Attempt()
		lock, err := w.Acquire(a)
		must(t, err)
		t.Cleanup(func() { _ = lock.Close() })
		must(t, w.Provide(bg, &w.job))
		must(t, w.Claim(a))
		return a
	}
	w.job.Spec.Task.Args = []string{"sh", "-c", "exit 7"}
	second := next()
	ctx, stop := context.WithCancelCause(bg)
	ended := make(chan kernel.Result, 1)
	go func() { ended <- w.Run(ctx, &w.job) }()
	time.Sleep(300 * time.Millisecond)
	want := kernel.Runner{Liveness: kernel.Alive, Remark: "waits until the container of attempt 1 is removed: " + w.containerName(first)}
	if got := newLocal(w.root).Alive(bg, []kernel.AttemptID{second})[second]; got.Value != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	stop(errors.New("enough"))
	if r := <-ended; r.Reason != "enough" || asked("run", second, w) != 0 {
		t.Fatalf("%+v, asked %q", r, calls())
	}

	third := next()
	r, ok := w.removeEarlier(bg, &w.job, 50*time.Millisecond)
	if ok || !r.Refused || r.Class != kernel.LaunchFailure || !strings.Contains(r.Reason, "the container of attempt 2 is not removed: `") || !strings.Contains(r.Reason, "has no end after 50ms") {
		t.Fatalf("%v, %+v", ok, r)
	}
	w.job.Spec.Task.Timeout = 50 * time.Millisecond
	if r := w.Run(bg, &w.job); r.Class != kernel.Timeout || r.Exit != 124 || r.Reason != "timed out after 50ms, before the container of an earlier attempt was removed" {
		t.Fatalf("%+v", r)
	}
	w.job.Spec.Task.Timeout = 0
	go func() { ended <- w.Run(bg, &w.job) }()
	time.Sleep(100 * time.Millisecond)
	must(t, os.Remove(held))
	if r := <-ended; r.Exit != 7 || asked("run", third, w) != 1 {
		t.Fatalf("%+v, asked %q", r, calls())
	}
	if last := calls()[len(calls())-1]; !strings.HasPrefix(last, "run ") {
		t.Fatalf("it began before the containers of others were removed: %q", calls())
	}

	older := asked("rm", second, w)
	fourth := next() // nobody was asked to remove the third one's
	if r := w.Run(bg, &w.job); r.Exit != 7 || asked("rm", third, w) != 1 || asked("rm", second, w) != older || asked("run", fourth, w) != 1 {
		t.Fatalf("%+v, asked %q", r, calls())
	}
}

func TestContainerWithoutAnEngine(t *testing.T) {
	w := contained(t, "true")
	t.Setenv("PATH", t.TempDir())
	r := w.Run(bg, &w.job)
	if want := "container " + podmantest.Image + ": command not found: podman on host " + here().Host + ", and jobs in containers cannot run there: install podman there"; r.Exit != 127 || r.Class != kernel.LaunchFailure || !strings.HasPrefix(r.Reason, want) {
		t.Fatalf("%+v", r)
	}
	if problem, next := w.CheckContainers(); !strings.Contains(problem, "command not found: podman") || !strings.HasPrefix(next, "install podman") {
		t.Fatalf("%q, %q", problem, next)
	}
}

func TestContainerLine(t *testing.T) {
	inFake(t)
	w := contained(t, "make", "all")
	w.Containers = Containers{Run: []string{"podman", "-m{mount}", "-v{variable}", "-s{setting}", "{image}", "{dir}", "{command}"}}
	admin := w.root + "/.git/worktrees/w"
	must(t, os.MkdirAll(admin, 0o755))
	tree := t.TempDir()
	must(t, os.WriteFile(admin+"/gitdir", []byte(tree+"/.git\n"), 0o644))
	t.Setenv("PATH", os.Getenv("PATH"))
	t.Setenv("LD_PRELOAD", "host.so")
	w.job.Spec.Task.Env = []string{"HOME=/h", "B=1"}
	env := []string{"HOME=/h", "B=1", "LD_PRELOAD=host.so", "PATH=/p"}
	line := func(dir string) []string {
		t.Helper()
		argv, client, err := w.Contain(&w.job, dir, w.job.Spec.Task.Args, env)
		must(t, err)
		if !slices.Contains(client, "LD_PRELOAD=host.so") || slices.Contains(client, "HOME=/h") || !slices.Contains(client, "B=1") {
			t.Fatalf("the engine's program gets %q", client)
		}
		return argv[1:]
	}
	said := filepath.Dir(w.Files.ResultFile(w.job.Attempt()))
	same := func(path string) string { return "-m" + path + ":" + path }
	want := []string{same(w.root), "-vB", "-sHOME=/h", podmantest.Image, w.root, "make", "all"}
	if got := line(w.root); !slices.Equal(got, want) {
		t.Fatalf("in the main working tree %q, want %q", got, want)
	}
	mounts := []string{same(w.root + "/.git"), same(said), same(tree)}
	slices.Sort(mounts)
	if got := line(tree)[:3]; !slices.Equal(got, mounts) {
		t.Fatalf("in a linked one %q, want %q", got, mounts)
	}
	w.job.Spec.Task.Sandbox.Mode = kernel.BestEffortSandbox
	if got := line(w.root); !slices.Equal(got[:2], []string{same(w.root), same(w.root+"/.git") + ":ro"}) {
		t.Fatalf("with a sandbox %q", got)
	}
	odd := t.TempDir() + "/a:b"
	must(t, os.Mkdir(odd, 0o755))
	if _, _, err := w.Contain(&w.job, odd, []string{"true"}, env); err == nil || !strings.Contains(err.Error(), "no path with a colon") {
		t.Fatal(err)
	}
}

// The command lines of the engines, word for word, as their programs get them.
func TestCommandLinesOfEngines(t *testing.T) {
	for name, want := range map[string]string{
		"podman":    "run --rm --pull=never --name=NAME --network=host --pid=host --ipc=host --user=USER --workdir=ROOT --volume=FIRST --volume=SECOND --env=B --env=HOME=/h --entrypoint= IMAGE echo in it",
		"docker":    "run --rm --pull=never --name=NAME --network=host --pid=host --ipc=host --user=USER --workdir=ROOT --volume=FIRST --volume=SECOND --env=B --env=HOME=/h --entrypoint= IMAGE echo in it",
		"apptainer": "exec --pwd=ROOT --bind=FIRST --bind=SECOND --env=HOME=/h IMAGE echo in it",
	} {
		t.Run(name, func(t *testing.T) {
			if name == "podman" && os.Getuid() != 0 {
				t.Skip("as an ordinary user it is asked for more, which TestPodmanOfAnOrdinaryUser has")
			}
			dir := t.TempDir()
			must(t, os.WriteFile(dir+"/"+name, []byte("#!/bin/sh\nprintf '%s\\n' \"$*\" >>"+dir+"/calls; echo $B $TMPDIR\n"), 0o700))
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			w := contained(t, "echo", "in it")
			w.Containers = Engine(name, nil, nil)
			w.job.Spec.Task.Env = []string{"HOME=/h", "B=kept"}
			r := w.Run(bg, &w.job)
			b, tmp, _ := strings.Cut(strings.TrimSpace(w.log("stdout")), " ")
			if r.Outcome != kernel.OutcomeSucceeded || b != "kept" || tmp == "" {
				t.Fatalf("%+v, %q, %q", r, w.log("stdout"), w.log("stderr"))
			}
			calls, _ := os.ReadFile(dir + "/calls")
			got := slices.DeleteFunc(strings.Fields(string(calls)), func(word string) bool { // those of every job
				v, is := strings.CutPrefix(word, "--env=")
				return is && v != "B" && v != "HOME=/h"
			})
			mounts := []string{w.root + ":" + w.root, tmp + ":" + tmp}
			slices.Sort(mounts)
			want := strings.NewReplacer("NAME", w.containerName(w.job.Attempt()), "USER", fmt.Sprint(os.Getuid(), ":", os.Getgid()), "ROOT", w.root,
				"FIRST", mounts[0], "SECOND", mounts[1], "IMAGE", podmantest.Image).Replace(want)
			if got := strings.Join(got, " "); got != want {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// As an ordinary user podman keeps the user's number, and shares the host's IPC where it can: it would mount
// /dev/mqueue for that.
func TestPodmanOfAnOrdinaryUser(t *testing.T) {
	if os.Getuid() == 0 {
		dir, err := os.MkdirTemp("", "p")
		must(t, err)
		defer os.RemoveAll(dir)
		program, err := os.ReadFile(os.Args[0])
		must(t, errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(dir+"/test", program, 0o755)))
		cmd := exec.Command(dir+"/test", "-test.run=^TestPodmanOfAnOrdinaryUser$")
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	run := Engine("podman", nil, nil).Run
	_, err := os.Stat("/dev/mqueue")
	if !slices.Contains(run, "--userns=keep-id") || slices.Contains(run, "--ipc=host") != (err == nil) {
		t.Fatalf("/dev/mqueue: %v; %q", err, run)
	}
}

func TestEngines(t *testing.T) {
	own := []string{"crun-it", "{image}", "{command}"}
	for _, c := range []struct {
		name            string
		run             []string
		starts, removal string
	}{
		{"docker", nil, "docker run --rm --pull=never --name={name} ", "docker rm --force {name}"},
		{"apptainer", nil, "apptainer exec --pwd={dir} ", ""},
		{"podman", own, "crun-it {image} {command} ", ""},
	} {
		e := Engine(c.name, c.run, nil)
		if got := strings.Join(e.Run, " ") + " "; !strings.HasPrefix(got, c.starts) || strings.Join(e.Remove, " ") != c.removal {
			t.Errorf("%s: %q, %q", c.name, e.Run, e.Remove)
		}
	}
	if e := Engine("docker", nil, own); !slices.Equal(e.Remove, own) {
		t.Errorf("removed by %q", e.Remove)
	}
}
