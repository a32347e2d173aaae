package workflow

import "maps"

// Asked is what a run of a template is asked for with.
type Asked struct {
	Flow       string // the template, as it was typed
	Set        map[string]string
	Positional []string

	Complete func(params map[string]string) error // sets parameters that follow from others
	Spec     func(path string) (string, error)    // reads a specification
}

// Findings are all that is wrong with a template and what is asked of it, in one
// answer: misread, what was found when it was read, and the findings of every
// later step. What only follows from a finding is none.
func Findings(src *Source, asked Asked, misread error) error {
	var r report
	r.merge(Pos{}, misread)
	b := bind(asked.Flow, src, asked.Set, asked.Positional)
	r.merge(Pos{}, b.err())
	given := maps.Clone(b.params)
	incomplete := asked.Complete(b.params)
	r.merge(Pos{}, incomplete)
	for p, value := range b.params {
		if value != given[p] {
			delete(b.unsure, p)
		}
	}
	if incomplete != nil {
		b.lacking()
	}
	t, err := expand(src, b.params, b.unsure)
	if lacks := Preflight(asked.Flow, src, t, asked.Positional); lacks != nil {
		r.merge(Pos{}, lacks)
		b.lacking()
		t, err = expand(src, b.params, b.unsure)
	}
	r.merge(Pos{}, err)
	_, err = validate(t)
	r.merge(Pos{}, err)
	if incomplete == nil {
		r.merge(Pos{}, t.Inline(asked.Spec))
	}
	return r.err()
}
