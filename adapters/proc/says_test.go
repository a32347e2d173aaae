package proc

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// The reports of a command with secrets are copied into the store, while it
// runs and when it has ended, and never contain a secret.
func TestWhatIsSaidWithSecretsComesIntoTheStoreWithoutThem(t *testing.T) {
	for _, b := range []kernel.Sandbox{{}, {Mode: kernel.BestEffortSandbox}} {
		t.Run(b.Mode.String(), func(t *testing.T) {
			privateRuntime(t)
			w := setup(t, "sh", "-c", `v=$(cat "$VIZIER_SECRET_T")
printf '%s\n' "{\"done\":1,\"text\":\"with $v\"}" 'no JSON: '"$v" >>"$VIZIER_REPORT"
until grep -q 'with' "$TOLD"; do sleep 0.01; done
printf '{"done":2,"text":"with h\\u0075nter2"}' >>"$VIZIER_REPORT"
echo '{"command":["true"]}' >>"$VIZIER_SUBMISSIONS"
echo "{\"attempt\":\"$VIZIER_ATTEMPT_ID\",\"outcome\":\"failed\",\"exit\":9,\"reason\":\"not h\\u0075nter2\"}" >"$VIZIER_RESULT_FILE"`)
			a := w.job.Attempt()
			w.job.Spec.Task.Sandbox = b
			w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "T", Source: `echo hunter2`}}
			w.job.Spec.Task.Env = []string{"TOLD=" + w.Files.ReportFile(a)}
			if err := w.Provide(bg, &w.job); err != nil {
				t.Fatal(err)
			}
			wantResult(t, w.Run(bg, &w.job), kernel.OutcomeFailed, 9, kernel.ExitFailure, "not [secret T]")
			report, err := os.ReadFile(w.Files.ReportFile(a))
			if want := `{"done":1,"text":"with [secret T]"}` + "\nno JSON: [secret T]\n" + `{"done":2,"text":"with [secret T]"}` + "\n"; err != nil || string(report) != want {
				t.Errorf("the report is %q (%v), want %q", report, err, want)
			}
			result, err := os.ReadFile(w.Files.ResultFile(a))
			if err != nil || !strings.Contains(string(result), `"not [secret T]"`) {
				t.Errorf("the result is %q: %v", result, err)
			}
			if left, _ := filepath.Glob(filepath.Dir(w.Files.ReportFile(a)) + "/.*"); len(left) > 0 {
				t.Errorf("%q are left", left)
			}
		})
	}
}

