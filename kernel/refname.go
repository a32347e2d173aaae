package kernel

import (
	"fmt"
	"strings"
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
	for _, name := range []string{a.Name, a.Ref} {
		if name == "" {
			continue
		}
		if err := CheckRef(name); err != nil {
			return fmt.Errorf("artifact %q: %w", a, err)
		}
	}
	return nil
}
