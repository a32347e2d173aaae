//go:build !linux

package fs

// renameNew renames a file unless the new name is taken.
func renameNew(d disk, from int, old string, to int, name string) error {
	return linkNew(d, from, old, to, name)
}
