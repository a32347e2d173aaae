package cluster

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// What a job of a trial's printed is told of that job, and not of another.
func TestATrialQuotesTheLogOfTheJobItWaitsFor(t *testing.T) {
	c := newFakeCluster(t, refuses(Never, "no"))
	tr := &trial{c: c.Cluster, dir: t.TempDir()}
	for _, name := range []string{"first", "second"} {
		if err := os.WriteFile(tr.log(name), []byte("printed by the "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop() // it looks once
	for _, name := range []string{"first", "second"} {
		err := tr.wait(ctx, "never", Job{Name: tr.called(name)})
		if err == nil || !strings.HasSuffix(err.Error(), "printed by the "+name) {
			t.Errorf("of the %s: %v", name, err)
		}
	}
}

// Whoever reads what became of a trial reads of each promise, whichever is broken.
func TestATrialTellsOfEveryPromise(t *testing.T) {
	c := newFakeCluster(t, refuses(Never, "no"))
	was := map[string]Clause{}
	if err := c.Try(context.Background(), func(p Clause) {
		if _, twice := was[p.Promise]; twice {
			t.Errorf("%s: told twice", p.Promise)
		}
		was[p.Promise] = p
	}); err != nil {
		t.Fatal(err)
	}
	if p := was[doesTake]; p.Broken == "" {
		t.Errorf("%+v", p)
	}
	for _, promise := range resting[2:] {
		if p, told := was[promise]; !told || p.Unasked != doesTake || p.Broken != "" {
			t.Errorf("%s: %+v, told %t", promise, p, told)
		}
	}
	if len(was) != len(resting)+2 {
		t.Errorf("%d promises", len(was))
	}
}

// A node's clock is off by what the time between two looks cannot explain: a look takes as long as
// the cluster takes to answer.
func TestTheClockOfANode(t *testing.T) {
	now := time.Now()
	for what, c := range map[string]struct {
		node time.Time
		off  bool
	}{
		"during a long look": {now.Add(-50 * time.Second), false},
		"before it":          {now.Add(-70 * time.Second), true},
		"after it":           {now.Add(10 * time.Second), true},
	} {
		found := (&Cluster{}).compare(probed{Host: "n1", Now: c.node, Held: true, unseen: now.Add(-time.Minute)}, now)
		if len(found) > 0 != c.off || c.off && found[0].Problem != "the clock of node n1 is 10s off this host's" {
			t.Errorf("%s: %+v", what, found)
		}
	}
}
