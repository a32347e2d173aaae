package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/sandbox"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Containers has the command lines of an engine of containers. Placeholders in braces
// stand for what differs between jobs. A word with {mount}, {variable} or {setting} is
// repeated for each of these, and left out if there are none.
type Containers struct{ Run, Remove []string }

// Engine returns the command lines of the engine of that name, or run and remove if they
// are not empty. A container shares the host's network, process ids and, where that works,
// IPC: it only provides files, and its processes are ended and counted as any others.
func Engine(name string, run, remove []string) Containers {
	var c Containers
	switch name {
	case "apptainer":
		c.Run = []string{"apptainer", "exec", "--pwd={dir}", "--bind={mount}", "--env={setting}", "{image}", "{command}"}
	default: // podman and docker understand the same
		c.Run = []string{name, "run", "--rm", "--pull=never", "--name={name}", "--network=host", "--pid=host", "--ipc=host", "--user={user}", "--workdir={dir}",
			"--volume={mount}", "--env={variable}", "--env={setting}", "--entrypoint=", "{image}", "{command}"}
		if name == "podman" && os.Getuid() != 0 { // else the container's user is another one on the host
			c.Run = slices.Insert(c.Run, 4, "--userns=keep-id")
			if _, err := os.Stat("/dev/mqueue"); err != nil { // podman would mount it, and fail
				c.Run = slices.DeleteFunc(c.Run, func(word string) bool { return word == "--ipc=host" })
			}
		}
		c.Remove = []string{name, "rm", "--force", "{name}"}
		if name == "podman" { // without --time=0 it would wait once more
			c.Remove = []string{name, "rm", "--force", "--ignore", "--time=0", "{name}"}
		}
	}
	if len(run) > 0 {
		c = Containers{Run: run}
	}
	if len(remove) > 0 {
		c.Remove = remove
	}
	return c
}

// CheckContainers returns why the engine of containers cannot be used here, and what to
// do; "" if it can.
func (l *Local) CheckContainers() (problem, next string) {
	name := l.Containers.Run[0]
	if _, err := l.engine(name); err != nil {
		return err.Error() + " on host " + here().Host + ", and jobs in containers cannot run there", "install " + name + " there, or set engine in [containers] to another"
	}
	return "", ""
}

// engine returns the file of an engine's program. A relative path is relative to the repository.
func (l *Local) engine(name string) (string, error) { return find(name, l.Root, os.Getenv("PATH")) }

// clientOwn reports whether a variable says how a program is found and loaded, or which
// user it belongs to. The engine's program gets the host's value. A container keeps its
// image's value, unless the job sets the variable.
func clientOwn(name string) bool {
	return slices.Contains([]string{"PATH", "HOME", "SHELL", "USER", "LOGNAME", "HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_"}, name) ||
		strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "CONTAINERS_") || strings.HasPrefix(name, "DOCKER_")
}

// containerName returns the name of a's container. The name depends on the repository's
// path, since copies of a repository have the same jobs.
func (l *Local) containerName(a kernel.AttemptID) string {
	where := strings.TrimPrefix(string(kernel.DigestOf(l.Root)), "sha256:")
	return "vizier-" + where[:8] + "-" + string(a.Job) + "-" + strconv.Itoa(a.N)
}

// contain makes the command of j run in its container. A node does that itself with
// what it starts.
func (l *Local) contain(c *command, j *kernel.Job) (err error) {
	c.container = l.containerName(j.Attempt())
	if j.Spec.Task.Builtin {
		return nil
	}
	if c.args, c.env, err = l.Contain(j, c.dir, c.args, c.env); err == nil {
		c.path = c.args[0]
	}
	return err
}

// Contain returns the command line that runs args in dir, in the container of j, and the
// environment of the engine's program.
func (l *Local) Contain(j *kernel.Job, dir string, args, env []string) (argv, client []string, err error) {
	if problem, next := l.CheckContainers(); problem != "" {
		return nil, nil, &launchError{127, "container " + j.Spec.Task.Container + ": " + problem + ": " + next}
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, nil, fmt.Errorf("container: %w", err)
	}
	mounts, err := l.mounts(j, dir, lookup(env, "TMPDIR"))
	if err != nil {
		return nil, nil, err
	}
	var variables, settings []string
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		ofJob := slices.ContainsFunc(submittedEnv(j.Spec.Task.Env), func(o string) bool { return strings.HasPrefix(o, name+"=") })
		switch own := clientOwn(name); {
		case !own:
			variables = append(variables, name)
		case ofJob:
			settings = append(settings, v)
		}
	}
	client = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return clientOwn(name)
	})
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); clientOwn(name) {
			client = append(client, v)
		}
	}
	argv = l.containerLine(j, dir, args, map[string][]string{"{mount}": mounts, "{variable}": variables, "{setting}": settings})
	argv[0], err = l.engine(argv[0])
	return argv, client, err
}

