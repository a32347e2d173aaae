package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// promptFlow is a template that notes that a prompt runs, and ends as the prompt says.
const promptFlow = `id = "template.note"
version = "v1"

[params]
token = ""
code = "0"

[[nodes]]
id = "note"
kind = "shell"
uses = "cap.env.shell.command.run"
args = { command = "echo ${token} >> ran; sleep 0.0${code}; exit ${code}" }
`

// dropped is a prompt that was dropped, and the exit code of its run.
type dropped struct {
	token string
	code  int
}

// Whatever is killed, and however many processes watch: every prompt is run once,
// none is lost, and in the end the name of each file says how its run ended. Names
// are used again and again.
func TestEveryPromptIsRunOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	s := seed(t)
	for _, c := range []struct {
		name    string
		runners bool
	}{{"watchers", false}, {"watchers and runners", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, plainBin, "[inbox]\nflow = \"note\"\ndebounce = \"5ms\"\nvisible = \"30ms\"\npoll = \"100ms\"\nfailure_archive = true\n"+
				"[scheduler]\nmax_running = 4\n[store]\ndurability = \"relaxed\"\n")
			r.write(".vizier/workflows/note.toml", promptFlow)
			r.ok("inbox", "init")
			n := size("VIZIER_TORTURE_PROMPTS", 30, 300)
			all := make(chan dropped, n)
			st := newStorm(r, s, kills(60, 1000))
			watch := func(rng *rand.Rand) { st.kill(rng, "watch", 400, "inbox", "watch") }
			gusts := []func(*rand.Rand){watch, watch, func(rng *rand.Rand) { st.kill(rng, "once", 60, "inbox", "once"); nap(rng, 60) }}
			if c.runners {
				gusts = append(gusts, func(rng *rand.Rand) { st.jobs(rng); nap(rng, 200) })
			}
			st.rage(gusts...)
			rng := rand.New(rand.NewPCG(s, 77))
			for i := range n {
				d := dropped{fmt.Sprintf("token%dx", i), rng.IntN(2) * 3}
				r.drop(rng, d, func() {
					if st.left.Load() <= 0 { // nobody watches any more
						r.ok("inbox", "once")
					}
				})
				all <- d
				if rng.IntN(8) == 0 {
					nap(rng, 150)
				}
			}
			close(all)
			until(t, "most prompts are through, or the storm is over", func() bool {
				return r.openPrompts() < 1+n/4 && st.counts()["watch"] > 0 || st.left.Load() <= 0
			})
			st.rest()
			if t.Logf("killed %v", st.counts()); st.counts()["watch"] == 0 {
				t.Error("no watcher was killed")
			}
			until(t, "every prompt is through", func() bool {
				r.ok("inbox", "once")
				return r.openPrompts() == 0
			})
			time.Sleep(40 * time.Millisecond)
			r.ok("inbox", "once")
			r.truthful(all, c.runners)
			r.coherent()
		})
	}
}

// drop puts a whole prompt into the inbox, under one of a few names. It waits until
// it finds one that is free, and calls full whenever one is not.
func (r *repo) drop(rng *rand.Rand, d dropped, full func()) {
	r.t.Helper()
	text := fmt.Sprintf("---\nset: {token: %s, code: %d}\n---\n", d.token, d.code)
	temp := r.path(".vizier", "inbox", ".drop.tmp")
	if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	defer os.Remove(temp)
	for {
		name := fmt.Sprintf("p%d.prompt.md", rng.IntN(40))
		err := os.Link(temp, r.path(".vizier", "inbox", name))
		if err == nil {
			return
		}
		if !errors.Is(err, fs.ErrExist) {
			r.t.Fatal(err)
		}
		full()
		nap(rng, 3)
	}
}

// openPrompts counts the prompts that have not ended.
func (r *repo) openPrompts() int {
	r.t.Helper()
	names, err := os.ReadDir(r.path(".vizier", "inbox"))
	if err != nil {
		r.t.Fatal(err)
	}
	n := 0
	for _, e := range names {
		if strings.HasSuffix(e.Name(), ".prompt.md") || strings.HasSuffix(e.Name(), ".running.md") {
			n++
		}
	}
	return n
}

var tokens = regexp.MustCompile(`token\d+x`)

