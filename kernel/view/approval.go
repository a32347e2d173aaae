package view

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Statement returns the lines of a statement, without the one that holds its
// version.
func Statement(s string) []string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	return orEmpty(lines[1:])
}

// Approves returns the lines of a statement of j, and the commit of the branch that its approval is about.
func Approves(j *kernel.Job, statement string) []string {
	lines := Statement(statement)
	if head := j.State.Approval.Head; head != "" {
		lines = append(lines, "branch "+strconv.QuoteToASCII(j.Spec.Origin.Branch)+" "+strconv.QuoteToASCII(string(head)))
	}
	return lines
}

// approvalDigest returns the digest of what was approved or, while the job
// waits for a person, of what an approval would cover.
func approvalDigest(r record) string {
	switch a := r.State.Approval; {
	case a.State == kernel.Pending, r.State.Status == kernel.WaitingOnApproval:
		return string(r.Spec.Digest())
	case a.Grant != nil:
		return string(a.Grant.Digest)
	default:
		return ""
	}
}

// approvalHead returns the branch and the commit that the approval covers or, while it is pending, that it was asked for.
func approvalHead(r record) string {
	if head := r.State.Approval.Head; head != "" {
		return pinned(kernel.PinnedHead{Branch: r.Spec.ApprovedBranch(), Commit: head})
	}
	return ""
}

// approvalSeal says why a granted approval does not count, and which part of
// the job differs from what was approved.
func approvalSeal(r record) string {
	switch r.Seal() {
	case kernel.Unsealed:
		return "none: it was approved by an earlier version, or by hand"
	case kernel.Broken:
	default:
		return ""
	}
	g := r.State.Approval.Grant
	if g.Statement == "" || kernel.DigestOf(g.Statement) != g.Digest {
		return "broken: what was approved is not on record"
	}
	var differ []string
	for _, c := range kernel.Changes(g.Statement, r.Spec.Statement()) {
		differ = append(differ, c.Field+": "+cmp.Or(c.Was, "none")+" -> "+cmp.Or(c.Now, "none"))
	}
	return "broken: " + strings.Join(differ, "; ")
}
