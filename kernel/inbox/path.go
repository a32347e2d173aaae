package inbox

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Layout is the meaning of an inbox's directories (seed 004).
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

// BranchMarker is a file that holds the name of the branch which its directory
// stands for. It is needed for branches with slashes.
const BranchMarker = ".branch"

// Path is the information in a prompt's path. In the simple layout it is empty.
type Path struct{ Owner, Repository, Branch string }

// Target returns the repository's name in the configuration.
func (p Path) Target() string { return p.Owner + "/" + p.Repository }

// maxName is how many bytes a file name has at most.
const maxName = 255

// ParsePath parses the path of a prompt below the inbox, with slashes. owner is
// the owner in the single-owner layout. branchOf returns the content of a
// directory's branch marker, or ""; the nearest marker above the file counts. A
// path that does not fit the layout is ErrInvalid: ParsePath does not guess.
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
	if name := path.Base(rel); len(path.Base(NameOf(kernel.RunningPrompt, rel))) > maxName {
		return bad(fmt.Sprintf("%q has a name of %d bytes, which is too long once it says .running.md: shorten it", rel, len(name)))
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
	if err := kernel.CheckBranch(p.Branch); err != nil {
		return Path{}, err
	}
	return p, nil
}
