package fs

import (
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// fewFacts is how many artifacts of a type open jobs may wait for before their markers are
// looked for in the directory of the type, and no longer one by one.
const fewFacts = 256

// readFact is a fact that open jobs read and no job makes.
type readFact struct {
	label   string // its factLabel
	awaited bool
}

// addReads adds the facts that open jobs read and no job makes. It leaves out the artifacts
// that Records.Elided describes, so that it costs no time that many jobs wait for what nobody
// makes.
func (r *cacheQuery) addReads() error {
	r.rec.Reads = map[kernel.Near]kernel.ReadFact{}
	blind, err := r.s.cache.kv.get(keyBlind)
	if err != nil {
		return err
	}
	r.blind = blind != nil
	custom := labelOf(kernel.Artifact{Kind: kernel.Custom})[:1]
	var failed error
	err = r.s.cache.eachFact("", func(f readFact) (skip string) {
		if !strings.HasPrefix(f.label, custom) {
			failed = r.addFact(f)
		} else {
			name, _, _ := strings.Cut(f.label, "\x01")
			skip, failed = name+"\x02", r.addFactsOf(name+"\x01")
		}
		if failed != nil {
			return "\xff"
		}
		return skip
	})
	if failed != nil {
		return failed
	}
	return err
}

func (r *cacheQuery) addFact(f readFact) error {
	judged, err := r.s.cache.kv.get(keySeen + f.label)
	fact := kernel.ReadFact{Judged: string(judged), Awaited: f.awaited}
	if r.blind {
		fact.Judged = ""
	} else if judged == nil {
		fact.Judged = kernel.JudgedNone
	}
	r.rec.Reads[readersOf(f.label)] = fact
	return err
}

// addFactsOf adds the artifacts of a type.
func (r *cacheQuery) addFactsOf(prefix string) error {
	facts, err := r.factsOf(prefix)
	for _, f := range facts {
		if err == nil {
			err = r.addFact(f)
		}
	}
	return err
}

// factsOf returns the artifacts of a type that jobs wait for: all if they are few. Otherwise
// it returns those that were not judged as absent, and those that may have a marker by now.
func (r *cacheQuery) factsOf(prefix string) ([]readFact, error) {
	c, few := r.s.cache, r.s.few
	if r.blind {
		few = -1
	}
	facts, all, err := c.firstFacts(prefix, few)
	if err != nil || all {
		return facts, err
	}
	awaited, err := c.awaited(prefix)
	if err != nil {
		return nil, err
	}
	name := readersOf(prefix).Artifact.Name
	names, failed := r.s.typeNames(name)
	if failed != nil || !awaited {
		facts, _, err = c.firstFacts(prefix, -1) // whoever looks at each of them gets the error
		return facts, err
	}
	r.rec.Elided = append(r.rec.Elided, name)
	present := map[string]bool{}
	for _, name := range names {
		present[name] = true
	}
	return c.factsAmong(prefix, present, few)
}

// typeNames returns the names in the directory of the markers of a type.
func (s *Store) typeNames(name string) ([]string, error) {
	if s.base == nil { // a copy in memory: nobody makes a marker
		return nil, nil
	}
	return s.base.names(typeDir(markersDir, name))
}

// factsAmong returns, of the artifacts of a type, those that were not judged as absent, and
// those whose directory of markers begins with one of the names in present.
func (c *cache) factsAmong(prefix string, present map[string]bool, few int) (facts []readFact, err error) {
	if some, all, err := c.firstFacts(prefix, few+len(present)); err != nil || all { // a look at a key costs less than a search
		for _, f := range some {
			judged, failed := c.kv.get(keySeen + f.label)
			if failed != nil {
				return nil, failed
			}
			first, _, _ := strings.Cut(hexName(f.label[len(prefix):]), "/")
			if judged != nil || present[first] {
				facts = append(facts, f)
			}
		}
		return facts, err
	}
	labels := map[string]bool{}
	for name := range present {
		ref, err := hex.DecodeString(strings.TrimSuffix(name, "_"))
		if err != nil {
			continue // no artifact has this directory
		}
		if labels[prefix+string(ref)] = true; !strings.HasSuffix(name, "_") {
			continue
		}
		long, _, err := c.firstFacts(prefix+string(ref), -1)
		if err != nil {
			return nil, err
		}
		for _, f := range long {
			labels[f.label] = true
		}
	}
	if err := c.kv.each(keySeen+prefix, func(key string, _ []byte) bool {
		labels[key[len(keySeen):]] = true
		return true
	}); err != nil {
		return nil, err
	}
	for label := range labels {
		f, err := c.fact(label)
		if err != nil {
			return nil, err
		}
		if f.label == label {
			facts = append(facts, f)
		}
	}
	return facts, nil
}

// firstFacts returns the first facts whose labels begin with prefix, and whether that is all
// of them. If most is negative, it returns all.
func (c *cache) firstFacts(prefix string, most int) (facts []readFact, all bool, err error) {
	all = true
	err = c.eachFact(prefix, func(f readFact) string {
		if !strings.HasPrefix(f.label, prefix) {
			return "\xff"
		}
		if len(facts) == most {
			all = false
			return "\xff"
		}
		facts = append(facts, f)
		return ""
	})
	return facts, all, err
}

// awaited reports whether one of the facts whose labels begin with prefix is awaited.
func (c *cache) awaited(prefix string) (yes bool, err error) {
	err = c.eachFact(prefix, func(f readFact) string {
		if yes = f.awaited && strings.HasPrefix(f.label, prefix); yes || !strings.HasPrefix(f.label, prefix) {
			return "\xff"
		}
		return ""
	})
	return yes, err
}

// fact returns the fact of a label; the zero value: nobody reads it.
func (c *cache) fact(label string) (fact readFact, err error) {
	err = c.eachFact(label, func(f readFact) string {
		if f.label == label {
			fact = f
		}
		return "\xff"
	})
	return fact, err
}

// eachFact calls f with each fact that open jobs read, from a label on, in the order of
// labels. f returns the label to go on from; "": the next one. Of a fact with many readers
// it skips most.
func (c *cache) eachFact(from string, f func(readFact) (skip string)) error {
	const many = 8
	var fact readFact
	for start := keyReads + from; ; {
		last, same, next := "", 0, ""
		err := c.kv.eachFrom(start, keyReads, func(key string, _ []byte) bool {
			of := key[:len(key)-8-jobIDLen] // the fact, and whether it is awaited
			if of == last {
				if same++; same == many {
					next = of + "\xff"
				}
				return next == ""
			}
			last, same = of, 0
			label, awaited, _ := strings.Cut(of[len(keyReads):len(of)-1], "\x00")
			if label != fact.label && fact.label != "" {
				if skip := f(fact); skip != "" {
					next, fact = keyReads+skip, readFact{}
					return false
				}
				fact = readFact{}
			}
			fact.label = label
			if yes, _ := strconv.ParseBool(awaited); yes {
				fact.awaited = true
			}
			return true
		})
		if err != nil {
			return err
		}
		if next == "" {
			break
		}
		start = next
	}
	if fact.label != "" {
		f(fact)
	}
	return nil
}

// labelRead is the label of the fact that an index key says a job reads.
func labelRead(key string) (label string, is bool) {
	if !strings.HasPrefix(key, keyReads) {
		return "", false
	}
	label, _, is = strings.Cut(key[len(keyReads):], "\x00")
	return label, is
}

// beginsToRead comes before key is set. The first reader of a fact was judged by what the
// tick was told, if a tick judged it.
func (c *cache) beginsToRead(key string) error {
	label, is := labelRead(key)
	if !is {
		return nil
	}
	f, err := c.fact(label)
	if by := c.told[readersOf(label)]; err == nil && f.label == "" && by != kernel.JudgedNone {
		var blind []byte
		if blind, err = c.kv.get(keyBlind); blind == nil {
			c.set(keySeen+label, []byte(by))
		}
	}
	return err
}

// endsToRead comes after key was cleared.
func (c *cache) endsToRead(key string) error {
	label, is := labelRead(key)
	if !is {
		return nil
	}
	f, err := c.fact(label)
	if err == nil && f.label == "" {
		err = c.clear(keySeen + label)
	}
	return err
}

// judgeFacts records what a tick judged by: see kernel.Outside.JudgedBy.
func (c *cache) judgeFacts(facts map[kernel.Near]string) error {
	if facts == nil {
		c.set(keyBlind, []byte{})
		return nil
	}
	if err := c.clear(keyBlind); err != nil {
		return err
	}
	judged := make(map[string][]byte, len(facts))
	for n, digest := range facts {
		judged[factLabel(n)] = nil
		if digest != kernel.JudgedNone {
			judged[factLabel(n)] = []byte(digest)
		}
	}
	for _, label := range slices.Sorted(maps.Keys(judged)) {
		if err := c.judgeFact(label, judged[label]); err != nil {
			return err
		}
	}
	return nil
}

func (c *cache) judgeFact(label string, by []byte) error {
	key := keySeen + label
	was, err := c.kv.get(key)
	if err != nil || (was == nil) == (by == nil) && string(was) == string(by) {
		return err
	}
	f, err := c.fact(label)
	if err == nil && (f.label == "" || by == nil) { // an earlier commit of the transaction may have ended its readers
		return c.clear(key)
	}
	c.set(key, by)
	return err
}
