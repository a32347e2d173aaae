package answer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// Foreseen is `what-if --format json`: docs/schemas/what_if.schema.json.
type Foreseen struct {
	Now     time.Time     `json:"now"`
	At      time.Time     `json:"at"`
	Jobs    []ForeseenJob `json:"jobs"`
	More    int           `json:"more,omitempty"`    // jobs that were left out
	Assumed []Assumed     `json:"assumed,omitempty"` // with --to-the-end
}

// Assumed is a duration that is assumed because nothing is known about it.
type Assumed struct {
	What    string  `json:"what"` // attempt or decision
	Seconds float64 `json:"seconds"`
	Jobs    int     `json:"jobs"`
}

// AssumedOf returns what a story that was told by habits assumes.
func AssumedOf(story foresight.Story, habits *foresight.Habits) []Assumed {
	out := []Assumed{}
	attempts, decisions := story.Guessed(habits)
	if attempts > 0 {
		out = append(out, Assumed{"attempt", foresight.DefaultDuration.Seconds(), attempts})
	}
	if decisions > 0 {
		out = append(out, Assumed{"decision", foresight.DefaultDecision.Seconds(), decisions})
	}
	return out
}

// AssumedText returns the assumptions as a line for people, or "" if there are none.
func AssumedText(all []Assumed) string {
	var out []string
	for _, a := range all {
		what := map[string]string{"attempt": "each unknown attempt", "decision": "each decision of a person"}[a.What]
		out = append(out, fmt.Sprintf("%s for %s (%d)", kernel.Brief(time.Duration(a.Seconds*float64(time.Second))), what, a.Jobs))
	}
	if len(out) == 0 {
		return ""
	}
	return "Assumed: " + strings.Join(out, ", ") + "\n"
}

// ForeseenJob is a job whose standing would change.
type ForeseenJob struct {
	Job kernel.JobID `json:"job"`
	view.Reference
	Name string        `json:"name"`
	Was  *ForeseenStep `json:"was"`            // null: it is not there yet
	Then *ForeseenStep `json:"then"`           // null: it is gone
	Ends *time.Time    `json:"ends,omitempty"` // with --to-the-end: when
}

// ForeseenStep is how a job stands.
type ForeseenStep struct {
	Status   string `json:"status"`
	Reason   string `json:"reason"`
	Attempt  int    `json:"attempt"`
	Approval string `json:"approval"`
}

// ForeseenOf returns the document of a forecast. With toTheEnd, story says when each job ends.
func ForeseenOf(f foresight.Forecast, story foresight.Story, toTheEnd bool) Foreseen {
	doc := Foreseen{Now: f.Now.Now(), At: f.Then.Now(), Jobs: []ForeseenJob{}}
	for _, m := range f.Moved() {
		j := foreseenOf(m)
		if at, later := story.Ended[j.Job]; later {
			j.Ends = &at
		} else if toTheEnd && m.Then != nil && !m.Then.Open() { // by the change itself
			j.Ends = &doc.Now
		}
		doc.Jobs = append(doc.Jobs, j)
	}
	return doc
}

// First keeps only the first most jobs; 0: all of them.
func (f *Foreseen) First(most int) {
	if most > 0 && len(f.Jobs) > most {
		f.Jobs, f.More = f.Jobs[:most], len(f.Jobs)-most
	}
}

func foreseenOf(m foresight.Moved) ForeseenJob {
	j := m.Then
	if j == nil {
		j = m.Was
	}
	return ForeseenJob{Job: j.ID, Reference: view.ReferenceOf(j), Name: view.Title(j), Was: foreseenStepOf(m.Was), Then: foreseenStepOf(m.Then)}
}

func foreseenStepOf(j *kernel.Job) *ForeseenStep {
	if j == nil {
		return nil
	}
	st := &j.State
	reason := st.Wait.Detail
	if reason == "" && st.Status.Terminal() {
		reason = st.Reason
	}
	return &ForeseenStep{st.Status.String(), reason, st.Attempt, st.Approval.State.String()}
}

// NothingForeseen is the text for people if no job's standing would change.
const NothingForeseen = "Nothing would change."

// Cells returns the document as a table for people, with its headings.
func (f Foreseen) Cells(toTheEnd bool) [][]string {
	cells := [][]string{{"#", "Name", "Now", "Then", "Reason"}}
	if toTheEnd {
		cells[0] = slices.Insert(cells[0], 4, "In")
	}
	for _, j := range f.Jobs {
		was, then, reason := "-", "removed", ""
		if j.Was != nil {
			was = j.Was.Status
		}
		if j.Then != nil {
			then, reason = j.Then.Status, j.Then.Reason
		}
		was, then = InShort(was, then)
		row := []string{j.Ref, j.Name, was, then, reason}
		if toTheEnd {
			in := ""
			if j.Ends != nil {
				in = kernel.Brief(j.Ends.Sub(f.Now))
			}
			row = slices.Insert(row, 4, in)
		}
		cells = append(cells, row)
	}
	return cells
}

// InShort returns two statuses in one word each, or unchanged if that is the same word.
func InShort(was, then string) (string, string) {
	short := func(text string) string {
		st, err := kernel.ParseStatus(text)
		if err != nil {
			return text
		}
		return view.ShortStatus(st)
	}
	if a, b := short(was), short(then); a != b {
		return a, b
	}
	return was, then
}
