package proc

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// Who is at the other end of a connection is known, once, whatever the version of the protocol. Nobody is at the other
// end of one that there is not.
func TestPeers(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(at, func(t *testing.T) {
			l, err := net.Listen("tcp", at)
			if err != nil {
				t.Skip(err)
			}
			defer l.Close()
			theirs, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer theirs.Close()
			again, err := theirs.(*net.TCPConn).File()
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			ours, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Close()
			other := exec.Command("/bin/sh", "-c", "echo; read -r line")
			in, err := other.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			out, err := other.StdoutPipe()
			if err == nil {
				err = other.Start()
			}
			if err == nil {
				_, err = out.Read(make([]byte, 1)) // it has begun, and nothing of this process is open there
			}
			if err != nil {
				t.Fatal(err)
			}
			from, to := ours.RemoteAddr().(*net.TCPAddr).AddrPort(), ours.LocalAddr().(*net.TCPAddr).AddrPort()
			pids, err := Peers(from, to)
			if at := slices.Index(pids, os.Getpid()); err != nil || at < 0 || slices.Contains(pids[at+1:], os.Getpid()) { // besides, what is being forked
				t.Errorf("%v, %v, want %d once", pids, err, os.Getpid())
			}
			if slices.Contains(pids, other.Process.Pid) {
				t.Errorf("%v: %d has no end of it", pids, other.Process.Pid)
			}
			_ = in.Close()
			_ = other.Wait()
			if pids, err := Peers(netip.AddrPortFrom(from.Addr(), to.Port()), to); err != nil || len(pids) != 0 {
				t.Errorf("%v, %v at the other end of no connection", pids, err)
			}
		})
	}
}
