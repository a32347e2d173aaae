package fs

import "github.com/vizier-scheduler/vizier/kernel"

// The keys of needed artifacts depend on other jobs: keyNeeds is for a consumer whose run has
// a producer of its own, keyOutside for the others.

// need is an artifact in a run, without the kind of key that it is to be in.
func need(a kernel.Artifact, run kernel.RunID) string {
	return keyOf("", labelOf(a), string(run))
}

// needsOf are the keys of what j needs, without their kinds. Made are the artifacts that j
// makes within its run: only there a producer counts for the kind.
func needsOf(j *kernel.Job) (keys, made []string) {
	if j == nil {
		return nil, nil
	}
	run := j.Spec.Origin.Run
	if j.Consumes() {
		for _, a := range j.Spec.Needs {
			keys = append(keys, scheduleKey(need(a, run), j))
		}
	}
	if run != "" {
		for _, a := range j.Spec.Produces {
			made = append(made, need(a, run))
		}
	}
	return keys, made
}

// consumers updates the keys of needed artifacts after a change of a job, of which nil is none.
// The other keys have followed it.
func (c *cache) consumers(was, now *cachedJob) error {
	var old, next *kernel.Job
	if was != nil {
		old = was.job
	}
	if now != nil {
		next = now.job
	}
	gone, madeBefore := needsOf(old)
	come, made := needsOf(next)
	for _, key := range difference(gone, come) {
		c.set(keyNeeds+key, nil)
		c.set(keyOutside+key, nil)
	}
	for _, n := range append(difference(madeBefore, made), difference(made, madeBefore)...) {
		if err := c.sortConsumers(n); err != nil {
			return err
		}
	}
	for _, key := range difference(come, gone) {
		kind := keyOutside
		if next.Spec.Origin.Run != "" {
			var err error
			if kind, err = c.needKind(key); err != nil {
				return err
			}
		}
		c.set(kind+key, []byte{})
	}
	return nil
}

// sortConsumers moves the consumers of a need between keyNeeds and keyOutside.
func (c *cache) sortConsumers(need string) error {
	for _, kind := range []string{keyNeeds, keyOutside} {
		keys, err := c.keys(kind + need)
		if err != nil {
			return err
		}
		for _, key := range keys {
			key = key[len(kind):]
			now, err := c.needKind(key)
			if err != nil {
				return err
			}
			if now != kind {
				c.set(kind+key, nil)
				c.set(now+key, []byte{})
			}
		}
	}
	return nil
}

// needKind is the kind of a key of needsOf, of a job in a run: keyNeeds if another job of the
// run makes the artifact.
func (c *cache) needKind(key string) (kind string, err error) {
	kind = keyOutside
	err = c.kv.each(keyProduces+key[:len(key)-8-jobIDLen], func(made string, _ []byte) bool {
		if idIn(made) != idIn(key) {
			kind = keyNeeds
		}
		return kind == keyOutside
	})
	return kind, err
}
