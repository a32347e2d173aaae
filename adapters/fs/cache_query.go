package fs

import (
	"cmp"
	"errors"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// cacheQuery collects the answer to one read.
type cacheQuery struct {
	s    *Store
	rec  kernel.Records
	seen map[kernel.JobID]bool

	blind bool // of no fact it is known what its readers were judged by
}

// records returns the records that scope asks for, from the cache.
func (s *Store) records(scope kernel.Scope) (kernel.Records, error) {
	r := cacheQuery{s: s, seen: map[kernel.JobID]bool{}, rec: kernel.Records{Unreadable: map[kernel.JobID]string{}}}
	err := r.retryUnreadable()
	switch {
	case err != nil:
	case scope.Near != nil:
		err = r.addNear(scope.Near)
	default:
		err = r.addOpen(scope)
	}
	if err == nil {
		var last lastNumber
		last, err = s.lastNumber()
		r.rec.Last, r.rec.Unnumbered = last.is, last.unnumbered
	}
	if err == nil {
		var n int
		n, err = s.cache.counted(kernel.Succeeded)
		r.rec.Succeeded += n
	}
	if err == nil {
		err = r.addTallies(scope.Tally)
	}
	if err == nil && scope.Reads {
		err = r.addReads()
	}
	s.hideQuarantined(&r.rec)
	return r.rec, err
}

// retryUnreadable reads the unreadable records again: they may have been repaired. A copy in
// memory has no files, so there they stay unreadable.
func (r *cacheQuery) retryUnreadable() error {
	keys, err := r.s.cache.keys(keyUnread)
	if err != nil {
		return err
	}
	for _, key := range keys {
		id := idIn(key)
		if r.s.base != nil {
			if err := r.s.reread(id); err != nil {
				return err
			}
		}
		why, err := r.s.cache.kv.get(key)
		if err != nil {
			return err
		}
		if why != nil {
			r.rec.Unreadable[id] = string(why)
		} else {
			r.s.note(id)
		}
	}
	return nil
}

// lookup returns the job of that id; nil: there is none.
func (s *Store) lookup(id kernel.JobID) (*cachedJob, error) {
	b, err := s.fresh(id)
	if b == nil || err != nil {
		return nil, err
	}
	k, err := decodeCachedJob(b)
	if err != nil {
		return nil, err
	}
	return &k, s.readForeign(&k)
}

// readForeign reads the fields of k's record that the kernel does not know. The
// cache does not have them.
func (s *Store) readForeign(k *cachedJob) error {
	if !k.foreignOnDisk || s.base == nil {
		return nil
	}
	_, f, err := s.readRecord(k.job.ID)
	k.foreign, k.foreignOnDisk = f, false
	return err
}

// add adds a job to the answer, once.
func (r *cacheQuery) add(id kernel.JobID) error {
	if r.seen[id] {
		return nil
	}
	r.seen[id] = true
	b, err := r.s.fresh(id)
	if err != nil {
		return err
	}
	if b == nil {
		why, err := r.s.cache.kv.get(keyUnread + string(id))
		if why != nil {
			r.rec.Unreadable[id] = string(why)
		}
		return err
	}
	r.rec.Jobs = append(r.rec.Jobs, kernel.Job{})
	k := cachedJob{job: &r.rec.Jobs[len(r.rec.Jobs)-1]}
	if err := k.decode(b); err != nil {
		return err
	}
	if k.job.State.Status == kernel.Succeeded {
		r.rec.Succeeded--
	}
	return nil
}

// addAll adds the jobs whose keys begin with prefix.
func (r *cacheQuery) addAll(prefix string) error {
	keys, err := r.s.cache.keys(prefix)
	if err != nil {
		return err
	}
	r.rec.Jobs = slices.Grow(r.rec.Jobs, len(keys)) // a job is two kilobytes, which growing copies over and over
	return r.addEach(keys)
}

// addEach adds the jobs of keys. Nobody may go through the cache meanwhile: it changes if a
// record was edited by hand.
func (r *cacheQuery) addEach(keys []string) error {
	for _, key := range keys {
		if err := r.add(idIn(key)); err != nil {
			return err
		}
	}
	return nil
}

// addFirst adds the first jobs of a prefix for which yes is true, at most most of
// them. If yes is nil, every job counts.
func (r *cacheQuery) addFirst(prefix string, most int, yes func(*kernel.Job) bool) (err error) {
	var keys []string
	each := r.s.cache.kv.each(prefix, func(key string, _ []byte) bool {
		if yes != nil {
			var k *cachedJob
			if k, err = r.s.cache.entry(idIn(key)); err != nil || k == nil || !yes(k.job) {
				return err == nil
			}
		}
		keys = append(keys, key)
		return len(keys) < most
	})
	return errors.Join(err, each, r.addEach(keys))
}

// addOpen adds the jobs that are open or did not succeed, and those that scope
// names. It also adds the jobs that an open job, a blocked one that may open
// again, or one whose routes wait refers to or may rewind.
func (r *cacheQuery) addOpen(scope kernel.Scope) error {
	var all []string
	for _, st := range kernel.Statuses() {
		if st == kernel.Succeeded && !scope.All {
			continue
		}
		keys, err := r.s.cache.keys(statusKey(st))
		if err != nil {
			return err
		}
		all = append(all, keys...)
	}
	r.rec.Jobs = make([]kernel.Job, 0, len(all)+8)
	if err := r.addEach(all); err != nil {
		return err
	}
	if err := r.answer(kernel.Near{Kind: kernel.Attended}); err != nil { // whoever waits for something outside is open, and who holds a prompt open or attended
		return err
	}
	artifacts, runs := map[kernel.Artifact]bool{}, map[kernel.RunID]bool{}
	for _, a := range scope.Artifacts {
		artifacts[a] = true
	}
	scope.Jobs = slices.Clip(scope.Jobs) // it is the caller's
	for i := range r.rec.Jobs {
		j := &r.rec.Jobs[i]
		if !j.Open() && j.State.Status != kernel.BlockedByDependency && !j.State.Deferred { // a new producer may open it again
			continue
		}
		if j.State.UnderWay() && j.Spec.Origin.Run != "" {
			runs[j.Spec.Origin.Run] = true
		}
		for _, a := range slices.Concat(j.Spec.Needs, j.Spec.Closes()) {
			artifacts[a] = true
		}
		scope.Jobs = append(scope.Jobs, refersTo(j)...)
	}
	for _, id := range scope.Jobs {
		if err := r.add(id); err != nil {
			return err
		}
	}
	var near []kernel.Near
	for a := range artifacts {
		near = append(near, kernel.Near{Kind: kernel.Producers, Artifact: a})
	}
	for run := range runs {
		near = append(near, kernel.Near{Kind: kernel.Members, Run: run})
	}
	for _, key := range scope.Keys {
		near = append(near, kernel.Near{Kind: kernel.Keyed, Key: key})
	}
	for _, run := range failedStages(r.rec.Jobs, artifacts) {
		near = append(near, kernel.Near{Kind: kernel.Members, Run: run})
	}
	for _, n := range near {
		if err := r.answer(n); err != nil {
			return err
		}
	}
	return nil
}

// failedStages returns the runs of jobs that ended without a token of a stage that is needed.
// Whether such a run has worked on the plan's branch matters to what needs the token.
func failedStages(jobs []kernel.Job, needed map[kernel.Artifact]bool) (runs []kernel.RunID) {
	for i := range jobs {
		j := &jobs[i]
		if st := j.State.Status; j.Spec.Origin.Run == "" || j.State.Retired || !st.Terminal() || st == kernel.Succeeded {
			continue
		}
		if slices.ContainsFunc(j.Spec.Produces, func(a kernel.Artifact) bool {
			return a.Kind == kernel.Custom && a.Name == kernel.StageToken && needed[a]
		}) {
			runs = append(runs, j.Spec.Origin.Run)
		}
	}
	return runs
}

// refersTo returns the jobs whose records the gates of an open job read, and those that it
// may rewind.
func refersTo(j *kernel.Job) []kernel.JobID {
	ids := slices.Clone(j.Spec.After)
	for _, route := range j.Spec.Routes {
		ids = append(ids, route.To)
	}
	for _, a := range j.Spec.Needs {
		if a.Kind == kernel.CommandPatch {
			ids = append(ids, kernel.JobID(a.Name))
		}
	}
	return ids
}

// addNear adds what a narrow scope names, and the dirty jobs.
func (r *cacheQuery) addNear(near []kernel.Near) error {
	r.rec.Jobs = make([]kernel.Job, 0, min(2*len(near), 64))
	for _, n := range near {
		if err := r.answer(n); err != nil {
			return err
		}
	}
	r.rec.Narrow = true
	dirty, err := r.s.cache.keys(keyDirty)
	if err != nil {
		return err
	}
	for _, key := range dirty {
		r.rec.Dirty = append(r.rec.Dirty, idIn(key))
		if err := r.add(idIn(key)); err != nil {
			return err
		}
	}
	judged, err := r.s.cache.kv.get(keyJudged)
	r.rec.Judged = string(judged)
	return err
}

// answer adds what n names.
func (r *cacheQuery) answer(n kernel.Near) error {
	switch n.Kind {
	case kernel.Itself:
		if kernel.ValidJobID(string(n.Job)) {
			return r.add(n.Job)
		}
		return nil
	case kernel.Attended:
		return r.addAll(keyAttended)
	case kernel.Due:
		return r.addDue(n)
	case kernel.Dependents:
		return r.addMost(n, keyOf(keyAfter, string(n.Job)))
	case kernel.Consumers:
		return errors.Join(r.addAll(keyOf(keyNeeds, labelOf(n.Artifact))), r.addAll(keyOf(keyOutside, labelOf(n.Artifact))))
	case kernel.RunConsumers:
		return r.addMost(n, keyOf(keyNeeds, labelOf(n.Artifact), string(n.Run)), keyOf(keyOutside, labelOf(n.Artifact)))
	case kernel.Producers:
		return r.addAll(keyOf(keyProduces, labelOf(n.Artifact)))
	case kernel.RunProducers:
		return r.addAll(keyOf(keyProduces, labelOf(n.Artifact), string(n.Run)))
	case kernel.Contenders:
		return r.addMost(n, keyOf(keyLock, n.Key))
	case kernel.PoolContenders:
		return r.addMost(n, keyOf(keyPool, n.Key))
	case kernel.Line:
		return r.addFirst(keyOf(keyLine, n.Key), n.Most, nil)
	case kernel.Waiters:
		return r.addFirst(statusKey(kernel.WaitingOnLocks), n.Most, nil)
	case kernel.Members:
		return r.addMembers(n)
	case kernel.Woken:
		return r.addAll(keyWoken)
	case kernel.Newest:
		return r.addNewest(n)
	case kernel.NewestRuns:
		return r.addNewestRuns(n)
	case kernel.OfNumber:
		if n.Key == "" { // all of it
			return r.addAll(keyOf(keyNumber, n.Number.String()))
		}
		return r.addAll(keyOf(keyNumber, n.Number.String(), n.Key))
	case kernel.OnBranch:
		return r.addAll(keyOf(keyBranch, n.Key))
	case kernel.Rivals:
		return r.addAll(keyOf(keyRival, n.Key))
	case kernel.Keyed:
		return r.addAll(keyOf(keyKeyed, n.Key))
	case kernel.Stoppers:
		return r.addStoppers(n)
	case kernel.Handled:
		return r.addAll(keyOf(keyHandled, string(n.Job)))
	case kernel.Outsiders:
		return r.addAll(keyReads)
	case kernel.Readers:
		return r.addAll(keyOf(keyReads, factLabel(n)))
	case kernel.Prompts:
		if n.Key == "" { // whatever its file
			return r.addAll(keyPrompt)
		}
		return r.addAll(keyOf(keyPrompt, n.Key))
	}
	return nil
}

// addMost adds all jobs of the prefixes, or, if n has a limit, the first of each
// that n selects.
func (r *cacheQuery) addMost(n kernel.Near, prefixes ...string) error {
	for _, prefix := range prefixes {
		if n.Most == 0 {
			if err := r.addAll(prefix); err != nil {
				return err
			}
		} else if err := r.addFirst(prefix, n.Most, n.Selects); err != nil {
			return err
		}
	}
	return nil
}

// addDue adds the jobs whose delay is over: in the order of their times up to the first of which it is not, and of the
// others those whose delay began later than now.
func (r *cacheQuery) addDue(n kernel.Near) (err error) {
	over := func(key string) bool {
		k, fail := r.s.cache.entry(idIn(key))
		if err = fail; k == nil || err != nil {
			return false
		}
		d, _ := k.job.Due()
		return d.Over(n.At)
	}
	var keys []string
	each := r.s.cache.kv.each(keyDue, func(key string, _ []byte) bool {
		keys = append(keys, key)
		return key[len(keyDue):len(keyDue)+8] <= bigEndian(n.At) || over(key)
	})
	later := r.s.cache.kv.eachFrom(keySince+bigEndian(n.At), keySince, func(key string, _ []byte) bool {
		if err == nil && over(key) {
			keys = append(keys, key)
		}
		return err == nil
	})
	return errors.Join(err, each, later, r.addEach(keys))
}

// addNewest adds the newest jobs of n's statuses and counts the jobs of every
// status.
func (r *cacheQuery) addNewest(n kernel.Near) error {
	r.rec.Counts = map[kernel.Status]int{}
	var all []string
	for _, st := range kernel.Statuses() {
		count, err := r.s.cache.counted(st)
		if err != nil {
			return err
		}
		r.rec.Counts[st] = count
		if !n.Has(st) {
			continue
		}
		keys, err := r.s.cache.keys(statusKey(st))
		if err != nil {
			return err
		}
		for _, key := range keys {
			all = append(all, key[len(statusKey(st)):])
		}
	}
	slices.Sort(all)
	for _, key := range all[max(0, len(all)-n.Most):] {
		if err := r.add(idIn(key)); err != nil {
			return err
		}
	}
	return nil
}

// addNewestRuns adds the jobs of the newest runs. Of each run it looks only at the first key.
func (r *cacheQuery) addNewestRuns(n kernel.Near) error {
	type run struct{ begun, prefix string }
	var runs []run
	for from := keyMember; ; {
		before := len(runs)
		err := r.s.cache.kv.eachFrom(from, keyMember, func(key string, _ []byte) bool {
			at := len(key) - 8 - jobIDLen
			runs = append(runs, run{key[at:], key[:at]})
			from = key[:at] + "\xff"
			return false
		})
		if err != nil {
			return err
		}
		if len(runs) == before {
			break
		}
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.begun, b.begun) })
	for _, of := range runs[max(0, len(runs)-n.Most):] {
		if err := r.addAll(of.prefix); err != nil {
			return err
		}
	}
	return nil
}

