package proc

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Peers returns the processes of this machine that have the other end of a TCP
// connection: a socket with the address theirs, connected to ours. It returns
// none if they cannot be seen, as with processes of other users.
func Peers(theirs, ours netip.AddrPort) (pids []int, err error) {
	sockets := map[string]bool{}
	for _, table := range []struct {
		file string
		of   func(netip.Addr) netip.Addr
	}{{"/proc/net/tcp", netip.Addr.Unmap}, {"/proc/net/tcp6", func(a netip.Addr) netip.Addr { return netip.AddrFrom16(a.As16()) }}} {
		text, err := os.ReadFile(table.file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		from, to := endpoint(table.of(theirs.Addr()), theirs.Port()), endpoint(table.of(ours.Addr()), ours.Port())
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[1] == from && f[2] == to && f[9] != "0" {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	if len(sockets) == 0 {
		return nil, nil
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // only a malformed pattern fails
	last := -1
	for _, link := range links {
		if to, err := os.Readlink(link); err != nil || !sockets[to] {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err == nil && pid != last {
			pids, last = append(pids, pid), pid
		}
	}
	return pids, nil
}

// endpoint formats an address as the system's tables do: as words in this
// machine's byte order.
func endpoint(a netip.Addr, port uint16) string {
	b := a.AsSlice()
	for i := 0; i+4 <= len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	return fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(b)), port)
}

// variableOf returns a variable of the environment that a process was started
// with.
func variableOf(pid int, name string) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return lookupRaw(text, name), err
}
