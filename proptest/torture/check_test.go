package torture

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// records returns all records on disk. Each must be whole, and be in a directory or
// in a pack of its name.
func (r *repo) records() []record {
	r.t.Helper()
	name := r.path(".vizier", "jobs", strings.Repeat("[0-9a-f]", 32))
	files, _ := filepath.Glob(name + "/job.json") // a directory without one is of a submission that was cut short
	packs, _ := filepath.Glob(name + ".tar.gz")
	var all []record
	seen := map[string]bool{}
	for _, file := range append(files, packs...) {
		id := strings.TrimSuffix(filepath.Base(strings.TrimSuffix(file, "/job.json")), ".tar.gz")
		if seen[id] {
			continue
		}
		seen[id] = true
		rec := r.record(id)
		if rec.ID != id {
			r.t.Fatalf("%s says it is %s", file, rec.ID)
		}
		all = append(all, rec)
	}
	return all
}

// coherent asserts what holds of a repository whenever nobody writes to it.
func (r *repo) coherent() {
	r.t.Helper()
	n := 0
	for _, rec := range r.records() {
		n++
		if word := r.read(r.jobPath(rec.ID, "state")); word != rec.State+"\n" {
			r.t.Errorf("job %s is %s, its state file says %q", rec.ID, rec.Status, word)
		}
		if rec.Status == "running" {
			r.t.Errorf("job %s is running, and nothing runs", rec.ID)
		}
	}
	if out := strings.ReplaceAll(r.ok("jobs", "list", "--all", "--format", "block"), ",", ""); !strings.HasPrefix(out, fmt.Sprintf("Outcome: %d job", n)) {
		r.t.Errorf("%d records, and jobs list says %.60q", n, out)
	}
	r.noneLeft()
	r.provable()
}

// provable asserts that every decision on record comes out the same again, and that the
// history leads to the present records. It ignores records that the test itself edited.
func (r *repo) provable() {
	r.t.Helper()
	var doc struct {
		Findings []struct {
			Kind, Message, Recorded, Decided string
			Entry                            uint64
		}
	}
	if err := json.Unmarshal([]byte(r.run("history", "verify", "--format", "json").out), &doc); err != nil {
		r.t.Fatal(err)
	}
	edited := false
	for _, f := range doc.Findings {
		if edited = edited || f.Kind == "edited"; f.Kind != "edited" {
			r.t.Errorf("history: entry %d: %s: %s\n  %s\n  %s", f.Entry, f.Kind, f.Message, f.Recorded, f.Decided)
		}
	}
	jobs := func(at ...string) string {
		out := r.ok(append([]string{"jobs", "list", "--all", "--format", "json", "--raw"}, at...)...)
		_, list, _ := strings.Cut(out, `"jobs":`) // after the time of the answer
		return list
	}
	if now, past := jobs(), jobs("--at", "now"); !edited && past != now {
		r.t.Errorf("--at now has\n%s\nand there is\n%s", past, now)
	}
}

// event is a line of the work log.
type event struct {
	word, id, attempt string
}

func (r *repo) events() []event {
	r.t.Helper()
	var all []event
	b, err := os.ReadFile(r.path(logName))
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			r.t.Fatalf("work log: %q", line)
		}
		all = append(all, event{f[0], f[1], f[2]})
	}
	return all
}

// lawful asserts, by the work log, that nothing forbidden happened: an attempt that
// ran twice, more attempts at once than the limits allow, a start before the job's
// predecessors had succeeded.
func (r *repo) lawful(nodes []*node) {
	r.t.Helper()
	byID := map[string]*node{}
	for _, n := range nodes {
		byID[n.id] = n
	}
	started := map[string]bool{}
	last := map[string]event{}
	for i, e := range r.events() {
		if strings.HasPrefix(e.word, "overlap") {
			r.t.Errorf("line %d: %s of attempt %s/%s", i+1, e.word, e.id, e.attempt)
		}
		if e.word == "start" {
			if at := e.id + "/" + e.attempt; started[at] {
				r.t.Errorf("line %d: attempt %s ran twice", i+1, at)
			} else {
				started[at] = true
			}
			n := byID[e.id]
			if n == nil {
				last[e.id] = e
				continue
			}
			for _, p := range n.before {
				if last[p.id].word != "end" {
					r.t.Errorf("line %d: %s starts, and %s, which comes first, is at %q of attempt %s", i+1, n.name, p.name, last[p.id].word, last[p.id].attempt)
				}
			}
		}
		last[e.id] = e
	}
}

// ended asserts that every node has ended in a way that the storm explains.
func (r *repo) ended(nodes []*node, struck map[string]int64) (failed []*node) {
	r.t.Helper()
	status := map[string]record{}
	for _, n := range nodes {
		status[n.id] = r.record(n.id)
	}
	for _, n := range nodes {
		rec := status[n.id]
		switch rec.Status {
		case "succeeded":
		case "failed":
			failed = append(failed, n)
			r.explained(n, rec, struck)
		case "blocked_by_dependency":
			fault := false
			for _, p := range n.before {
				fault = fault || status[p.id].Status != "succeeded"
			}
			if !fault {
				r.t.Errorf("%s is blocked (%+v), and all that comes first has succeeded", n.name, rec.Schedule.Wait)
			}
		default:
			r.t.Errorf("%s ended as %s", n.name, rec.Status)
		}
	}
	return failed
}

func (r *repo) explained(n *node, rec record, struck map[string]int64) {
	r.t.Helper()
	runners := struck["runner"] + struck["runner, stopped"]
	children := struck["child"] + struck["child, stopped"]
	switch {
	case rec.Class == "worker_lost" && runners > 0:
		if n.idempotent && rec.Reclaims != reclaims {
			r.t.Errorf("%s was lost for good after %d of %d reclaims", n.name, rec.Reclaims, reclaims)
		}
	case (rec.Class == "signal" || rec.Class == "exit" && *rec.ExitCode == 72) && children > 0:
	default:
		why := ""
		if rec.Reason != nil {
			why = *rec.Reason
		}
		r.t.Errorf("%s failed: %s %s", n.name, rec.Class, why)
	}
}

// evidence returns the files of a job, for the person who reads the failure.
func (r *repo) evidence(id string) string {
	errs, _ := os.ReadFile(r.jobPath(id, "stderr.log"))
	rec, _ := os.ReadFile(r.jobPath(id, "job.json"))
	lock, _ := os.ReadFile(r.jobPath(id, "job.lock"))
	claims, _ := filepath.Glob(r.jobPath(id, "attempts/*"))
	return fmt.Sprintf("\nstderr.log: %s\njob.lock: %s\nattempts: %v\n%s", errs, lock, claims, rec)
}

// complete asserts that every node has succeeded and that its last attempt is
// the one that did the work.
func (r *repo) complete(nodes []*node) {
	r.t.Helper()
	ended := map[string]bool{}
	for _, e := range r.events() {
		if e.word == "end" {
			ended[e.id+"/"+e.attempt] = true
		}
	}
	for _, n := range nodes {
		rec := r.record(n.id)
		if rec.Status != "succeeded" {
			r.t.Errorf("%s is %s %s %s", n.name, rec.Status, rec.Class, r.evidence(n.id))
		} else if !ended[fmt.Sprintf("%s/%d", n.id, rec.Attempt)] {
			r.t.Errorf("%s succeeded with attempt %d, whose work was not done", n.name, rec.Attempt)
		}
	}
}
