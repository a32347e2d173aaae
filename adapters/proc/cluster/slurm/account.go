package slurm

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
)

// Accounts returns what sacct says of jobs.
func (s Settings) Accounts(ctx context.Context, jobs []cluster.Job) (accounts []cluster.Job, err error) {
	const most = 200 // ids on one command line
	for some := range slices.Chunk(jobs, most) {
		ids := make([]string, len(some))
		for i, j := range some {
			ids[i] = j.ID
		}
		out, err := s.call(ctx, "", "sacct", "-n", "-P", "--noconvert", "-j", strings.Join(ids, ","), "-o", "JobID,JobName,State,ElapsedRaw,TotalCPU,MaxRSS,NodeList")
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, parseAccounts(out, some)...)
	}
	return accounts, nil
}

// parseAccounts parses the output of sacct: a line for each job, and after it a line for each
// of its steps, with the memory and the parts of the processor time. It skips an id that now
// belongs to a job of another name.
func parseAccounts(out string, of []cluster.Job) (jobs []cluster.Job) {
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimRight(line, "\n"), "|")
		if len(f) != 7 {
			continue
		}
		id, _, step := strings.Cut(f[0], ".")
		last := len(jobs) - 1
		switch {
		case step && last >= 0 && jobs[last].ID == id:
			jobs[last].CPUSeconds += cpuSeconds(f[4])
			jobs[last].PeakMemory = max(jobs[last].PeakMemory, bytes(f[5]))
		case !step && slices.ContainsFunc(of, func(j cluster.Job) bool { return j.ID == id && j.Name == f[1] }):
			word, _, _ := strings.Cut(f[2], " ") // CANCELLED by 1000
			j := cluster.Job{ID: id, Name: f[1], State: stateOf(word, ""), Word: word, Node: f[6]}
			j.Seconds, _ = strconv.ParseFloat(f[3], 64) // 0: unknown
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// cpuSeconds reads [[D-]HH:]MM:SS[.mmm]. Anything else is unknown.
func cpuSeconds(text string) float64 {
	whole, parts, _ := strings.Cut(text, ".")
	d, _ := duration(whole)
	fraction, _ := strconv.ParseFloat("0."+parts, 64)
	return d.Seconds() + fraction
}

// bytes reads a size: bytes, or units of 1024 of them. Anything else is unknown.
func bytes(text string) int64 {
	digits := strings.TrimRight(text, "KMGTP")
	n, _ := strconv.ParseFloat(digits, 64)
	if digits != text {
		n *= float64(int64(1) << (10 * (1 + strings.Index("KMGTP", text[len(digits):]))))
	}
	return int64(n)
}
