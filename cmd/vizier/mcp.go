package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/vizier-scheduler/vizier/adapters/git"
)

// mcpName is the name of the server's program, which is installed beside this
// one.
const mcpName = "vizier-mcp"

type mcpCmd struct {
	Allow       []string `enum:"submit,run,cancel,retry" placeholder:"submit|run|cancel|retry" help:"Allow these changes, separated by commas."`
	Dir         string   `type:"existingdir" placeholder:"DIR" help:"Serve the repository of this directory; by default the current one."`
	PrintConfig string   `enum:",claude,codex,gemini,vscode" default:"" placeholder:"claude|codex|gemini|vscode" help:"Print the client's configuration for this repository, and do nothing else."`
}

func (*mcpCmd) Help() string {
	return "Only reads, unless --allow names more; the record of each change names the client (--via). It never approves or rejects: people do."
}

// Run becomes the program of the server.
func (m *mcpCmd) Run(c *call) error {
	dir := m.Dir
	if dir == "" {
		var err error
		if dir, err = presentDir(); err != nil {
			return err
		}
	}
	root, err := git.FindRoot(dir)
	if err != nil {
		return git.Named(err, c.env.Get("GIT_DIR"))
	}
	var config []string
	if c.globals.ConfigFile != "" {
		file, err := filepath.Abs(c.globals.ConfigFile) // the commands run in the repository's directory
		if err != nil {
			return fmt.Errorf("find the configuration file: %w", err)
		}
		config = []string{"--config-file", file}
	}
	if m.PrintConfig != "" {
		return m.printConfig(c, root.Dir, config)
	}
	args := append([]string{"--allow", strings.Join(m.Allow, ",")}, config...)
	if m.Dir != "" {
		args = append(args, "--dir", m.Dir)
	}
	return c.become(mcpName, args)
}

// launch is how a client starts the server.
type launch struct {
	Type    string   `json:"type,omitempty" toml:"-"`
	Command string   `json:"command" toml:"command"`
	Args    []string `json:"args" toml:"args"`
}

// printConfig prints the configuration of a client for the repository in dir. config are flags for the server.
func (m *mcpCmd) printConfig(c *call, dir string, config []string) error {
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's file: %w", err)
	}
	l := launch{Command: own, Args: append([]string{"mcp", "--dir", dir}, config...)}
	if len(m.Allow) > 0 {
		l.Args = append(l.Args, "--allow", strings.Join(m.Allow, ","))
	}
	for _, word := range append(slices.Clone(l.Args), l.Command) {
		if !utf8.ValidString(word) {
			return fmt.Errorf("%+q is not UTF-8 text, as a client's configuration must be: rename the directory", word)
		}
	}
	servers := map[string]launch{"vizier": l}
	switch m.PrintConfig {
	case "codex":
		var text strings.Builder
		if err := toml.NewEncoder(&text).Encode(map[string]any{"mcp_servers": servers}); err != nil {
			return err
		}
		c.ui.text(text.String())
		return nil
	case "vscode":
		l.Type = "stdio"
		return c.ui.json(map[string]any{"servers": map[string]launch{"vizier": l}})
	default:
		return c.ui.json(map[string]any{"mcpServers": servers})
	}
}
