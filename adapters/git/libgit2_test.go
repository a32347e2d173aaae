//go:build cgo && libgit2

package git

var taggedEngines = map[string]func(Root) engine{
	"libgit2":  func(r Root) engine { return libgit2{r} },
	"fallback": func(r Root) engine { return newBackend(newCLI(r)) },
}
