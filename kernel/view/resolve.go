package view

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// ErrMaybeUnreadable is the error for a reference that names no job, but may name one whose
// record cannot be read. `vizier doctor` says what is wrong with such records.
var ErrMaybeUnreadable = errors.New("it may be one whose record cannot be read")

// unknown returns the error for a reference that names no job of s.
func unknown(s *kernel.Snapshot, ref string) error {
	u := unknownReference{ref: ref}
	if name := strings.Trim(ref, " /"); name != "" && name[0] != '@' && !kernel.ValidJobID(name) {
		u.unread = len(s.UnreadableIDs())
	}
	return u
}

type unknownReference struct {
	ref    string
	unread int // how many unreadable records it may name
}

func (u unknownReference) Error() string {
	text := "no job " + strconv.Quote(u.ref)
	switch u.unread {
	case 0:
		return text
	case 1:
		return text + "; " + ErrMaybeUnreadable.Error()
	default:
		return fmt.Sprintf("%s; it may be one of %d whose records cannot be read", text, u.unread)
	}
}

func (u unknownReference) Is(err error) bool {
	return err == kernel.ErrNotFound || err == ErrMaybeUnreadable && u.unread > 0
}

// find returns the job of that id.
func find(s *kernel.Snapshot, id kernel.JobID) (*kernel.Job, error) {
	if j := s.Job(id); j != nil {
		return j, nil
	}
	if why := s.Unreadable(id); why != "" {
		return nil, fmt.Errorf("cannot read job record %s: %s: %w", id, why, kernel.ErrInvalid)
	}
	return nil, unknownReference{ref: string(id)}
}

// Finder resolves references. It indexes the jobs once and serves many
// look-ups.
type Finder struct {
	s       *kernel.Snapshot
	numbers map[kernel.Number][]*kernel.Job // nil: not indexed yet
	parts   map[part]*kernel.Job
	names   map[string][]*thing
	runs    map[kernel.RunID][]*kernel.Job
}

// part identifies a job by its number and its name within that.
type part struct {
	of   kernel.Number
	name string
}

// thing is something with a name: a job, or a run.
type thing struct {
	job  *kernel.Job
	run  kernel.RunID // "": it is the job
	open bool
}

// NewFinder returns a finder among the jobs of s.
func NewFinder(s *kernel.Snapshot) *Finder { return &Finder{s: s} }

// Resolve returns the one job that ref names; see Find for the forms. A
// reference that names no job is kernel.ErrNotFound; one that names several, or
// an unreadable record, is kernel.ErrInvalid.
func (f *Finder) Resolve(ref string) (kernel.JobID, error) {
	t, err := f.Find(ref)
	switch {
	case err != nil:
		return "", err
	case len(t.Jobs) > 1:
		return "", ambiguous(ref, "job", texts(t.Jobs, called))
	}
	return t.Jobs[0].ID, nil
}

// Target is what a reference names: a job, or everything that was enqueued with
// one number.
type Target struct {
	Jobs  []*kernel.Job // in schedule order
	Whole bool          // the reference names a run or a batch, not one of its jobs
}

// Run returns the run that the target belongs to, or "".
func (t Target) Run() kernel.RunID {
	if len(t.Jobs) == 0 {
		return ""
	}
	return t.Jobs[0].Spec.Origin.Run
}

