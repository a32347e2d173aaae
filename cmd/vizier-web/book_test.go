package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/cmd/vizier-web/page"
	"github.com/vizier-scheduler/vizier/internal/drawtest"
)

// told is what a page has been told, as the script in it keeps it.
type told struct {
	Attention, Runs json.RawMessage
	Needing         int
	Outcome         string
	Jobs            []map[string]any
	Gone            []string
}

func tell(t *testing.T, p *page.Page, have *told) (fresh told) {
	t.Helper()
	args := "{}"
	if have != nil {
		args = `{"news":true}`
	}
	text, err := p.Ask("stand", []byte(args))
	if err != nil || json.Unmarshal([]byte(text), &fresh) != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if have == nil {
		return fresh
	}
	jobs := slices.DeleteFunc(slices.Clone(have.Jobs), func(j map[string]any) bool { return slices.Contains(fresh.Gone, j["job"].(string)) })
	for _, j := range fresh.Jobs {
		if at, isNew := j["at"]; isNew {
			delete(j, "at")
			jobs = slices.Insert(jobs, int(at.(float64)), j)
		} else {
			jobs[slices.IndexFunc(jobs, func(k map[string]any) bool { return k["job"] == j["job"] })] = j
		}
	}
	if fresh.Jobs, fresh.Gone = jobs, []string{}; string(fresh.Runs) == "null" {
		fresh.Runs = have.Runs
	}
	return fresh
}

// Whatever happens, what a page has been told of changes comes to what one is told that
// begins now, and so does what it foretells; a change has the jobs that changed.
func TestChangesLeadToHowItStands(t *testing.T) {
	f := newField(t)
	draw := drawtest.Of(t)
	r, err := vizier.Open(f.dir, vizier.Options{Environ: os.Environ(), NoResident: true})
	if err != nil {
		t.Fatal(err)
	}
	f.flow()
	b := newBook(r)
	p, version, have := &page.Page{}, uint64(0), (*told)(nil)
	for range 40 {
		switch what := draw.IntN(9); what {
		case 0:
			f.vizier("", "submit", "--approval", "--produce", "custom:x:y", "--", "true")
		case 1:
			f.vizier("", "submit", "--need", "custom:x:y", "--", "sh", "-c", "exit 1")
			f.idle()
		case 2, 3:
			if ref := f.oneThat(draw, "waiting_on_approval"); ref != "" {
				f.vizier("", "jobs", map[int]string{2: "approve", 3: "reject"}[what], ref)
				f.idle()
			}
		case 4:
			if ref := f.oneThat(draw, "failed"); ref != "" {
				f.vizier("", "retry", ref)
				f.idle()
			}
		case 5:
			if ref := f.oneThat(draw, "waiting_on_"); ref != "" {
				f.vizier("", "cancel", ref) // what waited for it may find that an earlier one made it
				f.idle()
			}
		case 6:
			f.vizier("", "jobs", "gc", "--days", "0")
		case 7: // by hand
			if names, _ := filepath.Glob(filepath.Join(f.dir, ".vizier", "jobs", "*", "job.json")); len(names) > 0 {
				name := names[draw.IntN(len(names))]
				text, err := os.ReadFile(name)
				if err != nil || os.WriteFile(name, append(text, ' '), 0o600) != nil {
					t.Fatal(err)
				}
			}
			b.read = time.Time{}
		case 8: // nothing
		}
		state, err := b.State(t.Context(), version)
		if err != nil {
			t.Fatal(err)
		}
		if version > 0 && state.Change == nil {
			t.Error("all jobs are handed over anew")
		}
		if err := p.Take(page.Text(state)); err != nil {
			t.Fatal(err)
		}
		version = state.Version
		now := tell(t, p, have)
		have = &now
		fresh, err := newBook(r).State(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		other, err := page.Read(page.Text(fresh))
		if err != nil {
			t.Fatal(err)
		}
		if want := tell(t, other, nil); !reflect.DeepEqual(now, want) {
			t.Fatalf("it was told\n%s\nand one that begins now\n%s", printed(now), printed(want))
		}
		for _, j := range now.Jobs {
			can, _ := j["can"].([]any)
			for _, what := range can {
				args := []byte(printed(map[string]any{"what": what, "job": j["job"], "now": fresh.Snapshot.Now}))
				got, wrong := p.Ask("follows", args)
				if want, refused := other.Ask("follows", args); got != want && wrong == nil && refused == nil { // one may have seen more
					t.Fatalf("%s %v: %s, and one that begins now: %s", what, j["ref"], got, want)
				}
			}
		}
	}
}

func printed(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// idle waits until nothing runs or is about to.
func (f field) idle() {
	f.Helper()
	for deadline := time.Now().Add(time.Minute); strings.Contains(f.vizier("", "ls", "--all"), "running"); {
		if time.Now().After(deadline) {
			f.Fatal(f.vizier("", "ls", "--all"))
		}
	}
}

// oneThat returns one of the jobs whose status begins like that; "": there is
// none.
func (f field) oneThat(draw *rand.Rand, status string) string {
	f.Helper()
	var doc struct {
		Jobs []struct{ Job, Status string }
	}
	if text := f.vizier("", "ls", "--all", "--format", "json"); json.Unmarshal([]byte(text), &doc) != nil {
		f.Fatal(text)
	}
	var ids []string
	for _, j := range doc.Jobs {
		if strings.HasPrefix(j.Status, status) {
			ids = append(ids, j.Job)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return ids[draw.IntN(len(ids))]
}

// A page that has what was, or what is not known any more, gets all; one that has the
// rest, what changed and nothing else.
func TestAChangeHasWhatChanged(t *testing.T) {
	f := newField(t)
	r, err := vizier.Open(f.dir, vizier.Options{Environ: os.Environ(), NoResident: true})
	if err != nil {
		t.Fatal(err)
	}
	f.vizier(batch(30), "submit", "--batch")
	b := newBook(r)
	look := func(have uint64) page.State {
		t.Helper()
		state, err := b.State(t.Context(), have)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	first := look(0)
	b.read = time.Now().Add(time.Hour) // however slow this is
	if first.Snapshot == nil || len(first.Snapshot.Jobs) != 30 {
		t.Fatalf("at first: %+v", first)
	}
	if again := look(first.Version); again.Version != first.Version || again.Change == nil || len(again.Change.Jobs) != 0 {
		t.Errorf("of nothing: %+v", again)
	}
	f.vizier("", "jobs", "reject", "1/j0")
	second := look(first.Version)
	var refs []string
	for i := range second.Change.Jobs {
		refs = append(refs, second.Change.Jobs[i].Part)
	}
	slices.Sort(refs)
	if want := []string{"j0", "j1", "j2", "j3", "j4", "j5", "j6", "j7", "j8", "j9"}; !slices.Equal(refs, want) {
		t.Errorf("a change of %v, want %v", refs, want)
	}
	if b.read.IsZero() || len(b.steps) != 1 {
		t.Errorf("it was read %v, in %d steps", b.read, len(b.steps))
	}
	for range mostSteps + 1 {
		f.vizier("", "submit", "--approval", "--", "true")
		look(0)
	}
	if late := look(first.Version); late.Snapshot == nil {
		t.Error("changes are kept for ever")
	}
	if odd := look(b.version + 7); odd.Snapshot == nil {
		t.Error("a version that never was gets a change")
	}
}
