package main

import (
	"github.com/vizier-scheduler/vizier/adapters/fs/config"
)

type configCmd struct {
	Show configShowCmd `cmd:"" default:"withargs" help:"Print the configuration in effect."`
}

type configShowCmd struct {
	Origin bool   `help:"Show the source of each value."`
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

func (*configShowCmd) Help() string {
	return "Each value comes from the first of these that has it: a VIZIER_* variable, the repository's .vizier/config.toml, " +
		"the user's vizier/config.toml, the default. `vizier help settings` lists the keys."
}

// shownConfig is `config show --format json`.
type shownConfig struct {
	Version  int            `json:"version"` // 1
	Settings []shownSetting `json:"settings"`
}

type shownSetting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin string `json:"origin"`
}

// Run prints the configuration.
func (s *configShowCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	settings := r.Config.Settings()
	if s.Format == "json" {
		doc := shownConfig{Version: 1, Settings: make([]shownSetting, len(settings))}
		for i, v := range settings {
			if list, ok := v.Value.([]string); ok {
				v.Value = listed(list)
			}
			doc.Settings[i] = shownSetting{v.Key, v.Value, v.Origin}
		}
		return c.ui.json(doc)
	}
	c.ui.text(table(settingCells(settings, s.Origin)))
	return nil
}

func settingCells(settings []config.Setting, origin bool) [][]string {
	cells := make([][]string, len(settings))
	for i, v := range settings {
		cells[i] = []string{v.TOML()}
		if origin {
			cells[i] = append(cells[i], "# "+v.Origin)
		}
	}
	return cells
}
