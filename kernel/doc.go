// Package kernel decides what the scheduler does next.
//
// It is pure: every function is a total, deterministic function of its
// arguments. It opens no file, reads no clock, draws no random number, starts
// no goroutine and imports only the pure packages of the standard library; a
// test at the module's root holds it to that.
//
// A front end hands over what it has seen as an [Observation], makes a
// [Snapshot] of it and asks a verb for a [Plan]:
//
//	s := kernel.NewSnapshot(kernel.Observation{Now: now, Jobs: jobs, Facts: facts})
//	plan := kernel.Decide(s)
//	err := plan.Write(store)                                      // the records first
//	for _, a := range plan.World { kernel.Perform(performer, a) } // then the rest
//
// Verbs compose without touching the world, because [Snapshot.Apply] is the
// snapshot that a plan leads to:
//
//	retry, err := kernel.Retry(s, id, "ann")
//	both := retry.Then(kernel.Decide(s.Apply(retry)))
//
// # Vocabulary
//
// A job is a record of work; a run is the jobs of one enqueue of a template,
// and a node is a template's vertex. An attempt is one execution of a job,
// numbered; its number is the fence that keeps late writers out. A gate is a
// condition for starting; a verdict says pass, wait (not now) or block (never
// by itself). A fact is one observation of the outside world, or the reason
// there is none. A plan is a list of actions; to apply it is to do them.
package kernel
