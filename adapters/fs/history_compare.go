package fs

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// redone has the jobs as the record actions of a plan leave them.
type redone struct {
	v    *verifier
	jobs map[kernel.JobID]*kernel.Job // nil: removed
}

func (r *redone) job(id kernel.JobID, over kernel.Revision) (kernel.Job, error) {
	j, ok := r.jobs[id]
	if !ok {
		k, err := r.v.store.cache.entry(id)
		if err != nil || k == nil {
			return kernel.Job{}, errors.Join(err, fmt.Errorf("job %s: %w", id, kernel.ErrNotFound))
		}
		j = k.job
	}
	if j == nil || j.Rev != over {
		return kernel.Job{}, fmt.Errorf("job %s: %w", id, kernel.ErrStale)
	}
	return *j, nil
}

func (r *redone) CreateJob(a kernel.CreateJob) error {
	r.jobs[a.Job.ID] = a.Job
	return nil
}

func (r *redone) PutState(a kernel.PutState) error {
	j, err := r.job(a.Job, a.If)
	j.State, j.Rev = a.State, a.If+1
	r.jobs[a.Job] = &j
	return err
}

func (r *redone) NumberJob(a kernel.NumberJob) error {
	j, err := r.job(a.Job, a.If)
	j.Number, j.Part, j.Rev = a.Number, a.Part, a.If+1
	r.jobs[a.Job] = &j
	return err
}

func (r *redone) RemoveJob(a kernel.RemoveJob) error {
	r.jobs[a.Job] = nil
	return nil
}

func (*redone) CreateRun(kernel.CreateRun) error   { return nil }
func (*redone) RemoveRun(kernel.RemoveRun) error   { return nil }
func (*redone) PurgeFiles(kernel.PurgeFiles) error { return nil }
func (*redone) Publish(kernel.Publish) error       { return nil }
func (*redone) Announce(kernel.Announce) error     { return nil }
func (*redone) Reset(kernel.Reset) error           { return nil }
func (*redone) Rotate(kernel.Rotate) error         { return nil }

// differences returns the fields in which two records differ, as text for each record.
func differences(a, b []byte) (left, right string) {
	x, y := fieldsIn(a), fieldsIn(b)
	names := slices.Collect(maps.Keys(x))
	for name := range y {
		if _, both := x[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var l, r []string
	for _, name := range names {
		if reflect.DeepEqual(x[name], y[name]) || name == "updated_at" || name == "revision" {
			continue
		}
		l, r = append(l, fieldText(name, x)), append(r, fieldText(name, y))
	}
	switch {
	case len(a) == 0 && len(b) == 0:
		return "no record", "no record"
	case len(a) == 0:
		return "no record", fieldText("status", y)
	case len(b) == 0:
		return fieldText("status", x), "no record"
	default:
		return strings.Join(l, ", "), strings.Join(r, ", ")
	}
}

func fieldText(name string, fields map[string]any) string {
	v, there := fields[name]
	if !there {
		return name + " absent"
	}
	b, _ := json.Marshal(v)
	if len(b) > 120 {
		b = append(b[:120:120], "…"...)
	}
	return name + " " + string(b)
}

// fieldsIn returns the fields of a record by their paths.
func fieldsIn(b []byte) map[string]any {
	out := map[string]any{}
	var top map[string]any
	if json.Unmarshal(b, &top) != nil {
		return out
	}
	var walk func(prefix string, m map[string]any)
	walk = func(prefix string, m map[string]any) {
		for name, v := range m {
			if inner, is := v.(map[string]any); is && len(inner) > 0 {
				walk(prefix+name+".", inner)
			} else {
				out[prefix+name] = v
			}
		}
	}
	walk("", top)
	return out
}

// compare compares the records that the history leads to with those on the disk.
func (v *verifier) compare(p chronicle) {
	end := &readEntry{}
	if p.lost {
		v.find(end, lostEntries(v.next-1))
	}
	if v.out.First == 0 && len(v.records) == 0 {
		return // nothing was ever written with a history
	}
	for _, id := range slices.Sorted(maps.Keys(v.records)) {
		if _, odd := p.odd[id]; odd {
			continue
		}
		if sum, there := p.records[id]; !there {
			v.find(end, editOf(id, v.records[id], nil))
		} else if sum != sha256.Sum256(v.records[id]) {
			is, _ := p.s.readRecordFile(id)
			v.find(end, v.unknown(id, v.records[id], is))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.records)) {
		if v.records[id] == nil && v.knows(id) {
			is, _ := p.s.readRecordFile(id)
			v.find(end, v.unknown(id, nil, is))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.odd)) {
		v.find(end, Finding{Kind: FoundEdit, Job: id, Text: "its record cannot be read: " + p.odd[id]})
	}
}

// unknown describes a record that no entry led to. If it seems to have been written after
// the last entry, the entries that wrote it are probably gone.
func (v *verifier) unknown(id kernel.JobID, was, is []byte) Finding {
	f := editOf(id, was, is)
	a, b := ageOf(was), ageOf(is)
	number, part := RefIn(is)
	f.Ref = standing{number: number, part: part}.ref()
	if len(is) > 0 && b.Revision > a.Revision && (len(was) > 0 || b.Created.After(v.at)) {
		what := "record"
		if f.Kind == FoundForgery {
			what = "approval"
		}
		f.Kind, f.Text = FoundGap, "its "+what+" is from after the last entry: the end of the history is missing, or somebody wrote it by hand"
	}
	return f
}

// age has the fields of a record that tell how new it is.
type age struct {
	Revision kernel.Revision `json:"revision"`
	Created  time.Time       `json:"created_at"`
}

func ageOf(record []byte) (a age) {
	_ = json.Unmarshal(record, &a) // a record without these fields counts as old
	return a
}
