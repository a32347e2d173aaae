//go:build !(cgo && libgit2)

package git

var taggedEngines map[string]func(Root) engine
