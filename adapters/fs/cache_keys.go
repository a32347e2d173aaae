package fs

import (
	"encoding/binary"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The kinds of keys in the cache. An entry's value is the record of a job. Every
// other key is an index entry: it ends in the id of a job, and a kernel.Near is
// answered by iterating over one prefix. The keys of a prefix are in schedule
// order, unless a time comes first.
const (
	keyEntry    = "j" // id
	keyStatus   = "s" // status, created, id; the value is the stamp of the record's file
	keyUnread   = "u" // id; the value is why
	keyDirty    = "d" // id
	keyAttended = "o" // created, id
	keyDue      = "t" // when it is due, id
	keySince    = "c" // since when it waits to be due, id
	keyAfter    = "a" // predecessor, created, id; open
	keyNeeds    = "n" // artifact, run, created, id; open, and another job of the run makes it
	keyOutside  = "N" // artifact, run, created, id; open, and no other job of the run makes it
	keyProduces = "p" // artifact, run, created, id
	keyLock     = "l" // key, created, id; waiting on locks
	keyPool     = "L" // the same of a pool
	keyLine     = "q" // executor, created, id; waiting for a place
	keyMember   = "r" // run, created, id
	keyActive   = "R" // run, created, id
	keyBranch   = "b" // branch, created, id; open, or a blocked merge
	keyRival    = "B" // branch, created, id; waiting for it
	keyWoken    = "W" // created, id
	keyKeyed    = "k" // idempotency key, created, id
	keyStopper  = "f" // run, created, id
	keyStoppers = "F" // id; with routes
	keyHandled  = "h" // handler, created, id
	keyPrompt   = "i" // file, created, id
	keyReads    = "x" // fact, whether it is awaited, created, id; open, and no job makes it
	keyNumber   = "#" // number, part, created, id
	keyLast     = "z" // number, inverted time of its end (the latest comes first), id; it shares its number
	keyEnded    = "e" // when it ended, id; its files may be packed

	keyJudged = "J" // what the last tick judged by
	keySeen   = "v" // fact; the value is the digest of it that its readers were judged by, if that is not kernel.JudgedNone; empty: not known
	keyBlind  = "V" // present if that is known of no fact: keySeen does not count then
	keyPatrol = "P" // the value is the key up to which the patrol came
	keyCount  = "S" // status; the value is how many jobs have it
	keyTally  = "T" // number, created; the value counts the jobs that share the number: see tally
)

// keyOf is a key of kind. A zero byte ends each part; one inside a part is
// escaped as 0 1, so that no part can look like two.
func keyOf(kind string, parts ...string) string {
	b := append(make([]byte, 0, 96), kind...)
	for _, p := range parts {
		for i := range len(p) {
			if b = append(b, p[i]); p[i] == 0 {
				b = append(b, 1)
			}
		}
		b = append(b, 0)
	}
	return string(b)
}

func labelOf(a kernel.Artifact) string {
	return string(rune('0'+a.Kind)) + a.Name + "\x01" + a.Ref
}

// factLabel is what a kernel.Readers names, as a part of a key. readersOf is its inverse.
func factLabel(n kernel.Near) string {
	if n.Key != "" {
		return "k" + n.Key
	}
	return labelOf(n.Artifact)
}

func readersOf(label string) kernel.Near {
	if key, is := strings.CutPrefix(label, "k"); is {
		return kernel.Near{Kind: kernel.Readers, Key: key}
	}
	name, ref, _ := strings.Cut(label[1:], "\x01")
	return kernel.Near{Kind: kernel.Readers, Artifact: kernel.Artifact{Kind: kernel.ArtifactKind(label[0] - '0'), Name: name, Ref: ref}}
}

func bigEndian(t time.Time) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(t.UnixMicro())^1<<63)
	return string(b[:])
}

// scheduleKey is prefix with what sorts j in schedule order.
func scheduleKey(prefix string, j *kernel.Job) string {
	return prefix + bigEndian(j.Created) + string(j.ID)
}

func statusOf(j *kernel.Job) string { return scheduleKey(statusKey(j.State.Status), j) }

func statusKey(s kernel.Status) string { return keyStatus + string([]byte{byte(s)}) }

