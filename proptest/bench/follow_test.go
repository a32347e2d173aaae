package bench

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A thousand independent jobs, and a command that follows them until they have ended: the
// batch, each by its name, all events, or the screen of a terminal. follow-% is the share
// of the processor time that this command takes; that of wait is wait-% of BenchmarkFan.
func BenchmarkFollow(b *testing.B) {
	for _, name := range []string{"attach", "attach-each", "events", "top"} {
		b.Run(name, func(b *testing.B) {
			const n = 1000
			var follow, spent time.Duration
			for b.Loop() {
				r := newRepository(b, relaxed)
				before := cpu()
				ids := strings.Fields(r.vizier(batch(n, []string{"true"}, none), "jobs", "submit", "--batch"))
				var cmd *exec.Cmd
				switch name {
				case "attach":
					cmd = r.command("attach", "1")
				case "attach-each":
					cmd = r.command(append([]string{"attach"}, ids...)...)
				case "events":
					cmd = r.command("jobs", "events", "--follow")
				case "top":
					if _, err := exec.LookPath("script"); err != nil {
						b.Skip("script, which makes a terminal, is not installed")
					}
					cmd = exec.Command("script", "-qec", r.exe+" top", "/dev/null")
					cmd.Dir, cmd.Env = r.dir, append(r.env(), "TERM=xterm")
				}
				keys, err := cmd.StdinPipe()
				if err != nil {
					b.Fatal(err)
				}
				var out strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				r.vizier("", append([]string{"jobs", "wait"}, ids...)...)
				switch name {
				case "events":
					_ = cmd.Process.Signal(os.Interrupt)
				case "top":
					_, _ = io.WriteString(keys, "q")
				}
				if err := cmd.Wait(); err != nil && (name != "events" || cmd.ProcessState.ExitCode() != 130) {
					b.Fatalf("%v\n%q", err, out.String()[max(0, out.Len()-2000):])
				}
				follow += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				r.idle()
				spent += cpu() - before
			}
			b.ReportMetric(100*float64(follow)/float64(spent), "follow-%")
			b.ReportMetric(0, "ns/op")
		})
	}
}
