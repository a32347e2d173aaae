package proc

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Whatever an output is cut into, what goes through is the output with a mark in
// place of each stretch that texts cover.
func TestRedactIsTheSameHoweverOutputIsCut(t *testing.T) {
	rnd := drawtest.Of(t)
	word := func(most int) string {
		b := make([]byte, 1+rnd.IntN(most))
		for i := range b {
			b[i] = "ab\n"[rnd.IntN(3)]
		}
		return string(b)
	}
	for range 3000 {
		var texts []hiddenText
		for range 1 + rnd.IntN(3) {
			texts = append(texts, hiddenText{[]byte(word(7)), []byte("#")})
		}
		output := word(60)
		covered := make([]bool, len(output))
		starts := make([]bool, len(output)+1)
		for _, h := range texts {
			for at := range output {
				if strings.HasPrefix(output[at:], string(h.text)) {
					starts[at] = true
					for i := range h.text {
						covered[at+i] = true
					}
				}
			}
		}
		open := func(at int) bool { // a text began before at and goes on there
			for _, h := range texts {
				for from := max(at-len(h.text)+1, 0); from < at; from++ {
					if strings.HasPrefix(output[from:], string(h.text)) {
						return true
					}
				}
			}
			return false
		}
		var want strings.Builder
		for at := range output {
			switch {
			case !covered[at]:
				want.WriteByte(output[at])
			case starts[at] && !open(at):
				want.WriteByte('#')
			}
		}
		var got bytes.Buffer
		r := redactor{out: &got, texts: texts}
		for rest := output; rest != ""; {
			n := 1 + rnd.IntN(len(rest))
			_, _ = r.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		if err := r.flush(); err != nil || got.String() != want.String() {
			t.Fatalf("%q without %q is %q, want %q", output, texts, got.String(), want.String())
		}
	}
}

// What cannot be the beginning of a secret is not held back.
func TestRedactHoldsBackNoMore(t *testing.T) {
	var got bytes.Buffer
	r := redactor{out: &got, texts: hiddenTexts([]secretValue{{"S", []byte("hunter2\n")}})}
	_, _ = r.Write([]byte("ask the hunt"))
	if got.String() != "ask the " {
		t.Errorf("it wrote %q", got.String())
	}
	_, _ = r.Write([]byte("er2, or the hunter"))
	if got.String() != "ask the [secret S], or the " {
		t.Errorf("it wrote %q", got.String())
	}
	if _ = r.flush(); got.String() != "ask the [secret S], or the hunter" {
		t.Errorf("it wrote %q", got.String())
	}
}

func TestSecretsAreHandedOverAndNotLogged(t *testing.T) {
	runtime := privateRuntime(t)
	w := setup(t, "sh", "-c", `cat "$VIZIER_SECRET_KEY"; sed "s/^/> /" "$VIZIER_SECRET_KEY" >&2; printf hunt; sleep 0.05; printf 'er2!\n'
ls -l "$VIZIER_SECRET_T" | cut -c1-10; ls -ld "${VIZIER_SECRET_T%/*}" | cut -c1-10
echo "{\"reason\":\"it is $(cat "$VIZIER_SECRET_T")\"}" >"$VIZIER_RESULT_FILE"; (sleep 60 &)`)
	w.file("key", "BEGIN A KEY\nfirst line\nand more\nEND\n", 0o600)
	w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "KEY", Source: "@" + w.root + "/key"}, {Name: "T", Source: `test -z "$VIZIER_RUNNER" && echo hunter2`}}
	if err := w.Provide(bg, &w.job); err != nil {
		t.Fatal(err)
	}
	r := w.Run(bg, &w.job)
	if r.Reason != "it is [secret T]" {
		t.Errorf("the result is %+v", r)
	}
	if got, want := w.log("stdout"), "[secret KEY]\n[secret T]!\n-rw-------\ndrwx------\n"; got != want {
		t.Errorf("the output is %q, want %q", got, want)
	}
	if got, want := w.log("stderr"), "> [secret KEY]\n> [secret KEY]\n> [secret KEY]\n> END\n"; got != want {
		t.Errorf("the errors are %q, want %q", got, want)
	}
	if left, _ := os.ReadDir(runtime); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// privateRuntime returns a directory of this user's own where secrets are
// handed over.
func privateRuntime(t *testing.T) string {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", dir)
	return dir
}