// Find returns the target that ref names. The forms, in the order in which they
// are tried:
//
//   - a whole id
//   - @last, the newest job; of a prompt's run the one that stands for the prompt, which is the last of the run
//   - a number, or a number with a part; see kernel.Job.Ref
//   - the name of exactly one open job or run or, if none is open, of exactly one that has ended
//   - RUN/NODE, where RUN is the beginning of a run's id or a run's slug; with several runs of that slug, the latest counts
//   - the beginning of a run's id, run_ included
//   - the beginning of a job's id
//
// Errors are those of Resolve.
func (f *Finder) Find(ref string) (Target, error) {
	s, id := f.s, kernel.JobID(ref)
	switch j := s.Job(id); {
	case j != nil:
		return single(j), nil
	case s.Unreadable(id) != "":
		_, err := find(s, id)
		return Target{}, err
	case ref == "@last":
		jobs := s.Jobs()
		if len(jobs) == 0 {
			return Target{}, unknown(f.s, ref)
		}
		last := jobs[len(jobs)-1]
		if at := slices.IndexFunc(jobs, func(j *kernel.Job) bool {
			return j.Spec.Prompt != nil && j.Spec.Origin.Run != "" && j.Spec.Origin.Run == last.Spec.Origin.Run
		}); at >= 0 {
			last = jobs[at]
		}
		return single(last), nil
	}
	if n, part, ok := kernel.ParseRef(ref); ok {
		return f.numbered(ref, n, part)
	}
	if t, err := f.named(ref); err != nil || len(t.Jobs) > 0 {
		return t, err
	}
	run, node, inRun := strings.Cut(ref, "/")
	switch {
	case inRun && run != "" && node != "":
		return f.ofNode(ref, run, node)
	case !inRun && strings.HasPrefix(ref, "run_"):
		one, err := f.runOf(ref, ref)
		return Target{f.members(one), true}, err
	}
	return begins(s, ref)
}

func single(j *kernel.Job) Target { return Target{Jobs: []*kernel.Job{j}} }

// members returns all jobs of a run, including those that its jobs submitted.
func (f *Finder) members(run kernel.RunID) []*kernel.Job {
	if f.runs == nil {
		f.runs = map[kernel.RunID][]*kernel.Job{}
		for _, j := range f.s.Jobs() {
			if id := j.Spec.Origin.Run; id != "" {
				f.runs[id] = append(f.runs[id], j)
			}
		}
	}
	return f.runs[run]
}

// numbered returns the target with number n, or the job of it called name.
func (f *Finder) numbered(ref string, n kernel.Number, name string) (Target, error) {
	if f.numbers == nil {
		f.numbers, f.parts = map[kernel.Number][]*kernel.Job{}, map[part]*kernel.Job{}
		for _, j := range f.s.Jobs() {
			f.numbers[j.Number] = append(f.numbers[j.Number], j)
			if at := (part{j.Number, j.Part}); f.parts[at] == nil {
				f.parts[at] = j
			}
		}
	}
	if j := f.parts[part{n, name}]; j != nil {
		return single(j), nil
	}
	jobs := f.numbers[n]
	if name != "" || len(jobs) == 0 {
		return Target{}, unknown(f.s, ref)
	}
	if o := jobs[0].Spec.Origin; o.Run != "" && o.Parent == "" {
		jobs = f.members(o.Run)
	}
	return Target{jobs, true}, nil
}

// slugs returns the names that people know a run by.
func slugs(o *kernel.Origin) []string { return []string{o.Plan, o.Alias} }

// named returns the target called ref: an open one if there is one, else one
// that has ended. No match is not an error.
func (f *Finder) named(ref string) (Target, error) {
	if strings.TrimSpace(ref) == "" {
		return Target{}, nil
	}
	if f.names == nil {
		f.name()
	}
	things := slices.Clone(f.names[ref])
	if slices.ContainsFunc(things, func(t *thing) bool { return t.open }) {
		things = slices.DeleteFunc(things, func(t *thing) bool { return !t.open })
	}
	switch len(things) {
	case 0:
		return Target{}, nil
	case 1:
		return f.target(things[0]), nil
	}
	return Target{}, ambiguous(ref, "", texts(things, func(t *thing) string {
		if t.run != "" {
			return calledRun(f.members(t.run))
		}
		return called(t.job)
	}))
}

// name builds the index of names.
func (f *Finder) name() {
	f.names = map[string][]*thing{}
	type slug struct {
		name string
		run  kernel.RunID
	}
	runs := map[slug]*thing{}
	for _, j := range f.s.Jobs() {
		if name := j.Spec.Name; name != "" {
			f.names[name] = append(f.names[name], &thing{job: j, open: j.Open()})
		}
		o := &j.Spec.Origin
		if o.Run == "" || o.Parent != "" {
			continue
		}
		for _, name := range slugs(o) {
			if name == j.Spec.Name {
				continue
			}
			t := runs[slug{name, o.Run}]
			if t == nil {
				t = &thing{run: o.Run}
				runs[slug{name, o.Run}] = t
				f.names[name] = append(f.names[name], t)
			}
			t.open = t.open || j.State.Status.Active()
		}
	}
}

