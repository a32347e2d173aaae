package bench

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// BenchmarkCommandsAsStoresGrow compares the processor time of commands on whole runs in two
// stores, one of which is four times as large. A ratio of about 4 is the growth of the work; 16
// means that the cost grows with its square. Each store has equally many jobs that wait for a
// person, that failed, that are blocked by those, that need what no job makes, and that run
// one after the other. 2/* stands for each job of 2.
func BenchmarkCommandsAsStoresGrow(b *testing.B) {
	const small, times = 200, 4
	commands := []string{"status", "ls --all", "runs", "jobs schedule --format json", "jobs schedule --format svg", "why 1", "why 5", "show 5", "wait 2", "tail 2",
		"what-if --approve 1/j0 --to-the-end", "what-if --cancel 5", "what-if --retry 2", "simulate --draws 3", "history verify", "jobs validate", "metrics",
		"wait 2/*", "retry 2 --dry-run", "retry 2", "wait 2", "retry 2/*", "cancel 4/*", "cancel 5", "clean 3 --yes", "clean 4/* --yes", "cancel --all --yes"}
	for b.Loop() {
		took := map[string][2]time.Duration{}
		for k, n := range []int{small, times * small} {
			r := newRepository(b, "")
			kind := func(of func(i int) string) {
				var lines strings.Builder
				for i := range n {
					fmt.Fprintf(&lines, `{"ref":"j%d",%s}`+"\n", i, of(i))
				}
				r.vizier(lines.String(), "submit", "-q", "--batch")
			}
			kind(func(int) string { return `"command":["true"],"approval":true` })
			kind(func(int) string { return `"command":["false"]` })
			r.any("wait", "2")
			kind(func(i int) string { return fmt.Sprintf(`"command":["true"],"after":["2/j%d"]`, i) })
			kind(func(i int) string {
				return fmt.Sprintf(`"command":["true"],"need":["custom:t:k%d"],"missing_producer":"wait"`, i)
			})
			kind(func(i int) string {
				if i == 0 {
					return `"command":["true"],"after":["1/j0"]`
				}
				return fmt.Sprintf(`"command":["true"],"after":["j%d"]`, i-1)
			})
			for _, c := range commands {
				both := took[c]
				both[k] = r.any(each(strings.Fields(c), n)...)
				took[c] = both
			}
		}
		for _, c := range commands {
			b.ReportMetric(float64(took[c][1])/float64(took[c][0]), strings.ReplaceAll(c, " ", "_")+":times")
		}
	}
}

// each returns args with the n jobs of a batch in place of BATCH/*.
func each(args []string, n int) (out []string) {
	for _, a := range args {
		batch, all := strings.CutSuffix(a, "/*")
		if !all {
			out = append(out, a)
		}
		for i := 0; all && i < n; i++ {
			out = append(out, fmt.Sprintf("%s/j%d", batch, i))
		}
	}
	return out
}

// any runs the program and returns its processor time. An exit code other than 2 may be
// an answer about the jobs.
func (r *repository) any(args ...string) time.Duration {
	r.Helper()
	cmd := exec.Command(r.exe, args...)
	cmd.Dir, cmd.Env = r.dir, r.env()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || exit != nil && exit.ExitCode() == 2 {
		r.Fatalf("vizier %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}
