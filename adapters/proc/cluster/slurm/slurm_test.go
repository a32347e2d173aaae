package slurm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
)

func TestParseJobs(t *testing.T) {
	jobs := parseJobs("12|RUNNING|None|n1|vizier-1-a-1\n11|FAILED|NonZeroExitCode|n2|vizier-1-a-1\n9|PENDING|Nodes required for job are DOWN, DRAINED or reserved|  |vizier-1-b-2\n"+
		"7|PENDING|PartitionConfig||vizier-1-c-1\n6|NODE_FAIL|NodeDown|n3|vizier-1-d-1\n8|RUNNING|None|n1|somebody else's\n5|RUNNING|None|n1|vizier-2-a-1\n\ntorn|line\n", "vizier-1-")
	want := []cluster.Job{
		{ID: "12", Name: "vizier-1-a-1", State: cluster.Running, Word: "RUNNING", Reason: "None", Node: "n1"},
		{ID: "11", Name: "vizier-1-a-1", State: cluster.Failed, Word: "FAILED", Reason: "NonZeroExitCode", Node: "n2"},
		{ID: "9", Name: "vizier-1-b-2", State: cluster.Pending, Word: "PENDING", Reason: "Nodes required for job are DOWN, DRAINED or reserved"},
		{ID: "7", Name: "vizier-1-c-1", State: cluster.Stuck, Word: "PENDING", Reason: "PartitionConfig"},
		{ID: "6", Name: "vizier-1-d-1", State: cluster.Lost, Word: "NODE_FAIL", Reason: "NodeDown", Node: "n3"},
	}
	if !reflect.DeepEqual(jobs, want) {
		t.Errorf("%+v", jobs)
	}
}

