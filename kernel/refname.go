package kernel

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckRef returns ErrInvalid for a name that git would reject as the name of a
// branch or as a part of one, such as ../../x, .git and a.lock. A name that
// passes is also safe as a relative path.
func CheckRef(name string) error {
	bad := func(why string) error {
		return fmt.Errorf("%q: git takes no such name, for %s: %w", name, why, ErrInvalid)
	}
	switch {
	case name == "" || name == "@":
		return bad("it names nothing")
	case !utf8.ValidString(name):
		return bad("it is not UTF-8, as records are")
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("~^:?*[\\", r) }):
		return bad(`it has a space, a control character or one of ~^:?*[\`)
	case strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, "."):
		return bad("it has .. or @{, or ends with a dot")
	case strings.HasPrefix(name, "-"):
		return bad("it begins like an option")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return bad("a part of it is empty, begins with a dot or ends with .lock")
		}
	}
	return nil
}

// CheckPlan returns ErrInvalid for a name that a new plan cannot have: its branch and its document
// are named after it.
func CheckPlan(name string) error {
	const most = 200 // bytes: file systems have 255 for a name
	isWord := func(r rune) bool { return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	switch {
	case strings.Contains(name, "/"):
		return fmt.Errorf("%q: the name of a plan has no /: %w", name, ErrInvalid)
	case len(name) > most:
		return fmt.Errorf("%.40q…: the name of a plan has at most %d bytes: %w", name, most, ErrInvalid)
	case !strings.ContainsFunc(name, isWord):
		return fmt.Errorf("%q: the name of a plan has a letter from a to z or a digit: %w", name, ErrInvalid)
	}
	return CheckRef(name)
}

// CheckBranch returns ErrInvalid for a name that is not that of a branch. It rejects full refs
// such as refs/heads/x as well: git would take that, as the name of a branch, for
// refs/heads/refs/heads/x, and the same branch would have two names here.
func CheckBranch(name string) error {
	short, is := strings.CutPrefix(name, "refs/heads/")
	switch {
	case is && short != "":
		return fmt.Errorf("%q: a branch is named without refs/heads/: write %s: %w", name, short, ErrInvalid)
	case name == "HEAD" || strings.HasPrefix(name, "refs/"):
		return fmt.Errorf("%q: it is no branch: write the name of one, as `git branch` lists it: %w", name, ErrInvalid)
	}
	return CheckRef(name)
}

// ofPlans are the operations that make the plan's name a part of the name of a
// branch or file.
//
//nolint:gochecknoglobals // a constant
var ofPlans = []string{prepare, persist, integrate, "merge.sentinel.write", "merge.sentinel.clear"}

// refs returns ErrInvalid if a is about a branch or plan whose name git would
// reject. Records of earlier versions may hold such artifacts.
func (a Artifact) refs() error {
	if a.Kind == Custom || a.Kind == CommandPatch {
		return nil
	}
	err := CheckRef(a.Name)
	if branch := a.Branch(); err == nil && branch != "" {
		err = CheckBranch(branch)
	}
	if err != nil {
		return fmt.Errorf("artifact %q: %w", a, err)
	}
	return nil
}
