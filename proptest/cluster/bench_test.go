package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// benchRepo is a scratch repository for a benchmark.
func benchRepo(b *testing.B) *repo {
	b.Helper()
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	return repoAt(b, dir)
}

// Submissions per second, against a loop of plain sbatch in the same run. Vizier first writes
// orders and records durably, and submits once the command has answered.
func BenchmarkSubmissions(b *testing.B) {
	const jobs = 100
	for b.Loop() {
		r := benchRepo(b)
		begin := time.Now()
		r.sh(fmt.Sprintf(`for i in $(seq %d); do sbatch -Q --begin=now+1hour --job-name=plain --output=/dev/null --wrap true; done`, jobs))
		plain := time.Since(begin)
		var lines strings.Builder
		for range jobs {
			lines.WriteString(`{"command": ["true"], "executor": "lab", "options": ["--begin=now+1hour"]}` + "\n")
		}
		begin = time.Now()
		if _, errs, err := r.try(lines.String(), "jobs", "submit", "--batch"); err != nil {
			b.Fatal(err, errs)
		}
		r.eventually(func() string {
			if r.sh("squeue -h --me -t pending -o %i | wc -l") == strconv.Itoa(2*jobs) {
				return ""
			}
			return "not all are submitted"
		})
		ours := time.Since(begin)
		b.ReportMetric(jobs/plain.Seconds(), "sbatch/s")
		b.ReportMetric(jobs/ours.Seconds(), "vizier/s")
		b.ReportMetric(ours.Seconds()/plain.Seconds(), "ratio")
		r.emptyQueue()
	}
}

// The time from the end of an attempt on a node to the submission of the next job, which depends on Vizier
// alone, and to its start, which also depends on Slurm.
func BenchmarkHop(b *testing.B) {
	const chain = 20
	for b.Loop() {
		r := benchRepo(b)
		var ids []string
		for i := range chain {
			flags := []string{}
			if i > 0 {
				flags = append(flags, "--after", ids[i-1])
			}
			ids = append(ids, r.submit("lab", "true", flags...))
		}
		r.becomes(ids[chain-1], "succeeded")
		at := func(id, name string) time.Time {
			info, err := os.Stat(filepath.Join(r.dir, ".vizier/jobs", id, "attempts", name))
			if err != nil {
				b.Fatal(err)
			}
			return info.ModTime()
		}
		began := func(id string) time.Time {
			var claim struct{ Began time.Time }
			if err := json.Unmarshal([]byte(r.read(".vizier/jobs/"+id+"/attempts/1.json")), &claim); err != nil || claim.Began.IsZero() {
				b.Fatal(claim, err)
			}
			return claim.Began
		}
		var submitted, started, most time.Duration
		for i := 1; i < chain; i++ {
			end := at(ids[i-1], "1.outcome.json")
			hop := began(ids[i]).Sub(end)
			submitted, started, most = submitted+at(ids[i], "1.order.json").Sub(end), started+hop, max(most, hop)
		}
		b.ReportMetric(float64(submitted.Milliseconds())/(chain-1), "ms-to-submission")
		b.ReportMetric(float64(started.Milliseconds())/(chain-1), "ms/hop")
		b.ReportMetric(float64(most.Milliseconds()), "ms/hop-at-most")
	}
}

// The processor time per minute of the resident scheduler, and of Slurm's client
// programs that it runs, while 1,000 jobs wait on the cluster.
func BenchmarkPending(b *testing.B) {
	const jobs = 1000
	for b.Loop() {
		r := benchRepo(b)
		r.write(".vizier/config.toml", "[executors.lab]\nkind = \"slurm\"\n")
		var lines strings.Builder
		for range jobs {
			lines.WriteString(`{"command": ["true"], "executor": "lab", "options": ["--begin=now+1hour"]}` + "\n")
		}
		if _, errs, err := r.try(lines.String(), "jobs", "submit", "--batch"); err != nil {
			b.Fatal(err, errs)
		}
		time.Sleep(10 * time.Second) // until it is quiet
		pid := strings.Fields(r.read(".vizier/jobs/resident.lock"))[0]
		own, asked := cpu(b, pid)
		time.Sleep(time.Minute)
		own2, asked2 := cpu(b, pid)
		b.ReportMetric(float64((own2 - own).Milliseconds()), "ms-CPU/min")
		b.ReportMetric(float64((asked2 - asked).Milliseconds()), "ms-CPU/min-squeue")
		r.emptyQueue()
	}
}

// cpu returns the processor time of a process and of the children it has waited for.
func cpu(b *testing.B, pid string) (own, children time.Duration) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		b.Fatal(err)
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := func(at int) time.Duration {
		n, _ := strconv.Atoi(f[at])
		return time.Duration(n) * 10 * time.Millisecond
	}
	return ticks(11) + ticks(12), ticks(13) + ticks(14)
}

// emptyQueue removes all jobs from the cluster, so that the next benchmark begins on free nodes.
func (r *repo) emptyQueue() {
	r.killResident()
	r.eventually(func() string { // a sender may still submit
		_ = exec.Command("scancel", "--me", "--quiet").Run()
		return r.sh("squeue -h --me -t pending,configuring,running,completing -o %i")
	})
}
