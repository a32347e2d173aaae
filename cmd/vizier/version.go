package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/vizier-scheduler/vizier/adapters/git"
)

type versionCmd struct{}

// Run prints the version that the build recorded, and the git engine it uses.
func (*versionCmd) Run(c *call) error {
	version, revision := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(info.Main.Version, version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = " " + s.Value
			}
		}
	}
	c.ui.print("vizier " + version + revision + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH)
	engine, err := git.Version(c.ctx)
	if err != nil {
		engine = err.Error()
	}
	c.ui.print("git through " + engine)
	return nil
}