// Of a long report the end is brought, from the beginning of a line.
func TestALongReportIsBroughtByLines(t *testing.T) {
	dir := t.TempDir()
	r := &relay{from: says{report: dir + "/from"}, to: says{report: dir + "/to"}, texts: hiddenTexts([]secretValue{{"S", []byte("hunter2")}})}
	cut := "hunter2" + strings.Repeat(" ", relayReport-3) // of which the end has "er2"
	for text, want := range map[string]string{cut: "", cut + "\n{\"done\":1}\n": "{\"done\":1}\n"} {
		if err := os.WriteFile(r.from.report, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.report(true)
		if b, err := os.ReadFile(r.to.report); err != nil || string(b) != want {
			t.Errorf("%d bytes, %.20q: %v", len(b), b, err)
		}
	}
}

// While the command runs, a report is brought up to its last whole line, and again only once it has changed: whoever
// waits for progress is not woken by a copy of the same. Once it has ended, all is brought.
func TestAReportIsBroughtWhenItChanges(t *testing.T) {
	dir := t.TempDir()
	r := &relay{from: says{report: dir + "/from"}, to: says{report: dir + "/to"}, texts: hiddenTexts([]secretValue{{"S", []byte("hunter2")}})}
	var before os.FileInfo
	for i, step := range []struct {
		text string
		last bool
		want string
		anew bool
	}{
		{"one\ntw", false, "one\n", true},
		{"one\ntw", false, "one\n", false},
		{"one\ntwo\nthr", false, "one\ntwo\n", true},
		{"one\ntwo\nthr", true, "one\ntwo\nthr\n", true},
	} {
		if old, err := os.ReadFile(r.from.report); err != nil || string(old) != step.text {
			if err := os.WriteFile(r.from.report, []byte(step.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.report(step.last)
		b, err := os.ReadFile(r.to.report)
		now, err2 := os.Stat(r.to.report)
		if err != nil || err2 != nil || string(b) != step.want {
			t.Fatalf("step %d: %q, want %q: %v, %v", i, b, step.want, err, err2)
		}
		if anew := before == nil || !os.SameFile(before, now); anew != step.anew {
			t.Errorf("step %d: copied anew: %v", i, anew)
		}
		before = now
	}
}

// Jobs that one with secrets submits come into the store, unless they have the value.
func TestJobsOfOneWithSecrets(t *testing.T) {
	for line, want := range map[string]kernel.FailureClass{
		`{"command":["true"]}`: kernel.NoFailure, `{"command":["h\u0075nter2"]}`: kernel.DataError, `{"hunter2":1,"hunter2":2`: kernel.DataError,
	} {
		privateRuntime(t)
		w := setup(t, "sh", "-c", `printf '%s' "$0" >"$VIZIER_SUBMISSIONS"`, line)
		w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "T", Source: `echo hunter2`}}
		if err := w.Provide(bg, &w.job); err != nil {
			t.Fatal(err)
		}
		r := w.Run(bg, &w.job)
		b, _ := os.ReadFile(w.Files.SubmissionsFile(w.job.Attempt()))
		if r.Class != want || (want == kernel.NoFailure) != (string(b) == line+"\n") || strings.Contains(string(b), "nter2") {
			t.Errorf("%s: %+v, submitted %q", line, r, b)
		}
	}
}

// What stands in place of the files that a command with secrets says something in is
// not waited on, and a result that cannot be read counts as none that makes sense.
func TestSomethingElseInPlaceOfWhatIsSaid(t *testing.T) {
	privateRuntime(t)
	w := setup(t, "sh", "-c", `mkfifo "$VIZIER_RESULT_FILE" "$VIZIER_SUBMISSIONS" "$VIZIER_REPORT"`)
	w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "T", Source: `echo hunter2`}}
	if err := w.Provide(bg, &w.job); err != nil {
		t.Fatal(err)
	}
	// What lies in the store does not pass for what the command says.
	if err := os.WriteFile(w.Files.ResultFile(w.job.Attempt()), []byte(`{"outcome":"blocked"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := w.Run(bg, &w.job); r.Class != kernel.DataError || !strings.HasPrefix(r.Reason, "result file ($VIZIER_RESULT_FILE): ") {
		t.Errorf("%+v", r)
	}
	w.job.Spec.Task.Args = []string{"sh", "-c", `mkfifo "$VIZIER_SUBMISSIONS"`}
	if err := w.Provide(bg, &w.job); err != nil {
		t.Fatal(err)
	}
	if r := w.Run(bg, &w.job); r.Outcome != kernel.OutcomeFailed || r.Class != kernel.DataError {
		t.Errorf("jobs that cannot be read: %+v", r)
	}
	w.job.Spec.Task.Args = []string{"sh", "-c", "true"}
	if err := w.Provide(bg, &w.job); err != nil {
		t.Fatal(err)
	}
	wantResult(t, w.Run(bg, &w.job), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
}

func TestRedactJSON(t *testing.T) {
	texts := hiddenTexts([]secretValue{{"S", []byte("pass\"word\nsecond line\n")}, {"N", []byte("1234567")}})
	for _, test := range []struct{ in, want string }{
		{`{"a": 1, "b":[true,null,1.50]}`, `{"a": 1, "b":[true,null,1.50]}`},
		{`{"a":"x pass\"word\nsecond line"}`, `{"a":"x [secret S]"}`},
		{`["pass\u0022word\n"]`, `["[secret S]\n"]`},
		{`{"second line":{"x":"y"}}`, `{"[secret S]":{"x":"y"}}`},
		{`{"done":1234567}`, `{"done":"[secret N]"}`},
		{`{"a":"1234567","a":"b"}`, `{"a":"[secret N]","a":"b"}`},
		{`1234567 {`, `[secret N] {`},
	} {
		got, found := redactJSON([]byte(test.in), texts)
		if string(got) != test.want || found != (test.in != test.want) {
			t.Errorf("%s is %s, %v", test.in, got, found)
		}
		if json.Valid([]byte(test.in)) && !json.Valid(got) {
			t.Errorf("%s is no JSON any more: %s", test.in, got)
		}
	}
}

// A runner that is killed leaves the temporary directory of a sandboxed attempt, and a
// sweep takes it.
func TestSweepTakesTemporaryDirectories(t *testing.T) {
	w := setup(t, "sh", "-c", `touch "$TMPDIR/x"; echo "at $TMPDIR"; sleep 60`)
	w.job.Spec.Task.Sandbox.Mode = kernel.BestEffortSandbox
	a := w.launch()
	at := w.said("at ")
	c := w.claim(a)
	if string(c.Temporary) != at || !strings.HasPrefix(filepath.Base(at), ownTemporary) {
		t.Fatalf("the claim has %q, the command %q", c.Temporary, at)
	}
	if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.eventually("the runner's end", func() bool { return w.liveness(a) == kernel.Dead })
	if _, err := os.Stat(at + "/x"); err != nil {
		t.Fatalf("it went with the runner: %v", err)
	}
	if err := w.Sweep(bg, a); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(at); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", at, err)
	}
}

// What a sandboxed command leaves read-only in its temporary directory is removed all the same.
func TestTemporaryDirectoriesWithReadOnlyOnes(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	w := setup(t, "sh", "-c", `mkdir "$TMPDIR/m"; touch "$TMPDIR/m/f"; chmod 555 "$TMPDIR/m"; echo "at $TMPDIR"`)
	w.job.Spec.Task.Sandbox.Mode = kernel.BestEffortSandbox
	w.launch()
	at := w.said("at ")
	w.eventually("the temporary directory is gone", func() bool {
		_, err := os.Stat(at)
		return os.IsNotExist(err)
	})
	if !strings.HasPrefix(filepath.Base(at), ownTemporary) {
		t.Errorf("the command had %s", at)
	}
}

// What is refused in the place of the files that a command says something in does not stay, whether it is too
// large or no file, and however the attempt ends; what a link names does.
func TestWhatIsRefusedDoesNotStay(t *testing.T) {
	for _, put := range []string{`head -c 3000000 /dev/zero >"$f"`, `ln -s kept "$f"`, `mkfifo "$f"`, `mkdir "$f" && touch "$f/kept"`} {
		for _, end := range []string{"true", "false"} {
			w := setup(t, "sh", "-c", `for f in "$VIZIER_SUBMISSIONS" "$VIZIER_RESULT_FILE"; do `+put+`; done; `+end)
			kept := filepath.Join(filepath.Dir(w.Files.ResultFile(w.job.Attempt())), "kept")
			if err := os.WriteFile(kept, []byte("it"), 0o600); err != nil {
				t.Fatal(err)
			}
			w.Run(bg, &w.job)
			w.gone(put, w.Files.ResultFile(w.job.Attempt()), w.Files.SubmissionsFile(w.job.Attempt()))
			if _, err := os.Lstat(kept); err != nil {
				t.Error(err)
			}
		}
		// If only the submissions are refused, it is by the one who reads them.
		w := setup(t, "sh", "-c", `f=$VIZIER_SUBMISSIONS; `+put)
		if r := w.Run(bg, &w.job); r.Outcome != kernel.OutcomeSucceeded {
			t.Errorf("%s: %+v", put, r)
		}
		if lines, err := w.Submitted(bg, w.job.Attempt(), 1<<20); err == nil {
			t.Errorf("%s: %d bytes", put, len(lines))
		}
		w.gone(put, w.Files.SubmissionsFile(w.job.Attempt()))
	}
}

// gone checks that nothing is at the paths.
func (w *world) gone(what string, paths ...string) {
	w.t.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			w.t.Errorf("%s: %s is there: %v", what, filepath.Base(path), err)
		}
	}
}

// As many bytes as may be are submitted, and not one more.
func TestHowMuchIsSubmitted(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	if lines, err := w.Submitted(bg, a, 4); lines != nil || err != nil {
		t.Errorf("without a file: %q, %v", lines, err)
	}
	for text, fits := range map[string]bool{"four": true, "fives": false} {
		if err := os.WriteFile(w.Files.SubmissionsFile(a), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if lines, err := w.Submitted(bg, a, 4); (err == nil) != fits || fits && string(lines) != text || !fits && lines != nil {
			t.Errorf("%s: %q, %v", text, lines, err)
		}
	}
	for value, want := range map[string]int{"secret": 1, "short": 0, "secret\nsecrets\nshort": 3} {
		if texts := hiddenTexts([]secretValue{{"S", []byte(value)}}); len(texts) != want {
			t.Errorf("of %q, %d texts are hidden", value, len(texts))
		}
	}
}

// A command does not start where what it says would not be told from what was there, or cannot be said.
func TestWhereNothingCanBeSaid(t *testing.T) {
	for name, c := range map[string]struct {
		sandbox bool
		at      func(w *world, a kernel.AttemptID) string
		says    string
	}{
		"an output":      {false, func(w *world, a kernel.AttemptID) string { return w.Files.LogFile(a.Job, "stdout") }, "log: "},
		"another output": {false, func(w *world, a kernel.AttemptID) string { return w.Files.LogFile(a.Job, "stderr") }, "log: "},
		"a result":       {false, func(w *world, a kernel.AttemptID) string { return w.Files.ResultFile(a) }, "directory not empty"},
		"submissions":    {true, func(w *world, a kernel.AttemptID) string { return w.Files.SubmissionsFile(a) }, "sandbox: "},
	} {
		w := setup(t, "sh", "-c", "echo started")
		if c.sandbox {
			w.job.Spec.Task.Sandbox.Mode = kernel.BestEffortSandbox
		}
		inPlace(t, c.at(w, w.job.Attempt()))
		r := w.Run(bg, &w.job)
		if r.Outcome != kernel.OutcomeFailed || r.Class != kernel.LaunchFailure || !strings.Contains(r.Reason, c.says) || w.log("stdout") != "" {
			t.Errorf("%s: %+v, it says %q", name, r, w.log("stdout"))
		}
	}
}

// Where the repository is cannot be changed by a sandboxed command: it fails, and that is put back. What was enforced is told.
func TestASandboxedCommandThatUnlinksItsTree(t *testing.T) {
	w := setup(t, "sh", "-c", `test "$0" = keep || rm .git`)
	admin, link := filepath.Join(w.root, ".git", "worktrees", "tree"), filepath.Join(w.root, "tree", ".git")
	if err := errors.Join(os.MkdirAll(admin, 0o700), os.Mkdir(filepath.Dir(link), 0o700), os.WriteFile(filepath.Join(admin, "gitdir"), []byte(link+"\n"), 0o600),
		os.WriteFile(link, []byte("gitdir: "+admin+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w.job.Spec.Task.Sandbox.Mode = kernel.BestEffortSandbox
	w.job.State.Context.Root = "tree"
	r := w.Run(bg, &w.job)
	wantResult(t, r, kernel.OutcomeFailed, 1, kernel.RejectedByHost, "it changed "+link+", which says where the repository is; it was put back")
	if text, err := os.ReadFile(link); string(text) != "gitdir: "+admin+"\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	w.job.Spec.Task.Args = append(w.job.Spec.Task.Args, "keep")
	again := w.Run(bg, &w.job)
	wantResult(t, again, kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	for _, r := range []kernel.Result{r, again} {
		if r.Place.Sandbox == "" || r.Place.Sandbox != Kept(&w.job) {
			t.Errorf("of its sandbox is told %q", r.Place.Sandbox)
		}
	}
	w.job.Spec.Task.Container = "image"
	if got := Kept(&w.job); got != "nothing but what its container's mounts leave out" {
		t.Errorf("of its container: %q", got)
	}
}

// The program of an engine of containers is found from the repository, and whoever is to remove a container is started there.
func TestTheProgramThatRemovesAContainer(t *testing.T) {
	w := setup(t)
	w.file("rm.sh", "#!/bin/sh\n", 0o700)
	w.Containers.Remove = []string{"./rm.sh", "{name}"}
	if got := strings.Join(w.removal("c"), " "); got != w.root+"/rm.sh c" {
		t.Error(got)
	}
	w.Containers.Remove = []string{w.root + "/rm.sh", "{name}"}
	k, err := w.keepContainer("c", w.job.Attempt())
	if k == nil || err != nil {
		t.Fatal(k, err)
	}
	k.dismiss()
	gone := *newLocal(filepath.Join(w.root, "gone"))
	gone.Containers = w.Containers
	if k, err := gone.keepContainer("c", w.job.Attempt()); k != nil || err == nil || !strings.HasPrefix(err.Error(), "container: ") {
		t.Errorf("where no process starts: %v, %v", k, err)
	}
}

// A node, whose runner has the secrets, says where that says it.
func TestWhereANodeWithSecretsSaysIt(t *testing.T) {
	w := setup(t)
	w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "T", Source: "x"}}
	t.Setenv(envReport, "/private/of/report.jsonl")
	if got := w.saysIn(&w.job); got != saysBelow("/private/of") {
		t.Errorf("%+v", got)
	}
}

// A sandboxed command writes nothing outside of its tree.
func TestASandboxedCommandStaysInItsTree(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "made")
	w := setup(t, "sh", "-c", `echo started; touch "$0" || exit 7`, outside)
	w.job.Spec.Task.Sandbox.Mode = kernel.RequiredSandbox
	r := w.Run(bg, &w.job)
	if r.Exit != 7 && w.log("stdout") == "" {
		t.Skip(r.Reason)
	}
	if _, err := os.Lstat(outside); r.Exit != 7 || !os.IsNotExist(err) {
		t.Errorf("%+v, %v", r, err)
	}
}

// A runner waits for what its command left only once that has ended, and only if it is this repository's and here.
func TestWhatARunnerWaitsFor(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	gone := Self()
	gone.PID, gone.Start = 1<<30, 1
	for name, c := range map[string]struct {
		change func(*claim)
		waits  bool
	}{
		"it has ended":       {func(*claim) {}, true},
		"none has begun":     {func(c *claim) { c.Child = nil }, false},
		"it runs":            {func(c *claim) { own := Self(); c.Child = &own }, false},
		"of a copy":          {func(c *claim) { c.Lock.Ino++ }, false},
		"in another place":   {func(c *claim) { c.Spaces.PID = "pid:[1]" }, false},
		"nothing of its own": {func(c *claim) { c.Private = "" }, false},
	} {
		w := setup(t)
		a, private := w.job.Attempt(), t.TempDir()
		lock := w.Files.LockFile(a.Job)
		if err := errors.Join(os.WriteFile(lock, nil, 0o600), os.WriteFile(saysBelow(private).result, nil, 0)); err != nil {
			t.Fatal(err)
		}
		one := claim{Identity: Self(), Lock: inodeOf(lock), Spaces: spaces(), Private: sys.Path(private), Child: &gone}
		c.change(&one)
		if err := w.writeClaimOnce(a, one); err != nil {
			t.Fatal(err)
		}
		if why := w.waitsToRead(a, true); (why != "") != c.waits || c.waits && !strings.Contains(why, private) {
			t.Errorf("%s: %q", name, why)
		}
		if err := os.WriteFile(w.Files.ResultFile(a), nil, 0); err != nil {
			t.Fatal(err)
		}
		if why := w.waitsToRead(a, true); (why != "") != (c.waits || one.Private == "") || why != "" && !strings.Contains(why, w.Files.ResultFile(a)) {
			t.Errorf("%s, in the store: %q", name, why)
		}
	}
}
