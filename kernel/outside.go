package kernel

import (
	"crypto/sha256"
	"slices"
	"strings"
)

// Keys of Readers for facts other than a branch. No branch can have such a name.
const (
	checkedOut = ":head"
	cleanTree  = ":clean"
	enforced   = ":sandbox"
)

// ReadFact is what a store knows of a fact that open jobs read and no job makes.
type ReadFact struct {
	Judged  string // digest of the fact that all its readers were judged by; "": not known
	Awaited bool   // it may be the first condition that holds a job up
}

// Outside holds the facts that open jobs read and no job makes: as they were when their
// readers were judged, and as they are now. A tick must judge only the readers of facts that
// differ.
type Outside struct {
	Reads  map[Near]ReadFact // by the Near of a fact's readers
	Elided []string          // as in Records
	Facts  Facts             // the answers to Asking
}

// outside reports whether an open job's judgement may change through something that
// no job makes: a branch, the checkout, a marker made by hand. A job that waits for
// another job is not judged by such facts yet.
func (j *Job) outside() bool {
	st := &j.State
	if st.Status != Queued && !st.Status.Waiting() && st.Status != FailedRetryable || st.Status == WaitingOnDeps && st.Wait.Cause == JobNotEnded {
		return false
	}
	if _, outward := readsFacts(&j.Spec); outward {
		return true
	}
	for _, a := range j.Spec.Needs {
		if a.Kind != Custom || st.Status == WaitingOnDeps && st.Wait.Cause != TokenProducing {
			return true
		}
	}
	return false
}

// Reads returns the facts that j is judged by and no job makes, each as the Near of all its
// readers, and whether they may hold j up; nil if j waits for nothing outside.
func (j *Job) Reads() (facts []Near, awaited bool) {
	if !j.outside() {
		return nil, false
	}
	b := prober{s: &Snapshot{facts: &Facts{}}, seen: map[Artifact]bool{}, branches: map[string]bool{}}
	b.gates(j)
	for _, a := range slices.Concat(b.p.Artifacts, b.p.Markers) {
		facts = append(facts, Near{Kind: Readers, Artifact: a})
	}
	for _, name := range b.p.Branches {
		facts = append(facts, Near{Kind: Readers, Key: name})
	}
	for _, f := range []struct {
		key   string
		asked bool
	}{{checkedOut, b.p.Head}, {cleanTree, b.p.Clean}, {enforced, b.p.Sandbox}} {
		if f.asked {
			facts = append(facts, Near{Kind: Readers, Key: f.key})
		}
	}
	return facts, j.State.Status == WaitingOnDeps && j.State.Wait.Cause != TokenProducing
}

// Asking returns the probes for the facts that are not known yet. Which branch to ask for
// may depend on the one that is checked out.
func (o *Outside) Asking() Probes {
	f := &o.Facts
	b := prober{s: &Snapshot{facts: f}, seen: map[Artifact]bool{}, branches: map[string]bool{}}
	for n := range o.Reads {
		switch n.Key {
		case "":
			b.artifact(n.Artifact)
		case checkedOut:
			b.p.Head = !f.Head.asked()
			b.branch(f.Head.Value)
		case cleanTree:
			b.p.Clean = !f.Clean.asked()
		case enforced:
			b.p.Sandbox = !f.Sandbox.asked()
		default:
			b.branch(n.Key)
		}
	}
	return b.p
}

// News returns the facts that differ from those that their readers were judged by, or
// whose digest is not known.
func (o *Outside) News() (news []Near) {
	for n, was := range o.Reads {
		if is := o.Facts.digest(n); is == "" || is != was.Judged {
			news = append(news, n)
		}
	}
	return news
}

// JudgedBy returns ReadFact.Judged of each fact as it is after a tick; nil: it is not known of
// any. Facts that Reads leaves out, and that are not in the answer, are as they were. The tick
// judged the readers of News, and perhaps other jobs, by the facts in now. If a fact differs
// there from that in Facts, some of its readers were judged by the new value, others by the old:
// it counts as not known. If it is not in Facts, or nobody read it before, all its readers were
// judged by now.
func (o *Outside) JudgedBy(now Facts) map[Near]string {
	if o.Reads == nil {
		return nil
	}
	out := make(map[Near]string, len(o.Reads))
	for n := range o.Reads {
		seen, is := o.Facts.digest(n), now.digest(n)
		if seen == "" {
			seen = is
		} else if is != "" && is != seen {
			seen = ""
		}
		out[n] = seen
	}
	for _, n := range now.readers() {
		if _, read := o.Reads[n]; read {
			continue
		}
		out[n] = now.digest(n)
		if n.Artifact.Kind == Custom && slices.Contains(o.Elided, n.Artifact.Name) && out[n] != JudgedNone { // it may have readers from before
			out[n] = ""
		}
	}
	return out
}

