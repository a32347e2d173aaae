package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// spentBy returns what one call costs, start-up included, and its peak memory in MiB.
func (r *repository) spentBy(stdin string, args ...string) (cost, float64) {
	r.Helper()
	cmd := r.command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	spent := costOf(r, cmd)
	use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return spent, float64(use.Maxrss) / 1024
}

// costOf runs a command and returns what it costs.
func costOf(b testing.TB, cmd *exec.Cmd) cost {
	b.Helper()
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatalf("%v: %v", cmd.Args, err)
	}
	return cost{time.Since(begun), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
}

// refs returns a git repository with n branches, packed as git does by itself.
func refs(b testing.TB, n int) string {
	b.Helper()
	dir, err := os.MkdirTemp(scratch, "refs")
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("sh", "-ec", `git init -q
head=$(git -c user.name=ann -c user.email=a@b commit-tree -m start $(git mktree </dev/null))
for i in $(seq $N); do echo "create refs/heads/b$i $head"; done | git update-ref --stdin
git gc -q`)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), fmt.Sprintf("N=%d", n))
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// Commands about one job, the first lines of the list, the whole list and the
// overview, with a batch of 10,000 open jobs: the processor time against that with
// ten, and of what lists many the time against git's list of as many branches.
func BenchmarkOneOfMany(b *testing.B) {
	branches := refs(b, 10_000)
	lists := map[string][]string{"list": {"for-each-ref"}, "schedule": {"for-each-ref"}, "list -n 50": {"for-each-ref", "--count=50"}}
	few, fewIDs := behind(b, 10)
	many, manyIDs := behind(b, 10_000)
	const afterChange = "submit after a change of the jobs directory"
	for _, name := range []string{"submit", afterChange, "status", "show", "why", "tail", "approve", "cancel", "list -n 50", "list", "schedule", "overview"} {
		b.Run(name, func(b *testing.B) {
			var spent [2]cost
			var git time.Duration
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
					case afterChange:
						args = []string{"jobs", "submit", "--", "true"}
						if err := os.WriteFile(filepath.Join(c.r.dir, ".vizier", "jobs", fmt.Sprint("other", n)), nil, 0o600); err != nil {
							b.Fatal(err)
						}
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
					one, _ := c.r.spentBy("", args...)
					spent[i].took, spent[i].cpu = spent[i].took+one.took, spent[i].cpu+one.cpu
				}
				if args := lists[name]; args != nil {
					cmd := exec.Command("git", args...)
					cmd.Dir = branches
					git += costOf(b, cmd).took
				}
				n++
			}
			b.ReportMetric(spent[1].took.Seconds()*1000/float64(n), "ms")
			b.ReportMetric(float64(spent[1].cpu.Microseconds())/float64(n), "cpu-us")
			b.ReportMetric(float64(spent[1].cpu)/float64(spent[0].cpu), "x-ten")
			if git > 0 {
				b.ReportMetric(float64(spent[1].took)/float64(git), "x-git")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// A batch of 10,000 jobs none of which can run: how long submitting it takes, its peak
// memory, and the processor time against that of a tenth of the batch.
func BenchmarkBatch(b *testing.B) {
	var tenth, spent cost
	var most float64
	for b.Loop() {
		for n, sum := range map[int]*cost{1000: &tenth, 10_000: &spent} {
			r, _ := behind(b, 1)
			one, held := r.spentBy(batch(n, []string{"true"}, none), "jobs", "submit", "--batch")
			sum.took, sum.cpu, most = sum.took+one.took, sum.cpu+one.cpu, max(most, held)
		}
	}
	if most > 80 { // it takes 64; if any stage keeps a second copy in memory, 145
		b.Errorf("%.0f MiB", most)
	}
	b.ReportMetric(spent.took.Seconds()/float64(b.N), "s")
	b.ReportMetric(spent.cpu.Seconds()/float64(b.N), "cpu-s")
	b.ReportMetric(float64(spent.cpu)/float64(tenth.cpu), "x-tenth") // 10 is linear
	b.ReportMetric(most, "MiB")
	b.ReportMetric(0, "ns/op")
}

// held returns n jobs that wait for an approval.
func held(n int) string {
	return strings.ReplaceAll(batch(n, []string{"true"}, none), `"ref"`, `"approval":true,"ref"`)
}

// awaiting returns n jobs that wait for an artifact each that nobody makes.
func awaiting(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"command":["true"],"need":["custom:t:k%d"],"missing_producer":"wait"}`+"\n", i)
	}
	return b.String()
}

// Independent jobs beside 10,000 that wait for artifacts which nobody makes, and submitting
// these, against as many that wait for approval.
func BenchmarkAwaiting(b *testing.B) {
	const n, others = 300, 10_000
	var submitted, spent [2]time.Duration
	for b.Loop() {
		for i, lines := range []string{held(others), awaiting(others)} {
			r := newRepository(b, relaxed)
			before := cpu()
			r.vizier(lines, "jobs", "submit", "--batch")
			submitted[i] += cpu() - before
			before = cpu()
			ids := strings.Fields(r.vizier(batch(n, []string{"true"}, none), "jobs", "submit", "--batch"))
			r.vizier("", append([]string{"jobs", "wait"}, ids...)...)
			time.Sleep(100 * time.Millisecond) // the last runner is about to end: its time counts for little
			spent[i] += cpu() - before
		}
	}
	b.ReportMetric(spent[1].Seconds()*1000/float64(n*b.N), "cpu-ms/job")
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "x-held")
	b.ReportMetric(float64(submitted[1])/float64(submitted[0]), "x-submit-held")
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
// 10,000 other open jobs. The figures with x- compare processor time. jobs/s is how many
// jobs of the layers end in a second, and fan-% that in percent of the independent ones;
// few-% is how many end with the others open, in percent of those without.
func BenchmarkLayers(b *testing.B) {
	const n = 1000
	var spent, took [4]time.Duration
	for b.Loop() {
		for i, others := range []int{0, 10_000} {
			for k, deps := range []func(int) []int{none, three} {
				r := newRepository(b, relaxed)
				if others > 0 {
					r.vizier(held(others), "jobs", "submit", "--batch")
				}
				before, begun := cpu(), time.Now()
				ids := strings.Fields(r.vizier(batch(n, []string{"true"}, deps), "jobs", "submit", "--batch"))
				r.vizier("", append([]string{"jobs", "wait"}, ids...)...)
				took[2*i+k] += time.Since(begun)
				time.Sleep(100 * time.Millisecond) // the last runner is about to end: its time counts for little
				spent[2*i+k] += cpu() - before
			}
		}
	}
	b.ReportMetric(spent[0].Seconds()*1000/float64(n*b.N), "cpu-ms/job")
	b.ReportMetric(float64(n*b.N)/took[1].Seconds(), "jobs/s")
	b.ReportMetric(100*float64(took[0])/float64(took[1]), "fan-%")
	b.ReportMetric(100*float64(took[0])/float64(took[2]), "few-%-fan")
	b.ReportMetric(100*float64(took[1])/float64(took[3]), "few-%-layers")
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
		name string
		n    int
		job  func(i int) string
		of   map[string]string // what the last job is after, and what it needs
	}{
		{"jobs", 500, after, map[string]string{"after": "j%d"}},
		{"jobs", 2000, after, map[string]string{"after": "j%d"}},
		{"tokens", 1000, token, map[string]string{"need": "custom:t:k%d"}},
		{"both", 1000, token, map[string]string{"after": "j%d", "need": "custom:t:k%d"}},
	} {
		b.Run(fmt.Sprint(c.n, c.name), func(b *testing.B) {
			var spent [2]time.Duration
			for b.Loop() {
				for k := range spent {
					var lines strings.Builder
					for i := range c.n {
						lines.WriteString(c.job(i) + "\n")
					}
					last := map[string][]string{"command": {"true"}}
					for key, of := range c.of {
						for i := range c.n {
							last[key] = append(last[key], fmt.Sprintf(of, i))
						}
					}
					if k == 1 {
						if err := json.NewEncoder(&lines).Encode(last); err != nil {
							b.Fatal(err)
						}
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

// The cost of what-if with 10,000 open jobs, against that of why for one of them.
func BenchmarkWhatIf(b *testing.B) {
	r, ids := behind(b, 10_000)
	id := ids[len(ids)/2]
	for _, change := range [][]string{{"--cancel", id}, {"--succeed", "1"}} {
		b.Run(strings.TrimPrefix(change[0], "--"), func(b *testing.B) {
			var why, whatIf time.Duration
			n := 0
			for b.Loop() {
				one, _ := r.spentBy("", "why", id)
				why += one.cpu
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
