package watch

import (
	"context"
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
		sight           sight
		ok, take, looks bool // looks: whether it is ok for who only looks
	}{
		"nobody on record":                               {sight{}, true, true, true},
		"itself":                                         {sight{record: hostRecord{self, true}}, true, false, true},
		"itself before its last boot":                    {sight{record: hostRecord{Host{"b", "earlier"}, true}}, true, true, true},
		"a container of the same machine":                {sight{record: hostRecord{Host{"a", "boot-b"}, true}}, true, true, true},
		"another without a resident, a moment ago":       {sight{record: a, heard: time.Minute}, true, true, false},
		"another without a resident, long ago":           {sight{record: a, heard: 2 * time.Minute}, true, true, true},
		"another without a resident, whose locks hold":   {sight{record: a, crosses: true}, true, true, true},
		"another's resident, heard of lately":            {sight{record: resident, heard: 2 * time.Minute}, false, false, false},
		"another's resident, whose locks hold":           {sight{record: resident, crosses: true}, true, true, true},
		"another's resident, not heard of for long":      {sight{record: resident, heard: 4 * time.Minute}, true, true, true},
		"a record whose time is not that of this server": {sight{record: resident, heard: -time.Hour}, true, true, true},
	} {
		ok, take := c.sight.admit(self, false)
		looks, _ := c.sight.admit(self, true)
		if ok != c.ok || take != c.take || looks != c.looks {
			t.Errorf("%s: %v, %v, %v", name, ok, take, looks)
		}
	}
}

// Another host counts as gone only after the whole time, and the error says how long that is.
func TestHowLongAHostCounts(t *testing.T) {
	self := Host{"b", "boot-b"}
	a := hostRecord{Host: Host{"a", "boot-a"}}
	resident := hostRecord{a.Host, true}
	for _, c := range []struct {
		record    hostRecord
		heard     time.Duration
		ok, looks bool
	}{{resident, heardFor, false, false}, {resident, heardFor + 1, true, true}, {a, seenAfter, true, false}, {a, seenAfter + 1, true, true}, {resident, 0, false, false}, {resident, -1, true, true}} {
		s := sight{record: c.record, heard: c.heard}
		ok, _ := s.admit(self, false)
		if looks, _ := s.admit(self, true); ok != c.ok || looks != c.looks {
			t.Errorf("%+v, heard of %s ago: %v, who looks %v", c.record, c.heard, ok, looks)
		}
	}
	for heard, want := range map[time.Duration]string{0: "try again in 3m0s, when it counts as gone", heardFor - time.Second: "try again in 1s, when it counts as gone",
		heardFor: "try again: it counts as gone now", heardFor + time.Hour: "try again: it counts as gone now"} {
		for _, writes := range []bool{false, true} {
			if err := (&HostError{Other: "a", Self: "b", Heard: heard, Writes: writes}).Error(); !strings.HasSuffix(err, "; use vizier on a, or "+want) {
				t.Errorf("after %s: %s", heard, err)
			}
		}
	}
}

// hosts are two hosts with one repository.
func hosts(t *testing.T) (a, b Hosts) {
	dir := t.TempDir()
	a = Hosts{Record: filepath.Join(dir, "scheduler.host"), Turn: filepath.Join(dir, "turn"), Seen: filepath.Join(dir, "hosts"), Resident: filepath.Join(dir, "resident.lock"), Self: Host{"a", "1"}}
	b = a
	b.Self = Host{"b", "2"}
	return a, b
}

// admit has a host schedule for a moment.
func admit(h Hosts, resident, looks bool) error {
	turn, err := h.Admit(ended(), resident, looks)
	if err == nil {
		turn.Leave()
	}
	return err
}

// ended is the context of somebody who does not wait.
func ended() context.Context {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	return ctx
}

