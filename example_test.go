package vizier_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// A front end on a repository: it submits a job, says why that does not run, and
// what to type. One whose jobs run calls Serve first, as examples/frontend does.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err == nil {
		defer os.RemoveAll(dir)
		err = exec.Command("git", "init", "-q", dir).Run()
	}
	if err != nil {
		fmt.Println(err)
		return
	}

	r, err := vizier.Open(dir, vizier.Options{NoResident: true, Environ: vizier.Environment{"HOME=" + dir}})
	if err != nil {
		fmt.Println(err)
		return
	}
	who := vizier.Asker{Command: []string{"example"}, Name: func() string { return "ann" }}
	job, err := r.Builder(who).One(ctx, enqueue.Request{Command: []string{"make", "ship"}, Approval: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err = r.Scheduler.Submit(ctx, []kernel.NewJob{job}, who.Name()); err != nil {
		fmt.Println(err)
		return
	}

	why, s, err := r.Scheduler.Explain(ctx, job.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("job", s.Job(job.ID).Ref(), why.Status)
	for _, u := range why.Unmet {
		fmt.Println(u.Detail)
	}
	for _, step := range view.Steps(why.Actions) {
		fmt.Println(step.Command[:3], step.Command[3] == string(job.ID))
	}
	// Output:
	// job 1 waiting_on_approval
	// awaiting human approval
	// [vizier jobs approve] true
}
