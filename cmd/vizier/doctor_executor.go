package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/proc/cluster"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// tryExecutor tries the executor called x.Executor: the connection to it, and
// its engine's contract.
func (x *doctorCmd) tryExecutor(c *call, r *repo) (found []app.Finding, clauses []doctorClause, err error) {
	e := r.Doctor.clusters[x.Executor]
	if e == nil {
		names := append(slices.Sorted(maps.Keys(r.Doctor.clusters)), kernel.LocalExecutor)
		return nil, nil, fmt.Errorf("cannot try executor %s: the configuration has %s; local needs no trial: %w", x.Executor, strings.Join(names, ", "), kernel.ErrInvalid)
	}
	broken := func(f cluster.Finding) {
		found = append(found, app.Finding{Check: "clusters", Path: "executors." + x.Executor, Problem: f.Problem, Next: f.Next})
	}
	if err := r.Foreign(c.ctx); err != nil {
		return nil, nil, err
	}
	if found = untrustedFinding(r.untrusted(c.ctx)); len(found) > 0 {
		return found, nil, nil
	}
	for _, f := range e.Check(c.ctx) {
		broken(f)
	}
	err = e.Try(c.ctx, func(p cluster.Clause) {
		clauses = append(clauses, doctorClause{p.Promise, p.Broken == "" && p.Unasked == "", p.Unasked})
		if p.Broken != "" {
			broken(cluster.Finding{Problem: p.Promise + ": " + p.Broken, Next: p.Next})
		}
		if x.Format == "text" {
			mark := "kept   "
			if p.Broken != "" {
				mark = "broken "
			}
			if p.Unasked != "" {
				mark, p.Promise = "unasked ", p.Promise+": this is broken: "+p.Unasked
			}
			c.ui.print(mark + p.Promise)
		}
	})
	return found, clauses, err
}
