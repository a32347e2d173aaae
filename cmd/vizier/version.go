package main

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// Run prints the version that the build recorded.
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
	return nil
}
