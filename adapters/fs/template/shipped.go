package template

import (
	"embed"
	iofs "io/fs"
)

//go:embed shipped/*.toml shipped/prompts/*.md
var shipped embed.FS

// Shipped are the templates that Vizier comes with, NAME.toml, and the prompts
// that they use, prompts/NAME.md: what belongs into .vizier/workflows and
// .vizier/prompts.
func Shipped() iofs.FS {
	sub, err := iofs.Sub(shipped, "shipped")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	return sub
}
