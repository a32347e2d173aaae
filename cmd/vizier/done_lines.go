package main

import (
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// doneLine says what was done to a job, such as "cancelled". approve is the command that approves
// what waits for that now, if anything does.
type doneLine struct {
	job     kernel.JobID
	what    string
	approve string
}

// done prints a line for each job that something was done to. Where more than a part of the
// overview has lines say the same of a run's or batch's jobs, or of jobs of none, they are one.
func (u *ui) done(lines []doneLine) {
	type alike struct {
		of, what string
		approve  bool
	}
	same := func(l doneLine) alike {
		of, _, member := strings.Cut(u.refs.short(string(l.job)), "/")
		if !member {
			of = ""
		}
		return alike{of, l.what, l.approve != ""}
	}
	n, said := map[alike]int{}, map[alike]bool{}
	for _, l := range lines {
		n[same(l)]++
	}
	for _, l := range lines {
		a := same(l)
		who, approve := "Job "+string(l.job), l.approve
		if many := n[a] > most; many {
			if said[a] {
				continue
			}
			said[a] = true
			who, approve = view.Counted(n[a], "job"), "vizier ls --status waiting_on_approval"
			if a.of != "" {
				who, approve = who+" of "+a.of, "vizier ls "+a.of+" --status waiting_on_approval"
			}
		}
		if a.approve {
			u.print(who + " " + l.what + "; approval needed: " + approve)
		} else {
			u.print(who + " " + l.what)
		}
	}
}
