package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc"
)

// as is the repository as a host of that name sees it.
func (r *repo) as(host string) *repo {
	other := *r
	other.env = append(slices.Clone(r.env), "VIZIER_HOST="+host+"/boot-of-"+host)
	return &other
}

// scheduled starts a job that runs until the file go is there, and waits for the resident
// scheduler to be at work.
func (r *repo) scheduled() {
	r.Helper()
	r.submit("lab", effect("runs", untilGo))
	r.begun("runs")
	r.eventually(func() string {
		if lines := strings.Split(r.read(".vizier/jobs/resident.lock"), "\n"); len(lines) < 5 || !strings.Contains(r.read(".vizier/jobs/scheduler.host"), "resident") {
			return "no resident scheduler says where it is"
		}
		return ""
	})
}

// unheard makes it four minutes since the host was heard of, in the turn in which it was killed as well.
func (r *repo) unheard() {
	r.Helper()
	r.sh("touch -c -h -d '4 minutes ago' .vizier/jobs/scheduler.host .vizier/jobs/journal/turn")
}

// Two login nodes whose locks hold on each other may be used in turns. That is found out
// while the first one's resident scheduler is alive, and counts when it was killed.
func TestLoginNodesInTurns(t *testing.T) {
	t.Parallel()
	a := newRepo(t).as("a")
	b := a.as("b")
	a.scheduled()
	b.v("jobs", "submit", "--", "true")
	a.noResident()
	b.v("jobs", "submit", "--", "true")
	a.write("go", "")
	a.done("runs")
}

// A second host that has never seen a lock of the first is refused while the first one's
// resident scheduler may be alive, and takes over when it was not heard of for long.
func TestASecondHostIsRefused(t *testing.T) {
	t.Parallel()
	a := newRepo(t).as("a")
	b := a.as("b")
	a.scheduled()
	a.noResident()
	_, errs, err := b.try("", "jobs", "submit", "--", "true")
	if err == nil || !strings.Contains(errs, "host a schedules here: its resident scheduler was heard of ") || !strings.Contains(errs, "use vizier on a, or try again in ") {
		t.Errorf("%v %s", err, errs)
	}
	a.v("jobs", "list")
	a.noResident()
	a.sh("ln -s a/boot-of-a .vizier/jobs/journal/turn || [ -L .vizier/jobs/journal/turn ]") // it may have been killed in its turn
	a.unheard()
	b.v("jobs", "submit", "--", "true")
	a.write("go", "")
	a.done("runs")
	b.v("jobs", "list")
	b.noResident()
}

// Through a file system of its own, which FUSE makes, a host does not see the locks of
// another: it is refused while that one schedules.
func TestLocksThatDoNotCross(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bindfs"); err != nil {
		t.Skip("no bindfs here: apt-get install bindfs")
	}
	a := newRepo(t).as("a")
	far := t.TempDir()
	if out, err := exec.Command("bindfs", a.dir, far).CombinedOutput(); err != nil {
		t.Skipf("no FUSE here: %v %s", err, out)
	}
	defer func() { _ = exec.Command("umount", "-l", far).Run() }()
	a.scheduled()
	b := a.as("b")
	b.dir = far
	if _, errs, err := b.try("", "jobs", "submit", "--", "true"); err == nil || !strings.Contains(errs, "its lock is not seen on this host, b") {
		t.Errorf("%v %s", err, errs)
	}
	if out := b.v("jobs", "list"); !strings.Contains(out, "running") {
		t.Errorf("it may look: %s", out)
	}
	if held, err := proc.Locked(far + "/.vizier/jobs/resident.lock"); held || err != nil {
		t.Errorf("a look there started a resident scheduler: %v", err)
	}
	a.write("go", "")
	a.done("runs")
	a.eventually(func() string { // with nothing left to do the other's resident scheduler leaves
		if _, errs, err := b.try("", "jobs", "submit", "--executor", "local", "--", "true"); err != nil {
			return errs
		}
		return ""
	})
	b.noResident()
	_ = os.Remove(far + "/go")
}

// mounted is the repository as a host of that name sees it through a file system that
// a program makes: its last arguments are where it is and where it is to be seen.
func (r *repo) mounted(t *testing.T, host, program string, args ...string) *repo {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("no %[1]s here: apt-get install %[1]s", program)
	}
	if proc.PIDSpace() == "" {
		t.Skip("only Linux can ask a file system past what it remembers")
	}
	other := r.as(host)
	other.far = t.TempDir()
	if out, err := exec.Command(program, append(args, other.far)...).CombinedOutput(); err != nil {
		t.Skipf("no FUSE here: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", other.far).Run() })
	if out, err := other.command("true").CombinedOutput(); err != nil {
		t.Skipf("no mounts of its own for a host here: %v %s", err, out)
	}
	return other
}

// twoSeconds is how long bindfs has the system remember what it knows of files.
const twoSeconds = "attr_timeout=2,entry_timeout=2,negative_timeout=2"

// A host that sees files late tells nothing false of what another schedules, and what it
// schedules itself happens once.
func TestStaleCaches(t *testing.T) {
	t.Parallel()
	a := newRepo(t).as("a")
	b := a.mounted(t, "b", "bindfs", "-o", twoSeconds, a.dir)
	first := a.submit("lab", effect("first", untilGo))
	next := a.submit("lab", effect("next", ""), "--after", first)
	b.eventually(func() string {
		_, errs, err := b.try("", "show", next)
		if err != nil {
			return errs
		}
		return ""
	})
	a.begun("first")
	for range 20 {
		job := b.job(first)
		if s := job["status"]; s != "running" && s != "submitted" || strings.Contains(job["remark"], "put the repository") {
			t.Fatalf("host b tells %v", job)
		}
	}
	a.write("go", "")
	b.becomes(first, "succeeded")
	b.becomes(next, "succeeded")
	a.noResident()
	a.unheard()
	b.eventually(func() string { // which it sees late
		_, errs, err := b.try("", "submit", "--", "true")
		if err != nil {
			return errs
		}
		return ""
	})
	own := b.submit("lab", effect("own", ""))
	after := b.submit("lab", effect("after", ""), "--after", own)
	b.becomes(after, "succeeded")
	a.becomes(after, "succeeded")
	for _, name := range []string{"first", "next", "own", "after"} {
		a.happened(name)
	}
	b.noResident()
}