func TestASecretThatCannotBeHad(t *testing.T) {
	w := setup(t, "true")
	w.file("short", "12345\n", 0o600)
	w.file("empty", "\n", 0o600)
	w.file("long", strings.Repeat("x", mostSecret+1), 0o600)
	if err := syscall.Mkfifo(filepath.Join(w.root, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]string{
		"@/nowhere/token":                     "secret S: /nowhere/token cannot be read: no such file or directory; put that right: it is tried again by itself",
		"@" + w.root + "/short":               "is shorter than 6 bytes",
		"@" + w.root + "/empty":               "has no value",
		"@" + w.root + "/fifo":                "cannot be read: not a regular file",
		"echo hunter2; echo oh >&2; (exit 3)": "secret S: `echo hunter2; echo oh >&2; (exit 3)`: exit status 3: see in a terminal",
	} {
		w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "S", Source: source}}
		err := w.Provide(bg, &w.job)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", source, err)
		}
		if r := w.Run(bg, &w.job); r.Class != kernel.LaunchFailure {
			t.Errorf("%s: it ran: %+v", source, r)
		}
	}
}

// What a command that cannot be started was to tell is not waited for: the next attempt of its runner
// may tell of itself.
func TestNothingIsToldOfACommandThatWasNotStarted(t *testing.T) {
	privateRuntime(t)
	w := setup(t, "./broken")
	w.file("broken", "\x7fELF", 0o700)
	w.file("key", "a secret\n", 0o600)
	w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "KEY", Source: "@" + w.root + "/key"}}
	must(t, w.Provide(bg, &w.job))
	if r := w.Run(bg, &w.job); r.Class != kernel.LaunchFailure {
		t.Errorf("%+v", r)
	}
	w.eventually("it tells nothing more", func() bool { // a goroutine that ends is listed for a moment
		var running strings.Builder
		must(t, pprof.Lookup("goroutine").WriteTo(&running, 2))
		return !strings.Contains(running.String(), ".relay")
	})
}

// The attempt's time limit and its end by a person also end the command of a secret, with
// what that has started, and several commands together have no more time than one.
func TestTheCommandOfASecretIsEnded(t *testing.T) {
	w := setup(t, "sh", "-c", "echo ran >ran")
	w.job.Spec.Task.Timeout, w.job.Spec.Task.Grace = 3*time.Second, 100*time.Millisecond
	stubborn := `trap "" TERM; sh -c "trap '' TERM; while :; do sleep 0.02; done" & echo $$ >>pids; echo $! >>pids; while :; do sleep 0.02; done`
	w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "A", Source: "echo hunter2"}, {Name: "B", Source: stubborn}, {Name: "C", Source: stubborn}}
	if err := w.Provide(bg, &w.job); err != nil {
		t.Fatal(err)
	}
	wantResult(t, w.Run(bg, &w.job), kernel.OutcomeFailed, 124, kernel.Timeout, "timed out after 3s, before secret B was there")
	w.job.Spec.Task.Timeout = 0
	ctx, cancel := context.WithCancelCause(bg)
	go func() {
		for ctx.Err() == nil {
			if b, _ := os.ReadFile(filepath.Join(w.root, "pids")); len(strings.Fields(string(b))) == 4 { // B goes on
				cancel(errors.New("asked to stop"))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	w.job.Spec.Task.Secrets = w.job.Spec.Task.Secrets[1:]
	if err := w.Provide(ctx, &w.job); err == nil || !strings.Contains(err.Error(), "secret B: ") || !strings.Contains(err.Error(), "asked to stop") {
		t.Errorf("stopped: %v", err)
	}
	if _, err := os.Stat(filepath.Join(w.root, "ran")); err == nil {
		t.Error("the job's own command ran")
	}
	b, err := os.ReadFile(filepath.Join(w.root, "pids"))
	must(t, err)
	pids := strings.Fields(string(b))
	if len(pids) != 4 {
		t.Errorf("these were started: %v", pids)
	}
	for _, text := range pids {
		pid, _ := strconv.Atoi(text)
		for wait := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // it was sent a signal, not waited for
			if p, ok := readProcess(pid); !ok || p.zombie {
				break
			}
			if time.Now().After(wait) {
				t.Errorf("process %d is left", pid)
				break
			}
		}
	}
}

// What its secrets took counts as time of the attempt: without that, it would run for its whole time limit.
func TestTheTimeOfSecretsCounts(t *testing.T) {
	w := setup(t, "sleep", "60")
	w.job.Spec.Task.Timeout = 4 * time.Second
	w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "A", Source: "sleep 2; echo hunter2"}}
	must(t, w.Provide(bg, &w.job))
	began := time.Now()
	r := w.Run(bg, &w.job)
	wantResult(t, r, kernel.OutcomeFailed, 124, kernel.Timeout, "timed out after 4s")
	if took := time.Since(began); took >= w.job.Spec.Task.Timeout {
		t.Errorf("after its secrets it ran for %s", took)
	}
}

