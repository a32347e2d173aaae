package git

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A repository with reftables (git 2.45) keeps refs and reflogs in files that only git reads. tablesDir has them,
// tablesLock is the lock of all, and in the files HEAD there is the branch tableHead.
const (
	tablesDir  = "reftable"
	tablesLock = "reftable/tables.list.lock"
	tableHead  = ".invalid"
)

// inTables reports whether the refs of the working tree of gitDir are in reftables.
func inTables(gitDir string) bool {
	head, err := refText(filepath.Join(gitDir, "HEAD"))
	return err == nil && head == "ref: refs/heads/"+tableHead
}

// headsInTables returns the branches of working trees by their paths, all by one call of git: "" for one whose HEAD is
// detached or cannot be read. One that git does not list is not there.
func headsInTables(common string) (map[string]string, error) {
	out, err := gitOfTables(common, "worktree", "list", "--porcelain", "-z")
	on, path := map[string]string{}, ""
	for line := range strings.SplitSeq(out, "\x00") {
		switch what, value, _ := strings.Cut(line, " "); what {
		case "worktree":
			path = value
			on[path] = ""
		case "branch":
			on[path] = strings.TrimPrefix(value, "refs/heads/")
		}
	}
	return on, ignoreRefusal(err)
}

// headInTables returns the branch of the working tree of gitDir, or "" if its HEAD is detached or cannot be read.
func headInTables(gitDir string) (string, error) {
	out, err := gitOfTables(gitDir, "symbolic-ref", "--quiet", "HEAD")
	branch, _ := strings.CutPrefix(strings.TrimSpace(out), "refs/heads/")
	return branch, ignoreRefusal(err)
}

// pickInTables returns the operation that the working tree of gitDir stopped in the middle of, as operation does for
// the two that leave a ref and no file.
func pickInTables(gitDir string) (string, error) {
	for _, op := range []string{"cherry-pick", "revert"} {
		ref := strings.ToUpper(strings.ReplaceAll(op, "-", "_")) + "_HEAD"
		out, err := gitOfTables(gitDir, "rev-parse", "--quiet", "--verify", ref)
		if err = ignoreRefusal(err); err != nil || out != "" {
			return op, err
		}
	}
	return "", nil
}

// ignoreRefusal returns err unless git ran and said no.
func ignoreRefusal(err error) error {
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		return nil
	}
	return err
}

// logInTables returns the reflog of HEAD in gitDir as the lines of its file would be, but for who made them. The error is
// fs.ErrNotExist if there is none.
func logInTables(gitDir string) ([]string, error) {
	out, err := gitOfTables(gitDir, "log", "--walk-reflogs", "--date=raw", "--format=%H %gd%x09%gs", "HEAD", "--")
	lines := strings.Split(strings.TrimSpace(out), "\n") // the newest first
	slices.Reverse(lines)
	before := "0"
	for i, line := range lines {
		if commit, rest, ok := strings.Cut(line, " HEAD@{"); ok {
			lines[i], before = before+" "+commit+" "+strings.Replace(rest, "}", "", 1), commit
		}
	}
	if err != nil && ignoreRefusal(err) == nil {
		err = fmt.Errorf("%w: %w", iofs.ErrNotExist, err)
	}
	return lines, err
}

func gitOfTables(gitDir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"--no-pager", "-c", "log.showSignature=false", "--git-dir=" + gitDir}, args...)...)
	cmd.Env = environ(os.Environ(), false)
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("ask git about %s: %w", gitDir, err)
	}
	return string(out), err
}
