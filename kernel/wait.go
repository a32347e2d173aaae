package kernel

// WaitKind names the gate that holds a job up. The zero value is none.
type WaitKind uint8

// The kinds of seed 000.
const (
	NoWait WaitKind = iota
	OnDependencies
	OnPinnedHead
	OnPreconditions
	OnApproval
	OnLocks
	numWaitKinds
)

var waitKindNames = NewNames[WaitKind]("wait kind", "", "dependencies", "pinned_head", "preconditions", "approval", "locks")

// WaitReason says why a job is not running. The zero value means that it is
// not waiting.
type WaitReason struct {
	Kind   WaitKind
	Detail string
}

// WaitSet is the kinds a job has waited on, in the order it met them. It is
// comparable; the zero value is empty.
type WaitSet struct{ kinds [numWaitKinds - 1]WaitKind }

// With is w and k; NoWait and known kinds change nothing.
func (w WaitSet) With(k WaitKind) WaitSet {
	for i, have := range w.kinds {
		switch have {
		case k:
			return w
		case NoWait:
			w.kinds[i] = k
			return w
		}
	}
	return w
}

// Kinds lists the set in order.
func (w WaitSet) Kinds() []WaitKind {
	var out []WaitKind
	for _, k := range w.kinds {
		if k != NoWait {
			out = append(out, k)
		}
	}
	return out
}
