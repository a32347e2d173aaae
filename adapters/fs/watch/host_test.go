package watch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAdmit(t *testing.T) {
	self := Host{"b", "boot-b"}
	a := hostRecord{Host: Host{"a", "boot-a"}}
	resident := hostRecord{a.Host, true}
	for name, c := range map[string]struct {
		sight    sight
		ok, take bool
	}{
		"nobody on record":                               {sight{}, true, true},
		"itself":                                         {sight{record: hostRecord{self, true}}, true, false},
		"itself before its last boot":                    {sight{record: hostRecord{Host{"b", "earlier"}, true}}, true, true},
		"a container of the same machine":                {sight{record: hostRecord{Host{"a", "boot-b"}, true}}, true, true},
		"another, without a resident":                    {sight{record: a}, true, true},
		"another's resident, heard of lately":            {sight{record: resident, heard: 2 * time.Minute}, false, false},
		"another's resident, whose locks hold":           {sight{record: resident, crosses: true}, true, true},
		"another's resident, not heard of for long":      {sight{record: resident, heard: 4 * time.Minute}, true, true},
		"a record whose time is not that of this server": {sight{record: resident, heard: -time.Hour}, true, true},
	} {
		if ok, take := c.sight.admit(self); ok != c.ok || take != c.take {
			t.Errorf("%s: %v, %v", name, ok, take)
		}
	}
}

// hosts are two hosts with one repository.
func hosts(t *testing.T) (a, b Hosts) {
	dir := t.TempDir()
	a = Hosts{Record: filepath.Join(dir, "scheduler.host"), Seen: filepath.Join(dir, "hosts"), Resident: filepath.Join(dir, "resident.lock"), Self: Host{"a", "1"}}
	b = a
	b.Self = Host{"b", "2"}
	return a, b
}

// A second host is refused while the first one's resident scheduler is alive and its lock
// is not seen; once that has left, or was not heard of for long, it takes over.
func TestOneHostSchedules(t *testing.T) {
	a, b := hosts(t)
	if err := errors.Join(a.Admit(false), b.Admit(false), a.Admit(true)); err != nil {
		t.Fatal(err)
	}
	err := b.Admit(false)
	var other *HostError
	if !errors.As(err, &other) || !strings.Contains(err.Error(), "host a schedules here: its resident scheduler was heard of 0s ago, and its lock is not seen on this host, b; use vizier on a, or try again in 3m0s") {
		t.Errorf("%v", err)
	}
	a.Leave()
	if err := b.Admit(true); err != nil {
		t.Errorf("after it left: %v", err)
	}
	if a.Leave(); a.Admit(false) == nil {
		t.Error("the first one goes on beside the second")
	}
	long := time.Now().Add(-4 * time.Minute)
	if err := os.Chtimes(b.Record, long, long); err != nil {
		t.Fatal(err)
	}
	if err := a.Admit(false); err != nil {
		t.Errorf("after it was not heard of for long: %v", err)
	}
}

// A host that has once seen the lock of another held shares the scheduling with it, and may
// take over when that dies.
func TestHostsWhoseLocksCross(t *testing.T) {
	a, b := hosts(t)
	lock := take(t, a.Resident)
	if err := a.Admit(true); err != nil {
		t.Fatal(err)
	}
	if b.Admit(false) == nil {
		t.Error("a lock whose holder has not said who it is proves something")
	}
	lock.Host = "a"
	lock.Announce(nil)
	if err := errors.Join(b.Admit(false), a.Admit(true)); err != nil {
		t.Fatal(err)
	}
	lock.Release()
	if err := b.Admit(false); err != nil {
		t.Errorf("after the other died: %v", err)
	}
	if err := errors.Join(b.Admit(true), a.Admit(false)); err != nil {
		t.Errorf("the other way round: %v", err)
	}
}
