// Command frontend is a front end of its own on the repository it is started in:
// it submits a command, runs a template, says why a job waits, and approves one.
//
//	frontend submit COMMAND [ARG...]
//	frontend run TEMPLATE [KEY=VALUE...]
//	frontend why JOB
//	frontend approve JOB
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

func main() {
	// Runners, nodes and the resident scheduler are started as this program.
	if code, ok := vizier.Serve(os.Args[1:], os.Stdout, os.Stderr, os.Environ()); ok {
		os.Exit(code)
	}
	if err := run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "frontend:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return errors.New("expected submit, run, why or approve, and what")
	}
	r, err := vizier.Open(".", vizier.Options{Environ: os.Environ()})
	if err != nil {
		return err
	}
	who := vizier.Asker{Command: args, Name: func() string { return os.Getenv("USER") }}
	switch verb, rest := args[1], args[2:]; verb {
	case "submit":
		return submit(ctx, r, who, rest)
	case "run":
		return flow(ctx, r, who, rest[0], rest[1:])
	case "why":
		return why(ctx, r, rest[0])
	case "approve":
		return approve(ctx, r, who, rest[0])
	default:
		return errors.New("unknown command " + verb)
	}
}

func submit(ctx context.Context, r *vizier.Repository, who vizier.Asker, command []string) error {
	job, err := r.Builder(who).One(ctx, enqueue.Request{Command: command, Approval: true})
	if err != nil {
		return err
	}
	if _, err := r.Scheduler.Submit(ctx, []kernel.NewJob{job}, who.Name()); err != nil {
		return err
	}
	fmt.Println(job.ID)
	return nil
}

func flow(ctx context.Context, r *vizier.Repository, who vizier.Asker, name string, set []string) error {
	given := map[string]string{}
	for _, pair := range set {
		key, value, _ := strings.Cut(pair, "=")
		given[key] = value
	}
	in := r.Builder(who)
	f, err := in.Flow(name, nil, given)
	if err != nil {
		return err
	}
	runs, err := in.Runs(ctx, []*enqueue.Flow{f}, enqueue.RunOptions{})
	if err != nil {
		return err
	}
	if _, err := r.Scheduler.EnqueueRun(ctx, runs...); err != nil {
		return err
	}
	fmt.Println(runs[0].Run)
	return nil
}

func why(ctx context.Context, r *vizier.Repository, ref string) error {
	_, id, err := r.Scheduler.Job(ctx, ref)
	if err != nil {
		return err
	}
	e, _, err := r.Scheduler.Explain(ctx, id)
	if err != nil {
		return err
	}
	fmt.Println(e.Job, e.Status)
	for _, u := range e.Unmet {
		fmt.Printf("%s: %s (cleared by %s)\n", u.Kind, u.Detail, u.Clears)
	}
	for _, s := range view.Steps(e.Actions) {
		fmt.Println(cmp.Or(s.Text, strings.Join(s.Command, " ")))
	}
	return nil
}

func approve(ctx context.Context, r *vizier.Repository, who vizier.Asker, ref string) error {
	snap, id, err := r.Scheduler.Job(ctx, ref)
	if err != nil {
		return err
	}
	j := snap.Job(id)
	fmt.Println(strings.Join(view.Approves(j, j.Spec.Statement()), "\n")) // what is approved is what was shown
	rep, err := r.Scheduler.Approve(ctx, id, kernel.ConsentTo(j, who.Name(), "frontend"))
	if err == nil {
		fmt.Println(id, rep.Snapshot.Job(id).State.Status)
	}
	return err
}
