package app

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Version is the version of a release (semver.org, without pre-releases).
type Version struct{ Major, Minor, Patch uint32 }

var versionTag = pattern(`^v(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})$`)

// pattern compiles a regular expression on first use, since few processes
// release anything.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// LatestVersion returns the highest version in tags of the form vX.Y.Z, or
// 0.0.0 and false if there is none. Other tags are ignored.
func LatestVersion(tags []string) (v Version, found bool) {
	for _, t := range tags {
		if !versionTag().MatchString(t) {
			continue
		}
		var w Version
		_, _ = fmt.Sscanf(t, "v%d.%d.%d", &w.Major, &w.Minor, &w.Patch) // the pattern has only numbers that fit
		if !found || w.compare(v) > 0 {
			v, found = w, true
		}
	}
	return v, found
}

func (v Version) compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch))
}

// String returns the version as X.Y.Z.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Tag returns the name of the version's tag.
func (v Version) Tag() string { return "v" + v.String() }

// Bump is the part of a version that a release raises.
type Bump uint8

// The bumps, in increasing order.
const (
	NoBump Bump = iota
	PatchBump
	MinorBump
	MajorBump
)

var bumpNames = kernel.NewNames[Bump]("bump", "none", "patch", "minor", "major")

func (b Bump) String() string { return bumpNames.Name(b) }

// Next returns the version that follows v.
func (v Version) Next(b Bump) Version {
	switch b {
	case MajorBump:
		return Version{Major: v.Major + 1}
	case MinorBump:
		return Version{v.Major, v.Minor + 1, 0}
	case PatchBump:
		return Version{v.Major, v.Minor, v.Patch + 1}
	default:
		return v
	}
}

// Change is a commit in the notes of a release.
type Change struct {
	Commit  kernel.CommitID
	Message string
}

// subject is the parsed first line of a conventional commit's message
// (conventionalcommits.org 1.0.0).
type subject struct {
	kind, scope, text string // kind "": the message is not conventional
	breaking          bool
}

var (
	conventional = pattern(`^([A-Za-z]+)(?:\(([^()]+)\))?(!)?: +(.*\S)`)
	breakingNote = pattern(`(?m)^BREAKING[ -]CHANGE: +\S`)
)

func (c Change) subject() subject {
	line, body, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	line = strings.TrimSpace(line)
	m := conventional().FindStringSubmatch(line)
	if m == nil {
		return subject{text: line}
	}
	return subject{kind: strings.ToLower(m[1]), scope: m[2], text: m[4], breaking: m[3] != "" || breakingNote().MatchString(body)}
}

// bump returns the bump that the change requires by itself.
func (s subject) bump() Bump {
	switch {
	case s.breaking:
		return MajorBump
	case s.kind == "feat":
		return MinorBump
	case s.kind == "fix", s.kind == "perf":
		return PatchBump
	default:
		return NoBump
	}
}

// BumpFor returns the least bump that changes require, or NoBump if there is
// nothing to release.
func BumpFor(changes []Change) Bump {
	most := NoBump
	for _, c := range changes {
		most = max(most, c.subject().bump())
	}
	return most
}

// ReleaseNotes returns notes about changes, which must be given newest first,
// with at most limit items, the most important ones first.
func ReleaseNotes(changes []Change, limit int) string {
	sections := []string{"Breaking changes", "Features", "Fixes", "Other changes"}
	items := make([][]string, len(sections))
	for _, c := range changes {
		s := c.subject()
		if s.kind == "" && strings.HasPrefix(s.text, "Merge ") || s.kind == "chore" && s.scope == "release" {
			continue
		}
		at := slices.Index([]Bump{MajorBump, MinorBump, PatchBump, NoBump}, s.bump())
		text := s.text
		if s.scope != "" {
			text = s.scope + ": " + text
		}
		items[at] = append(items[at], fmt.Sprintf("- %s (%.12s)\n", text, c.Commit))
	}
	var parts []string
	more := 0
	for i, list := range items {
		shown := min(len(list), limit)
		limit -= shown
		more += len(list) - shown
		if shown > 0 {
			parts = append(parts, sections[i]+":\n"+strings.Join(list[:shown], ""))
		}
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more\n", more))
	}
	return strings.Join(parts, "\n")
}
