//go:build linux && portable

package proc

// watchEnd reports that nothing can be watched.
func watchEnd(Identity, func()) (stop func(), ok bool) { return nil, false }
