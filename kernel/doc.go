// Package kernel decides what the scheduler does next.
//
// It is pure: every function is total, and its result depends only on its
// arguments. The package opens no file, reads no clock, draws no random number,
// starts no goroutine and imports only pure packages of the standard library.
// arch_test.go at the module's root enforces this.
//
// A front end passes its observations as an [Observation], makes a [Snapshot]
// of it and calls a verb, which returns a [Plan]:
//
//	s := kernel.NewSnapshot(kernel.Observation{Now: now, Jobs: jobs, Facts: facts})
//	plan := kernel.Decide(s)
//	err := plan.Write(store)                                      // the records first
//	for _, a := range plan.World { kernel.Perform(performer, a) } // then the rest
//
// Verbs compose without touching the world, because [Snapshot.Apply] returns
// the snapshot that a plan leads to:
//
//	retry, err := kernel.Retry(s, id, "ann")
//	both := retry.Then(kernel.Decide(s.Apply(retry)))
//
// # Vocabulary
//
// A job is a record of work. A run is the set of jobs that one enqueue of a
// template makes, and a node is a vertex of the template. An attempt is one
// execution of a job. Attempts are numbered; the number is the fencing token
// that keeps late writers out. A gate is a condition for starting a job. A
// verdict is what a gate says: pass, wait (not now) or block (never by itself).
// A fact is one observation of the outside world, or the reason why it could
// not be made. A plan is a list of actions; to apply a plan is to perform its
// actions.
package kernel
