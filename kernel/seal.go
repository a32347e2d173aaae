package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Digest is a SHA-256, in lowercase hex.
type Digest string

// DigestOf is the digest of data.
func DigestOf(data string) Digest {
	sum := sha256.Sum256([]byte(data))
	return Digest(hex.EncodeToString(sum[:]))
}

// sealVersion begins every statement. Another form of statement has another
// version, so that no digest of one is a digest of the other.
const sealVersion = "vizier-approval 1"

// Statement is what an attempt of a job with this spec does, and where: what an
// approval is of. It is one line per field that is given, the field's name and
// its values, quoted as in Go and in ASCII; of the environment it has digests of
// values, of secrets where they come from. docs/formats/approval.md has the fields. It depends on the spec alone.
func (s *Spec) Statement() string {
	var b strings.Builder
	b.WriteString(sealVersion + "\n")
	line := func(field string, values ...string) {
		if !slices.ContainsFunc(values, func(v string) bool { return v != "" }) {
			return
		}
		b.WriteString(field)
		for _, v := range values {
			b.WriteString(" " + strconv.QuoteToASCII(v))
		}
		b.WriteString("\n")
	}
	t := &s.Task
	line("command", t.Args...)
	if t.Builtin {
		line("program", "vizier")
	}
	line("worktree", t.Tree)
	line("directory", t.Dir)
	for _, v := range t.Env {
		name, value, _ := strings.Cut(v, "=")
		line("env", name, string(DigestOf(value)))
	}
	line("pass_env", t.PassEnv...)
	for _, k := range t.Secrets {
		line("secret", k.Name, k.Source)
	}
	line("executor", t.On())
	line("options", t.Options...)
	if b := t.Sandbox; b.On() {
		line("sandbox", b.Mode.String())
		line("write", b.Write...)
		line("network", b.Network.String())
		if b.ReadOnly {
			line("read_only", "worktree")
		}
	}
	line("container", t.Container)
	line("pinned_head", s.Pinned.Branch, string(s.Pinned.Commit))
	if t.Timeout > 0 {
		line("timeout", t.Timeout.String())
	}
	o := &s.Origin
	line("template", o.Template.Selector, o.Template.ID, o.Template.Version)
	line("policy", o.Template.PolicyHash)
	line("node", o.Node, o.About.Operation, o.About.Control)
	line("gates", o.About.Gates...)
	line("manifest", string(o.Manifest))
	return b.String()
}

// Digest is the digest of s's statement.
func (s *Spec) Digest() Digest { return DigestOf(s.Statement()) }

// Grant is what somebody approved, and how. It is not changed.
type Grant struct {
	How       string // "terminal", "script", or the name of a front end; "": nobody said
	Digest    Digest // of what was approved
	Statement string // of that; "": it is not on record
}

// Change is a field of a statement that is not what it was.
type Change struct{ Field, Was, Now string } // the values as the statements have them; "": it was not given

// Changes are the fields in which two statements differ, in order.
func Changes(was, now string) []Change {
	before, after := fieldsOf(was), fieldsOf(now)
	var out []Change
	for _, f := range before {
		if n := valueOf(after, f.name); n != f.value {
			out = append(out, Change{f.name, f.value, n})
		}
	}
	for _, f := range after {
		if !slices.ContainsFunc(before, func(o field) bool { return o.name == f.name }) {
			out = append(out, Change{f.name, "", f.value})
		}
	}
	return out
}

type field struct{ name, value string }

// fieldsOf are the lines of a statement. Each variable and each secret is a field
// of its own.
func fieldsOf(statement string) []field {
	var out []field
	for line := range strings.Lines(statement) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if name == "env" || name == "secret" {
			variable, of, _ := strings.Cut(value, " ")
			name, value = name+" "+variable, of
		}
		out = append(out, field{name, value})
	}
	return out
}

func valueOf(fields []field, name string) string {
	for _, f := range fields {
		if f.name == name {
			return f.value
		}
	}
	return ""
}

// Seal says whether what was approved is what the job does now.
type Seal uint8

// Sealed is the zero value: what was approved is what the job does, or nothing is approved.
const (
	Sealed   Seal = iota
	Unsealed      // what was approved is not on record: an earlier version took the approval
	Broken        // the job has changed since it was approved
)

var sealNames = NewNames[Seal]("seal", "sealed", "unsealed", "broken")

// Seal tells whether what was approved is what the job does now.
func (j *Job) Seal() Seal {
	a := j.State.Approval
	switch {
	case a.State != Approved:
		return Sealed
	case a.Grant == nil || a.Grant.Digest == "":
		return Unsealed
	case a.Grant.Digest != j.Spec.Digest():
		return Broken
	default:
		return Sealed
	}
}

// Unsealed is why an approval that was granted does not count; "": it does.
func (j *Job) Unsealed() string {
	switch j.Seal() {
	case Unsealed:
		return "approved without saying what: approve it again"
	case Broken:
		var fields []string
		if g := j.State.Approval.Grant; g.Statement != "" && DigestOf(g.Statement) == g.Digest {
			for _, c := range Changes(g.Statement, j.Spec.Statement()) {
				fields = append(fields, c.Field)
			}
		}
		return "changed since it was approved" + strings.TrimSuffix(": "+strings.Join(fields, ", "), ": ")
	default:
		return ""
	}
}