// containerLine returns the command line of j's container. A word with a placeholder in several is
// repeated for each of its values.
func (l *Local) containerLine(j *kernel.Job, dir string, args []string, several map[string][]string) []string {
	one := strings.NewReplacer("{image}", j.Spec.Task.Container, "{name}", l.containerName(j.Attempt()), "{dir}", dir,
		"{user}", strconv.Itoa(os.Getuid())+":"+strconv.Itoa(os.Getgid()))
	var out []string
words:
	for _, word := range l.Containers.Run {
		if word == "{command}" {
			out = append(out, args...)
			continue
		}
		for mark, values := range several {
			if before, after, has := strings.Cut(word, mark); has {
				for _, v := range values {
					out = append(out, before+v+after)
				}
				continue words
			}
		}
		out = append(out, one.Replace(word))
	}
	return out
}

// ContainerLine returns the command line that starts the container of j, as a value of run in
// [containers] with its placeholders; "" for a job without a container.
func (l *Local) ContainerLine(j *kernel.Job) string {
	if j.Spec.Task.Container == "" {
		return ""
	}
	var out strings.Builder
	enc := json.NewEncoder(&out) // of such words, JSON is TOML
	enc.SetEscapeHTML(false)
	_ = enc.Encode(l.Containers.Run) // strings can always be encoded
	return strings.TrimSuffix(out.String(), "\n")
}

// mounts returns what j's container sees of the host, as arguments of engines. The paths
// are the same inside and outside. A path comes after the one that contains it.
func (l *Local) mounts(j *kernel.Job, dir, tmp string) ([]string, error) {
	b := j.Spec.Task.Sandbox
	tree, _ := l.treeOf(dir)
	readOnly := map[string]bool{}
	var paths []string
	said := filepath.Dir(l.saysIn(j).result)
	add := func(path string, ro bool) {
		if real, err := filepath.EvalSymlinks(path); path == "" {
			return
		} else if err == nil {
			path = real
		} else if path != tmp && path != said { // these are made before the container starts
			return
		}
		if !slices.Contains(paths, path) {
			paths, readOnly[path] = append(paths, path), ro
		}
	}
	add(tree, b.ReadOnly)
	add(gitDirOf(l.Root), b.On())
	add(said, false)
	if j.Spec.Resumable {
		add(l.Files.CheckpointDir(j.ID), false)
	}
	add(tmp, false)
	asked, err := absolute(b.Write, dir)
	if err != nil {
		return nil, err
	}
	open := openBy([]string{tree}, asked)
	for _, path := range asked {
		if path, err := writable(path, tree, open, l.guarded()); err == nil {
			add(path, false)
		}
	}
	slices.Sort(paths)
	var out []string
	for i, path := range paths {
		if strings.ContainsAny(path, ":,") {
			return nil, fmt.Errorf("container: %s: engines of containers take no path with a colon or a comma: use another one", path)
		}
		within := -1
		for k, above := range paths[:i] {
			if sandbox.Beneath(path, above) {
				within = k
			}
		}
		switch mount := path + ":" + path; {
		case within >= 0 && readOnly[paths[within]] == readOnly[path]: // the mount of that includes it
		case readOnly[path]:
			out = append(out, mount+":ro")
		default:
			out = append(out, mount)
		}
	}
	return out, nil
}

// removal returns the command line that removes the container of that name; nil if there is no
// container, or the engine needs no such command.
func (l *Local) removal(name string) []string {
	if name == "" {
		return nil
	}
	var out []string
	for _, word := range l.Containers.Remove {
		out = append(out, strings.ReplaceAll(word, "{name}", name))
	}
	if len(out) == 0 {
		return nil
	}
	program, err := l.engine(out[0])
	if err != nil {
		return nil // without its program, no container was started here
	}
	out[0] = program
	return out
}

// removalLimit is the time in which an engine must have removed a container.
const removalLimit = 30 * time.Second

// removeContainer ends the container of that name, if there is one. It tries several times: an
// engine whose program has just been killed may fail at first. It ignores the last failure, since
// an engine may also fail because there is no such container.
func (l *Local) removeContainer(name string) {
	const tries, pause = 3, 500 * time.Millisecond
	argv := l.removal(name)
	if argv == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), removalLimit)
	defer stop()
	for n := 1; exec.CommandContext(ctx, argv[0], argv[1:]...).Run() != nil && n < tries; n++ { //nolint:gosec // the configuration's command line
		time.Sleep(pause)
	}
}

// keeper is a process that removes a container, as removeContainer does, when this process
// dies: processes that do not die with this one may keep the container running. It reads a
// pipe that only this process writes to.
type keeper struct{ pipe *os.File }

// keeperScript gets the time limit of the removal in seconds, and then its command line. The engine does not
// inherit the lock that says that the script is at work: it may leave a process behind.
const keeperScript = `trap '' HUP INT QUIT TERM
read -r line && exit
limit=$1; shift
trap 'kill -s KILL $!; exit' USR1
(for n in 1 2 3; do "$@" 3>&- && break; sleep 1; done; kill -s USR1 $$) &
sleep "$limit" &
wait $!
kill -s KILL 0`

