package main

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
)

// helpPages are the curated page, vizier.txt, and a page for each topic.
//
//go:embed help/*.txt
var helpPages embed.FS

type helpCmd struct {
	All   bool     `short:"a" help:"List every command and global flag."`
	Topic []string `arg:"" optional:"" help:"A topic (artifacts, exit-codes, files, gates, inbox, settings, templates) or a command."`
}

// Run prints a page.
func (h *helpCmd) Run(c *call) error {
	switch {
	case h.All:
		return c.reference(nil)
	case len(h.Topic) == 0:
		return c.page(curated())
	case len(h.Topic) == 1 && h.Topic[0] == settingsTopic:
		return c.page(settingsPage())
	case len(h.Topic) == 1:
		if text, err := helpPages.ReadFile("help/" + h.Topic[0] + ".txt"); err == nil {
			return c.page(string(text))
		}
	}
	model, err := c.whole()
	if err != nil {
		return err
	}
	if node := model.Node; len(h.Topic) > 0 {
		for _, word := range h.Topic {
			next := child(node, word)
			if next == nil {
				return h.unknown(model, word)
			}
			node = next
		}
	}
	return c.reference(h.Topic)
}

func (h *helpCmd) unknown(model *kong.Application, word string) error {
	names := topics()
	for _, n := range model.Children {
		if !n.Hidden {
			names = append(names, n.Name)
		}
	}
	err := fmt.Errorf("no help on %q: expected a command or one of %s", strings.Join(h.Topic, " "), strings.Join(topics(), ", "))
	if near := config.Nearest(word, names); near != "" {
		err = fmt.Errorf("%w (did you mean %s?)", err, near)
	}
	return &failure{class: classUsage, err: err, hint: "vizier help --all"}
}

// settingsTopic is the page that is made from the settings, for people who have no docs/config.md.
const settingsTopic = "settings"

// settingsPage returns what each key of the configuration means, and its default.
func settingsPage() string {
	var b strings.Builder
	b.WriteString("Settings, with their defaults\n\n" +
		"They stand in .vizier/config.toml, or for all repositories of yours in\n" +
		"~/.config/vizier/config.toml. VIZIER_SCHEDULER_MAX_RUNNING=2 sets\n" +
		"scheduler.max_running for one command, and so on. `vizier config show --origin`\n" +
		"says what counts here, and from where.\n")
	for _, s := range config.Keys() {
		title := s.Key
		if s.Value != nil {
			title = s.TOML()
		}
		b.WriteString("\n  " + title + "\n" + folded("      ", s.Doc+"\n", 6, 79))
	}
	return b.String()
}

// topics returns the names of the pages.
func topics() []string {
	out := []string{settingsTopic}
	entries, err := fs.ReadDir(helpPages, "help")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".txt"); name != "vizier" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// curated returns the main page.
func curated() string {
	text, err := helpPages.ReadFile("help/vizier.txt")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// reference prints the parser's own help on a command, or on the whole program.
func (c *call) reference(command []string) error {
	var b strings.Builder
	var g grammar
	var exited bool
	parser, err := newParser(&g, &b, &exited)
	if err != nil {
		return err
	}
	if _, err := parser.Parse(append(slices.Clone(command), "--help")); err != nil && !exited {
		return err
	}
	return c.page(b.String())
}
