package bench

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// behind returns a repository with n jobs that wait behind one that does not end.
func behind(b testing.TB, n int) (r *repository, ids []string) {
	b.Helper()
	r = newRepository(b, "[scheduler]\nmax_running = 1\n[store]\ndurability = \"relaxed\"\n")
	first := strings.TrimSpace(r.vizier("", "jobs", "submit", "--", "sleep", "1000000"))
	b.Cleanup(func() { r.vizier("", "jobs", "cancel", first) })
	return r, strings.Fields(r.vizier(batch(n, []string{"true"}, none), "jobs", "submit", "--batch"))
}

// spentBy returns the processor time of one call, start-up included, and its peak
// memory in MiB.
func (r *repository) spentBy(stdin string, args ...string) (time.Duration, float64) {
	r.Helper()
	cmd := exec.Command(r.exe, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = r.dir, r.env(), strings.NewReader(stdin)
	if err := cmd.Run(); err != nil {
		r.Fatalf("vizier %v: %v", args, err)
	}
	use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), float64(use.Maxrss) / 1024
}

// Commands about one job, the first lines of the list, the whole list and the
// overview, with a batch of 10,000 open jobs against one of ten.
func BenchmarkOneOfMany(b *testing.B) {
	few, fewIDs := behind(b, 10)
	many, manyIDs := behind(b, 10_000)
	for _, name := range []string{"submit", "status", "show", "why", "tail", "approve", "cancel", "list -n 50", "list", "schedule", "overview"} {
		b.Run(name, func(b *testing.B) {
			var spent [2]time.Duration
			n := 0
			for b.Loop() {
				for i, c := range []struct {
					r   *repository
					ids []string
				}{{few, fewIDs}, {many, manyIDs}} {
					args := append([]string{"jobs"}, strings.Fields(name)...)
					switch name {
					case "submit":
						args = append(args, "--", "true")
					case "cancel": // a job that is made for this
						args = append(args, strings.TrimSpace(c.r.vizier("", "jobs", "submit", "--", "true")))
					case "approve":
						args = append(args, strings.TrimSpace(c.r.vizier("", "jobs", "submit", "--approval", "--", "true")))
					case "overview":
						args = []string{"status"}
					case "list", "list -n 50", "schedule":
					default:
						args = append(args, c.ids[len(c.ids)/2])
					}
					took, _ := c.r.spentBy("", args...)
					spent[i] += took
				}
				n++
			}
			b.ReportMetric(float64(spent[1].Microseconds())/float64(n), "cpu-us")
			b.ReportMetric(float64(spent[1])/float64(spent[0]), "x-ten")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// A batch of 10,000 jobs none of which can run, and the peak memory of submitting it.
func BenchmarkBatch(b *testing.B) {
	var spent time.Duration
	var most float64
	for b.Loop() {
		r, _ := behind(b, 1)
		took, held := r.spentBy(batch(10_000, []string{"true"}, none), "jobs", "submit", "--batch")
		spent, most = spent+took, max(most, held)
	}
	if most > 80 { // it takes 64; if any stage keeps a second copy in memory, 145
		b.Errorf("%.0f MiB", most)
	}
	b.ReportMetric(spent.Seconds()/float64(b.N), "cpu-s")
	b.ReportMetric(most, "MiB")
	b.ReportMetric(0, "ns/op")
}

// three is the layered graph: each job waits for three jobs of the layer before,
// which has fifty.
func three(i int) []int {
	if i < 50 {
		return nil
	}
	var out []int
	for k := range 3 {
		if d := (i/50-1)*50 + (i*7+k*13)%50; len(out) == 0 || d != out[len(out)-1] {
			out = append(out, d)
		}
	}
	return out
}

// Twenty layers of fifty jobs against as many independent jobs, without and with
// 10,000 other open jobs.
func BenchmarkLayers(b *testing.B) {
	const n = 1000
	var spent [4]time.Duration
	for b.Loop() {
		for i, others := range []int{0, 10_000} {
			for k, deps := range []func(int) []int{none, three} {
				r := newRepository(b, relaxed)
				if others > 0 {
					held := strings.ReplaceAll(batch(others, []string{"true"}, none), `"ref"`, `"approval":true,"ref"`)
					r.vizier(held, "jobs", "submit", "--batch")
				}
				before := cpu()
				ids := strings.Fields(r.vizier(batch(n, []string{"true"}, deps), "jobs", "submit", "--batch"))
				r.vizier("", append([]string{"jobs", "wait"}, ids...)...)
				time.Sleep(100 * time.Millisecond) // the last runner is about to end: its time counts for little
				spent[2*i+k] += cpu() - before
			}
		}
	}
	b.ReportMetric(spent[0].Seconds()*1000/float64(n*b.N), "cpu-ms/job")
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "x-fan")
	b.ReportMetric(float64(spent[2])/float64(spent[0]), "x-fan-of-few")
	b.ReportMetric(float64(spent[3])/float64(spent[1]), "x-layers-of-few")
	b.ReportMetric(0, "ns/op")
}

// Independent jobs and one that runs after all of them, or needs a token of each, against the
// independent ones alone: the cost of a job that depends on many.
func BenchmarkAfterMany(b *testing.B) {
	after := func(i int) string { return fmt.Sprintf(`{"ref":"j%d","command":["true"]}`, i) }
	token := func(i int) string {
		return fmt.Sprintf(`{"ref":"j%d","command":["true"],"produce":["custom:t:k%d"]}`, i, i)
	}
	for _, c := range []struct {
		name, key, of string
		n             int
		job           func(i int) string
	}{{"jobs", "after", "j%d", 500, after}, {"jobs", "after", "j%d", 2000, after}, {"tokens", "need", "custom:t:k%d", 1000, token}} {
		b.Run(fmt.Sprint(c.n, c.name), func(b *testing.B) {
			var spent [2]time.Duration
			for b.Loop() {
				for k := range spent {
					var lines strings.Builder
					var all []string
					for i := range c.n {
						lines.WriteString(c.job(i) + "\n")
						all = append(all, fmt.Sprintf(`"`+c.of+`"`, i))
					}
					if k == 1 {
						fmt.Fprintf(&lines, `{"command":["true"],%q:[%s]}`, c.key, strings.Join(all, ","))
					}
					r := newRepository(b, relaxed)
					r.run(lines.String())
					spent[k] += r.cpu
				}
			}
			b.ReportMetric(float64(spent[1])/float64(spent[0]), "x-without")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// The peak memory of a runner after 100 hops with 10,000 other jobs open.
func BenchmarkRunnerMemoryAmongMany(b *testing.B) {
	var most float64
	for b.Loop() {
		r := newRepository(b, relaxed)
		r.vizier(strings.ReplaceAll(batch(10_000, []string{"true"}, none), `"ref"`, `"approval":true,"ref"`), "jobs", "submit", "--batch")
		lines := batch(100, []string{"true"}, before) + `{"ref": "last", "after": ["j99"], "command": ["sh", "-c", "grep VmHWM /proc/$PPID/status"]}` + "\n"
		ids := strings.Fields(r.vizier(lines, "jobs", "submit", "--batch"))
		r.vizier("", "jobs", "wait", ids[100])
		text := r.vizier("", "jobs", "tail", "--stream", "stdout", ids[100])
		kib, err := strconv.ParseFloat(strings.Fields(text)[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		most = max(most, kib/1024)
	}
	b.ReportMetric(most, "MiB")
	b.ReportMetric(0, "ns/op")
}

// The cost of what-if with 10,000 open jobs, against that of why for one of them.
func BenchmarkWhatIf(b *testing.B) {
	r, ids := behind(b, 10_000)
	id := ids[len(ids)/2]
	for _, change := range [][]string{{"--cancel", id}, {"--succeed", "1"}} {
		b.Run(strings.TrimPrefix(change[0], "--"), func(b *testing.B) {
			var why, whatIf time.Duration
			n := 0
			for b.Loop() {
				took, _ := r.spentBy("", "why", id)
				why += took
				cmd := r.command(append([]string{"what-if"}, change...)...)
				if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 1 { // something changes
					b.Fatal(cmd.ProcessState)
				}
				whatIf += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				n++
			}
			b.ReportMetric(float64(whatIf.Microseconds())/float64(n), "cpu-us")
			b.ReportMetric(float64(whatIf)/float64(why), "x-why")
			b.ReportMetric(0, "ns/op")
		})
	}
}