// keysOf are the index keys of j that have no value, without those of the artifacts
// that it needs (see consumers).
func keysOf(j *kernel.Job) []string {
	at := bigEndian(j.Created) + string(j.ID)
	st, run := &j.State, string(j.Spec.Origin.Run)
	keys := make([]string, 0, 8)
	add := func(prefix string) { keys = append(keys, prefix+at) }
	is := func(kind kernel.NearKind) bool { return kernel.Near{Kind: kind}.Selects(j) }
	if is(kernel.Attended) {
		add(keyAttended)
	}
	if is(kernel.Woken) {
		add(keyWoken)
	}
	facts, awaited := j.Reads()
	for _, n := range facts {
		add(keyOf(keyReads, factLabel(n), strconv.FormatBool(awaited)))
	}
	if d, ok := j.Due(); ok {
		keys = append(keys, keyDue+bigEndian(d.Until)+string(j.ID))
		if !d.Since.IsZero() {
			keys = append(keys, keySince+bigEndian(d.Since)+string(j.ID))
		}
	}
	if j.Open() {
		for _, id := range j.Spec.After {
			add(keyOf(keyAfter, string(id)))
		}
	}
	for _, a := range j.Spec.Produces {
		add(keyOf(keyProduces, labelOf(a), run))
	}
	if st.Status == kernel.WaitingOnLocks {
		for _, l := range j.Spec.Locks {
			kind := keyLock
			if l.Pool() {
				kind = keyPool
			}
			add(keyOf(kind, l.Key))
		}
		if on := j.Spec.Task.On(); (kernel.Near{Kind: kernel.Line, Key: on}).Selects(j) {
			add(keyOf(keyLine, on))
		}
	}
	if run != "" {
		add(keyOf(keyMember, run))
		if st.Status.Active() {
			add(keyOf(keyActive, run))
		}
	}
	if branch := j.Spec.Origin.Branch; (kernel.Near{Kind: kernel.OnBranch, Key: branch}).Selects(j) {
		add(keyOf(keyBranch, branch))
		if (kernel.Near{Kind: kernel.Rivals, Key: branch}).Selects(j) {
			add(keyOf(keyRival, branch))
		}
	}
	if key := j.Spec.IdempotencyKey; key != "" {
		add(keyOf(keyKeyed, key))
	}
	if is(kernel.Stoppers) {
		if add(keyOf(keyStopper, run)); len(j.Spec.Routes) > 0 {
			keys = append(keys, keyStoppers+string(j.ID))
		}
	}
	for _, r := range j.Spec.Routes {
		if (kernel.Near{Kind: kernel.Handled, Job: r.To}).Selects(j) {
			add(keyOf(keyHandled, string(r.To)))
		}
	}
	if j.Number != 0 {
		add(keyOf(keyNumber, j.Number.String(), j.Part))
	}
	if j.Part != "" && st.Status.Terminal() && !st.Finished.IsZero() {
		keys = append(keys, lastKey(j.Number)+inverted(bigEndian(st.Finished))+string(j.ID))
	}
	if j.HoldsPrompt() {
		add(keyOf(keyPrompt, j.Spec.Prompt.File))
	}
	return keys
}

// idIn is the job id that a key ends in.
func idIn(key string) kernel.JobID { return kernel.JobID(key[max(0, len(key)-jobIDLen):]) }

const jobIDLen = 32

// cachedJob is a job as the cache has it.
type cachedJob struct {
	job           *kernel.Job
	foreign       *foreign
	file          fileStamp
	foreignOnDisk bool // foreign is not read: only the record has it
}

// encodeCachedJob is the value of an entry.
func encodeCachedJob(k cachedJob) []byte {
	b := putStamp(make([]byte, 0, 256), k.file)
	if k.foreignOnDisk || !k.foreign.empty() {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return jobCodec().put(b, reflect.ValueOf(k.job).Elem())
}

func putStamp(b []byte, f fileStamp) []byte {
	b = binary.AppendVarint(b, f.modified)
	b = binary.AppendVarint(b, f.size)
	return binary.AppendUvarint(b, f.inode)
}

func (r *reader) stamp() fileStamp { return fileStamp{r.int(), r.int(), r.uint()} }

func decodeCachedJob(b []byte) (cachedJob, error) {
	k := cachedJob{job: new(kernel.Job)}
	return k, k.decode(b)
}

// decode reads the value of an entry. The job must be zero.
func (k *cachedJob) decode(b []byte) error {
	r := &reader{b: b, text: string(b)}
	if k.file, k.foreignOnDisk = r.stamp(), r.byte() == 1; r.err == nil {
		jobCodec().get(r, reflect.ValueOf(k.job).Elem())
	}
	if r.err != nil {
		return errCache
	}
	return nil
}

// difference is a without b, in the order of a.
func difference(a, b []string) []string {
	const few = 16
	has := func(x string) bool { return slices.Contains(b, x) }
	if len(b) > few { // the job comes after thousands of others
		in := make(map[string]bool, len(b))
		for _, x := range b {
			in[x] = true
		}
		has = func(x string) bool { return in[x] }
	}
	return slices.DeleteFunc(slices.Clone(a), has)
}
