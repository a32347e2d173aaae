package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func model(t *testing.T, g any) *kong.Application {
	t.Helper()
	var exited bool
	parser, err := newParser(g, io.Discard, &exited)
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

// What the narrow grammar says of a command is what the whole one says.
func TestNarrowedIsPartOfTheWhole(t *testing.T) {
	for _, want := range model(t, &grammar{}).Leaves(false) {
		if want.Name == "help" {
			continue
		}
		words := strings.Fields(want.FullPath())[1:]
		g := narrowed(append([]string{"-q", "--no-resident"}, words...))
		if g == nil {
			t.Errorf("%s: no narrow grammar", words)
			continue
		}
		leaves := model(t, g).Leaves(false)
		if len(leaves) != 1 {
			t.Errorf("%s: %d commands, want 1", words, len(leaves))
			continue
		}
		if got, want := commandPage(leaves[0]), commandPage(want); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", words, got, want)
		}
	}
}

func TestNotNarrowed(t *testing.T) {
	for _, line := range []string{"", "nope", "jobs", "jobs nope", "-C file jobs list", "--nope jobs list", "jobs -v list", "help jobs", "jobs list --help", "run draft -h", "-V", "-- jobs list"} {
		if g := narrowed(strings.Fields(line)); g != nil {
			t.Errorf("%q: narrowed to %T", line, g)
		}
	}
	if args := strings.Fields("jobs submit -- make --help"); narrowed(args) == nil {
		t.Errorf("%q: the help of another program is asked for", args)
	}
}

// An error is that of the whole grammar, wherever the narrow one gives up.
func TestErrorsAreToldInViewOfTheWhole(t *testing.T) {
	w := newFake(t)
	for _, line := range []string{"jobs list --nope", "jobs lst", "jobs show", "jobs status a b c", "jobs list --format nope"} {
		args := strings.Fields(line)
		code, _, narrow := w.run(args...)
		var exited bool
		parser, err := newParser(&grammar{}, io.Discard, &exited)
		if err != nil {
			t.Fatal(err)
		}
		_, err = parser.Parse(slices.Clone(args))
		if err == nil || code != 2 || !strings.Contains(narrow, err.Error()) {
			t.Errorf("%s: exit %d, %q, want 2 and %v", line, code, narrow, err)
		}
	}
}

func TestNarrowedKnowsTheGlobalsThatAreGiven(t *testing.T) {
	for _, f := range model(t, &grammar{}).Flags {
		if f.Name == "help" {
			continue
		}
		for _, word := range []string{"--" + f.Name, "--" + f.Name + "=1", "-" + string(f.Short)} {
			if f.Short == 0 && !strings.HasPrefix(word, "--") {
				continue
			}
			g := narrowed([]string{"jobs", "list", word})
			if g == nil || flagOf(model(t, g).Node, word) == nil {
				t.Errorf("%s is not among the flags", word)
			}
		}
	}
	g := narrowed([]string{"jobs", "list", "-qv", "--config-file", "x"})
	var exited bool
	parser, err := newParser(g, io.Discard, &exited)
	if err == nil {
		_, err = parser.Parse([]string{"jobs", "list", "-qv", "--config-file", "x"})
	}
	if got := globalsOf(g); err != nil || got != (globals{Verbose: 1, Quiet: true, ConfigFile: "x"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}