func (r *cacheQuery) addMembers(n kernel.Near) error {
	active, have := keyOf(keyActive, string(n.Run)), 0
	if n.Most > 0 {
		if err := r.s.cache.kv.each(active, func(string, []byte) bool { have++; return have < n.Most }); err != nil {
			return err
		}
	}
	if have < n.Most || n.Most == 0 {
		return r.addAll(keyOf(keyMember, string(n.Run)))
	}
	return r.addFirst(active, n.Most, nil)
}

// addStoppers adds the jobs that stop run n.Run, those of other runs included, and
// the jobs that handle that.
func (r *cacheQuery) addStoppers(n kernel.Near) error {
	if err := r.addAll(keyOf(keyStopper, string(n.Run))); err != nil {
		return err
	}
	keys, err := r.s.cache.keys(keyStoppers)
	if err != nil {
		return err
	}
	for _, key := range keys {
		k, err := r.s.cache.entry(idIn(key))
		if err != nil {
			return err
		}
		if k == nil {
			return errCache // an index key without its entry
		}
		here, ids := k.job.Spec.Origin.Run == n.Run, []kernel.JobID{k.job.ID}
		for _, route := range k.job.Spec.Routes {
			to, err := r.s.cache.entry(route.To)
			if err != nil {
				return err
			}
			here, ids = here || to != nil && to.job.Spec.Origin.Run == n.Run, append(ids, route.To)
		}
		for _, id := range ids {
			if !here {
				break
			}
			if err := r.add(id); err != nil {
				return err
			}
		}
	}
	return nil
}
