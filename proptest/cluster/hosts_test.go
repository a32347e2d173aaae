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

// as returns the repository as the host of that name sees it.
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

// unheard makes the files say that the host was last heard of four minutes ago. This includes the turn in which
// it may have been killed.
func (r *repo) unheard() {
	r.Helper()
	r.sh("touch -c -h -d '4 minutes ago' .vizier/jobs/scheduler.host .vizier/jobs/journal/turn")
}

// Two login nodes may be used in turns if the locks of each hold on the other. Vizier finds that
// out while the first one's resident scheduler is alive, and relies on it once that was killed.
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
// resident scheduler may be alive. It takes over once that was not heard of for long.
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

// A host that sees the repository through FUSE does not see the locks of another host: it
// is refused while the other one schedules.
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
	for range 20 { // the cluster is asked meanwhile
		if out := b.v("jobs", "list") + b.v("show", "1"); strings.Count(out, "running") < 2 {
			t.Fatalf("it may look, and changes nothing: %s", out)
		}
		time.Sleep(200 * time.Millisecond)
	}
	if held, err := proc.Locked(far + "/.vizier/jobs/resident.lock"); held || err != nil {
		t.Errorf("a look there started a resident scheduler: %v", err)
	}
	a.write("go", "")
	a.done("runs")
	a.eventually(func() string { // until the other host's resident scheduler has nothing left to do and ends
		if _, errs, err := b.try("", "jobs", "submit", "--executor", "local", "--", "true"); err != nil {
			return errs
		}
		return ""
	})
	b.noResident()
	_ = os.Remove(far + "/go")
}

// mounted returns the repository as a host of that name sees it through a file system
// that program makes. args end with the directory to show; mounted appends the mount point.
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

// twoSeconds are bindfs's options for how long the system caches what it knows of files.
const twoSeconds = "attr_timeout=2,entry_timeout=2,negative_timeout=2"

// A host that sees changes of files late says nothing false of the jobs that another host
// schedules, and the jobs that it schedules itself run once.
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
	b.eventually(func() string { // b sees late what unheard did
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

// If locks hold between hosts and changes of files are seen late, as on GlusterFS, hosts
// schedule in turns. None takes a file that another has just written for damaged, lost or
// missing.
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

// Hosts may read through sshfs, which has no locks between hosts and caches files for twenty
// seconds. They change nothing because of files that they see late or half written.
func TestLooksThroughSSHFS(t *testing.T) {
	t.Parallel()
	needsHosts(t)
	a := newRepo(t).as("a")
	a.write(".vizier/config.toml", "") // without clusters, no resident scheduler records where it is
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
				time.Sleep(50 * time.Millisecond) // leave the processors some time
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

// Two hosts, without locks between them and without a resident scheduler, run commands that change
// something at the same moment, again and again: each takes effect once and completely.
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

// The scheduling host reboots while its jobs run on the cluster: they continue, each ends once,
// and the jobs that wait for them start.
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