// What sbatch says decides whether it is asked again.
func TestComplaints(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for text, want := range map[string]struct {
		kind cluster.RefusalKind
		said string
	}{
		"echo 'sbatch: error: invalid partition specified: moon' >&2; exit 1":                                                         {cluster.Never, "invalid partition specified: moon"},
		"echo 'sbatch: error: The moon is full' >&2; exit 1":                                                                          {cluster.Unclear, "The moon is full"},
		"echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; echo 'sbatch: error: Job violates accounting/QOS policy' >&2; exit 1": {cluster.Later, "QOSMaxSubmitJobPerUserLimit; Job violates accounting/QOS policy"},
		"echo 'sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying' >&2; exec sleep 600":                     {cluster.Later, "Slurm temporarily unable to accept job, sleeping and retrying"},
		"echo 'sbatch: error: Resource temporarily unavailable' >&2; exit 1":                                                          {cluster.Later, "Resource temporarily unavailable"},
		"echo 'sbatch: error: AssocGrpSubmitJobsLimit' >&2; exit 1":                                                                   {cluster.Later, "AssocGrpSubmitJobsLimit"},
		"echo 'sbatch: error: QOSGrpSubmitJobsLimit' >&2; exit 1":                                                                     {cluster.Later, "QOSGrpSubmitJobsLimit"},
		"exit 7": {cluster.Unclear, "exit status 7"},
		"echo 'sbatch: error: Unable to contact slurm controller (connect failure)' >&2; exit 1": {-1, "sbatch: Unable to contact slurm controller (connect failure)"},
	} {
		if err := os.WriteFile(filepath.Join(dir, "sbatch"), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := Settings{Dir: dir}.Submit(context.Background(), cluster.Request{Name: "n", Argv: []string{"true"}, Dir: dir, Log: "/dev/null"})
		no, refused := errors.AsType[*cluster.Refusal](err)
		switch {
		case err == nil || refused != (want.kind >= 0):
			t.Errorf("%s: %v", text, err)
		case refused && (no.Kind != want.kind || no.Said != want.said), !refused && err.Error() != want.said:
			t.Errorf("%s: %+v", text, err)
		}
	}
}

// What sbatch would put something else in place of in the path of a log stays as it is.
func TestWhereTheLogIs(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if err := os.WriteFile(filepath.Join(dir, "sbatch"), []byte("#!/bin/sh\nfor word; do case $word in --output=*) echo \"$word\" ;; esac; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := Settings{Dir: dir}.Submit(t.Context(), cluster.Request{Name: "n", Argv: []string{"true"}, Dir: dir, Log: "/100%/%j/log"})
	if want := "--output=/100%%/%%j/log"; got != want || err != nil {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestOptions(t *testing.T) {
	site := Settings{Partition: "main", CPUs: 2, Time: "90m", Options: []string{"--constraint=gpu", "qos=low"}}
	const own = "--cpus-per-task=2 --partition=main --time=90 --constraint=gpu --qos=low"
	for _, c := range []struct {
		ask  []string
		want string // the options, or what the error says
	}{
		{nil, own},
		{[]string{"partition=short", "time=1-12:00", "--exclusive", "time=5m"}, own + " --partition=short --time=1-12:00 --exclusive --time=5"},
		{[]string{"memory=4G", "gres=gpu:1", "cpus=8"}, own + " --mem=4G --gres=gpu:1 --cpus-per-task=8"},
		{[]string{"cpu=8"}, "KEY one of account, cpus, gres"},
		{[]string{"cpus=0"}, "expected a positive number"},
		{[]string{"memory="}, "expected KEY=VALUE"},
		{[]string{"-p"}, "expected KEY=VALUE"},
		{[]string{"--"}, "expected --NAME"},
		{[]string{"--job-name=x"}, "Vizier depends on it"},
		{[]string{"--job=x"}, "Vizier depends on it"}, // as getopt shortens it
		{[]string{"--array=1-9"}, "Vizier depends on it"},
		{[]string{"--export=LD_PRELOAD=x.so"}, "sets variables of the runner"},
		{[]string{"--exp=ALL,A=b"}, "sets variables of the runner"},
		{[]string{"--export"}, "sets variables of the runner"},
		{[]string{"--export=NONE"}, own + " --export=NONE"},
		{[]string{"--export-file=x"}, "Vizier depends on it"},
		{[]string{"--get-user-env=L"}, "Vizier depends on it"},
		{[]string{"--comment=a\nb"}, "expected --NAME"},
	} {
		got, err := site.with(c.ask)
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if err == nil && text != c.want || err != nil && !strings.Contains(text, c.want) {
			t.Errorf("%q: %q, want %q", c.ask, text, c.want)
		}
	}
	if !slices.Equal(site.Options, []string{"--constraint=gpu", "qos=low"}) {
		t.Error("what a job asks for stays")
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"30": 30 * time.Second, "0:30": 30 * time.Second, "2:00:01": 2*time.Hour + time.Second,
		"1-00:00:00": 24 * time.Hour, "UNLIMITED": -1, "INVALID": -1, "": -1} {
		got, ok := duration(text)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %s, %v", text, got, ok)
		}
	}
}

// A job that is told to make room is preempted, whether its grace is over or not.
func TestStands(t *testing.T) {
	for out, want := range map[string]cluster.State{
		"RUNNING                 N/A                     1:00:00                 \n": cluster.Running,
		"RUNNING                 N/A                     UNLIMITED               \n": cluster.Running,
		"RUNNING                 2026-11-23T05:22:30     1:00:00                 \n": cluster.Preempted,
		"COMPLETING              2026-11-23T05:22:30     INVALID                 \n": cluster.Preempted,
		"PREEMPTED               N/A                     1:00:00                 \n": cluster.Preempted,
		"COMPLETING              N/A                     INVALID                 \n": "",
		"CANCELLED               N/A                     INVALID                 \n": "",
	} {
		if got, left, err := stands(out); got != want || err != nil || (got == cluster.Running) != (left == time.Hour || left == cluster.Endless) {
			t.Errorf("%q: %q, %s, %v", out, got, left, err)
		}
	}
	for _, out := range []string{"", "RUNNING                 N/A                     INVALID                 \n"} {
		if got, _, err := stands(out); err == nil {
			t.Errorf("%q: %q", out, got)
		}
	}
}

func TestClientEnv(t *testing.T) {
	got := clientEnv([]string{"A=b", "SLURM_CONF=c", "SLURM_JOB_ID=1", "SLURM_MEM_PER_CPU=9", "SQUEUE_FORMAT=x", "SBATCH_ACCOUNT=us", "SBATCH_EXPORT=NONE", "LC_ALL=de",
		"SBATCH_EXPORT=LD_PRELOAD=x.so", "SBATCH_GET_USER_ENV=1", "SBATCH_ARRAY_INX=1-9", "SBATCH_WAIT=1"})
	if want := []string{"A=b", "SLURM_CONF=c", "SBATCH_ACCOUNT=us", "SBATCH_EXPORT=NONE", "LC_ALL=C"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// What sacct says, as Slurm 22.05 did of a job with a step of srun's whose script was killed.
func TestParseAccounts(t *testing.T) {
	of := []cluster.Job{{ID: "1", Name: "v-a-1"}, {ID: "2", Name: "v-b-1"}, {ID: "3", Name: "v-c-1"}, {ID: "4", Name: "v-d-1"}, {ID: "5", Name: "v-e-1"}}
	got := parseAccounts("1|v-a-1|FAILED|4|00:03.447||n1\n1.batch|batch|CANCELLED|4|00:01.939|141271040|n1\n1.0|python3|COMPLETED|1|00:01.507|76726272|n1\n"+
		"2|v-b-1|CANCELLED by 1000|200000|1-02:03:04||n[1-2]\n2.batch|batch|CANCELLED|4|1-02:03:04|1.5G|n1\n2.extern|extern|COMPLETED|4|00:00:00|800K|n1\n2.0|x|FAILED|4|01:00:01||n2\n"+
		"3|somebody-else's|FAILED|4|00:03.447||n1\n3.batch|batch|CANCELLED|4|00:01.939|141271040|n1\n4|v-d-1|NODE_FAIL|7|00:00:00||n1\n4.batch|batch|CANCELLED|||\n"+
		"5|v-e-1|RUNNING|7|00:00:00||n1\n\ntorn|line\n", of)
	want := []cluster.Job{
		{ID: "1", Name: "v-a-1", State: cluster.Failed, Word: "FAILED", Node: "n1", Figures: cluster.Figures{Seconds: 4, CPUSeconds: 3.446, PeakMemory: 141271040}},
		{ID: "2", Name: "v-b-1", State: cluster.Cancelled, Word: "CANCELLED", Node: "n[1-2]", Figures: cluster.Figures{Seconds: 200000, CPUSeconds: 93784 + 3601, PeakMemory: 3 << 29}},
		{ID: "4", Name: "v-d-1", State: cluster.Lost, Word: "NODE_FAIL", Node: "n1", Figures: cluster.Figures{Seconds: 7}},
		{ID: "5", Name: "v-e-1", State: cluster.Running, Word: "RUNNING", Node: "n1", Figures: cluster.Figures{Seconds: 7}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	for text, want := range map[string]int64{"": 0, "x": 0, "12": 12, "2K": 2048, "3M": 3 << 20, "1.5G": 3 << 29, "1T": 1 << 40} {
		if got := bytes(text); got != want {
			t.Errorf("%q is %d bytes", text, got)
		}
	}
	for text, want := range map[string]float64{"": 0, "x": 0, "00:01": 1, "02:01.500": 121.5, "01:00:00": 3600, "2-00:00:01": 172801} {
		if got := cpuSeconds(text); got != want {
			t.Errorf("%q is %v seconds", text, got)
		}
	}
}

// Accounts are asked for many jobs by one call, and where they are disabled that is an error.
func TestAccounts(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	ask := func(script string) ([]cluster.Job, error) {
		if err := os.WriteFile(filepath.Join(dir, "sacct"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return Settings{Dir: dir}.Accounts(t.Context(), []cluster.Job{{ID: "7", Name: "a"}, {ID: "8", Name: "b"}})
	}
	jobs, err := ask(`case "$*" in *"-j 7,8 "*) printf '7|a|FAILED|1|00:02||n1\n8|b|FAILED|1|00:03||n1\n' ;; esac`)
	if err != nil || len(jobs) != 2 || jobs[1].ID != "8" {
		t.Errorf("%+v, %v", jobs, err)
	}
	if jobs, err := ask("echo 'Slurm accounting storage is disabled' >&2; exit 1"); err == nil || len(jobs) > 0 {
		t.Errorf("%+v, %v", jobs, err)
	}
}