// A second host is refused while the first one's resident scheduler is alive and its lock
// is not seen; once that has left, or was not heard of for long, it takes over.
func TestOneHostSchedules(t *testing.T) {
	a, b := hosts(t)
	ago := func(d time.Duration) {
		t.Helper()
		if err := os.Chtimes(b.Record, time.Now().Add(-d), time.Now().Add(-d)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(admit(a, false, false), admit(b, false, false), admit(a, true, false)); err != nil {
		t.Fatal(err)
	}
	err := admit(b, false, false)
	var other *HostError
	if !errors.As(err, &other) || !strings.Contains(err.Error(), "host a schedules here: its resident scheduler was heard of 0s ago, and its lock is not seen on this host, b; use vizier on a, or try again in 3m0s") {
		t.Errorf("%v", err)
	}
	a.Leave()
	if admit(b, false, true) == nil || !b.Elsewhere() {
		t.Error("who looks takes the place of one that has just left")
	}
	ago(80 * time.Second)
	if err := admit(a, false, false); err != nil || admit(b, false, true) == nil {
		t.Errorf("who looks takes the place of one that has just scheduled, %v", err)
	}
	ago(2 * time.Minute)
	if b.Elsewhere() {
		t.Error("nobody may wake what was left long ago")
	}
	if err := admit(b, true, false); err != nil {
		t.Errorf("after it left: %v", err)
	}
	if a.Leave(); admit(a, false, false) == nil {
		t.Error("the first one goes on beside the second")
	}
	ago(4 * time.Minute)
	if err := admit(a, false, false); err != nil {
		t.Errorf("after it was not heard of for long: %v", err)
	}
	if err := os.WriteFile(a.Record, []byte(`{"host":"c","bo`), 0o600); err != nil {
		t.Fatal(err)
	}
	if admit(a, false, true) == nil {
		t.Error("a record that is cut off names nobody")
	}
	if err := os.WriteFile(a.Record, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := admit(a, false, true); err != nil {
		t.Errorf("an empty record names somebody: %v", err)
	}
	if err := errors.Join(os.Remove(a.Record), os.Mkdir(a.Record, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := admit(a, false, false); err == nil || !strings.HasPrefix(err.Error(), "which host schedules: ") || a.Elsewhere() {
		t.Errorf("a record that cannot be read: %v", err)
	}
}

// A host that has once seen the lock of another held shares the scheduling with it, and may
// take over when that dies.
func TestHostsWhoseLocksCross(t *testing.T) {
	a, b := hosts(t)
	lock := take(t, a.Resident)
	if err := admit(a, true, false); err != nil {
		t.Fatal(err)
	}
	if admit(b, false, false) == nil {
		t.Error("a lock whose holder has not said who it is proves something")
	}
	lock.Host = "a"
	lock.Announce(nil)
	if err := errors.Join(admit(b, false, false), admit(a, true, false)); err != nil {
		t.Fatal(err)
	}
	lock.Release()
	if err := admit(b, false, false); err != nil {
		t.Errorf("after the other died: %v", err)
	}
	if err := errors.Join(admit(b, true, false), admit(a, false, false)); err != nil {
		t.Errorf("the other way round: %v", err)
	}
}

// The record says who schedules and whether that is a resident scheduler, and its time when it was last heard of.
func TestWhatIsOnRecordOfAHost(t *testing.T) {
	a, b := hosts(t)
	expect := func(what string, resident bool, heard time.Duration) {
		t.Helper()
		info, err := os.Stat(a.Record)
		if r, bad := a.read(); err != nil || bad != nil || r != (hostRecord{a.Self, resident}) || time.Since(info.ModTime()).Round(time.Minute) != heard {
			t.Errorf("%s: %+v, %v, heard of %v ago", what, r, bad, time.Since(info.ModTime()))
		}
	}
	ago := func(by time.Duration) {
		t.Helper()
		if err := os.Chtimes(a.Record, time.Now().Add(-by), time.Now().Add(-by)); err != nil {
			t.Fatal(err)
		}
	}
	step := func(what string, err error, resident bool) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		expect(what, resident, 0)
		ago(time.Hour)
	}
	step("a command", admit(a, false, false), false)
	step("a later one", admit(a, false, false), false)
	step("a resident scheduler", admit(a, true, false), true)
	step("it looks again", admit(a, true, false), true)
	step("a command beside it", admit(a, false, false), true)
	before, err := os.ReadFile(a.Record)
	if err != nil {
		t.Fatal(err)
	}
	ago(renewed / 2)
	info, err := os.Stat(a.Record)
	if err != nil {
		t.Fatal(err)
	}
	if err := admit(a, false, false); err != nil {
		t.Error(err)
	}
	if now, err := os.Stat(a.Record); err != nil || !now.ModTime().Equal(info.ModTime()) {
		t.Errorf("a command soon after it writes: %v", err)
	}
	b.Leave()
	expect("another's leaves", true, 0)
	a.Leave()
	expect("it leaves", false, 0)
	if after, err := os.ReadFile(a.Record); err != nil || len(after) != len(before) {
		t.Errorf("%v: %q became %q", err, before, after)
	}
	if names, err := filepath.Glob(filepath.Join(filepath.Dir(a.Record), ".clock.*")); len(names) > 0 || err != nil {
		t.Errorf("left behind are %q, %v", names, err)
	}
}

// A host that sees another's lock held notes that, and knows it at once even if it cannot be noted.
func TestALockThatIsSeenIsNoted(t *testing.T) {
	a, b := hosts(t)
	lock := take(t, a.Resident)
	lock.Host = "a"
	lock.Announce(nil)
	if err := admit(a, true, false); err != nil {
		t.Fatal(err)
	}
	b.note("c")
	if b.noted("b", "a") || !b.noted("b", "c") || b.cross("a") {
		t.Error("noted before it was seen")
	}
	blind := b
	blind.Seen = filepath.Join(a.Record, "none") // below a file
	if s, err := blind.look(); err != nil || !s.crosses || blind.cross("a") {
		t.Errorf("where it cannot be noted: %+v, %v", s, err)
	}
	if b.Probe(); !b.noted("b", "a") || !b.noted("b", "c") || !a.cross("b") {
		t.Error("not noted")
	}
}

// Whatever a host calls itself, it is one file name without white space.
func TestNamesOfHostsAreNamesOfFiles(t *testing.T) {
	for host, want := range map[string]string{"node-1.example": "host-node-1.example", "../a b\n": "host-.._a_b_"} {
		if got := fileName(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}