func (f *Finder) target(t *thing) Target {
	if t.run != "" {
		return Target{f.members(t.run), true}
	}
	return single(t.job)
}

// ofNode returns the job of a node of a run. run is the beginning of the run's
// id or its slug.
func (f *Finder) ofNode(ref, run, node string) (Target, error) {
	one, err := f.runOf(ref, run)
	if errors.Is(err, kernel.ErrNotFound) {
		for _, j := range slices.Backward(f.s.Jobs()) {
			if o := &j.Spec.Origin; o.Run != "" && o.Parent == "" && slices.Contains(slugs(o), run) {
				one, err = o.Run, nil
				break
			}
		}
	}
	if err != nil {
		return Target{}, err
	}
	for _, j := range f.members(one) {
		if j.Spec.Origin.Node == node && j.Spec.Origin.Parent == "" {
			return single(j), nil
		}
	}
	return Target{}, unknown(f.s, ref)
}

// begins returns the job whose id begins with ref.
func begins(s *kernel.Snapshot, ref string) (Target, error) {
	var found []kernel.JobID
	for _, j := range s.Jobs() {
		if strings.HasPrefix(string(j.ID), ref) {
			found = append(found, j.ID)
		}
	}
	for _, u := range s.UnreadableIDs() {
		if strings.HasPrefix(string(u), ref) {
			found = append(found, u)
		}
	}
	switch {
	case len(found) == 0 || strings.TrimSpace(ref) == "" || len(ref) < 8 && strings.Trim(ref, "0123456789") == "": // digits are a number
		return Target{}, unknown(s, ref)
	case len(found) > 1:
		return Target{}, ambiguous(ref, "job", texts(found, func(id kernel.JobID) string {
			if j := s.Job(id); j != nil {
				return called(j)
			}
			return string(id)
		}))
	}
	j, err := find(s, found[0])
	if err != nil {
		return Target{}, err
	}
	return single(j), nil
}

func (f *Finder) runOf(ref, run string) (kernel.RunID, error) {
	var runs []kernel.RunID
	for _, j := range f.s.Jobs() {
		id := j.Spec.Origin.Run
		if string(id) == run {
			return id, nil
		}
		if id != "" && (strings.HasPrefix(string(id), run) || strings.HasPrefix(strings.TrimPrefix(string(id), "run_"), run)) {
			runs = append(runs, id)
		}
	}
	slices.Sort(runs)
	switch runs = slices.Compact(runs); {
	case len(runs) == 0 || strings.TrimSpace(ref) == "":
		return "", unknown(f.s, ref)
	case len(runs) > 1:
		return "", ambiguous(ref, "run", texts(runs, func(run kernel.RunID) string { return calledRun(f.members(run)) }))
	}
	return runs[0], nil
}

// called returns j's reference, or its id before it has a number.
func called(j *kernel.Job) string { return cmp.Or(j.Ref(), string(j.ID)) }

// calledRun returns the reference of the run of jobs.
func calledRun(jobs []*kernel.Job) string {
	for _, j := range jobs {
		if j.Number != 0 && j.Spec.Origin.Parent == "" {
			return j.Number.String()
		}
	}
	return string(jobs[0].Spec.Origin.Run)
}

// ambiguous returns the error for a reference that may mean any of found.
func ambiguous(ref, what string, found []string) error {
	const shown = 10
	more := ""
	if len(found) > shown {
		found, more = found[:shown], fmt.Sprintf(" and %s more", count(len(found)-shown))
	}
	if what != "" {
		what += " "
	}
	return fmt.Errorf("%q is ambiguous: it may be %s%s%s: name one of them: %w",
		ref, what, strings.Join(found, ", "), more, kernel.ErrInvalid)
}
