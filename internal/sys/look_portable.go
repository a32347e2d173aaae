//go:build !linux || portable

package sys

// Look returns this host's attributes of the file called path in the directory
// at or, if path is "", of at itself. Only on Linux can it bypass the host's
// cache.
func Look(at int, path string) (Looked, error) { return lookHere(at, path) }
