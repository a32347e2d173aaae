//go:build !(cgo && libgit2)

package git

// newBackend returns the git CLI alone: this program was built without libgit2.
func newBackend(c *cli) Backend { return c }
