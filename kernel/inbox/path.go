package inbox

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Layout says what the directories of an inbox mean (seed 004).
type Layout uint8

// The layouts.
const (
	SimpleLayout Layout = iota // every prompt is for the repository of the inbox
	SingleOwner                // REPOSITORY/BRANCH/…/FILE
	MultiOwner                 // OWNER/REPOSITORY/BRANCH/…/FILE
)

var layoutNames = kernel.NewNames[Layout]("inbox layout", "simple", "single_owner", "multi_owner")

func (l Layout) String() string { return layoutNames.Name(l) }

// ParseLayout is the inverse of String.
func ParseLayout(s string) (Layout, error) { return layoutNames.Parse(s) }

// BranchMarker is the file that names the branch its directory stands for,
// where the directory's own name cannot: one with slashes.
const BranchMarker = ".branch"

// Path is what the path of a prompt says. In the simple layout it says
// nothing.
type Path struct{ Owner, Repository, Branch string }

// Target is the name of the repository, as the configuration knows it.
func (p Path) Target() string { return p.Owner + "/" + p.Repository }

// ParsePath reads the path of a prompt below the inbox, with slashes.
// owner is that of the single-owner layout. branchOf is what the marker of a
// directory says, "" without one; the nearest above the file counts. A path
// that does not fit the layout is ErrInvalid: nothing is guessed.
func ParsePath(layout Layout, owner, rel string, branchOf func(dir string) string) (Path, error) {
	bad := func(why string) (Path, error) {
		return Path{}, fmt.Errorf("%s: %w", why, kernel.ErrInvalid)
	}
	parts := strings.Split(rel, "/")
	if _, n, ok := PromptOf(rel); !ok || n != kernel.NewPrompt || slices.Contains(parts, "") || slices.Contains(parts, ".") || slices.Contains(parts, "..") {
		return bad(fmt.Sprintf("%q is not the path of a prompt", rel))
	}
	if !utf8.ValidString(rel) {
		return bad(fmt.Sprintf("%q is not UTF-8, which a record's text is: rename it", rel))
	}
	need, shape := 0, ""
	switch layout {
	case SimpleLayout:
		return Path{}, nil
	case SingleOwner:
		need, shape = 3, "REPOSITORY/BRANCH/FILE"
		if owner == "" {
			return bad("the layout single_owner needs inbox.owner in the configuration")
		}
	case MultiOwner:
		need, shape = 4, "OWNER/REPOSITORY/BRANCH/FILE"
	default:
		return bad("unknown " + layout.String())
	}
	if len(parts) < need {
		return bad(fmt.Sprintf("%q is too short for the layout %s: expected %s", rel, layout, shape))
	}
	p := Path{Owner: owner, Repository: parts[need-3], Branch: parts[need-2]}
	if layout == MultiOwner {
		p.Owner = parts[0]
	}
	for depth := len(parts) - 1; depth >= need-1; depth-- {
		if b := branchOf(strings.Join(parts[:depth], "/")); b != "" {
			p.Branch = b
			break
		}
	}
	if err := validBranch(p.Branch); err != nil {
		return Path{}, err
	}
	return p, nil
}

// validBranch refuses what git does not take for the name of a branch
// (git-check-ref-format), so that it is a path as well.
func validBranch(b string) error {
	bad := b == "" || strings.HasPrefix(b, "-") || strings.HasSuffix(b, ".") || b == "@" || strings.Contains(b, "..") || strings.Contains(b, "@{")
	for _, part := range strings.Split(b, "/") {
		bad = bad || part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	bad = bad || !utf8.ValidString(b) || strings.ContainsFunc(b, func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(" ~^:?*[\\", r) })
	if bad {
		return fmt.Errorf("%q is not a branch's name: %w", b, kernel.ErrInvalid)
	}
	return nil
}
