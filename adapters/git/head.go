package git

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// head returns the branch that HEAD of the working tree with its top at dir names, or "" if it is detached; and the
// commit that it is at, or "" if the branch is unborn or its ref is packed. It reads the files that
// gitrepository-layout(5) describes, since a git process takes two hundred times as long. ok is false
// where only git can tell: dir is no top, or its HEAD or the branch is kept in another way.
func head(dir string) (branch string, commit kernel.CommitID, ok bool) {
	gitDir, err := gitDirOf(dir)
	if err != nil || gitDir == "" {
		return "", "", false
	}
	text, ok := readRef(filepath.Join(gitDir, "HEAD"))
	if !ok || validCommit(kernel.CommitID(text)) {
		return "", kernel.CommitID(text), ok
	}
	branch, ok = strings.CutPrefix(text, "ref: refs/heads/")
	if !ok || !validBranch(branch) { // reftables have tableHead there
		return "", "", false
	}
	common := gitDir
	if of, err := sys.ReadLinked(filepath.Join(gitDir, "commondir"), maxLink); err == nil {
		common = absolute(gitDir, strings.TrimSpace(string(of)))
	}
	path := filepath.Join(common, "refs/heads", branch)
	if _, err := os.Lstat(path); os.IsNotExist(err) {
		return branch, "", true
	}
	text, ok = readRef(path)
	if !ok || !validCommit(kernel.CommitID(text)) { // such as an alias of another branch
		return "", "", false
	}
	return branch, kernel.CommitID(text), true
}

// refText returns the content of a file that holds a ref. With core.preferSymlinkRefs, git makes a link of a symbolic one, which
// says the ref and as a rule leads nowhere.
func refText(path string) (string, error) {
	if to, err := os.Readlink(path); err == nil && strings.HasPrefix(to, "refs/") {
		return "ref: " + to, nil
	}
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
}

// readRef returns the content of a file that holds a ref. ok is false if it is no regular file.
func readRef(path string) (text string, ok bool) {
	b, err := sys.ReadRegular(path, maxLink) // once, HEAD was a link to its branch
	return strings.TrimSpace(string(b)), err == nil
}
