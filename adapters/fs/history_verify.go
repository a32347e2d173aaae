package fs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Finding is a difference between a history and what the program wrote.
type Finding struct {
	Kind     string // one of the Found words
	Entry    uint64 // at which, or before which, it was found; 0: after the last
	At       time.Time
	Job      kernel.JobID // "": it is about no job
	Ref      string       // what people call, or called, the job; "": it had no number
	File     string       // the damaged file, or the file with the entry
	Text     string       // one line for people
	Recorded string       // what is on record, where the two differ
	Decided  string       // what this version decides
}

// The kinds of findings.
const (
	FoundDamage    = "damaged"           // a file of the history cannot be read, or was changed
	FoundGap       = "missing"           // entries are missing
	FoundBreak     = "rewritten"         // the next entry names another one by its digest
	FoundOtherwise = "decided_otherwise" // this version decides otherwise from the same records and facts
	FoundUpgrade   = "decided_otherwise_by_this_version"
	FoundNoReason  = "unexplained" // an entry has no account of its decision
	FoundEdit      = "edited"      // a record is not as the history left it
	FoundForgery   = "forged_approval"
	FoundBreach    = "interrupted" // a version that keeps no history wrote in between
)

// Harmless reports that the finding does not point to a change by hand.
func (f Finding) Harmless() bool { return f.Kind == FoundUpgrade || f.Kind == FoundBreach }

// Verification is the result of verifying a history.
type Verification struct {
	First, Last uint64 // the entries that are there; 0: none
	Tip         string // the digest of the last entry: a copy kept elsewhere proves that nothing before it was changed
	Decisions   int    // how many came out the same again
	Findings    []Finding
}

// maxFindings is the number of findings after which a verification gives up.
const maxFindings = 100

var errEnough = errors.New("there is more")

// VerifyHistory checks that the history is whole, that this version's kernel decides each
// entry again as it is on record, and that the history leads to the records on the disk.
func (s *Store) VerifyHistory(ctx context.Context) (Verification, error) {
	p, err := s.history(ctx, true)
	if err == nil && p.unwritten != nil {
		err = fmt.Errorf("compare the records with the history, which has changes that cannot be written to them: %w", p.unwritten)
	}
	if err != nil {
		return Verification{}, err
	}
	v := newVerifier(s.opts.Program)
	err = p.eachRead(ctx, func(e *readEntry) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return v.entry(e)
	})
	if errors.Is(err, errCutShort) { // p.lost says so, too
		err = nil
	}
	if bad, is := errors.AsType[*SegmentError](err); is {
		v.out.Findings = append(v.out.Findings, Finding{Kind: FoundDamage, Entry: v.next, File: bad.File, Text: bad.Error()})
		return v.out, nil
	}
	if err == nil {
		v.compare(p)
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return v.out, err
}

// verifier goes through a history and keeps the records that it has led to.
type verifier struct {
	out     Verification
	program string
	store   *Store // in memory, with the jobs that the history has led to
	records map[kernel.JobID][]byte
	extra   map[kernel.JobID]*foreign // of those that have any
	damaged map[kernel.JobID][]byte   // of jobs whose record could not be read: the record before
	next    uint64                    // the number of the next entry
	tip     digest                    // of the entry before it
	last    kernel.Number             // the last one that a job got
	at      time.Time                 // when the last entry was written
	file    string                    // the file of the last entry
	recent  map[uint64]digest
	read    map[kernel.JobID]bool // collects the jobs that decisions read; nil: not wanted
	skips   bool                  // a damaged file had the next entries
	adrift  bool                  // entries are missing, so some records are not known
}

func newVerifier(program string) *verifier {
	v := &verifier{program: program, next: 1, recent: map[uint64]digest{}}
	v.forget()
	v.adrift = false
	return v
}

// forget drops all records. No entry is decided again until all records are known.
func (v *verifier) forget() {
	v.records, v.extra, v.damaged, v.adrift = map[kernel.JobID][]byte{}, map[kernel.JobID]*foreign{}, map[kernel.JobID][]byte{}, true
	v.store = &Store{cache: &cache{kv: &kv{alone: true}, rebuilt: true}}
}

// knows reports that it is known what the record of a job was, or that there was none.
func (v *verifier) knows(id kernel.JobID) bool { return !v.adrift || v.records[id] != nil }

