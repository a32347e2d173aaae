//go:build !linux

package fs

// renameNew renames a file unless the new name is taken.
func renameNew(from int, old string, to int, name string) error {
	return linkNew(from, old, to, name)
}
