package view_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

func node(run, name string) func(*kernel.Job) {
	return func(j *kernel.Job) { j.Spec.Origin.Run, j.Spec.Origin.Node = kernel.RunID(run), name }
}

func TestResolve(t *testing.T) {
	t.Parallel()
	s := kernel.NewSnapshot(kernel.Observation{
		Jobs: []kernel.Job{
			job("0190aaaa01", 0, kernel.Queued, node("run_ab34", "build")), job("0190aaaa02", 1, kernel.Queued, node("run_ab12", "test")),
			job("0190aaaa0", 2, kernel.Queued, node("run_ab34", "test")), job("0190cccc", 2, kernel.Queued, node("run_ab12", "build")), job("beef", 9, kernel.Succeeded), job("cafe", 3, kernel.Queued)},
		Unreadable: map[kernel.JobID]string{"0190bbbb": "torn"},
	})
	const missing, torn, invalid = "no job ", "; it may be one whose record cannot be read", "?"
	for ref, want := range map[string]string{
		"0190aaaa01": "0190aaaa01", "0190aaaa0": "0190aaaa0", "b": "beef", "@last": "beef",
		"run_ab12/build": "0190cccc", "run_ab3/test": "0190aaaa0", "ab12/test": "0190aaaa02",
		"": missing, " ": missing, "0": torn, "@first": missing, "/": missing, "//": missing,
		"run_ab12/gone": torn, "run_zz/build": torn, "/build": torn, "dead": torn, "beef/": torn, "run_ab12/": torn, "0190/": torn,
		"0190a": invalid, "run_ab/build": invalid, "0190bbbb": invalid, "0190b": invalid,
	} {
		id, err := view.NewFinder(s).Resolve(ref)
		switch want {
		case missing, torn:
			if !errors.Is(err, kernel.ErrNotFound) || err.Error() != missing+strconv.Quote(ref)+strings.TrimPrefix(want, missing) || errors.Is(err, view.ErrMaybeUnreadable) != (want == torn) || id != "" {
				t.Errorf("%q: %q, %v", ref, id, err)
			}
		case invalid:
			if !errors.Is(err, kernel.ErrInvalid) || errors.Is(err, kernel.ErrNotFound) || id != "" {
				t.Errorf("%q: %q, %v", ref, id, err)
			}
		default:
			if err != nil || string(id) != want {
				t.Errorf("%q: %q, %v, want %s", ref, id, err, want)
			}
		}
	}
	for ref, want := range map[string]string{
		"0190aaaa":     `"0190aaaa" is ambiguous: it may be job 0190aaaa01, 0190aaaa02, 0190aaaa0: name one of them: invalid`,
		"run_ab/build": `"run_ab/build" is ambiguous: it may be run run_ab12, run_ab34: name one of them: invalid`,
		"0190b":        "cannot read job record 0190bbbb: torn: invalid",
	} {
		if _, err := view.NewFinder(s).Resolve(ref); err == nil || err.Error() != want {
			t.Errorf("%q: %v", ref, err)
		}
	}
	prompt := func(j *kernel.Job) { j.Spec.Prompt = &kernel.Prompt{Rel: "x.prompt.md"} }
	run := snap(job("0190aaaa01", 1, kernel.Queued, node("run_ab12", "end"), prompt), job("0190aaaa02", 1, kernel.Queued, node("run_ab12", "begin")), job("beef", 0, kernel.Queued, prompt))
	if id, err := view.NewFinder(run).Resolve("@last"); id != "0190aaaa01" || err != nil {
		t.Errorf("@last of a prompt's run: %s, %v", id, err)
	}
	first := snap(job("0190aaaa01", 0, kernel.Queued, node("run_ab12", "end"), prompt), job("0190aaaa02", 1, kernel.Queued, node("run_ab12", "begin")))
	if id, err := view.NewFinder(first).Resolve("@last"); id != "0190aaaa01" || err != nil {
		t.Errorf("@last of a prompt's run, whose job is the first that there is: %s, %v", id, err)
	}
	for _, ref := range []string{"/end", "run_ab12/", "/"} { // also with one run, and no job that belongs to none
		if id, err := view.NewFinder(first).Resolve(ref); !errors.Is(err, kernel.ErrNotFound) || id != "" {
			t.Errorf("%s: %s, %v", ref, id, err)
		}
	}
	if _, err := view.NewFinder(snap()).Resolve("@last"); !errors.Is(err, kernel.ErrNotFound) {
		t.Errorf("@last of nothing: %v", err)
	}
}

// Eight digits are the beginning of an id, fewer never are.
func TestResolveDigits(t *testing.T) {
	t.Parallel()
	f := view.NewFinder(snap(job("0123456789", 0, kernel.Queued), job("9876543210", 1, kernel.Queued)))
	for _, ref := range []string{"01234567", "98765432"} {
		if id, err := f.Resolve(ref); err != nil || !strings.HasPrefix(string(id), ref) {
			t.Errorf("%s: %q, %v", ref, id, err)
		}
		if id, err := f.Resolve(ref[:7]); !errors.Is(err, kernel.ErrNotFound) {
			t.Errorf("%s: %q, %v", ref[:7], id, err)
		}
	}
}

func TestResolveNamesSomeOfManyCandidates(t *testing.T) {
	t.Parallel()
	var jobs []kernel.Job
	for i := range 1200 {
		jobs = append(jobs, job("x"+strings.Repeat("y", i), i, kernel.Queued))
	}
	jobs[0].ID = "xz"
	_, err := view.NewFinder(snap(jobs...)).Resolve("x")
	if err == nil || !strings.Contains(err.Error(), " and 1,190 more: ") {
		t.Errorf("got %.300v", err)
	}
	if _, err = view.NewFinder(snap(jobs[:2]...)).Resolve("x"); err == nil || err.Error() != `"x" is ambiguous: it may be job xz, xy: name one of them: invalid` {
		t.Errorf("of two: %v", err)
	}
	if _, err = view.NewFinder(snap(jobs[:10]...)).Resolve("x"); err == nil || !strings.Contains(err.Error(), "yyyyyyyyy: name one of them") {
		t.Errorf("of ten: %v", err)
	}
}
