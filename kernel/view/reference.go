package view

import "github.com/vizier-scheduler/vizier/kernel"

// Reference is what people call a job or a run, in the documents of programs. It
// is the zero value, and left out, for what has no number yet.
type Reference struct {
	Number kernel.Number `json:"number,omitempty"`
	Ref    string        `json:"ref,omitempty"`
}

// ReferenceOf is what people call j.
func ReferenceOf(j *kernel.Job) Reference { return Reference{j.Number, j.Ref()} }

// ReferenceTo is what people call all jobs of a number.
func ReferenceTo(n kernel.Number) Reference { return Reference{n, n.String()} }