// find adds f, about the entry e, to the findings.
func (v *verifier) find(e *readEntry, f Finding) {
	f.Entry, f.File, f.At = e.number, e.file, time.Time(e.record.Written)
	if e.head != nil && e.head.Opening {
		f.Entry, f.At = e.head.First, time.Time(e.head.Began)
	}
	f.Ref = cmp.Or(v.refOf(f.Job, e), f.Ref)
	v.out.Findings = append(v.out.Findings, f)
}

// refOf returns what people call a job, by its last record or by the one in e.
func (v *verifier) refOf(id kernel.JobID, e *readEntry) string {
	records := [][]byte{v.records[id], e.record.Found[id]}
	for _, g := range e.groups {
		if g.job == id {
			records = append(records, g.record)
		}
	}
	for _, b := range records {
		if number, part := RefIn(b); number > 0 {
			return standing{number: number, part: part}.ref()
		}
	}
	return ""
}

// entry verifies the next entry and applies it.
func (v *verifier) entry(e *readEntry) error {
	switch {
	case len(v.out.Findings) >= maxFindings:
		return errEnough
	case e.damaged != nil:
		v.out.Findings = append(v.out.Findings, Finding{Kind: FoundDamage, Entry: v.next, File: e.file, Text: e.damaged.Error()})
		v.forget()
		v.skips = true
		return nil
	case e.head != nil && e.head.Opening:
		return v.opening(e)
	case e.number == 0: // of a version that keeps no history
		return v.unnumbered(e)
	case e.number < v.next && e.head == nil && v.recent[e.number] == e.sum: // sealed, and a crash came before the journal was emptied
		return nil
	}
	if e.unread != nil {
		return &SegmentError{e.file, e.unread}
	}
	if v.skips && e.number > v.next {
		v.next, v.tip = e.number, e.before
	}
	v.skips = false
	switch {
	case e.number < v.next:
		v.find(e, Finding{Kind: FoundBreak, Text: fmt.Sprintf("entry %d is there twice, and not the same", e.number)})
		return nil
	case e.number > v.next:
		missing := missingEntries(v.next, e.number-1)
		v.find(e, Finding{Kind: FoundGap, Text: missing + ": what later ones were decided by is not known"})
		v.forget()
	case e.before != v.tip:
		v.find(e, Finding{Kind: FoundBreak, Text: fmt.Sprintf("entry %d was rewritten: entry %d followed another", e.number-1, e.number)})
	}
	v.edits(e)
	if err := v.decide(e); err != nil {
		return err
	}
	if err := v.take(e); err != nil {
		return err
	}
	if v.out.First == 0 {
		v.out.First = e.number
	}
	v.next, v.tip, v.at = e.number+1, e.sum, time.Time(e.record.Written)
	v.out.Last, v.out.Tip = e.number, e.sum.String()
	if e.file != v.file {
		v.file = e.file
		clear(v.recent)
	}
	v.recent[e.number] = e.sum
	return nil
}

// unnumbered applies an entry of a version that keeps no history. The next opening has its
// records. Before the first entry of the history it is ignored.
func (v *verifier) unnumbered(e *readEntry) error {
	if v.out.First == 0 && len(v.records) == 0 {
		return nil
	}
	for _, g := range e.groups {
		if gone := g.does(opRemoveJob); gone || g.record != nil {
			v.find(e, breachOf(g.job, v.records[g.job], g.record))
		}
	}
	return v.take(e)
}

// opening takes the records of an opening. If entries came before it, it compares the
// records first: a version that keeps no history may have changed some.
func (v *verifier) opening(e *readEntry) error {
	if e.head.Lost {
		v.find(e, lostEntries(e.head.First-1))
	}
	seen := map[kernel.JobID]bool{}
	for _, g := range e.groups {
		seen[g.job] = true
		if v.out.First == 0 || g.job == "" || !v.knows(g.job) || bytes.Equal(v.records[g.job], g.record) {
			continue
		}
		if e.head.Lost {
			v.find(e, v.unknown(g.job, v.records[g.job], g.record))
		} else {
			v.find(e, breachOf(g.job, v.records[g.job], g.record))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.records)) {
		if !seen[id] {
			v.find(e, Finding{Kind: FoundBreach, Job: id, Text: "its record went while no history was kept"})
			if err := v.drop(id); err != nil {
				return err
			}
		}
	}
	v.next, v.tip, v.adrift, v.skips = e.head.First, e.head.Tip, false, false
	return v.take(e)
}

