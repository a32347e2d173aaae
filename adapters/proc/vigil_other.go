//go:build !linux

package proc

import "os"

func handle(Identity) (*os.File, bool) { return nil, false }

func awaitReadable(*os.File) bool { return false }
