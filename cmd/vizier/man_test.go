package main

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestManPages compares docs/cli with the pages that the grammar makes: one of
// the program, one of each command. -update rewrites them.
func TestManPages(t *testing.T) {
	var g grammar
	var exited bool
	parser, err := newParser(&g, io.Discard, &exited)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "docs", "cli")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{"vizier.1": overview(parser.Model)}
	short := map[reflect.Type]string{} // the page of a command that stands at the top as well
	for _, n := range parser.Model.Leaves(true) {
		name := strings.ReplaceAll(commandPath(n), " ", "-") + ".1"
		if top := short[n.Target.Type()]; top != "" {
			pages[name] = ".so man1/" + top + "\n"
			continue
		}
		short[n.Target.Type()], pages[name] = name, commandPage(n)
	}
	for name, text := range pages {
		golden(t, filepath.Join(dir, name), text)
	}
	have, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range have {
		if pages[filepath.Base(path)] == "" {
			t.Errorf("%s is the page of no command", path)
		}
	}
}

func overview(m *kong.Application) string {
	p := page{}
	p.head("vizier", m.Help, `\fBvizier\fR [\fIflags\fR] \fIcommand\fR`)
	p.section("DESCRIPTION")
	p.WriteString(".nf\n" + roff(curated()) + ".fi\n")
	p.section("COMMANDS")
	for _, n := range m.Leaves(true) {
		p.item(`\fB`+roff(commandPath(n))+`\fR`, n.Help)
	}
	p.flags("OPTIONS", m.Flags)
	p.section("EXIT STATUS")
	p.WriteString("See \\fBvizier help exit\\-codes\\fR.\n")
	return p.String()
}

func commandPage(n *kong.Node) string {
	p := page{}
	synopsis := `\fB` + roff(commandPath(n)) + `\fR [\fIflags\fR]`
	for _, arg := range n.Positional {
		synopsis += " " + roff(arg.Summary())
	}
	p.head(strings.ReplaceAll(commandPath(n), " ", "-"), n.Help, synopsis)
	if n.Detail != "" {
		p.section("DESCRIPTION")
		p.WriteString(roff(n.Detail) + "\n")
	}
	if len(n.Aliases) > 0 {
		p.section("ALIASES")
		p.WriteString(roff(strings.Join(n.Aliases, ", ")) + "\n")
	}
	if len(n.Positional) > 0 {
		p.section("ARGUMENTS")
		for _, arg := range n.Positional {
			p.item(roff(arg.Summary()), arg.Help)
		}
	}
	p.flags("OPTIONS", n.Flags)
	p.section("SEE ALSO")
	p.WriteString(".BR vizier (1)\n")
	return p.String()
}

// page is a manual page being written.
type page struct{ strings.Builder }

func (p *page) head(name, about, synopsis string) {
	p.WriteString(".\\\" Generated from the command line's own help. Do not edit.\n")
	p.WriteString(".TH " + strings.ToUpper(roff(name)) + " 1 \"\" \"vizier\" \"Vizier manual\"\n")
	p.section("NAME")
	p.WriteString(roff(name) + " \\- " + roff(strings.TrimSuffix(about, ".")) + "\n")
	p.section("SYNOPSIS")
	p.WriteString(synopsis + "\n")
}

func (p *page) section(title string) { p.WriteString(".SH " + title + "\n") }

func (p *page) item(term, about string) { p.WriteString(".TP\n" + term + "\n" + roff(about) + "\n") }

func (p *page) flags(title string, flags []*kong.Flag) {
	p.section(title)
	for _, f := range flags {
		if !f.Hidden {
			p.item(`\fB`+roff(f.String())+`\fR`, f.Help)
		}
	}
}

// roff escapes what roff would take for its own.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\\`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
