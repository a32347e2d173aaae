package git

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// journey is a checkout that is to follow main from one commit to another, which differ in every way.
type journey struct {
	fixture
	from, to kernel.CommitID
}

func newJourney(t *testing.T) journey {
	t.Helper()
	f, way := like(t, "journey", func() (fixture, [2]kernel.CommitID) { return makeJourney(t) })
	return journey{f, way[0], way[1]}
}

func makeJourney(t *testing.T) (f fixture, way [2]kernel.CommitID) {
	t.Helper()
	f = newFixture(t)
	f.commit(".gitignore", "*.local\n")
	f.commit("changed", "one\n")
	f.commit("gone/deep/file", "one\n")
	f.commit("run.sh", "true\n")
	f.commit("link", "no link\n")
	f.commit("was-dir/file", "one\n")
	f.commit("was-file", "one\n")
	f.git("update-index", "--add", "--cacheinfo", "160000,"+string(f.rev("HEAD"))+",module-gone")
	f.mkdir("module-gone")
	f.git("commit", "--quiet", "-m", "module")
	from := f.rev("HEAD")
	f.git("switch", "--quiet", "--create", "next")
	f.commit("changed", "one\ntwo\n")
	f.commit("new/deep/file", "new\nfile\n")
	f.commit("same.local", "same\n")
	f.commit("same", "same\n")
	f.git("rm", "--quiet", "-r", "gone", "was-dir", "was-file", "module-gone")
	f.commit("was-dir", "two\n")
	f.commit("was-file/file", "two\n")
	if err := os.Chmod(f.path("run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.path("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("changed", f.path("link")); err != nil {
		t.Fatal(err)
	}
	f.git("add", "run.sh", "link")
	f.git("update-index", "--add", "--cacheinfo", "160000,"+string(from)+",module")
	f.git("commit", "--quiet", "-m", "the rest")
	to := f.rev("HEAD")
	f.git("switch", "--quiet", "main")
	for name, text := range map[string]string{"mine": "mine\n", "mine.local": "mine\n", "same": "same\n", "same.local": "same\n"} {
		f.write(name, text)
	}
	return f, [2]kernel.CommitID{from, to}
}

// photograph is a copy of a checkout as a kill would have left it.
func (j journey) photograph(name string) journey {
	j.Helper()
	to := filepath.Join(j.TempDir(), name)
	if out, err := exec.Command("cp", "-a", j.dir, to).CombinedOutput(); err != nil {
		j.Fatalf("%v: %s", err, out)
	}
	return journey{j.in(to), j.from, j.to}
}

// standing returns the files of the checkout, without git's.
func (j journey) standing() string {
	j.Helper()
	var out []string
	err := filepath.WalkDir(j.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == ".git" && !d.IsDir() { // of a submodule
			return nil
		}
		if err != nil || d.Name() == ".git" {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		switch {
		case info.Mode()&os.ModeSymlink != 0:
			text, err = os.Readlink(path)
		case !d.IsDir():
			var b []byte
			b, err = os.ReadFile(path)
			text = string(b)
		}
		out = append(out, fmt.Sprintf("%s %v %q", strings.TrimPrefix(path, j.dir), info.Mode(), text))
		return err
	})
	if err != nil {
		j.Fatal(err)
	}
	return strings.Join(out, "\n")
}

// litter returns what of a way that has ended is left in the git directory.
func (j journey) litter() (left []string) {
	for _, name := range []string{followNote, followIndex, followIndex + ".lock", followOld, followOld + ".new", "index.lock", "HEAD.lock", "refs/heads/main.lock"} {
		if _, err := os.Lstat(j.path(".git/" + name)); err == nil {
			left = append(left, name)
		}
	}
	return left
}

// ends asserts that the next look leaves the checkout at the one commit or the other, and that it can follow then.
func (j journey) ends(before, after string) {
	j.Helper()
	r := Open(j.root())
	if o, err := r.EndAdvance(j.Context(), "main"); o != "" || err != nil {
		j.Errorf("obstacle %q, %v", o, err)
	}
	again := j.photograph("again") // where git has not looked yet
	j.isAt(j.rev("main"), before, after)
	if j.rev("main") == j.from {
		j, r := again, Open(again.root())
		if o, moved, err := r.Advance(j.Context(), "main", j.from, j.to); o != "" || !moved || err != nil {
			j.Errorf("afterwards: obstacle %q, moved %v, %v", o, moved, err)
		}
		j.isAt(j.to, before, after)
	}
}

// isAt asserts that the checkout is wholly at a commit, with what a person had there.
func (j journey) isAt(at kernel.CommitID, before, after string) {
	j.Helper()
	want, status := before, "?? mine\n?? same"
	if at == j.to {
		want, status = after, "?? mine"
	}
	if got := j.standing(); got != want || j.rev("main") != at {
		j.Errorf("main is at %s, with\n%s\nwant\n%s", j.rev("main"), got, want)
	}
	if got := j.git("status", "--porcelain"); got != status {
		j.Errorf("status\n%s\nwant\n%s", got, status)
	}
	if left := j.litter(); len(left) > 0 {
		j.Errorf("left are %v", left)
	}
}

// Whenever a process is killed that has the checkout follow, the next look brings the checkout back or forward.
func TestAFollowingCheckoutAfterAKillAnywhere(t *testing.T) {
	j := newJourney(t)
	before := j.standing()
	type moment struct {
		journey
		name string
	}
	var photos []moment
	r := Open(j.root())
	run, n := r.cli.exec, 0
	r.cli.exec = func(cmd *exec.Cmd) error {
		name := fmt.Sprintf("before %d, %s", n, slices.DeleteFunc(slices.Clone(cmd.Args), func(a string) bool { return strings.HasPrefix(a, "-") || strings.Contains(a, "=") })[1])
		photos = append(photos, moment{j.photograph(fmt.Sprint(n)), name})
		n++
		return run(cmd)
	}
	// What git has done when it is killed within a step, git itself photographs.
	within := func(name string) string {
		to := filepath.Join(t.TempDir(), "within")
		photos = append(photos, moment{journey{j.in(to), j.from, j.to}, name})
		return "#!/bin/sh\n[ \"$1\" = " + name + " ] && cp -a " + j.dir + " " + to + "\n"
	}
	hook := within("prepared") + strings.TrimPrefix(within("committed"), "#!/bin/sh\n") + "exit 0\n"
	j.write(".git/hooks/reference-transaction", hook)
	j.write(".git/copy", strings.TrimSuffix(within("smudge"), "\n")+"\ncat\n")
	for _, name := range []string{".git/hooks/reference-transaction", ".git/copy"} {
		if err := os.Chmod(j.path(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	j.git("config", "filter.copy.smudge", j.path(".git/copy")+" smudge")
	j.write(".git/info/attributes", "was-dir filter=copy\n")
	if o, moved, err := r.Advance(t.Context(), "main", j.from, j.to); o != "" || !moved || err != nil {
		t.Fatal(o, moved, err)
	}
	after := j.standing()
	j.isAt(j.to, before, after)
	for _, m := range photos {
		t.Run(m.name, func(t *testing.T) {
			m.TB = t
			if m.name == "prepared" && !tellsWhere {
				t.Skip("any git of this machine may hold its locks: see TestGitsAtWork")
			}
			_ = os.Remove(m.path(".git/hooks/reference-transaction"))
			m.git("config", "--remove-section", "filter.copy")
			whole := m.photograph("whole")
			unmoved := m.standing() == before
			m.ends(before, after)
			if unmoved || len(whole.litter()) == 0 {
				return
			}
			for name, change := range map[string]func(journey){
				"files cut off": func(j journey) {
					for _, name := range []string{"changed", "new/deep/file", "was-dir", "was-file/file", "run.sh"} {
						if info, err := os.Lstat(j.path(name)); err == nil && info.Mode().IsRegular() {
							_ = os.Truncate(j.path(name), info.Size()/2)
						}
					}
				},
				"empty files":              func(j journey) { _ = os.Truncate(j.path("new/deep/file"), 0) },
				"missing ones":             func(j journey) { _, _ = os.Remove(j.path("changed")), os.Remove(j.path("run.sh")) },
				"the lock removed by hand": func(j journey) { _ = os.Remove(j.path(".git/index.lock")) },
			} {
				t.Run(name, func(t *testing.T) {
					j := whole.photograph("changed")
					j.TB = t
					change(j)
					j.ends(before, after)
				})
			}
			if whole.rev("main") != m.to {
				return
			}
			for i, step := range []func(j journey) error{
				func(j journey) error { return os.Rename(j.path(".git/"+followIndex), j.path(".git/index")) },
				func(j journey) error { return os.Truncate(j.path(".git/"+followNote), 0) },
				func(j journey) error { return os.Remove(j.path(".git/index.lock")) },
			} {
				if err := step(whole); err != nil {
					t.Fatal(err)
				}
				j := whole.photograph(fmt.Sprint(i))
				j.TB = t
				j.ends(before, after)
			}
		})
	}
	if len(photos) < 9 {
		t.Errorf("only %d photographs", len(photos))
	}
}

// refuses has main follow, and asserts that it does not for a reason, with nothing changed.
func (j journey) refuses(ctx context.Context, r *Repo, says string) {
	j.Helper()
	before, status, litter := j.standing(), j.git("status", "--porcelain"), j.litter()
	o, moved, err := r.Advance(ctx, "main", j.from, j.to)
	if err != nil {
		o = err.Error()
	}
	if moved || !strings.Contains(o, says) || j.rev("main") != j.from {
		j.Errorf("obstacle %q, moved %v; want %q", o, moved, says)
	}
	if got := j.standing(); got != before || j.git("status", "--porcelain") != status || !slices.Equal(j.litter(), litter) {
		j.Errorf("it has now\n%s\nand had\n%s\nstatus %s, left are %v", got, before, j.git("status", "--porcelain"), j.litter())
	}
}

func (j journey) script(name, text string) {
	j.Helper()
	j.write(name, "#!/bin/sh\n"+text+"\n")
	if err := os.Chmod(j.path(name), 0o755); err != nil {
		j.Fatal(err)
	}
}

// A refusal of git's leaves the checkout as it was, and afterwards it follows.
func TestACheckoutThatMayNotFollow(t *testing.T) {
	for name, c := range map[string]struct {
		says           string
		forbid, permit func(j journey)
	}{
		"a hook": {"git does not move main (git update-ref: frozen",
			func(j journey) {
				j.script(".git/hooks/reference-transaction", "[ $1 = prepared ] && { echo frozen >&2; exit 1; }; exit 0")
			}, func(j journey) { _ = os.Remove(j.path(".git/hooks/reference-transaction")) }},
		"a lock": {"HEAD.lock",
			func(j journey) { j.write(".git/HEAD.lock", "") }, func(j journey) { _ = os.Remove(j.path(".git/HEAD.lock")) }},
		"a filter": {"which git cannot bring up to date",
			func(j journey) {
				j.write(".git/info/attributes", "was-dir filter=no\n")
				j.git("config", "filter.no.smudge", "exit 1")
				j.git("config", "filter.no.required", "true")
			}, func(j journey) { _ = os.Remove(j.path(".git/info/attributes")) }},
		"a filter of what is there": {"smudge: server away",
			func(j journey) {
				j.write(".git/info/attributes", "* filter=no\n")
				j.script(".git/away", "[ $1 = run.sh ] || cat; [ $1 != run.sh ] || { echo 'smudge: server away' >&2; exit 1; }")
				j.git("config", "filter.no.smudge", j.path(".git/away")+" %f")
				j.git("config", "filter.no.clean", "cat")
				j.git("config", "filter.no.required", "true")
			}, func(j journey) { _ = os.Remove(j.path(".git/info/attributes")) }},
		"an ignored file": {"where new, which git does not track, is in the way",
			func(j journey) { j.write("new", "mine"); j.write(".git/info/exclude", "new\n") }, func(j journey) { _ = os.Remove(j.path("new")) }},
		"an ignored file, another one": {"where same.local, which git does not track, is in the way",
			func(j journey) { j.write("same.local", "mine") }, func(j journey) { j.write("same.local", "same\n") }},
		"an untracked file": {"where same, which git does not track, is in the way",
			func(j journey) { j.write("same", "mine") }, func(j journey) { _ = os.Remove(j.path("same")) }},
		"ignored files in a directory": {"where was-dir/x.local, which git does not track, is in the way",
			func(j journey) { j.write("was-dir/x.local", "mine") }, func(j journey) { _ = os.Remove(j.path("was-dir/x.local")) }},
		"a second checkout": {"/second, where new/deep/file, which",
			func(j journey) {
				j.git("worktree", "add", "--quiet", "--force", "../second", "main")
				j.write("../second/new/deep/file", "mine")
			}, func(j journey) { _ = os.RemoveAll(j.path("../second/new")) }},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJourney(t)
			r := Open(j.root())
			c.forbid(j)
			j.refuses(t.Context(), r, c.says)
			c.permit(j)
			if o, moved, err := r.Advance(t.Context(), "main", j.from, j.to); o != "" || !moved || err != nil || j.git("status", "--porcelain", "--untracked-files=no") != "" {
				t.Errorf("afterwards: obstacle %q, moved %v, %v", o, moved, err)
			}
		})
	}
}

// A checkout that was left half way, since a filter failed, goes back also if the filter cannot do anything any more, and leaves what
// is there.
func TestACheckoutHalfWayWithoutItsFilter(t *testing.T) {
	j := newJourney(t)
	before := j.standing()
	j.write(".git/info/attributes", "* filter=no\n")
	photo := filepath.Join(t.TempDir(), "half")
	j.script(".git/away", "[ $1 != run.sh ] || { cp -a "+j.dir+" "+photo+"; exit 1; }; cat")
	j.git("config", "filter.no.smudge", j.path(".git/away")+" %f")
	j.git("config", "filter.no.clean", "cat")
	j.git("config", "filter.no.required", "true")
	j.refuses(t.Context(), Open(j.root()), "smudge filter no failed")
	for name, mine := range map[string]string{"as it was left": "", "with a change": "mine\n"} {
		half := journey{j.in(photo), j.from, j.to}.photograph(name)
		for _, name := range []string{"new/deep/file", "was-dir", "was-file/file", "changed"} { // which a clean filter would be asked about
			_ = os.Remove(half.path(name))
		}
		if half.standing() == before {
			t.Fatal("it is not half way")
		}
		want := before
		if mine != "" {
			half.write("run.sh", mine)
			want = strings.Replace(want, `/run.sh -rw-r--r-- "true\n"`, `/run.sh -rw-r--r-- "mine\n"`, 1)
			half.git("config", "filter.no.clean", "cat")
		} else {
			half.git("config", "filter.no.clean", "exit 1")
		}
		half.git("config", "filter.no.smudge", "exit 1")
		if err := Open(half.root()).EndHalfWay(t.Context(), half.dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := half.standing(); got != want || len(half.litter()) > 0 {
			t.Errorf("%s: it has\n%s\nwant\n%s\nleft are %v", name, got, want, half.litter())
		}
	}
}

// A cancelled merge leaves the checkout as it was.
func TestACheckoutWhoseWayIsCancelled(t *testing.T) {
	j := newJourney(t)
	j.script(".git/slow", "cat; exec 2>&-; : >"+j.path(".git/begun")+"; sleep 600")
	j.git("config", "filter.slow.smudge", j.path(".git/slow"))
	j.write(".git/info/attributes", "was-dir filter=slow\n")
	ctx, cancel := context.WithCancel(t.Context())
	r := Open(j.root())
	run := r.cli.exec
	r.cli.exec = func(cmd *exec.Cmd) error {
		if slices.Contains(cmd.Args, "read-tree") {
			go func() {
				for _, err := os.Lstat(j.path(".git/begun")); err != nil; _, err = os.Lstat(j.path(".git/begun")) {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
		}
		return run(cmd)
	}
	j.refuses(ctx, r, context.Canceled.Error())
}

// While a process, or a git that it has started, has the checkout follow, others leave it alone.
func TestACheckoutThatAnotherProcessHasFollow(t *testing.T) {
	j := newJourney(t)
	r := Open(j.root())
	f, obstacle, err := r.begin(t.Context(), Worktree{Path: j.dir, Branch: "main", gitDir: j.path(".git")}, j.from, j.to)
	if obstacle != "" || err != nil {
		t.Fatal(obstacle, err)
	}
	half := j.standing()
	if o, err := Open(j.root()).EndAdvance(t.Context(), "main"); !strings.HasSuffix(o, isFollowing) || err != nil || j.standing() != half {
		t.Errorf("obstacle %q, %v", o, err)
	}
	child := exec.Command("sleep", "600")
	child.ExtraFiles = []*os.File{f.note}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	_ = f.note.Close() // its parent has been killed
	if o, err := Open(j.root()).EndAdvance(t.Context(), "main"); !strings.HasSuffix(o, isFollowing) || err != nil || j.standing() != half {
		t.Errorf("its git is at work: obstacle %q, %v", o, err)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if o, err := Open(j.root()).EndAdvance(t.Context(), "main"); o != "" || err != nil || j.git("status", "--porcelain") != "?? mine\n?? same" {
		t.Errorf("when that has ended: obstacle %q, %v", o, err)
	}
}

// What a person does with a checkout that was left half way stays.
func TestWhatAPersonDoesInACheckoutLeftHalfWay(t *testing.T) {
	j := newJourney(t)
	f, obstacle, err := Open(j.root()).begin(t.Context(), Worktree{Path: j.dir, Branch: "main", gitDir: j.path(".git")}, j.from, j.to)
	if obstacle != "" || err != nil {
		t.Fatal(obstacle, err)
	}
	f.release()
	j.write("changed", "mine\n")
	j.write("new/deep/file", "mine\n")
	r := Open(j.root())
	if o, err := r.Obstacle(t.Context(), "main"); !strings.Contains(o, "uncommitted changes") || err != nil {
		t.Errorf("obstacle %q, %v", o, err)
	}
	if got := j.git("status", "--porcelain"); got != "M changed\n?? mine\n?? new/\n?? same" || len(j.litter()) > 0 {
		t.Errorf("status\n%s\nleft are %v", got, j.litter())
	}
	for name, want := range map[string]string{"changed": "mine\n", "new/deep/file": "mine\n"} {
		if got, err := os.ReadFile(j.path(name)); string(got) != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// The mode that a person gives a file of a checkout left half way stays.
func TestTheModeOfAFileInACheckoutLeftHalfWay(t *testing.T) {
	for name, want := range map[string]string{"true": "M changed\n?? mine", "false": "?? mine"} {
		j := newJourney(t)
		j.git("config", "core.fileMode", name)
		r := Open(j.root())
		f, obstacle, err := r.begin(t.Context(), Worktree{Path: j.dir, Branch: "main", gitDir: j.path(".git")}, j.from, j.to)
		if obstacle != "" || err != nil {
			t.Fatal(obstacle, err)
		}
		f.release()
		j.git("update-ref", "refs/heads/main", string(j.to))
		info, err := os.Lstat(j.path("changed"))
		if err == nil {
			err = os.Chmod(j.path("changed"), info.Mode().Perm()^0o111)
		}
		if err != nil {
			t.Fatal(err)
		}
		if o, err := r.EndAdvance(t.Context(), "main"); o != "" || err != nil {
			t.Errorf("obstacle %q, %v", o, err)
		}
		if got := j.git("status", "--porcelain"); got != want {
			t.Errorf("core.fileMode = %s: status\n%s", name, got)
		}
	}
}

// Whoever has removed the lock and gone on is left alone.
func TestACheckoutThatAPersonHasTakenOver(t *testing.T) {
	j := newJourney(t)
	f, obstacle, err := Open(j.root()).begin(t.Context(), Worktree{Path: j.dir, Branch: "main", gitDir: j.path(".git")}, j.from, j.to)
	if obstacle != "" || err != nil {
		t.Fatal(obstacle, err)
	}
	f.release()
	if err := os.Remove(j.path(".git/index.lock")); err != nil {
		t.Fatal(err)
	}
	j.git("add", "changed", "new")
	j.git("commit", "--quiet", "--message", "mine")
	before := j.standing()
	if o, err := Open(j.root()).EndAdvance(t.Context(), "main"); o != "" || err != nil || j.standing() != before || len(j.litter()) > 0 {
		t.Errorf("obstacle %q, %v; left are %v, and\n%s", o, err, j.litter(), j.standing())
	}
}

// In a sparse checkout, files outside of it do not come back.
func TestASparseCheckoutLeftHalfWay(t *testing.T) {
	for _, moved := range []bool{false, true} {
		f := newFixture(t)
		f.commit("in/a", "1\n")
		from := f.commit("out/b", "1\n")
		f.git("switch", "--quiet", "--create", "next")
		f.commit("in/a", "2\n")
		f.commit("out/new", "2\n")
		to := f.commit("out/b", "2\n")
		f.git("switch", "--quiet", "main")
		f.git("sparse-checkout", "set", "in")
		r := Open(f.root())
		way, obstacle, err := r.begin(t.Context(), Worktree{Path: f.dir, Branch: "main", gitDir: f.path(".git")}, from, to)
		if obstacle != "" || err != nil {
			t.Fatal(obstacle, err)
		}
		way.release()
		if moved {
			f.git("update-ref", "refs/heads/main", string(to))
		}
		if o, err := r.EndAdvance(t.Context(), "main"); o != "" || err != nil {
			t.Errorf("obstacle %q, %v", o, err)
		}
		if _, err := os.Lstat(f.path("out")); err == nil || f.git("status", "--porcelain") != "" {
			t.Errorf("moved %v: out %v, status %q", moved, err, f.git("status", "--porcelain"))
		}
	}
}

// fork makes main one commit behind next, which changes a file each for what change does, and returns both commits.
func fork(f fixture, change func()) (from, to kernel.CommitID) {
	from = f.rev("HEAD")
	f.git("switch", "--quiet", "--create", "next")
	change()
	f.git("add", "--all", "--force")
	f.git("commit", "--quiet", "-m", "next")
	to = f.rev("HEAD")
	f.git("switch", "--quiet", "main")
	return from, to
}

func (f fixture) content(name string) string {
	f.Helper()
	b, err := os.ReadFile(f.path(name))
	if err != nil {
		f.Fatal(err)
	}
	return string(b)
}

// A file whose name differs only by case from what goes is another file, where the file system says so.
func TestAnIgnoredFileOfAnotherCaseIsInTheWay(t *testing.T) {
	f := newFixture(t)
	f.commit("notes", "tracked\n")
	f.commit("Data", "tracked\n")
	from, to := fork(f, func() {
		f.git("mv", "notes", "Notes")
		f.git("rm", "--quiet", "Data")
		f.write("data/x", "new\n")
	})
	f.write(".git/info/exclude", "Notes\ndata\n")
	for _, name := range []string{"Notes", "data"} {
		f.write(name, "mine\n")
		if f.content("notes") == "mine\n" || f.content("Data") == "mine\n" {
			t.Skip("here they are one")
		}
		o, moved, err := Open(f.root()).Advance(t.Context(), "main", from, to)
		if !strings.Contains(o, "where "+name+", which git does not track, is in the way") || moved || err != nil || f.content(name) != "mine\n" {
			t.Errorf("%s: obstacle %q, moved %v, %v; it has %q", name, o, moved, err, f.content(name))
		}
		if err := os.Remove(f.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if o, moved, err := Open(f.root()).Advance(t.Context(), "main", from, to); o != "" || !moved || err != nil || f.git("status", "--porcelain") != "" {
		t.Errorf("with nothing in the way: obstacle %q, moved %v, %v", o, moved, err)
	}
}

// Something else in the place of the note is named, and not followed.
func TestALinkInThePlaceOfTheNote(t *testing.T) {
	f := newFixture(t)
	f.commit("a", "1\n")
	from, to := fork(f, func() { f.write("a", "2\n") })
	f.write("aim", "mine\n")
	if err := os.Symlink(f.path("aim"), f.path(".git/"+followNote)); err != nil {
		t.Fatal(err)
	}
	o, moved, err := Open(f.root()).Advance(t.Context(), "main", from, to)
	if o != "" || moved || err == nil || !strings.Contains(err.Error(), followNote+" is in the place of a note of Vizier") || f.content("aim") != "mine\n" {
		t.Errorf("obstacle %q, moved %v, %v", o, moved, err)
	}
	for name, look := range map[string]func(*Repo) (string, error){
		"an obstacle":    func(r *Repo) (string, error) { return r.Obstacle(t.Context(), "main") },
		"what is begun":  func(r *Repo) (string, error) { return r.EndAdvance(t.Context(), "main") },
		"what is in one": func(r *Repo) (string, error) { return "", r.EndHalfWay(t.Context(), f.dir) },
	} {
		if o, err := look(Open(f.root())); o != "" || err == nil || !strings.Contains(err.Error(), followNote+" is in the place of a note of Vizier") {
			t.Errorf("%s: %q, %v", name, o, err)
		}
	}
}

// A checkout that somebody puts on another branch meanwhile has that branch's files.
func TestACheckoutThatLeavesTheBranch(t *testing.T) {
	for before, moves := range map[string]bool{"diff-tree": false, "update-ref": true} {
		f := newFixture(t)
		f.commit("a", "1\n")
		from, to := fork(f, func() { f.write("a", "2\n"); f.write("new", "2\n") })
		r := Open(f.root())
		run := r.cli.exec
		r.cli.exec = func(cmd *exec.Cmd) error {
			if slices.Contains(cmd.Args, before) && f.git("branch", "--show-current") == "main" {
				f.git("branch", "topic")
				f.git("symbolic-ref", "HEAD", "refs/heads/topic") // as git checkout -b does, which needs no index
			}
			return run(cmd)
		}
		o, moved, err := r.Advance(t.Context(), "main", from, to)
		if moved != moves || (o == "") != moves || err != nil {
			t.Errorf("before %s: obstacle %q, moved %v, %v", before, o, moved, err)
		}
		if got := f.git("status", "--porcelain", "--branch"); got != "## topic" || f.rev("topic") != from {
			t.Errorf("before %s: it is left as %s", before, got)
		}
	}
}

// A checkout that was left half way and put on another branch is brought back too.
func TestACheckoutThatHasLeftTheBranchHalfWay(t *testing.T) {
	f := newFixture(t)
	f.commit("a", "1\n")
	from, to := fork(f, func() { f.write("a", "2\n"); f.write("new", "2\n") })
	way, obstacle, err := Open(f.root()).begin(t.Context(), Worktree{Path: f.dir, Branch: "main", gitDir: f.path(".git")}, from, to)
	if obstacle != "" || err != nil {
		t.Fatal(obstacle, err)
	}
	way.release()
	f.git("update-ref", "refs/heads/main", string(to))
	f.git("branch", "topic", string(from))
	f.git("symbolic-ref", "HEAD", "refs/heads/topic")
	if o, err := Open(f.root()).EndAdvance(t.Context(), "main"); o != "" || err != nil {
		t.Errorf("obstacle %q, %v", o, err)
	}
	if got := f.git("status", "--porcelain", "--branch"); got != "## topic" {
		t.Errorf("it is left as %s", got)
	}
}

// A file that was cut short comes back also if the attributes change with it.
func TestAFileCutShortUnderOtherAttributes(t *testing.T) {
	f := newFixture(t)
	f.commit("z", strings.Repeat("one\n", 1000))
	from, to := fork(f, func() {
		f.write("z", strings.Repeat("two\n", 1000))
		f.write(".gitattributes", "z text eol=crlf\n")
	})
	way, obstacle, err := Open(f.root()).begin(t.Context(), Worktree{Path: f.dir, Branch: "main", gitDir: f.path(".git")}, from, to)
	if obstacle != "" || err != nil {
		t.Fatal(obstacle, err)
	}
	way.release()
	if err := os.Truncate(f.path("z"), 2048); err != nil {
		t.Fatal(err)
	}
	if o, err := Open(f.root()).EndAdvance(t.Context(), "main"); o != "" || err != nil || f.git("status", "--porcelain") != "" {
		t.Errorf("obstacle %q, %v; it is left as %s", o, err, f.git("status", "--porcelain"))
	}
}

// A note counts as a whole, or not at all.
func TestANoteThatIsCutOff(t *testing.T) {
	f := newFixture(t)
	from := f.commit("a", "1\n")
	to := f.commit("a", "2\n")
	r, w := Open(f.root()), Worktree{Path: f.dir, Branch: "main", gitDir: f.path(".git")}
	look := func() *following {
		t.Helper()
		way, busy, err := r.take(w, true)
		if busy || err != nil {
			t.Fatal(busy, err)
		}
		way.release()
		return way
	}
	for _, kept := range [][]string{{"long/enough", "not to be seen again"}, {"b"}, {}} {
		way, busy, err := r.take(w, true)
		if busy || err != nil {
			t.Fatal(busy, err)
		}
		way.from, way.to, way.kept = from, to, kept
		if err := way.write(); err != nil {
			t.Fatal(err)
		}
		way.release()
		if got := look(); got.from != from || got.to != to || !slices.Equal(got.kept, kept) {
			t.Errorf("it says %q, %q, %q", got.from, got.to, got.kept)
		}
		whole := f.content(".git/" + followNote)
		for n := range len(whole) {
			f.write(".git/"+followNote, whole[:n])
			if got := look(); got.from != "" || got.to != "" || got.kept != nil {
				t.Errorf("cut off after %d bytes it says %q, %q, %q", n, got.from, got.to, got.kept)
			}
		}
		f.write(".git/"+followNote, whole)
	}
}

// A note that its owner has removed or replaced is not the note any more.
func TestANoteThatIsRemovedMeanwhile(t *testing.T) {
	f := newFixture(t)
	f.commit("a", "1\n")
	way, busy, err := Open(f.root()).take(Worktree{Path: f.dir, gitDir: f.path(".git")}, true)
	if busy || err != nil {
		t.Fatal(busy, err)
	}
	defer way.release()
	note := way.path(followNote)
	if !way.current(note) {
		t.Error("it is not current")
	}
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	if way.current(note) {
		t.Error("it is current when it is gone")
	}
	f.write(".git/"+followNote, "")
	if way.current(note) {
		t.Error("it is current when another one is there")
	}
}

// A lock of the index is waited for, for a second.
func TestALockOfTheIndexThatGoes(t *testing.T) {
	for goes, want := range map[time.Duration]string{500 * time.Millisecond: "", time.Hour: "where another git is at work"} {
		f := newFixture(t)
		f.write(".git/index.lock", "")
		synctest.Test(t, func(t *testing.T) {
			way := following{w: Worktree{gitDir: f.path(".git")}}
			time.AfterFunc(goes, func() { _ = os.Remove(f.path(".git/index.lock")) })
			o, err := way.lockIndex(t.Context())
			if err != nil || (o == "") != (want == "") || !strings.HasPrefix(o, want) || way.holdsIndex() != (want == "") {
				t.Errorf("gone after %v: obstacle %q, %v", goes, o, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if o, err := way.lockIndex(ctx); o != "" || (err == nil) != (want == "") {
				t.Errorf("cancelled: obstacle %q, %v", o, err)
			}
		})
	}
}

// crossroads is a small checkout that is to follow main from one commit to another.
func crossroads(t *testing.T) journey {
	t.Helper()
	f := newFixture(t)
	f.commit("gone", "1\n")
	f.commit("a", "1\n")
	from, to := fork(f, func() { f.write("a", "2\n"); f.write("new", "2\n"); f.git("rm", "--quiet", "gone") })
	return journey{f, from, to}
}

// half has the checkout follow, and leaves it half way.
func (j journey) half() {
	j.Helper()
	f, obstacle, err := Open(j.root()).begin(j.Context(), Worktree{Path: j.dir, Branch: "main", gitDir: j.path(".git")}, j.from, j.to)
	if obstacle != "" || err != nil {
		j.Fatal(obstacle, err)
	}
	f.release()
}

// isWhole asserts that the checkout is wholly at main, with nothing left.
func (j journey) isWhole() {
	j.Helper()
	if got := j.git("status", "--porcelain"); got != "" || len(j.litter()) > 0 {
		j.Errorf("status %q, left are %v", got, j.litter())
	}
}

// failing opens the checkout so that its git number n, counted from 0, fails. ran is how many have begun.
func (j journey) failing(n int) (r *Repo, ran *int) {
	r, ran = Open(j.root()), new(int)
	run := r.cli.exec
	r.cli.exec = func(cmd *exec.Cmd) error {
		*ran++
		if *ran == n+1 {
			return errBroken
		}
		return run(cmd)
	}
	return r, ran
}

// Whichever git fails, the checkout is then as before or at the merge, and the caller knows.
func TestAGitThatFailsWhileACheckoutFollows(t *testing.T) {
	from := crossroads(t)
	for n := 0; ; n++ {
		j := from.photograph(fmt.Sprint(n))
		r, ran := j.failing(n)
		o, moved, err := r.Advance(t.Context(), "main", j.from, j.to)
		if j.isWhole(); moved != (j.rev("main") == j.to) || !moved && o == "" && err == nil {
			t.Errorf("git %d fails: obstacle %q, moved %v, %v; main is at %s", n, o, moved, err, j.rev("main"))
		}
		if *ran <= n {
			break
		}
	}
}

// Whichever git fails while a way ends, what is left of it stays, and the next look ends it.
func TestAGitThatFailsWhileAWayEnds(t *testing.T) {
	from := crossroads(t)
	from.half()
	for _, c := range []struct{ moved, unlocked bool }{{}, {unlocked: true}, {moved: true}} { // unlocked: somebody has removed the lock of the index
		if c.moved {
			from.git("update-ref", "refs/heads/main", string(from.to))
		}
		for n := 0; ; n++ {
			j := from.photograph(fmt.Sprint(c, n))
			err := os.Truncate(j.path("new"), 1)
			if err == nil && c.unlocked {
				err = os.Remove(j.path(".git/index.lock"))
			}
			if err != nil {
				t.Fatal(err)
			}
			r, ran := j.failing(n)
			o, err := r.EndAdvance(t.Context(), "main")
			if *ran <= n {
				j.isWhole()
				break
			}
			left := j.litter()
			if o == "" && err == nil || !slices.Contains(left, followNote) || slices.Contains(left, "index.lock") == c.unlocked {
				t.Errorf("%+v, git %d fails: obstacle %q, %v; left are %v", c, n, o, err, left)
			}
			if o, err := Open(j.root()).EndAdvance(t.Context(), "main"); o != "" || err != nil {
				t.Errorf("after git %d: obstacle %q, %v", n, o, err)
			}
			j.isWhole()
		}
	}
}

// Without a place for its own files a way does not end, and what is left of it stays.
func TestAWayThatEndsWithoutATemporaryDirectory(t *testing.T) {
	tmp := os.Getenv("TMPDIR")
	for _, moved := range []bool{false, true} {
		j := crossroads(t)
		j.half()
		if moved {
			j.git("update-ref", "refs/heads/main", string(j.to))
		}
		t.Setenv("TMPDIR", j.path("nowhere"))
		if o, err := Open(j.root()).EndAdvance(t.Context(), "main"); !strings.Contains(o, "half way") || err != nil || !slices.Contains(j.litter(), followNote) {
			t.Errorf("obstacle %q, %v; left are %v", o, err, j.litter())
		}
		t.Setenv("TMPDIR", tmp)
		if o, err := Open(j.root()).EndAdvance(t.Context(), "main"); o != "" || err != nil {
			t.Errorf("afterwards: obstacle %q, %v", o, err)
		}
		j.isWhole()
	}
}

// While a way ends, other gits are kept from the index, also if somebody has removed its lock.
func TestAWayEndsWithTheIndexLocked(t *testing.T) {
	j := crossroads(t)
	j.half()
	if err := os.Remove(j.path(".git/index.lock")); err != nil {
		t.Fatal(err)
	}
	r := Open(j.root())
	run, looks := r.cli.exec, 0
	r.cli.exec = func(cmd *exec.Cmd) error {
		if slices.Contains(cmd.Args, "ls-files") {
			looks++
			if to, err := os.Readlink(j.path(".git/index.lock")); to != followNote {
				t.Errorf("the lock is %q, %v", to, err)
			}
		}
		return run(cmd)
	}
	if o, err := r.EndAdvance(t.Context(), "main"); o != "" || err != nil || looks == 0 {
		t.Errorf("obstacle %q, %v; %d looks", o, err, looks)
	}
	j.isWhole()
}

// What was killed half way in a worktree that is away since is ended when that is back.
func TestAWorktreeThatIsAwayHalfWay(t *testing.T) {
	ctx, f := t.Context(), newFixture(t)
	from, to := f.twoCommits()
	usb, away := f.path("../usb"), f.path("../away")
	f.git("worktree", "add", "--quiet", "-b", "rel", usb, string(from))
	f.git("worktree", "lock", usb)
	r := Open(f.root())
	on, err := r.worktreesOn(ctx, "rel")
	if err != nil || len(on) != 1 {
		t.Fatalf("%+v, %v", on, err)
	}
	begun, obstacle, err := r.begin(ctx, on[0], from, to)
	if err != nil || obstacle != "" {
		t.Fatal(obstacle, err)
	}
	begun.release()
	if err := os.Rename(usb, away); err != nil {
		t.Fatal(err)
	}
	const says = "a worktree that is locked and not there: bring it back"
	if o, err := r.EndAdvance(ctx, "rel"); !strings.Contains(o, says) || err != nil {
		t.Errorf("obstacle %q, %v", o, err)
	}
	if err := os.Rename(away, usb); err != nil {
		t.Fatal(err)
	}
	if o, err := r.EndAdvance(ctx, "rel"); o != "" || err != nil {
		t.Errorf("when it is back: %q, %v", o, err)
	}
	if got := f.in(usb).git("status", "--porcelain") + f.in(usb).content("a.txt"); got != "1\n" || f.rev("rel") != from {
		t.Errorf("it is %q", got)
	}
}

// The locks that a killed git left of the head of a linked worktree are removed: that of its file, and that of its tables.
func TestALockInAWorktreeHalfWay(t *testing.T) {
	if !tellsWhere {
		t.Skip("any git on this machine counts")
	}
	f := newFixture(t)
	from, to := f.twoCommits()
	f.git("worktree", "add", "--quiet", "-b", "rel", f.path("../linked"), string(from))
	r := Open(f.root())
	on, err := r.worktreesOn(t.Context(), "rel")
	if err != nil || len(on) != 1 {
		t.Fatalf("%+v, %v", on, err)
	}
	begun, obstacle, err := r.begin(t.Context(), on[0], from, to)
	if err != nil || obstacle != "" {
		t.Fatal(obstacle, err)
	}
	locks := []string{"HEAD.lock", tablesLock}
	for _, lock := range locks {
		f.write(filepath.Join(".git/worktrees/linked", lock), "")
	}
	begun.release()
	if o, err := r.EndAdvance(t.Context(), "rel"); o != "" || err != nil {
		t.Errorf("%q, %v", o, err)
	}
	for _, lock := range locks {
		if _, err := os.Lstat(begun.path(lock)); err == nil {
			t.Errorf("%s is there", lock)
		}
	}
}

// A change that a flag in the index hides from git status is named with the flag, and the advice works.
func TestAChangeThatAFlagHides(t *testing.T) {
	for name, c := range map[string]struct {
		flags  []string
		marked string
	}{
		"assume-unchanged": {[]string{"assume-unchanged"}, "assume-unchanged"},
		"skip-worktree":    {[]string{"skip-worktree"}, "skip-worktree"},
		"both":             {[]string{"skip-worktree", "assume-unchanged"}, "assume-unchanged and skip-worktree"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.TB = t
			f.commit("a file", "1\n")
			f.commit("same", "1\n")
			from, to := fork(f, func() { f.write("a file", "2\n"); f.write("same", "2\n") })
			f.write("a file", "mine\n")
			for _, flag := range c.flags {
				f.git("update-index", "--"+flag, "--", "a file", "same")
			}
			if got := f.git("status", "--porcelain"); got != "" {
				t.Fatal(got)
			}
			r := Open(f.root())
			o, moved, err := r.Advance(t.Context(), "main", from, to)
			if moved || err != nil || !strings.HasPrefix(o, "main is checked out in "+f.dir+", where a file is changed, which git status does not show, since it is marked "+c.marked+" (see `git ls-files -v`): run `git -C ") {
				t.Fatalf("obstacle %q, moved %v, %v", o, moved, err)
			}
			if got := f.content("a file") + f.content("same"); got != "mine\n1\n" || f.rev("main") != from {
				t.Errorf("it is left as %q", got)
			}
			for i, command := range strings.Split(o, "`") {
				if i%2 == 1 && strings.HasPrefix(command, "git -C "+f.dir+" ") {
					f.shell(command)
				}
			}
			if got := f.git("status", "--porcelain"); got != "M \"a file\"" {
				t.Errorf("after the advice: %s", got)
			}
			f.git("stash")
			if o, moved, err := r.Advance(t.Context(), "main", from, to); o != "" || !moved || err != nil {
				t.Errorf("without the change: %q, moved %v, %v", o, moved, err)
			}
		})
	}
}