// A value that is too large fails the attempt: no trying again makes it smaller. Of a
// file it can be told beforehand.
func TestASecretThatIsTooLarge(t *testing.T) {
	privateRuntime(t)
	w := setup(t, "true")
	w.file("long", strings.Repeat("x", mostSecret+1), 0o600)
	w.file("most", strings.Repeat("x", mostSecret), 0o600)
	for source, early := range map[string]bool{"@" + w.root + "/long": true, "cat " + w.root + "/long": false} {
		s := kernel.Secret{Name: "S", Source: source}
		w.job.Spec.Task.Secrets = []kernel.Secret{s}
		if err := w.Provide(bg, &w.job); err != nil {
			t.Errorf("%s: it would be tried again: %v", source, err)
		}
		if r := w.Run(bg, &w.job); r.Class != kernel.LaunchFailure || !strings.Contains(r.Reason, "secret S: the value from ") || !strings.Contains(r.Reason, "longer than the 64 KiB that a secret may have") {
			t.Errorf("%s: %+v", source, r)
		}
		if err := w.CheckSecret(s); (err != nil) != early {
			t.Errorf("%s: beforehand: %v", source, err)
		}
	}
	for source, want := range map[string]string{w.root: "not a regular file", w.root + "/most": "", w.root + "/later": ""} {
		err := w.CheckSecret(kernel.Secret{Name: "S", Source: "@" + source})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: beforehand: %v", source, err)
		}
	}
	w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "S", Source: "@" + w.root + "/most"}}
	if err := w.Provide(bg, &w.job); err != nil {
		t.Fatal(err)
	}
	wantResult(t, w.Run(bg, &w.job), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
}

// A command that prints without end is ended as soon as it has printed too much, also
// if it prints only blanks.
func TestASecretWithoutEnd(t *testing.T) {
	privateRuntime(t)
	for _, source := range []string{"yes", "yes ''", "while :; do printf '%9999s' x; done"} {
		w := setup(t, "true")
		w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "S", Source: source}}
		begun := time.Now()
		if err := w.Provide(bg, &w.job); err != nil {
			t.Errorf("%s: it would be tried again: %v", source, err)
		}
		if took := time.Since(begun); took > secretPatience/2 {
			t.Errorf("%s: ended after %s", source, took)
		}
		if r := w.Run(bg, &w.job); r.Class != kernel.LaunchFailure || !strings.Contains(r.Reason, "longer than the 64 KiB that a secret may have") {
			t.Errorf("%s: %+v", source, r)
		}
	}
}

// A runner that is killed leaves the files of its secrets, and a sweep takes them.
func TestSweepTakesSecrets(t *testing.T) {
	runtime := privateRuntime(t)
	w := setup(t, "sh", "-c", `echo "at $VIZIER_SECRET_T"; sleep 60`)
	w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "T", Source: "echo hunter2"}}
	a := w.launch()
	at := w.said("at ")
	if b, err := os.ReadFile(at); err != nil || string(b) != "hunter2\n" || !strings.HasPrefix(at, runtime) {
		t.Fatalf("%s has %q: %v", at, b, err)
	}
	c := w.claim(a)
	if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.eventually("the runner's end", func() bool { return w.liveness(a) == kernel.Dead })
	if _, err := os.Stat(at); err != nil {
		t.Fatalf("they went with the runner: %v", err)
	}
	if err := w.Sweep(bg, a); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(at)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
	// A claim that names anything else has nothing removed.
	c.Private = sys.Path(filepath.Join(w.root, "jobs"))
	w.forge(a, c)
	if err := w.Sweep(bg, a); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(string(c.Private)); err != nil {
		t.Errorf("a forged claim had it removed: %v", err)
	}
}
