package git

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// rehearsal is a deed that runs, and at each of its git processes begins anew beside that, with the answers so far. There
// this process fails, and those after it do nothing: they answer as one did that was asked the same, or nothing.
type rehearsal struct {
	repo    *Repo
	deed    func() error
	answers []answerOfGit
	untold  []int // the processes, from 1, whose failure the deed did not tell
}

type answerOfGit struct {
	asked          string
	stdout, stderr []byte
	err            error
}

// rehearsed runs the deed, which must not fail, with git processes alone: what libgit2 does would happen in each rehearsal.
func rehearsed(t testing.TB, repo *Repo, deed func() error) *rehearsal {
	t.Helper()
	r, run, engine := &rehearsal{repo: repo, deed: deed}, repo.cli.exec, repo.Backend
	repo.Backend = repo.cli
	repo.cli.exec = func(cmd *exec.Cmd) error {
		a, stdout, stderr := answerOfGit{asked: asked(cmd)}, cmd.Stdout, cmd.Stderr
		r.fail(a.asked)
		var out, text bytes.Buffer
		cmd.Stdout, cmd.Stderr = io.MultiWriter(stdout, &out), io.MultiWriter(stderr, &text)
		a.err = run(cmd)
		a.stdout, a.stderr = out.Bytes(), text.Bytes()
		r.answers = append(r.answers, a)
		return a.err
	}
	defer func() { repo.cli.exec, repo.Backend = run, engine }()
	if err := deed(); err != nil {
		t.Fatal(err)
	}
	return r
}

var temporary = regexp.MustCompile(`/vizier-[a-z-]+-[0-9]+`)

// asked returns what a process is asked. The names of temporary directories make no difference.
func asked(cmd *exec.Cmd) string {
	env := slices.DeleteFunc(slices.Clone(cmd.Env), func(v string) bool {
		return !strings.HasPrefix(v, "GIT_INDEX_FILE=") && !strings.HasPrefix(v, "GIT_DIR=")
	})
	stdin, _ := io.ReadAll(cmd.Stdin)
	cmd.Stdin = bytes.NewReader(stdin)
	return temporary.ReplaceAllString(strings.Join(slices.Concat(env, cmd.Args, []string{cmd.Dir, string(stdin)}), "\n"), "")
}

// rehearsedRemove removes the worktree, and reports each git process whose failure nobody would be told of.
func (o *owned) rehearsedRemove() {
	o.Helper()
	r := rehearsed(o, o.repo, func() error {
		if got := o.repo.RemoveWorktree(o.Context(), o.ctx); got != (kernel.Cleanup{Status: kernel.CleanupDone}) {
			return errors.New(got.Error)
		}
		return nil
	})
	for _, k := range r.untold {
		asked := r.answers[k-1].asked
		if !strings.Contains(asked, "\nworktree\nremove\n") && // then git's files of it are removed without that
			!strings.Contains(asked, "delete "+heldRefs) && // DropHeld does it some day
			!strings.Contains(asked, "\nmerge-tree\n") { // then too much is parked
			o.Errorf("process %d of %d fails, and nothing is said:\n%s", k, len(r.answers), asked)
		}
	}
}

const onFire = "disk on fire"

var exit128 = sync.OnceValue(func() error { return exec.Command("/bin/sh", "-c", "exit 128").Run() })

// fail has the next process fail, which is asked next.
func (r *rehearsal) fail(next string) {
	run, tell, kept := r.repo.cli.exec, r.repo.OnPark, r.repo.kept
	defer func() { r.repo.cli.exec, r.repo.OnPark, r.repo.kept = run, tell, kept }()
	at, strayed, n := 0, false, len(r.answers)
	r.repo.OnPark, r.repo.kept = nil, new(atomic.Int64)
	r.repo.cli.exec = func(cmd *exec.Cmd) error {
		at++
		now := asked(cmd)
		is := func(a answerOfGit) bool { return a.asked == now }
		i := slices.IndexFunc(r.answers, is)
		if at <= n && is(r.answers[at-1]) {
			i = at - 1
		}
		strayed = strayed || at <= n && i != at-1 || at == n+1 && now != next // files have changed since
		switch {
		case strayed || at == n+1:
			_, err := io.WriteString(cmd.Stderr, onFire+"\n")
			return errors.Join(exit128(), err)
		case i < 0:
			return nil
		}
		_, err := cmd.Stdout.Write(r.answers[i].stdout)
		_, also := cmd.Stderr.Write(r.answers[i].stderr)
		return errors.Join(r.answers[i].err, err, also)
	}
	told := func() (told bool) {
		defer func() { _ = recover() }() // of an answer that is nothing
		err := r.deed()
		return err != nil && strings.Contains(err.Error(), onFire)
	}()
	if !told || strayed {
		r.untold = append(r.untold, n+1)
	}
}
