//go:build linux && portable

package proc

// watchExit reports that nothing can be watched.
func watchExit(Identity, func()) (stop func(), ok bool) { return nil, false }
