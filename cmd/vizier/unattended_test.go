package main

import (
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/kernel"
)

// What is in the way of every resident scheduler is named, with what removes it: a command that helps the job once would
// leave the next one where it is. Where none is to run it does not matter.
func TestWhatIsInTheWayOfTheResidentSchedulerIsNamed(t *testing.T) {
	const there = "a directory is in the place of the file .vizier/jobs/resident.lock"
	obstacle := ""
	r := &repo{Hindrance: func() vizier.Hindrance { return vizier.Hindrance{} }, Attended: func() bool { return false }, Obstacle: func() string { return obstacle }}
	rest := kernel.TickWait{Job: "a", Now: true}
	for _, c := range []struct {
		obstacle, off string
		text          string
		command       []string
	}{
		{"", "", "no scheduler is running (no resident scheduler is alive), and job a could go on", []string{"vizier", "wait", "a"}},
		{there, "", "no scheduler is running (" + there + "), and job a could go on", []string{"vizier", "doctor", "--fix"}},
		{there, "it is turned off", "no scheduler is running (it is turned off), and job a could go on", []string{"vizier", "wait", "a"}},
	} {
		obstacle, r.Off = c.obstacle, c.off
		if u := r.unattended(rest, time.Time{}); u.text != c.text || !slices.Equal(u.Command, c.command) {
			t.Errorf("%+v, want %+v", u, c)
		}
	}
}
