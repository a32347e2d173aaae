package vizier

import (
	"cmp"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/adapters/proc"
)

// Who returns the name of the person or program that asks, and that decides an
// approval, according to the environment and to git.
func (e Environment) Who(ctx context.Context) string {
	for _, name := range []string{"VIZIER_APPROVAL_ACTOR", "GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "USER", "USERNAME"} {
		if who := strings.TrimSpace(e.Get(name)); who != "" {
			return who
		}
	}
	return cmp.Or(git.UserName(ctx), "unknown")
}

// Beside returns the program vizier in the directory of this one, for
// Options.Program, or "" if there is none.
func Beside() string {
	own, err := os.Executable()
	if err != nil {
		return ""
	}
	file := filepath.Join(filepath.Dir(own), "vizier")
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return file
}

// askersKey is the context key for the processes that ask.
type askersKey struct{}

// For returns ctx for requests that other processes make of this one. A
// decision is refused if one of them is part of a job, as it is if this process
// is.
func For(ctx context.Context, pids []int) context.Context {
	return context.WithValue(ctx, askersKey{}, pids)
}

func askers(ctx context.Context) []int {
	pids, _ := ctx.Value(askersKey{}).([]int)
	return pids
}

// Peers returns the processes of this machine that have the other end of a TCP
// connection, given its two addresses. It returns none if they are not known.
func Peers(theirs, ours netip.AddrPort) ([]int, error) { return proc.Peers(theirs, ours) }