// keepContainer starts a keeper for a's container of that name; nil if none is needed. Unless another
// has it already, the keeper has the lock of a's claim until it ends: see removeEarlier.
func (l *Local) keepContainer(name string, a kernel.AttemptID) (*keeper, error) {
	argv := l.removal(name)
	if argv == nil {
		return nil, nil
	}
	null, err := null()
	if err != nil {
		return nil, err
	}
	in, pipe, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("container: %w", err)
	}
	files := []*os.File{in, null, null}
	if lock, err := TryLock(l.Files.ClaimFile(a)); err == nil {
		defer lock.Close()
		files = append(files, lock)
	}
	limit := strconv.Itoa(int(removalLimit.Seconds()))
	err = l.startProcess(append([]string{"/bin/sh", "-c", keeperScript, "sh", limit}, argv...), runnerEnv(a), files...)
	if err = errors.Join(err, in.Close()); err != nil {
		_ = pipe.Close()
		return nil, fmt.Errorf("container: %w", err)
	}
	return &keeper{pipe}, nil
}

// dismiss ends the keeper without removing the container.
func (k *keeper) dismiss() {
	if k != nil {
		_, _ = k.pipe.WriteString("\n")
		_ = k.pipe.Close()
	}
}

// release has the keeper remove the container, and does not wait for that.
func (k *keeper) release() {
	if k != nil {
		_ = k.pipe.Close()
	}
}

// removeEarlier removes the containers that earlier attempts of j may have left here, before anything of j
// starts: who swept a lost attempt did not wait for that. A keeper that is at work is waited for, since some
// engines refuse to remove a container that is being removed; one that was ended, as with everything of a
// service, has left the container. If ok is false, r is the result of the attempt: it was stopped meanwhile,
// or its time is over, or an engine took longer than limit, and the attempt is tried again later.
func (l *Local) removeEarlier(ctx context.Context, j *kernel.Job, limit time.Duration) (r kernel.Result, ok bool) {
	if j.Spec.Task.Container == "" {
		return r, true
	}
	if most := l.limit(j); most > 0 {
		within, cancel := context.WithTimeoutCause(ctx, most, &EndedError{kernel.Timeout,
			fmt.Sprintf("timed out after %s, before the container of an earlier attempt was removed", j.Spec.Task.Timeout)})
		defer cancel()
		ctx = within
	}
	for _, a := range l.earlier(j.Attempt()) {
		err := l.removeLeft(ctx, a, limit)
		if ctx.Err() != nil {
			return stopped(ctx), false
		}
		if err != nil {
			r = notStarted(err)
			r.Refused = true
			return r, false
		}
	}
	return r, true
}

// earlier returns the attempts before a whose containers may still be here, the newest first: those that
// were claimed here after the last one whose command began, and that one. It has waited for those before it.
func (l *Local) earlier(a kernel.AttemptID) (out []kernel.AttemptID) {
	for n := a.N - 1; n > 0; n-- {
		e := kernel.AttemptID{Job: a.Job, N: n}
		c, ours, err := l.claimOf(e)
		if err != nil || !ours || c.Host != here().Host {
			continue
		}
		if out = append(out, e); c.Child != nil {
			break
		}
	}
	return out
}

// removeLeft removes the container of a, an attempt that is over, once no keeper is at work on it. The error
// says that the engine took longer than limit; as in removeContainer, its own failure may mean that there is
// no such container.
func (l *Local) removeLeft(ctx context.Context, a kernel.AttemptID, limit time.Duration) error {
	argv := l.removal(l.containerName(a))
	if argv == nil {
		return nil
	}
	kept, over := context.WithTimeout(ctx, limit) // a keeper may also wait for a runner that nobody here can end
	defer over()
	var lock *os.File
	_ = repeat(kept, func(err error) bool { return errors.Is(err, kernel.ErrConflict) }, func() (err error) {
		lock, err = TryLock(l.Files.ClaimFile(a))
		return err
	})
	defer lock.Close() // it may be nil
	within, stop := context.WithTimeout(ctx, limit)
	defer stop()
	_ = exec.CommandContext(within, argv[0], argv[1:]...).Run() //nolint:gosec // the configuration's command line
	if within.Err() != nil {
		return fmt.Errorf("the container of attempt %d is not removed: `%s` has no end after %s: see in a terminal what holds it up; it is tried again by itself",
			a.N, kernel.CommandLine(argv...), limit)
	}
	return nil
}

// waitsForRemoval returns what removeEarlier waits for in the runner of a, which has no command yet; "": nothing.
func (l *Local) waitsForRemoval(a kernel.AttemptID) string {
	for _, e := range l.earlier(a) {
		if held, _ := locked(l.Files.ClaimFile(e)); held {
			return fmt.Sprintf("waits until the container of attempt %d is removed: %s", e.N, l.containerName(e))
		}
	}
	return ""
}

// Kept returns, in words, what was enforced of j's sandbox.
func Kept(j *kernel.Job) string {
	if j.Spec.Task.Container != "" {
		return "nothing but what its container's mounts leave out"
	}
	return sandbox.Words(j.Spec.Task.Sandbox)
}
