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

// Who is the person or program that asks, and decides an approval, by what the environment
// and git say.
func (e Environment) Who(ctx context.Context) string {
	for _, name := range []string{"VIZIER_APPROVAL_ACTOR", "GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "USER", "USERNAME"} {
		if who := strings.TrimSpace(e.Get(name)); who != "" {
			return who
		}
	}
	return cmp.Or(git.UserName(ctx), "unknown")
}

// Beside is the program vizier that stands beside this one, for Options.Program; "": there is none.
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

// askersKey is of a context that names processes.
type askersKey struct{}

// For is ctx of what this process is asked to do by others: a decision is refused where one
// of them is part of a job, as it is where this process is.
func For(ctx context.Context, pids []int) context.Context {
	return context.WithValue(ctx, askersKey{}, pids)
}

func askers(ctx context.Context) []int {
	pids, _ := ctx.Value(askersKey{}).([]int)
	return pids
}

// Peers are the processes of this machine that have the other end of a TCP connection, by its
// two addresses; none: it cannot be told.
func Peers(theirs, ours netip.AddrPort) ([]int, error) { return proc.Peers(theirs, ours) }