// Where locks cross and files are seen late, as on GlusterFS, hosts schedule in turns, and
// none takes what another has just written for damaged, lost or not there.
func TestStaleCachesInTurns(t *testing.T) {
	t.Parallel()
	a := newRepo(t).as("a")
	b := a.mounted(t, "b", "bindfs", "--enable-lock-forwarding", "--multithreaded", "-o", twoSeconds, a.dir)
	a.scheduled()
	b.v("submit", "--", "true") // while a's lock is there to be seen
	names, ids := []string{}, []string{}
	for i := range 8 {
		for j, host := range []*repo{a, b} {
			names = append(names, fmt.Sprintf("turn%d.%d", i, j))
			ids = append(ids, host.submit("lab", effect(names[len(names)-1], "")))
		}
	}
	a.write("go", "")
	for i, id := range ids {
		[]*repo{b, a}[i%2].becomes(id, "succeeded")
		a.happened(names[i])
	}
	for _, host := range []*repo{a, b} {
		host.noResident()
		host.v("history", "verify")
		host.v("jobs", "validate")
	}
}

// Hosts that look through sshfs, which crosses no locks and remembers files for twenty seconds by
// itself, take nothing that they see late or half written for a reason to change something.
func TestLooksThroughSSHFS(t *testing.T) {
	t.Parallel()
	needsHosts(t)
	a := newRepo(t).as("a")
	a.write(".vizier/config.toml", "") // without clusters no resident scheduler says that it is there
	a.submit("local", "true")
	b := a.mounted(t, "b", "sshfs", "-F", server.dir+"/config", "a:"+a.dir)
	var over atomic.Bool
	var lookers sync.WaitGroup
	for _, look := range []string{"ls", "status", "ls"} {
		lookers.Go(func() {
			for !over.Load() {
				if _, errs, err := b.try("", look); err != nil {
					t.Errorf("%s: %v %s", look, err, errs)
				}
				time.Sleep(50 * time.Millisecond) // or the looks would take all processors
			}
		})
	}
	ids := []string{}
	for i := range 40 {
		ids = append(ids, a.submit("local", effect(fmt.Sprint("look", i), "")))
	}
	for i, id := range ids {
		a.becomes(id, "succeeded")
		a.happened(fmt.Sprint("look", i))
	}
	over.Store(true)
	lookers.Wait()
	a.noResident()
	a.v("history", "verify")
}

func TestANameOfAHostThatIsNone(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.env = append(slices.Clone(r.env), "VIZIER_HOST=login1")
	if _, errs, err := r.try("", "jobs", "list"); err == nil || !strings.Contains(errs, `VIZIER_HOST is "login1": expected NAME/BOOT`) {
		t.Errorf("%v %s", err, errs)
	}
}

// Two hosts whose locks do not cross, neither with a resident scheduler, run commands that change
// something at the same moment, again and again: each is done once and whole.
func TestTwoHostsAtTheSameMoment(t *testing.T) {
	t.Parallel()
	a := newRepo(t).as("a")
	a.write(".vizier/config.toml", "[scheduler]\nresident = false\n")
	b := a.mounted(t, "b", "bindfs", "--multithreaded", "-o", twoSeconds, a.dir)
	const each = 20
	var both sync.WaitGroup
	for i, host := range []*repo{a, b} {
		both.Go(func() {
			for n := range each {
				if _, errs, err := host.try("", "submit", "--", "sh", "-c", effect(fmt.Sprintf("at%d.%d", i, n), "")); err != nil {
					t.Errorf("host %d: %v %s", i, err, errs)
				}
			}
		})
	}
	both.Wait()
	a.allSucceed(2 * each)
	for i, host := range []*repo{a, b} {
		for n := range each {
			a.happened(fmt.Sprintf("at%d.%d", i, n))
		}
		host.v("history", "verify")
		host.v("jobs", "validate")
	}
}

// The scheduling host is booted anew while its jobs run on the cluster: they go on, each ends
// once, and what waits for them starts.
func TestTheSchedulingHostIsBootedAnew(t *testing.T) {
	t.Parallel()
	atLength(t)
	r := newRepo(t)
	r.env = append(r.env, "VIZIER_HOST=login/first-boot")
	id := r.submit("lab", effect("works", untilGo))
	next := r.submit("lab", effect("next", ""), "--after", id)
	here := r.submit("local", effect("here", untilGo))
	r.begun("works")
	r.begun("here")
	r.killResident()
	r.sh("pkill -KILL -f '[_]_shim --attempt " + here + "/' || true")
	r.env = append(r.env, "VIZIER_HOST=login/second-boot")
	r.write("go", "")
	r.becomes(id, "succeeded")
	r.becomes(next, "succeeded")
	r.becomes(here, "failed")
	if got := r.job(here)["failure_class"]; got != "worker_lost" {
		t.Errorf("what ran on the host that was booted: %q", got)
	}
	r.happened("works")
	r.happened("next")
	r.v("history", "verify")
}