// truthful asserts that every prompt has one record, one run and one name, and
// that they agree.
func (r *repo) truthful(all <-chan dropped, lost bool) {
	r.t.Helper()
	ran := map[string]int{}
	for _, line := range r.lines("ran") {
		ran[line]++
	}
	names, jobs := map[string][]string{}, map[string][]string{}
	for _, tree := range []string{"inbox", "finished"} {
		files, _ := filepath.Glob(r.path(".vizier", tree, "*.md"))
		for _, f := range files {
			token := tokens.FindString(r.read(f))
			names[token] = append(names[token], filepath.Base(f))
		}
	}
	copies, _ := filepath.Glob(r.path(".vizier", "processed", "*", "*", "*", "*", "prompt.md"))
	for _, f := range copies {
		token := tokens.FindString(r.read(f))
		jobs[token] = append(jobs[token], filepath.Base(filepath.Dir(f)))
	}
	count := 0
	for d := range all {
		count++
		if len(names[d.token]) != 1 || len(jobs[d.token]) != 1 || ran[d.token] > 1 {
			r.t.Errorf("%s: ran %d times, jobs %v, called %v", d.token, ran[d.token], jobs[d.token], names[d.token])
			continue
		}
		id, name := jobs[d.token][0], names[d.token][0]
		rec := r.record(id)
		var intake struct {
			Processed *string `json:"processed_path"`
			Archived  *string `json:"archived_path"`
			Retries   int     `json:"retries"`
		}
		if err := json.Unmarshal([]byte(r.read(r.jobPath(id, "job.json"))), &intake); err != nil {
			r.t.Fatal(err)
		}
		want, word := "succeeded", ".done.md"
		if d.code != 0 {
			want, word = "failed_final", ".error.md"
		}
		if killed := rec.ExitCode == nil || *rec.ExitCode != d.code; lost && rec.State == "failed_final" && killed {
			want, word = "failed_final", ".error.md"
		} else if ran[d.token] != 1 {
			r.t.Errorf("%s: ran %d times", d.token, ran[d.token])
		}
		if rec.State != want || !strings.HasSuffix(name, word) {
			r.t.Errorf("%s: job %s is %s (%s), the prompt is called %s, want %s and %s", d.token, id, rec.State, rec.Class, name, want, word)
		}
		if (intake.Processed != nil) != (rec.State == "succeeded") || (intake.Archived != nil) != (rec.State != "succeeded") {
			r.t.Errorf("%s is %s: processed %v, archived %v", id, rec.State, intake.Processed, intake.Archived)
		}
	}
	if n := len(r.records()); n != count {
		r.t.Errorf("%d records for %d prompts", n, count)
	}
}

// If a prompt is removed before there is a copy of it, its run fails for lack of
// input, with a note in place of the copy.
func TestAPromptThatVanishes(t *testing.T) {
	t.Parallel()
	r := newRepo(t, plainBin, "[inbox]\nflow = \"hold\"\ndebounce = \"1ms\"\nvisible = \"1h\"\n")
	r.write(".vizier/workflows/hold.toml", strings.ReplaceAll(promptFlow, "sleep 0.0${code}", "sleep 600"))
	r.ok("inbox", "init")
	r.write(".vizier/processed/local", "in the way of the copy")
	r.drop(rand.New(rand.NewPCG(1, 1)), dropped{"token0x", 0}, func() {})
	time.Sleep(5 * time.Millisecond)
	r.ok("inbox", "once")
	claimed, _ := filepath.Glob(r.path(".vizier", "inbox", "*.running.md"))
	if len(claimed) != 1 || len(r.records()) != 1 {
		t.Fatalf("claimed %v, %d records", claimed, len(r.records()))
	}
	id := r.records()[0].ID
	if err := errors.Join(os.Remove(r.path(".vizier/processed/local")), os.Remove(claimed[0])); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(id); code != 1 {
		t.Errorf("jobs wait: exit %d", code)
	}
	r.is(id, "failed", "missing_input")
	notes, _ := filepath.Glob(r.path(".vizier", "processed", "*", "*", "*", id, "*"))
	if len(notes) != 1 || filepath.Base(notes[0]) != "NO_INPUT.md" {
		t.Errorf("in the copy's place: %v", notes)
	}
	r.coherent()
}
