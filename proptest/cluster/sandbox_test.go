package cluster

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/adapters/proc/sandbox"
)

// A sandbox holds on the node of a cluster: a job writes to its working tree and to the files
// it gets. It reaches neither its runner, nor the records, nor a network. `show` says what was
// enforced there.
func TestASandboxOnANode(t *testing.T) {
	t.Parallel()
	enforcement := sandbox.This().Enforcement()
	if enforcement.Files != "" {
		t.Skip(enforcement.Files)
	}
	for _, executor := range []string{"lab", "packed", "few"} {
		t.Run(executor, func(t *testing.T) {
			needs(t, executor)
			t.Parallel()
			r := newRepo(t)
			r.sh("mkdir -p work && touch work/x && git add work && git commit -qm work")
			gate := r.submit("local", "true", "--approval")
			flags, network := []string{"--sandbox", "required"}, ""
			want := "work done\ntmp done\nreport done\nvizier refused\nrecord refused\nbeat refused\ngit refused\nhome refused\nrunner refused\napprove refused"
			if enforcement.Network == "" {
				flags = append(flags, "--network", "none")
				network = "\ntail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | paste -sd,"
				want += "\nlo"
			}
			id := r.submit(executor, `
try() { name=$1; shift; "$@" >/dev/null 2>&1 && echo "$name done" || echo "$name refused"; }
try work touch work/new
try tmp touch "$TMPDIR/x"
try report sh -c 'echo "{\"done\":1}" >>"$VIZIER_REPORT"'
try vizier touch "$VIZIER_ROOT/.vizier/x"
try record sh -c 'echo x >>"$VIZIER_ROOT/.vizier/jobs/$VIZIER_JOB_ID/job.json"'
try beat sh -c 'for f in "$VIZIER_ROOT/.vizier/jobs/$VIZIER_JOB_ID/attempts/"*.beat; do echo x >>"$f"; done'
try git touch "$VIZIER_ROOT/.git/x"
try home sh -c 'touch "$HOME/vizier-sandbox-test" && rm "$HOME/vizier-sandbox-test"'
try runner kill -0 "$PPID"
try approve "`+bin+`" jobs approve `+gate+network, flags...)
			r.becomes(id, "succeeded")
			out := r.v("jobs", "tail", id, "--stream", "stdout")
			if strings.TrimSpace(out) != want {
				t.Errorf("it printed\n%s\nwant\n%s\n%s", out, want, r.files(id))
			}
			if kept := r.v("jobs", "show", id, "--fields", "attempts"); !strings.Contains(kept, "kept to: files, signals, abstract sockets (Landlock ") {
				t.Errorf("it was kept to %s", kept)
			}
			if got := r.job(gate)["status"]; got != "waiting_on_approval" {
				t.Errorf("the gate is %s", got)
			}
			// From outside, only options that set variables of the runner can undo it.
			if executor == "lab" {
				if out, errs, err := r.try("", "jobs", "submit", "--executor", executor, "--option=--export=ALL,LD_PRELOAD=x.so", "--", "true"); err == nil || !strings.Contains(errs, "sets variables of the runner") {
					t.Errorf("%v: %s%s", err, out, errs)
				}
			}
			r.v("jobs", "reject", gate, "--reason", "seen")
		})
	}
}
