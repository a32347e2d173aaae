package cluster

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

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
	a.sh("touch -d '4 minutes ago' .vizier/jobs/scheduler.host")
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

func TestANameOfAHostThatIsNone(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.env = append(slices.Clone(r.env), "VIZIER_HOST=login1")
	if _, errs, err := r.try("", "jobs", "list"); err == nil || !strings.Contains(errs, `VIZIER_HOST is "login1": expected NAME/BOOT`) {
		t.Errorf("%v %s", err, errs)
	}
}
