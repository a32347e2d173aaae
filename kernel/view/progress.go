package view

import "strconv"

// Progress is the latest progress report of a command:
// docs/user/environment.md. The zero value is no report. No decision depends on
// it.
type Progress struct {
	Done  *int64 `json:"done,omitempty"`
	Total *int64 `json:"total,omitempty"`
	Text  string `json:"text,omitempty"`  // one line
	Wrong string `json:"error,omitempty"` // the first malformed part of the report; "": none
}

// Empty reports whether the command reported nothing.
func (p Progress) Empty() bool { return p.Done == nil && p.Total == nil && p.Text == "" }

// String returns the progress in one line: "3 of 10 (30%): text".
func (p Progress) String() string {
	var s string
	switch {
	case p.Done != nil && p.Total != nil:
		s = strconv.FormatInt(*p.Done, 10) + " of " + strconv.FormatInt(*p.Total, 10)
		if *p.Total > 0 && *p.Done <= *p.Total {
			s += " (" + strconv.Itoa(int(float64(*p.Done)/float64(*p.Total)*100)) + "%)"
		}
	case p.Done != nil:
		s = strconv.FormatInt(*p.Done, 10) + " done"
	case p.Total != nil:
		s = strconv.FormatInt(*p.Total, 10) + " to do"
	}
	if s != "" && p.Text != "" {
		s += ": "
	}
	return s + p.Text
}

func progressOf(p Progress) *Progress {
	if p == (Progress{}) {
		return nil
	}
	return &p
}
