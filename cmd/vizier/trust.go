package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/app"
)

type trustCmd struct {
	Show bool `help:"Only show the commands; exit 1 if they are not trusted."`
	Yes  bool `short:"y" help:"Do not ask."`
}

func (*trustCmd) Help() string {
	return "If git tracks .vizier/config.toml, a clone or a pull may bring commands that you never saw: hooks, the programs of agents, clusters, the gate of a release. " +
		"Its hooks run only once you have trusted them, and commands that only read run none of these before. You trust the present values: after a change, Vizier asks again. " +
		"Your own configuration needs no trust."
}

// Run shows what would run, and records that the user trusts it.
func (x *trustCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	all := r.Commands()
	if len(all) == 0 {
		c.ui.print("Outcome: " + config.RepositoryFile + " runs nothing")
		return nil
	}
	for _, s := range all {
		c.ui.print(fmt.Sprintf("%s = %v", s.Key, s.Value))
	}
	untrusted := r.Untrusted(c.ctx)
	switch {
	case len(untrusted) == 0 && !r.Trusted():
		c.ui.print("Outcome: needs no trust, since git does not track " + config.RepositoryFile)
		return nil
	case len(untrusted) == 0:
		c.ui.print("Outcome: trusted")
		return nil
	case x.Show:
		c.ui.print("Outcome: not trusted")
		return exits(1)
	case !x.Yes:
		if agreed, err := c.agreeTo("May these run?", "vizier trust"); err != nil {
			return err
		} else if !agreed {
			c.ui.print("Outcome: not trusted")
			return nil
		}
	}
	if err := r.Trust(c.ctx); err != nil {
		return err
	}
	c.ui.print("Outcome: trusted")
	return nil
}

// untrusted returns the settings of the repository's configuration that would
// run commands and are not trusted.
func (r *repo) untrusted(ctx context.Context) []config.Setting {
	if r.Untrusted == nil {
		return nil
	}
	return r.Untrusted(ctx)
}

// distrust returns the warning about commands that do not run because they are
// not trusted, or "".
func distrust(untrusted []config.Setting) string {
	var names []string
	for _, s := range untrusted {
		parts := strings.Split(s.Key, ".")
		name := strings.Join(parts[:min(2, len(parts))], ".")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	var so []string
	for table, what := range map[string]string{"hooks": "its hooks do not run", "otel": "nobody is sent spans", "": "commands that only look start none of its programs"} {
		if slices.ContainsFunc(names, func(name string) bool {
			of, _, _ := strings.Cut(name, ".")
			return of == table || table == "" && of != "hooks" && of != "otel"
		}) {
			so = append(so, what)
		}
	}
	slices.Sort(so)
	return fmt.Sprintf("not trusted here: %s of the repository's configuration: %s", strings.Join(names, ", "), strings.Join(so, "; "))
}

// untrustedFinding returns a doctor's finding about commands of the
// repository's configuration.
func untrustedFinding(untrusted []config.Setting) []app.Finding {
	text := distrust(untrusted)
	if text == "" {
		return nil
	}
	return []app.Finding{{Check: "trust", Path: config.RepositoryFile, Problem: text, Next: "vizier trust --show, then vizier trust"}}
}
