//go:build linux && portable

package proc

// watchExit returns false: this build watches no process.
func watchExit(Identity, func()) (stop func(), ok bool) { return nil, false }
