package storetest

import (
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Pick returns what a store that holds jobs answers to near. It is the definition of
// every kind. jobs must be in schedule order, and so is the result.
func Pick(jobs []kernel.Job, near []kernel.Near) []kernel.Job {
	at := make(map[kernel.JobID]int, len(jobs))
	for i := range jobs {
		at[jobs[i].ID] = i
	}
	picked := make([]bool, len(jobs))
	for _, n := range near {
		var list []int
		for i := range jobs {
			if n.Selects(&jobs[i]) {
				list = append(list, i)
			}
		}
		switch {
		case n.Kind == kernel.RunConsumers:
			list = slices.DeleteFunc(list, func(i int) bool {
				run := jobs[i].Spec.Origin.Run
				return run != n.Run && run != "" && slices.ContainsFunc(jobs, func(p kernel.Job) bool {
					return p.ID != jobs[i].ID && p.Spec.Origin.Run == run && slices.Contains(p.Spec.Produces, n.Artifact)
				})
			})
			if n.Most > 0 && len(list) > n.Most {
				list = list[:n.Most]
			}
		case n.Kind == kernel.Newest:
			list = list[max(0, len(list)-n.Most):]
		case n.Kind == kernel.NewestRuns: // the first job of a run comes first
			var begun []kernel.RunID
			for _, i := range list {
				if run := jobs[i].Spec.Origin.Run; !slices.Contains(begun, run) {
					begun = append(begun, run)
				}
			}
			newest := begun[max(0, len(begun)-n.Most):]
			list = slices.DeleteFunc(list, func(i int) bool { return !slices.Contains(newest, jobs[i].Spec.Origin.Run) })
		case n.Kind == kernel.Stoppers:
			list = stoppers(jobs, at, list, n.Run)
		case n.Kind == kernel.Due:
			list = dueAt(jobs, list, n.At)
		case n.Kind == kernel.Members:
			if n.Most == 0 {
				break
			}
			if active := slices.DeleteFunc(slices.Clone(list), func(i int) bool { return !jobs[i].State.Status.Active() }); len(active) >= n.Most {
				list = active[:n.Most]
			}
		case n.Most > 0 && len(list) > n.Most:
			list = list[:n.Most]
		}
		for _, i := range list {
			picked[i] = true
		}
	}
	var out []kernel.Job
	for i, yes := range picked {
		if yes {
			out = append(out, jobs[i])
		}
	}
	return out
}

// Reads returns what a store that holds jobs answers to Scope.Reads. judged is what it was
// told that the readers of each fact were judged by.
func Reads(jobs []kernel.Job, judged map[kernel.Near]string) map[kernel.Near]kernel.ReadFact {
	out := map[kernel.Near]kernel.ReadFact{}
	for i := range jobs {
		facts, awaited := jobs[i].Reads()
		for _, n := range facts {
			out[n] = kernel.ReadFact{Judged: judged[n], Awaited: out[n].Awaited || awaited}
		}
	}
	return out
}

// Judged returns what a store that holds jobs knows after a commit: known before it, and told
// by what the readers of facts were judged; nil: by nothing that is known. It forgets facts
// that nobody reads any more.
func Judged(jobs []kernel.Job, known, told map[kernel.Near]string) map[kernel.Near]string {
	out, read := map[kernel.Near]string{}, Reads(jobs, nil)
	for _, from := range []map[kernel.Near]string{known, told} {
		for n, by := range from {
			if _, is := read[n]; is && told != nil {
				out[n] = by
			}
		}
	}
	return out
}

// Elide returns the records of reads without the custom artifacts that a store may leave out.
// absent reports whether nobody has made one.
func Elide(reads map[kernel.Near]kernel.ReadFact, absent func(kernel.Artifact) bool) kernel.Records {
	rec := kernel.Records{Reads: map[kernel.Near]kernel.ReadFact{}}
	for n, fact := range reads {
		if n.Artifact.Kind != kernel.Custom || !fact.Awaited || fact.Judged != kernel.JudgedNone || !absent(n.Artifact) {
			rec.Reads[n] = fact
		} else if !slices.Contains(rec.Elided, n.Artifact.Name) {
			rec.Elided = append(rec.Elided, n.Artifact.Name)
		}
	}
	slices.Sort(rec.Elided)
	return rec
}

// stoppers returns those of list that stop a run, and the jobs that their routes lead to.
func stoppers(jobs []kernel.Job, at map[kernel.JobID]int, list []int, run kernel.RunID) []int {
	var out []int
	for _, i := range list {
		here, targets := jobs[i].Spec.Origin.Run == run, []int(nil)
		for _, r := range jobs[i].Spec.Routes {
			if k, ok := at[r.To]; ok {
				here, targets = here || jobs[k].Spec.Origin.Run == run, append(targets, k)
			}
		}
		if here {
			out = append(append(out, i), targets...)
		}
	}
	return out
}

// dueAt returns those of list that are due, and the next one.
func dueAt(jobs []kernel.Job, list []int, now time.Time) []int {
	due := func(i int) kernel.Delay {
		d, _ := jobs[i].Due()
		return d
	}
	slices.SortStableFunc(list, func(a, b int) int { return due(a).Until.Compare(due(b).Until) })
	next := slices.IndexFunc(list, func(i int) bool { return !due(i).Over(now) })
	out := slices.Clone(list)
	return slices.DeleteFunc(out, func(i int) bool { return !due(i).Over(now) && i != list[next] })
}