// breachOf is the finding that a record changed while no history was kept. An approval from
// that time is no proof that somebody gave it: such an entry is easily forged.
func breachOf(id kernel.JobID, was, is []byte) Finding {
	if approved(is) && !approved(was) {
		return Finding{Kind: FoundGap, Job: id, Text: "its approval is from while no history was kept: an earlier version took it, or somebody wrote it by hand"}
	}
	return Finding{Kind: FoundBreach, Job: id, Text: "its record changed while no history was kept"}
}

// edits applies the changes that somebody else made to records before e, and adds them to
// the findings.
func (v *verifier) edits(e *readEntry) {
	for _, id := range slices.Sorted(maps.Keys(e.record.Found)) {
		is := e.record.Found[id]
		if bytes.Equal(is, v.records[id]) {
			continue
		}
		was, r, damaged := v.records[id], readRecordOf(id, is), v.damaged[id]
		switch {
		case len(is) > 0 && r.err != nil:
			v.find(e, Finding{Kind: FoundEdit, Job: id, Text: "its record could not be read: " + r.err.Error()})
			if damaged == nil && v.knows(id) {
				damaged = was
			}
		case damaged != nil && bytes.Equal(is, damaged): // `vizier doctor --fix` has put it back
			damaged = nil
		case v.knows(id):
			v.find(e, editOf(id, was, is))
			damaged = nil
		}
		if v.damaged[id] = damaged; damaged == nil {
			delete(v.damaged, id)
		}
		_ = v.put(id, is, r) // a record that cannot be read is among the findings already
	}
}

// editOf is the finding that a record was changed by hand.
func editOf(id kernel.JobID, was, is []byte) Finding {
	f := Finding{Kind: FoundEdit, Job: id}
	switch {
	case len(is) == 0:
		f.Text = "its record was deleted by hand"
	case len(was) == 0:
		f.Text = "its record was made by hand"
	default:
		f.Text = "its record was edited by hand"
	}
	if len(is) > 0 && approved(is) && !approved(was) {
		f.Kind, f.Text = FoundForgery, "its approval was written into its record by hand: nobody gave it"
	}
	f.Recorded, f.Decided = differences(is, was)
	return f
}

// approved reports that the record b has a granted approval.
func approved(b []byte) bool {
	var r struct {
		Schedule struct {
			Approval *struct {
				State string `json:"state"`
			} `json:"approval"`
		} `json:"schedule"`
	}
	return json.Unmarshal(b, &r) == nil && r.Schedule.Approval != nil && r.Schedule.Approval.State == kernel.Approved.String()
}

// decide decides e again.
func (v *verifier) decide(e *readEntry) error {
	if e.unknown != nil {
		return &SegmentError{e.file, e.unknown}
	}
	if v.adrift {
		return nil
	}
	account := e.account
	if len(account.Steps) == 0 {
		for _, g := range e.groups {
			if g.record != nil || g.does(opRemoveJob) {
				v.find(e, Finding{Kind: FoundNoReason, Job: g.job, Text: "nothing says what this was decided by"})
				return nil
			}
		}
		return nil
	}
	plan, err := account.Decide(func(scope kernel.Scope) (kernel.Records, error) {
		rec, err := v.store.records(scope)
		rec.Last = v.last
		if v.read != nil {
			for i := range rec.Jobs {
				v.read[rec.Jobs[i].ID] = true
			}
		}
		return rec, err
	})
	again := redone{v: v, jobs: map[kernel.JobID]*kernel.Job{}}
	if err == nil {
		err = plan.Write(&again)
	}
	if err != nil {
		v.otherwise(e, Finding{Recorded: "it was done", Decided: "refused: " + err.Error()})
		return nil
	}
	same := v.same(e, again)
	world, err := encodeActions(slices.DeleteFunc(plan.World, func(a kernel.WorldAction) bool { _, swept := a.(kernel.Sweep); return swept }))
	if err != nil {
		return err
	}
	if on := worldOf(e.world[min(account.Carried, len(e.world)):]); same && on != worldOf(world) {
		v.otherwise(e, Finding{Recorded: on, Decided: worldOf(world)})
		same = false
	}
	if same {
		v.out.Decisions++
	}
	return nil
}

