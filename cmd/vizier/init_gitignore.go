package main

import (
	"slices"
	"strings"
)

// ignoreHeader is the first line of Vizier's block in .gitignore.
const ignoreHeader = "# Vizier"

// ignoreRules match the files that belong to one checkout only.
var ignoreRules = []string{".vizier/tmp-worktrees/", ".vizier/tmp/", ".vizier/sessions/", ".vizier/jobs/", ".vizier/state/", ".vizier/implementation-plans"}

// ignoring returns a .gitignore with Vizier's block: its header and each rule
// once, in the place of an existing block or at the end, followed by existing
// exceptions from its rules, which would have no effect before it. Nothing else
// changes, including the style of line ends. lacks holds the rules that had to
// be added.
func ignoring(text string) (out string, lacks []string) {
	newline := "\n"
	if strings.Contains(text, "\r\n") {
		newline = "\r\n"
	}
	var lines, exceptions []string
	have := map[string]bool{}
	at := -1
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		rule, managed := ignoreRule(strings.TrimPrefix(line, "!"))
		switch {
		case line == ignoreHeader:
			if at < 0 {
				at = len(lines)
			}
		case managed && strings.HasPrefix(line, "!"):
			exceptions = append(exceptions, line)
		case managed && ignoreCore(line) == ignoreCore(rule):
			have[rule] = true
		default:
			lines = append(lines, line)
		}
	}
	for _, rule := range ignoreRules {
		if !have[rule] {
			lacks = append(lacks, ".gitignore: "+rule)
		}
	}
	if at < 0 {
		if len(lines) > 0 && lines[len(lines)-1] != "" {
			lines = append(lines, "")
		}
		at = len(lines)
	}
	lines = slices.Insert(lines, at, slices.Concat([]string{ignoreHeader}, ignoreRules, exceptions)...)
	out = strings.Join(lines, newline) + newline
	if out != text && len(lacks) == 0 {
		lacks = []string{".gitignore: canonical # Vizier block"}
	}
	return out, lacks
}

// ignoreRule returns the rule that a pattern is another spelling of, or that
// covers it. managed reports whether there is one.
func ignoreRule(pattern string) (rule string, managed bool) {
	core := ignoreCore(pattern)
	for _, r := range ignoreRules {
		if c := ignoreCore(r); core == c || strings.HasPrefix(core, c+"/") {
			return r, true
		}
	}
	return "", false
}

// ignoreCore returns a pattern without the marks that make no difference here.
func ignoreCore(pattern string) string {
	p := strings.TrimSpace(pattern)
	p = strings.TrimPrefix(strings.TrimPrefix(p, "**/"), "/")
	for _, end := range []string{"/**", "/*", "/"} {
		p = strings.TrimSuffix(p, end)
	}
	return p
}
