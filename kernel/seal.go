package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Digest is a SHA-256 sum in lowercase hex.
type Digest string

// DigestOf returns the digest of data.
func DigestOf(data string) Digest {
	sum := sha256.Sum256([]byte(data))
	return Digest(hex.EncodeToString(sum[:]))
}

// sealVersion begins every statement. A change of the format changes the
// version, so that statements of two formats never have the same digest.
const sealVersion = "vizier-approval 1"

// Statement returns what an attempt of a job with this spec does and where, as
// text. An approval is of this text, so it must not change for a given spec. It
// has one line for each field that is set: the field's name and its values,
// quoted as in Go and in ASCII. Environment variables are given by digests of
// their values, secrets by their sources. docs/formats/approval.md lists the
// fields.
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

// Digest returns the digest of s's statement.
func (s *Spec) Digest() Digest { return DigestOf(s.Statement()) }

// Grant records what was approved, and how. It is immutable.
type Grant struct {
	How       string // "terminal", "script", or the name of a front end; "": unknown
	Digest    Digest // of what was approved
	Statement string // the approved statement; "": not on record
}

// Change is a field of a statement whose value changed.
type Change struct{ Field, Was, Now string } // the values as the statements quote them; "": the field was not set

// Changes returns the fields in which two statements differ, in order.
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

// fieldsOf splits a statement into fields. Each environment variable and each
// secret is a field of its own.
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

// ApprovedBranch returns the branch whose commit an approval of the job covers: that of its run, if the job begins
// work on it or merges it; else "".
func (s *Spec) ApprovedBranch() string {
	if !s.takesBranch() {
		return ""
	}
	return s.Origin.Branch
}

// ApprovedHead returns the commit of branch that the job was approved for; "": its approval covers none.
func (j *Job) ApprovedHead(branch string) CommitID {
	if a := &j.State.Approval; a.State == Approved && branch == j.Spec.ApprovedBranch() {
		return a.Head
	}
	return ""
}

// Seal says whether what was approved is what the job does now.
type Seal uint8

// Sealed is the zero value: what was approved is what the job does now, or
// there is no approval.
const (
	Sealed   Seal = iota
	Unsealed      // what was approved is not on record: an earlier version granted the approval
	Broken        // the job has changed since it was approved
)

var sealNames = NewNames[Seal]("seal", "sealed", "unsealed", "broken")

// Seal compares what was approved with what the job does now.
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

// Unsealed returns why a granted approval does not count, or "" if it does.
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
