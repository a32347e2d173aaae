package template

import (
	"embed"
	iofs "io/fs"
)

//go:embed shipped/*.toml shipped/prompts/*.md
var shipped embed.FS

// Shipped returns the templates that come with Vizier, NAME.toml, and their
// prompts, prompts/NAME.md. They belong in .vizier/workflows and
// .vizier/prompts.
func Shipped() iofs.FS {
	sub, err := iofs.Sub(shipped, "shipped")
	if err != nil {
		panic(err) // cannot happen: the directory is embedded
	}
	return sub
}
