//go:build linux && !portable

package sys

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// mounts returns the mount points at path or below it. A bind mount may be on the same device as what
// is around it, so only the kernel's list tells. Without that, devices are compared.
func mounts(path string) (found []string, err error) {
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return mountsByDevice(path)
	}
	for line := range strings.Lines(string(list)) {
		if f := strings.Fields(line); len(f) > 4 {
			if at := unescaped(f[4]); at == path || strings.HasPrefix(at, strings.TrimSuffix(path, "/")+"/") {
				found = append(found, at)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// unescaped returns a field of proc_pid_mountinfo(5), in which \ and three octal digits stand for a
// character.
func unescaped(field string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(field, `\`)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		if c, err := strconv.ParseUint(after[:min(3, len(after))], 8, 8); err == nil && len(after) >= 3 {
			out.WriteByte(byte(c))
			after = after[3:]
		} else {
			out.WriteByte('\\')
		}
		field = after
	}
}
