package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// redone is what the record actions of a plan lead to.
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

// differences are the fields in which two records differ, as each has them.
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

// fieldsIn are the fields of a record by their paths.
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
