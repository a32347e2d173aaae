package git

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// A repository with reftables (git 2.45) keeps refs and reflogs in files that only git reads. tablesDir has them, and in
// the files HEAD there is the branch tableHead.
const (
	tablesDir = "reftable"
	tableHead = ".invalid"
)

// headInTables returns the branch of the working tree of gitDir, or "" if its HEAD is detached.
func headInTables(gitDir string) (string, error) {
	out, err := gitOfTables(gitDir, "symbolic-ref", "--quiet", "HEAD")
	if exit, ended := errors.AsType[*exec.ExitError](err); ended && exit.ExitCode() == 1 {
		return "", nil
	}
	branch, _ := strings.CutPrefix(strings.TrimSpace(out), "refs/heads/")
	return branch, err
}

// logInTables returns the reflog of HEAD in gitDir as the lines of its file would be, but for who made them.
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
