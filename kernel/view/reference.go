package view

import "github.com/vizier-scheduler/vizier/kernel"

// Reference is the short name of a job or a run in JSON documents. It is the
// zero value, and left out, for one that has no number yet.
type Reference struct {
	Number kernel.Number `json:"number,omitempty"`
	Ref    string        `json:"ref,omitempty"`
}

// ReferenceOf returns the reference of j.
func ReferenceOf(j *kernel.Job) Reference { return Reference{j.Number, j.Ref()} }

// ReferenceTo returns the reference of a whole run or batch.
func ReferenceTo(n kernel.Number) Reference { return Reference{n, n.String()} }
