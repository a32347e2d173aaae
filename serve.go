package vizier

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/adapters/proc/cluster/ssh"
	"github.com/vizier-scheduler/vizier/adapters/proc/sandbox"
	"github.com/vizier-scheduler/vizier/app/answer"
)

// Serve runs this program as what Vizier started it for: a runner, a node of a
// template, the resident scheduler, the hooks. args are the program's arguments
// without its name. ok is false if they are the program's own. It takes the owner's own
// permissions out of the umask: a directory that its owner cannot enter stops its job for good. And
// it does without a TMPDIR that is gone, and says so.
func Serve(args []string, stdout, stderr io.Writer, environ []string) (code int, ok bool) {
	unix.Umask(unix.Umask(0o077) &^ 0o700)
	gone := proc.ForgetTemporary() // runners say it in the logs of their jobs
	if gone != "" && (len(args) == 0 || !strings.HasPrefix(args[0], "__")) {
		io.WriteString(stderr, answer.Message(gone))
	}
	if len(args) == 0 {
		return 0, false
	}
	env := Environment(environ)
	switch args[0] {
	case "__shim":
		return serveAttempt(args[1:], stderr, env), true
	case "__node":
		return serveOnNode(args[1:], stderr, env), true
	case "__pilot":
		return servePilot(args[1:], stderr, env), true
	case "__worker":
		return serveWorker(args[1:], stderr, env), true
	case "__send":
		return serveSender(args[1:], stderr, env), true
	case "__probe":
		return serveProbe(args[1:], stderr), true
	case ssh.Entry:
		return serveHost(os.Stdin, stdout, stderr), true
	case "__workflow-node":
		return serveNode(args[1:], stdout, stderr, env), true
	case "__prompt-end": // the job that joins the last jobs of a run; it starts once they have succeeded
		return 0, true
	case sandbox.Entry:
		return sandbox.Serve(args[1:], stderr), true
	case "__hooks":
		return serveHooks(stderr, env, nil), true
	case "__resident":
		return serveResident(stderr, env), true
	default:
		return 0, false
	}
}
