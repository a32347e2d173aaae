package workflow

import "maps"

// Asked holds the input of a run.
type Asked struct {
	Flow       string // the template, as it was typed
	Set        map[string]string
	Positional []string

	Complete func(params map[string]string) error // sets parameters that are derived from others
	Spec     func(path string) (string, error)    // reads a specification
}

// Findings returns everything that is wrong with a template and its input as
// one error: misread, the error of reading the template, and the findings of
// every later step. Consequences of an earlier finding are not reported.
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
	t, err := expand(src, b.params, b.typed, b.unsure)
	if lacks := Preflight(asked.Flow, src, t, asked.Positional); lacks != nil {
		r.merge(Pos{}, lacks)
		b.lacking()
		t, err = expand(src, b.params, b.typed, b.unsure)
	}
	r.merge(Pos{}, err)
	_, err = validate(t)
	r.merge(Pos{}, err)
	if incomplete == nil {
		r.merge(Pos{}, t.Inline(asked.Spec))
	}
	return r.err()
}
