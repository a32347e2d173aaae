//go:build !linux || portable

package sys

// Look is what this host knows of the name in the directory at, or of at itself where path
// is "". Linux can ask the file system past that.
func Look(at int, path string) (Looked, error) { return lookHere(at, path) }
