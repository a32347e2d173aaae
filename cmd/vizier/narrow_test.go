package main

import (
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func parserOf(t *testing.T, g any) *kong.Kong {
	t.Helper()
	var exited bool
	parser, err := newParser(g, io.Discard, &exited)
	if err != nil {
		t.Fatal(err)
	}
	return parser
}

// leaf returns the one command of a narrow grammar.
func leaf(t *testing.T, n *narrow) *kong.Node {
	t.Helper()
	leaves := parserOf(t, n.grammar).Model.Leaves(false)
	if len(leaves) != 1 {
		t.Fatalf("%d commands, want 1", len(leaves))
	}
	return leaves[0]
}

// allCommands are the words of every command that can be narrowed to.
func allCommands(t *testing.T, see func(words []string, node *kong.Node)) {
	t.Helper()
	for _, node := range parserOf(t, &grammar{}).Model.Leaves(false) {
		if node.Name != "help" {
			see(strings.Fields(commandPath(node))[1:], node)
		}
	}
}

// If every flag is mentioned, the narrow grammar of a command is complete.
func TestNarrowedHasWhatIsMentioned(t *testing.T) {
	allCommands(t, func(words []string, want *kong.Node) {
		args := slices.Concat([]string{"-q", "--no-resident"}, words)
		for _, group := range want.AllFlags(false) {
			for _, f := range group {
				if f.Name == "help" {
					continue
				}
				args = append(args, "--"+f.Name)
				if n := narrowed(append(slices.Clone(words), "--"+f.Name+"=1")); n == nil || flagOf(leaf(t, n), "--"+f.Name) == nil {
					t.Errorf("%s: --%s=1 is not known", words, f.Name)
				}
				if n := narrowed(append(slices.Clone(words), "-"+string(f.Short))); f.Short != 0 && (n == nil || flagOf(leaf(t, n), "-"+string(f.Short)) == nil) {
					t.Errorf("%s: -%c is not known", words, f.Short)
				}
			}
		}
		n := narrowed(args)
		if n == nil {
			t.Errorf("%s: no narrow grammar", words)
			return
		}
		// The page tells what there is of arguments and flags.
		got, all := leaf(t, n), commandPage(want)
		if detail := want.Detail; detail != "" {
			got.Detail = detail // a method of the command itself
		}
		if got := commandPage(got); got != all {
			t.Errorf("%s: got\n%s\nwant\n%s", words, got, all)
		}
	})
}

// What the narrow grammar fills in is what the whole one does.
func TestNarrowedFillsInTheSame(t *testing.T) {
	for _, line := range []string{
		"jobs", "jobs list", "ls", "jobs ls -n 3", "logs a", "add -- true", "jobs list --all", "jobs status @last", "jobs status @last --format json", "-q jobs why abc -v",
		"jobs submit -- make --help", "jobs submit --approval --after a --after b --missing-producer wait -- true",
		"jobs submit --env A=b --in-doubt ask --transient remove -- true", "jobs schedule --watch", "jobs schedule",
		"jobs cancel a --cleanup-worktree", "run draft x --repeat 3 --set a=b", "run draft", "jobs tail a --follow", "release", "release --major",
		"jobs list -qv --config-file x", "jobs list -C x", "--no-pager jobs list --no-ansi", "inbox submit - --name a --set x=y", "jobs wait a b",
	} {
		args := strings.Fields(line)
		n := narrowed(args)
		if n == nil {
			t.Errorf("%s: no narrow grammar", line)
			continue
		}
		if _, err := parserOf(t, n.grammar).Parse(slices.Clone(args)); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		var whole grammar
		parsed, err := parserOf(t, &whole).Parse(slices.Clone(args))
		if err != nil {
			t.Fatal(err)
		}
		g, command := n.filled()
		if want := parsed.Selected().Target.Addr().Interface(); g != whole.Globals || !reflect.DeepEqual(command, want) {
			t.Errorf("%s: got %+v %+v\nwant %+v %+v", line, g, command, whole.Globals, want)
		}
	}
}

// Without any flag every command is filled in as the whole grammar fills it in.
func TestNarrowedKeepsDefaults(t *testing.T) {
	allCommands(t, func(words []string, node *kong.Node) {
		args := slices.Clone(words)
		for _, p := range node.Positional {
			if p.Required && p.Enum != "" {
				args = append(args, strings.Split(p.Enum, ",")[0])
			} else if p.Required {
				args = append(args, "x")
			}
		}
		var whole grammar
		parsed, err := parserOf(t, &whole).Parse(slices.Clone(args))
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		n := narrowed(args)
		if _, err := parserOf(t, n.grammar).Parse(slices.Clone(args)); err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		if _, got := n.filled(); !reflect.DeepEqual(got, parsed.Selected().Target.Addr().Interface()) {
			t.Errorf("%s: got %+v, want %+v", args, got, parsed.Selected().Target)
		}
	})
}

func TestNotNarrowed(t *testing.T) {
	for _, line := range []string{"", "nope", "jobs nope", "-C file jobs list", "--nope jobs list", "jobs -v list", "help jobs", "jobs list --help", "run draft -h", "-V", "-- jobs list"} {
		if n := narrowed(strings.Fields(line)); n != nil {
			t.Errorf("%q: narrowed to %T", line, n.grammar)
		}
	}
}

// An error is that of the whole grammar, wherever the narrow one gives up.
func TestErrorsAreToldInViewOfTheWhole(t *testing.T) {
	w := newFake(t)
	for _, line := range []string{"jobs list --nope", "jobs lst", "jobs payload", "jobs effects a b c", "jobs list --format nope", "jobs list --al", "jobs cancel a --cleanup-worktree --no-cleanup-worktree"} {
		args := strings.Fields(line)
		code, _, narrow := w.run(args...)
		_, err := parserOf(t, &grammar{}).Parse(slices.Clone(args))
		if err == nil || code != 2 || !strings.Contains(narrow, usage(err).Error()) {
			t.Errorf("%s: exit %d, %q, want 2 and %v", line, code, narrow, usage(err))
		}
	}
}
