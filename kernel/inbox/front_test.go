package inbox_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/inbox"
)

const (
	idA = kernel.JobID("0123456789abcdef0123456789abcdef")
	idB = kernel.JobID("fedcba9876543210fedcba9876543210")
)

func TestFrontOf(t *testing.T) {
	for name, c := range map[string]struct {
		fields map[string]any
		want   inbox.Front
	}{
		"nothing":            {nil, inbox.Front{}},
		"somebody else's":    {map[string]any{"title": 3, "tags": []any{"x"}}, inbox.Front{}},
		"flow and set":       {map[string]any{"flow": "draft", "set": map[string]any{"a": "1", "b": ""}}, inbox.Front{Flow: "draft", Set: map[string]string{"a": "1", "b": ""}}},
		"another's id":       {map[string]any{"pv": map[string]any{"job_id": string(idA), "more": 1}}, inbox.Front{Job: idA}},
		"another's, no id":   {map[string]any{"pv": map[string]any{}}, inbox.Front{}},
		"pv that is no map":  {map[string]any{"pv": "x"}, inbox.Front{}},
		"ours":               {map[string]any{"vizier": map[string]any{"job_id": string(idA), "owner": "o", "repository": "r", "branch": "b", "created_at": "c", "source": "s"}}, inbox.Front{Job: idA, Owner: "o", Repository: "r", Branch: "b"}},
		"ours before others": {map[string]any{"pv": map[string]any{"job_id": string(idB)}, "vizier": map[string]any{"job_id": string(idA)}}, inbox.Front{Job: idA}},
		"theirs if no ours":  {map[string]any{"pv": map[string]any{"job_id": string(idB)}, "vizier": map[string]any{}}, inbox.Front{Job: idB}},
		"below counts more": {map[string]any{"flow": "draft", "set": map[string]any{"a": "1", "b": "2"}, "vizier": map[string]any{"flow": "develop", "set": map[string]any{"b": "3"}}},
			inbox.Front{Flow: "develop", Set: map[string]string{"a": "1", "b": "3"}}},
	} {
		got, err := inbox.FrontOf(c.fields)
		if err != nil || got.Flow != c.want.Flow || got.Job != c.want.Job || got.Owner != c.want.Owner || got.Repository != c.want.Repository ||
			got.Branch != c.want.Branch || got.Set == nil || !maps.Equal(got.Set, c.want.Set) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// The first problem is told, by its key.
func TestFrontOfRefuses(t *testing.T) {
	own := func(key string, v any) map[string]any { return map[string]any{"vizier": map[string]any{key: v}} }
	for want, fields := range map[string]map[string]any{
		"flow: expected a text":                                                           {"flow": 3},
		"flow: expected a text:":                                                          {"flow": ""},
		"set: expected a mapping of parameters":                                           {"set": "a"},
		"set.a: expected a text, a number, true or false":                                 {"set": map[string]any{"a": nil, "b": nil}},
		"flow: expected a text: ":                                                         {"flow": 3, "set": 3, "pv": map[string]any{"job_id": 3}, "vizier": map[string]any{"owner": 3}},
		"set: expected a mapping of parameters: ":                                         {"set": 3, "vizier": map[string]any{"set": 4, "owner": 3}},
		"job_id: expected a text":                                                         {"pv": map[string]any{"job_id": 3}},
		`job_id "short": expected 32 lowercase hex digits`:                                {"pv": map[string]any{"job_id": "short"}},
		`job_id "` + strings.ToUpper(string(idA)) + `": expected 32 lowercase hex digits`: own("job_id", strings.ToUpper(string(idA))),
		"vizier: expected a mapping":                                                      {"vizier": "x"},
		"vizier.colour: unknown key; expected one of flow, set, job_id, owner, repository, branch, created_at, source": own("colour", "red"),
		"owner: expected a text":         own("owner", 3),
		"repository: expected a text":    own("repository", ""),
		"branch: expected a text":        own("branch", []any{}),
		"job_id: expected a text: ":      own("job_id", true),
		"flow: expected a text: invalid": {"flow": 3, "pv": map[string]any{"job_id": "short"}},
	} {
		if _, err := inbox.FrontOf(fields); !errors.Is(err, kernel.ErrInvalid) || !strings.HasPrefix(err.Error(), "front matter: "+strings.TrimSuffix(want, "invalid")) {
			t.Errorf("%v: %v, want %s", fields, err, want)
		}
	}
}

func TestAPromptIsForThePlaceItLiesIn(t *testing.T) {
	p := inbox.Path{Owner: "o", Repository: "r", Branch: "b"}
	for _, f := range []inbox.Front{{}, {Owner: "o"}, {Owner: "o", Repository: "r", Branch: "b"}} {
		if err := f.For(p); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
	for want, f := range map[string]inbox.Front{`vizier.owner is "x", and the prompt lies in the place of "o"`: {Owner: "x"},
		`vizier.repository is "x", and the prompt lies in the place of "r"`: {Owner: "o", Repository: "x"}, `vizier.branch is "r", and the prompt lies in the place of "b"`: {Branch: "r"}} {
		if err := f.For(p); !errors.Is(err, kernel.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestValidText(t *testing.T) {
	for _, text := range []string{"", "é\n", "\uFFFD"} {
		if err := inbox.ValidText(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"\xff", "a\x00b"} {
		if err := inbox.ValidText(text); !errors.Is(err, kernel.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The paths of a prompt's copies, and that its file tells which home they are
// in.
func TestPlacesOfAPrompt(t *testing.T) {
	in := &kernel.Prompt{File: "/h/inbox/o/r/b/x.running.md", Rel: "o/r/b/x.prompt.md", Owner: "o", Repository: "r", Branch: "b"}
	for got, want := range map[string]string{inbox.Home(in): "/h", inbox.Processed(in, idA): "processed/o/r/b/" + string(idA) + "/prompt.md",
		inbox.NoInput(in, idA): "processed/o/r/b/" + string(idA) + "/NO_INPUT.md", inbox.Failed(in, idA): "failed/o/r/b/" + string(idA) + "/x.prompt.md",
		inbox.ReasonOf(in.Rel): "o/r/b/x.error.txt"} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, file := range []string{"/h/inbox/o/r/b/x.done.md", "/h/outbox/o/r/b/x.running.md", "/h/o/r/b/x.running.md", "o/r/b/x.running.md"} {
		if home := inbox.Home(&kernel.Prompt{File: file, Rel: in.Rel}); home != "" {
			t.Errorf("the home of %s is %s", file, home)
		}
	}
}

// A file counts as another one when its inode, its size or its time is, and is
// looked at anew; one that is the same is as old as when it was first seen.
func TestWhatIsSeenOfAPrompt(t *testing.T) {
	now := time.Date(2026, 1, 1, 13, 0, 0, 0, time.UTC)
	f := inbox.PromptFile{Rel: "x.prompt.md", Inode: 7, Size: 3, Modified: now.Add(time.Hour), Changed: now}
	look := func(at time.Time, f inbox.PromptFile, seen map[string]inbox.Sighting) (ready bool, next map[string]inbox.Sighting, wait time.Duration) {
		out, next, wait := inbox.Listing{Files: []inbox.PromptFile{f}}.Ready(at, 4*time.Second, seen)
		return len(out) == 1, next, wait
	}
	ready, seen, wait := look(now, f, nil)
	if ready || wait != 4*time.Second || seen[f.Rel].File != f || !seen[f.Rel].Since.Equal(now) {
		t.Fatalf("%t %v %v", ready, seen, wait)
	}
	later := now.Add(4 * time.Second)
	if ready, next, wait := look(later, f, seen); !ready || len(next) != 0 || wait != 0 {
		t.Errorf("one that was still: %t %v %v", ready, next, wait)
	}
	for what, change := range map[string]func(*inbox.PromptFile){"inode": func(f *inbox.PromptFile) { f.Inode++ }, "size": func(f *inbox.PromptFile) { f.Size++ },
		"time": func(f *inbox.PromptFile) { f.Modified = f.Modified.Add(1) }} {
		g := f
		g.Changed = later
		change(&g)
		if ready, next, wait := look(later, g, seen); ready || wait != 4*time.Second || !next[f.Rel].Since.Equal(later) {
			t.Errorf("one of another %s: %t %v %v", what, ready, next, wait)
		}
	}
	young := f
	young.Modified, young.Changed = now.Add(-3*time.Second), now
	if ready, _, wait := look(now, young, nil); ready || wait != time.Second {
		t.Errorf("one that was written 3s ago: %t %v", ready, wait)
	}
	old := young
	old.Modified = now.Add(-4 * time.Second)
	if ready, _, _ := look(now, old, nil); !ready {
		t.Error("one that was written 4s ago is not ready")
	}
	// the shortest wait of all is the one to wait for
	soon := young
	soon.Rel, soon.Modified = "y.prompt.md", now.Add(-2*time.Second)
	for _, files := range [][]inbox.PromptFile{{young, soon}, {soon, young}} {
		if _, next, wait := (inbox.Listing{Files: files}).Ready(now, 4*time.Second, nil); wait != time.Second || len(next) != 2 {
			t.Errorf("%v, %d", wait, len(next))
		}
	}
}

func TestExpiredAndOfName(t *testing.T) {
	now := time.Date(2026, 1, 1, 13, 0, 0, 0, time.UTC)
	file := func(rel string, n kernel.PromptName, age time.Duration) inbox.PromptFile {
		return inbox.PromptFile{Rel: rel, Name: n, Modified: now.Add(-2 * age), Changed: now.Add(-age)}
	}
	l := inbox.Listing{Files: []inbox.PromptFile{file("new", kernel.NewPrompt, time.Hour), file("run", kernel.RunningPrompt, time.Hour), file("gone", kernel.DonePrompt, time.Minute),
		file("err", kernel.ErrorPrompt, 50*time.Second), file("done", kernel.DonePrompt, 40*time.Second), file("old", kernel.ErrorPrompt, time.Hour), file("ahead", kernel.DonePrompt, -time.Second)}}
	gone, wait := l.Expired(now, time.Minute)
	var names []string
	for _, f := range gone {
		names = append(names, f.Rel)
	}
	if got := strings.Join(names, " "); got != "gone old ahead" || wait != 10*time.Second { // whose clock was set back is not kept for ever
		t.Errorf("%s, %v", got, wait)
	}
	l.Files[3], l.Files[4] = l.Files[4], l.Files[3]
	if _, wait := l.Expired(now, time.Minute); wait != 10*time.Second {
		t.Errorf("in another order: %v", wait)
	}
	names = nil
	for _, f := range l.OfName(kernel.DonePrompt) {
		names = append(names, f.Rel)
	}
	if got := strings.Join(names, " "); got != "gone done ahead" {
		t.Error(got)
	}
}