// worldOf returns actions on the world as text.
func worldOf(actions []named) string {
	var parts []string
	for _, a := range actions {
		parts = append(parts, a.Type+" "+string(a.Action))
	}
	return strings.Join(parts, ", ")
}

// same compares what was decided again with the records of e. It reports every approval that
// differs or, if none does, the first record that does.
func (v *verifier) same(e *readEntry, again redone) bool {
	seen := map[kernel.JobID]bool{}
	forged, first := false, Finding{}
	for i, g := range e.groups {
		gone := g.does(opRemoveJob)
		if g.job == "" || g.record == nil && !gone {
			continue
		}
		seen[g.job] = true
		var want []byte
		j, decided := again.jobs[g.job]
		if j != nil && !gone && v.extra[g.job] == nil && e.jobs[i].of(j) {
			continue
		}
		if j != nil {
			var err error
			if want, err = encodeRecord(j, v.extra[g.job], time.Time(e.record.Written)); err != nil {
				want = nil
			}
		}
		switch {
		case !decided:
			want = v.records[g.job]
		case gone && j == nil, !gone && bytes.Equal(want, g.record):
			continue
		}
		f := Finding{Job: g.job}
		f.Recorded, f.Decided = differences(g.record, want)
		if approved(g.record) && !approved(want) && !approved(v.records[g.job]) {
			f.Kind, f.Text, forged = FoundForgery, "this entry has an approval that nobody gave", true
			v.otherwise(e, f)
		} else if first.Job == "" {
			first = f
		}
	}
	if first.Job != "" && !forged {
		v.otherwise(e, first)
	}
	if first.Job != "" || forged {
		return false
	}
	for _, id := range slices.Sorted(maps.Keys(again.jobs)) {
		if seen[id] {
			continue
		}
		f := Finding{Job: id, Recorded: "left as it was"}
		if j := again.jobs[id]; j == nil {
			f.Decided = "removed"
		} else if b, err := encodeRecord(j, v.extra[id], time.Time(e.record.Written)); err == nil {
			_, f.Decided = differences(v.records[id], b)
		}
		v.otherwise(e, f)
		return false
	}
	return true
}

// otherwise adds to the findings that this version decides differently from e.
func (v *verifier) otherwise(e *readEntry, f Finding) {
	if f.Kind == "" {
		f.Kind, f.Text = FoundOtherwise, "this version decides otherwise from the same records and facts"
		if e.record.Program != v.program {
			f.Kind, f.Text = FoundUpgrade, "version "+e.record.Program+" decided otherwise than this one does"
		}
	}
	v.find(e, f)
}

// take applies e.
func (v *verifier) take(e *readEntry) error {
	for i, g := range e.groups {
		var err error
		switch {
		case g.does(opRemoveJob):
			err = v.drop(g.job)
		case g.record != nil:
			r := e.jobs[i]
			if e.head != nil && e.head.Opening { // the history began with a record that could not be read
				r.err = nil
			}
			err = v.put(g.job, g.record, r)
		}
		if err != nil {
			return &SegmentError{e.file, fmt.Errorf("entry %d: %w", e.number, err)}
		}
		for _, op := range g.ops {
			if op.kind == opWrite && op.path == numberFile {
				_, _ = fmt.Sscan(string(op.data), &v.last)
			}
		}
	}
	return nil
}

func (v *verifier) put(id kernel.JobID, record []byte, r readRecord) error {
	if len(record) == 0 {
		return v.drop(id)
	}
	v.records[id] = slices.Clone(record) // record is a part of a whole file, which would stay in memory
	if delete(v.extra, id); r.extra != nil {
		v.extra[id] = r.extra
	}
	if r.job == nil {
		return errors.Join(v.store.cache.remove(id), r.err)
	}
	return v.store.cache.put(cachedJob{job: r.job}, false)
}

func (v *verifier) drop(id kernel.JobID) error {
	delete(v.records, id)
	delete(v.extra, id)
	return v.store.cache.remove(id)
}