// readers returns the Near of the readers of each fact in f that jobs may read and no job makes.
func (f *Facts) readers() (out []Near) {
	for a := range f.Markers {
		out = append(out, Near{Kind: Readers, Artifact: a})
	}
	for a := range f.Present {
		out = append(out, Near{Kind: Readers, Artifact: a})
	}
	for name := range f.Heads {
		out = append(out, Near{Kind: Readers, Key: name})
	}
	for key, asked := range map[string]bool{checkedOut: f.Head.asked(), cleanTree: f.Clean.asked(), enforced: f.Sandbox.asked()} {
		if asked {
			out = append(out, Near{Kind: Readers, Key: key})
		}
	}
	return out
}

// Beside adds to w the facts that other open jobs wait for: those of Reads that have not
// changed and may still hold a job up. now is what open jobs read after the transaction.
func (o *Outside) Beside(w Wakes, now Records) Wakes {
	b := prober{s: &Snapshot{facts: &Facts{}}, p: w.Outside, seen: map[Artifact]bool{}, branches: map[string]bool{}}
	for _, a := range slices.Concat(w.Outside.Artifacts, w.Outside.Markers) {
		b.seen[a] = true
	}
	for _, name := range w.Outside.Branches {
		b.branches[name] = true
	}
	b.p.Types = now.Elided
	for n, is := range now.Reads {
		was, read := o.Reads[n]
		changed := read && o.Facts.digest(n) != was.Judged || !read && !slices.Contains(o.Elided, n.Artifact.Name)
		if !is.Awaited || n.Key == enforced || changed { // what a host enforces does not change
			continue
		}
		switch n.Key {
		case "":
			b.artifact(n.Artifact)
		case checkedOut:
			b.p.Head = true
			b.branch(o.Facts.Head.Value)
		case cleanTree:
			b.p.Clean = true
		default:
			b.branch(n.Key)
		}
		w.Poll = w.Poll || strings.HasPrefix(was.Judged, unobservable)
	}
	w.Outside = b.p
	return w
}

// Of returns the facts of f that readers name.
func (f *Facts) Of(readers []Near) Facts {
	out := NewFacts()
	head := func(name string) {
		if b := f.Heads[name]; b.asked() {
			out.Heads[name] = b
		}
	}
	for _, n := range readers {
		switch n.Key {
		case "":
			if m := f.Markers[n.Artifact]; m.asked() {
				out.Markers[n.Artifact] = m
			}
			if p := f.Present[n.Artifact]; p.asked() {
				out.Present[n.Artifact] = p
			}
		case checkedOut:
			out.Head = f.Head
			head(f.Head.Value)
		case cleanTree:
			out.Clean = f.Clean
		case enforced:
			out.Sandbox = f.Sandbox
		default:
			head(n.Key)
		}
	}
	return out
}

// digest identifies the fact that n names; "" if it was not observed.
func (f *Facts) digest(n Near) string {
	switch n.Key {
	case "":
		if n.Artifact.Kind != Custom {
			return digestOf(f.Present[n.Artifact], truth)
		}
		return digestOf(f.Markers[n.Artifact], func(ids []JobID) (owners []string) {
			for _, id := range ids {
				owners = append(owners, string(id))
			}
			slices.Sort(owners)
			return owners
		})
	case checkedOut:
		head := digestOf(f.Head, func(name string) []string { return []string{name} })
		if f.Head.Value == "" {
			return head
		}
		branch := f.digest(Near{Kind: Readers, Key: f.Head.Value})
		if branch == "" {
			return ""
		}
		return branch + head // begins with unobservable if the branch's digest does
	case cleanTree:
		return digestOf(f.Clean, truth)
	case enforced:
		return digestOf(f.Sandbox, func(e Enforcement) []string { return []string{e.Files, e.Network} })
	default:
		return digestOf(f.Heads[n.Key], func(c CommitID) []string { return []string{string(c)} })
	}
}

func truth(yes bool) []string {
	if yes {
		return []string{"yes"}
	}
	return nil
}

// unobservable begins the digest of a fact that could not be observed.
const unobservable = "e"

func digestOf[T any](f Fact[T], words func(T) []string) string {
	kind, text := "v", []string{f.Err}
	switch {
	case f.Err != "":
		kind = unobservable
	case f.Known:
		text = words(f.Value)
	default:
		return ""
	}
	if len(text) == 0 {
		return JudgedNone
	}
	return digestOfText(kind, text)
}

// JudgedNone is ReadFact.Judged of a fact that was no or none, as most are.
var JudgedNone = digestOfText("v", nil)

func digestOfText(kind string, text []string) string {
	sum := sha256.Sum256([]byte(strings.Join(text, "\x00")))
	return kind + string(sum[:15])
}
