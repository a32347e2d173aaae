package view_test

import (
	"fmt"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// How a front end shows a snapshot, and which commands it suggests.
func ExampleOverviewOf() {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ship := kernel.Job{ID: "ship", Number: 3, Created: noon, Rev: 1, Spec: kernel.Spec{Name: "ship it", Task: kernel.Task{Args: []string{"make", "ship"}}}}
	ship.State = kernel.State{Status: kernel.WaitingOnApproval, WaitSince: noon, Approval: kernel.Require(noon, "ann")}
	s := kernel.NewSnapshot(kernel.Observation{Now: noon.Add(time.Hour), Jobs: []kernel.Job{ship}})
	for _, item := range view.OverviewOf(s, view.OverviewOptions{}).Attention {
		fmt.Println(item.Ref, item.Name, item.Kind, "for", kernel.Brief(s.Now().Sub(*item.Since)))
		fmt.Println(item.Command)
	}
	// Output:
	// 3 ship it approval for 1h
	// [vizier jobs approve 3]
}
