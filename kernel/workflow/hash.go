package workflow

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// PolicyHash identifies the rules that the template's jobs are subject to: a
// SHA-256, in hex, over everything but the display names of nodes. The order in
// which nodes, contracts, artifacts and the like are written does not matter.
func PolicyHash(t *Template) string {
	h := &hasher{}
	h.list("template", t.ID, t.Version, t.policy.failureMode.String(), orDefault(t.policy.resumeKey, onlyResumeKey), orDefault(t.policy.reuseMode, onlyReuseMode), t.policy.missingProducer.String())
	contracts := slices.Clone(t.contracts)
	slices.SortStableFunc(contracts, func(a, b contract) int { return strings.Compare(a.id, b.id) })
	for _, k := range contracts {
		h.list("contract", k.id, k.version)
		if k.schema != nil {
			h.value(*k.schema)
		}
	}
	order := make([]*node, len(t.nodes))
	for i := range t.nodes {
		order[i] = &t.nodes[i]
	}
	slices.SortStableFunc(order, func(a, b *node) int { return strings.Compare(a.id.Value, b.id.Value) })
	for _, n := range order {
		h.node(n)
	}
	return fmt.Sprintf("%x", sha256.Sum256(h.buf))
}

// hasher collects the bytes to be hashed.
type hasher struct{ buf []byte }

// list writes its members with their lengths, so that different lists are never
// written alike.
func (h *hasher) list(members ...string) {
	h.buf = append(strconv.AppendInt(h.buf, int64(len(members)), 10), '[')
	for _, m := range members {
		h.buf = append(strconv.AppendInt(h.buf, int64(len(m)), 10), ':')
		h.buf = append(h.buf, m...)
	}
}

// set writes a list whose order is not significant.
func (h *hasher) set(what string, members []string) {
	slices.Sort(members)
	h.list(what)
	h.list(slices.Compact(members)...)
}

func (h *hasher) table(what string, m map[string]string) {
	out := make([]string, 1, 1+2*len(m))
	out[0] = what
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k, m[k])
	}
	h.list(out...)
}

func (h *hasher) value(v Value) {
	h.list("value", strconv.Itoa(int(v.Kind)), v.Text, strconv.Itoa(len(v.List)), strconv.Itoa(len(v.Fields)))
	for _, e := range v.List {
		h.value(e)
	}
	fields := slices.Clone(v.Fields)
	slices.SortStableFunc(fields, func(a, b Field) int { return strings.Compare(a.Key, b.Key) })
	for _, f := range fields {
		h.list("field", f.Key)
		h.value(f.Value)
	}
}

func (h *hasher) node(n *node) {
	h.list("node", n.id.Value, n.kind, n.uses.Value, n.retryMode, strconv.Itoa(n.retryBudget), n.executor, n.timeout.String(),
		n.transient.String(), strconv.FormatBool(n.resumable), strconv.FormatBool(n.idempotent), n.pinned.Branch, string(n.pinned.Commit),
		strconv.Itoa(n.budget.Retries), strconv.Itoa(n.budget.Resumes), strconv.Itoa(n.budget.Reclaims),
		strconv.FormatUint(uint64(n.retry.Classes), 16))
	if n.inDoubt != kernel.FailInDoubt { // the default adds nothing, so that hashes on record stay the same
		h.list("effect_in_doubt", n.inDoubt.String())
	}
	if n.approvalTimeout > 0 {
		h.list("approval_timeout", n.approvalTimeout.String())
	}
	if n.estimate > 0 {
		h.list("estimate", n.estimate.String())
	}
	if len(n.afterAny) > 0 {
		h.set("after any", values(n.afterAny))
	}
	for _, word := range n.retry.Exits {
		h.list(strconv.FormatUint(word, 16))
	}
	if n.resume { // likewise
		h.list("resume")
	}
	if len(n.options) > 0 { // likewise
		h.set("options", slices.Clone(n.options))
	}
	if b := n.sandbox; b.On() { // likewise
		h.list("sandbox", b.Mode.String(), b.Network.String())
		h.set("write", slices.Clone(b.Write))
	}
	if len(n.secrets) > 0 { // likewise
		h.set("secrets", texts(n.secrets))
	}
	if n.container != "" { // likewise
		h.list("container", n.container)
	}
	h.table("args", n.args)
	h.set("after", values(n.after))
	h.set("needs", labels(n.needs))
	for _, o := range outcomes {
		h.set("produces "+o.String(), labels(n.produces[o]))
		h.set("on "+o.String(), values(n.on[o]))
	}
	var locks, pre []string
	for _, l := range n.locks {
		locks = append(locks, strconv.Itoa(l.Units)+" "+l.Mode.String()+" "+l.Key)
	}
	for _, p := range n.preconditions {
		pre = append(pre, p.Kind.String()+" "+strconv.Quote(p.ID)+" "+p.Branch)
	}
	h.set("locks", locks)
	h.set("preconditions", pre)
	for _, g := range n.gates {
		h.list("gate", g.kind, g.policy, g.script, g.id, strconv.FormatBool(g.required), strconv.FormatBool(g.autoResolve))
		h.table("args", g.args)
	}
}

func values(ts []Text) []string {
	out := make([]string, len(ts))
	for i, t := range ts {
		out[i] = t.Value
	}
	return out
}

// texts returns the text of each secret.
func texts(secrets []kernel.Secret) []string {
	out := make([]string, len(secrets))
	for i, s := range secrets {
		out[i] = s.String()
	}
	return out
}

func labels(as []artifact) []string {
	out := make([]string, len(as))
	for i, a := range as {
		out[i] = a.Artifact.String()
	}
	return out
}
