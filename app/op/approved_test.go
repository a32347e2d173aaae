package op

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// approvedAt makes n a node of a run for draft/foo that was approved while that was at head.
func approvedAt(n *Node, head string) *Node {
	n.Job.Spec.Origin.Branch, n.Job.Spec.Origin.About.Operation = "draft/foo", n.Operation
	n.Job.State.Approval = kernel.Approval{State: kernel.Approved, Head: kernel.CommitID(head)}
	return n
}

// What has come onto a branch since its merge was approved is not merged, and one that was approved is.
func TestAMergeTakesWhatWasApproved(t *testing.T) {
	w := planned(t)
	read, main := w.rev("draft/foo"), w.rev("main")
	tree, _ := w.prepared(map[string]string{"branch": "draft/foo"})
	w.commit(tree, "more.txt", "more\n")
	n := approvedAt(w.merge(nil), read)
	w.want(n, kernel.OutcomeBlocked, "branch draft/foo has moved since the approval", "git log --left-right "+read[:12]+"..."+w.rev("draft/foo")[:12], "vizier retry")
	if w.rev("main") != main {
		t.Error("it was merged")
	}
	moved := w.rev("draft/foo")
	w.git(w.dir, "update-ref", "refs/heads/draft/foo", main)
	w.want(approvedAt(n, moved), kernel.OutcomeBlocked, "has moved since the approval") // and is not merged already
	w.git(w.dir, "update-ref", "-d", "refs/heads/draft/foo")
	w.want(n, kernel.OutcomeFailed, "git branch draft/foo "+moved)
	w.git(w.dir, "update-ref", "refs/heads/draft/foo", moved)
	w.want(n, kernel.OutcomeSucceeded, "merged draft/foo into main")
	w.want(n, kernel.OutcomeSucceeded, "earlier attempt") // which has moved the branch itself
}

// A stage does not begin on another commit than was approved, nor on a branch that is gone.
func TestAStageBeginsWhereItWasApproved(t *testing.T) {
	w := planned(t)
	read := w.rev("draft/foo")
	prepare := func(head string) *Node {
		return approvedAt(w.node("worktree.prepare", map[string]string{"branch": "draft/foo"}), head)
	}
	w.want(prepare(w.rev("main")), kernel.OutcomeFailed, "branch draft/foo has moved since the approval")
	other := prepare(w.rev("main"))
	other.Job.Spec.Origin.Branch = "draft/bar"
	w.want(other, kernel.OutcomeSucceeded)
	w.want(prepare(read), kernel.OutcomeSucceeded)
	w.want(prepare(""), kernel.OutcomeSucceeded)
	w.git(w.dir, "update-ref", "-d", "refs/heads/draft/foo")
	w.want(prepare(read), kernel.OutcomeFailed, "branch draft/foo is gone since the approval", "git branch draft/foo "+read)
	if w.has("draft/foo") {
		t.Error("the branch was made anew")
	}
}
