package enqueue

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// batchLine is one line of a batch.
type batchLine struct {
	Request
	Ref  string `json:"ref"` // the name by which other lines refer to the job
	line int
}

// maxLine is the maximum length of a line of a batch, in bytes.
const maxLine = 16 << 20

// maxBatchErrors is how many errors a BatchError lists at most.
const maxBatchErrors = 20

// Batch is the jobs of a batch. Locate also works after the caller has given Jobs away.
type Batch struct {
	Jobs  []kernel.NewJob
	lines []lineOf // sorted by id
}

// lineOf says which line made a job.
type lineOf struct {
	id   kernel.JobID
	ref  string
	line int
}

// Locate rewords err, an error about the jobs, to name lines and refs of the batch: the ids
// in it are of jobs that will never exist.
func (b *Batch) Locate(err error) error {
	bad, ok := errors.AsType[*kernel.NewJobError](err)
	if !ok {
		return err
	}
	at := b.line(bad.Job)
	if at == nil {
		return err
	}
	text := jobID().ReplaceAllStringFunc(bad.Err.Error(), func(job string) string {
		id := strings.TrimPrefix(job, "job ")
		switch l := b.line(kernel.JobID(id)); {
		case l == nil:
			return job
		case l.ref != "":
			return strings.Replace(job, id, l.ref, 1)
		default:
			return fmt.Sprintf("line %d", l.line)
		}
	})
	class := kernel.ErrInvalid
	for _, c := range []error{kernel.ErrNotFound, kernel.ErrConflict} {
		if errors.Is(err, c) {
			class = c
		}
	}
	if small, ok := errors.AsType[*kernel.PoolError](err); ok {
		class = small
	}
	return &BatchError{Lines: []LineError{{at.line, strings.TrimSuffix(text, ": "+class.Error())}}, class: class}
}

var jobID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b(job )?[0-9a-f]{32}\b`) }) //nolint:gochecknoglobals // compiled for who needs it

func (b *Batch) line(id kernel.JobID) *lineOf {
	i, ok := slices.BinarySearchFunc(b.lines, id, func(l lineOf, id kernel.JobID) int { return strings.Compare(string(l.id), string(id)) })
	if !ok {
		return nil
	}
	return &b.lines[i]
}

// Batch makes the jobs described by in, one JSON object per line (see
// Request). Its error lists every bad line.
func (t *Builder) Batch(ctx context.Context, in io.Reader) (Batch, error) {
	lines, bad := parseBatch(in)
	minted := make(map[string]kernel.JobID, len(lines))
	for _, l := range lines {
		if l.Ref != "" {
			minted[l.Ref] = ""
		}
	}
	var outside []string
	for _, l := range lines {
		for _, ref := range l.After {
			ref, _ := afterPolicy(ref)
			if _, inside := minted[ref]; !inside && !t.whole(ref) {
				outside = append(outside, ref)
			}
		}
	}
	resolve, err := t.resolver(ctx, outside)
	if err != nil {
		return Batch{}, err
	}
	news, err := t.mint(ctx, lines, minted, resolve, bad)
	b := Batch{Jobs: news, lines: make([]lineOf, len(lines))}
	for i, l := range lines {
		b.lines[i] = lineOf{news[i].ID, l.Ref, l.line}
	}
	return b, err
}

// mint makes the jobs. A line may refer to a later one, so all ids are made
// before references are resolved.
func (t *Builder) mint(ctx context.Context, lines []*batchLine, minted map[string]kernel.JobID, resolve func(string) ([]kernel.JobID, error), bad *lineErrors) ([]kernel.NewJob, error) {
	news := make([]kernel.NewJob, len(lines))
	unread := len(bad.lines) > 0 // references may be to lines that could not be read
	for i, l := range lines {
		var err error
		if news[i], err = t.newJob(ctx, l.Request, kernel.Spec{}); err != nil {
			bad.add(l.line, err)
		}
		news[i].Part = l.Ref
		if l.Ref != "" {
			minted[l.Ref] = news[i].ID
		}
	}
	for i, l := range lines {
		for _, ref := range l.After {
			ref, policy := afterPolicy(ref)
			id, inside := minted[ref]
			if !inside && t.whole(ref) {
				id, inside = kernel.JobID(ref), true
			}
			ids := []kernel.JobID{id}
			if !inside {
				var err error
				if ids, err = resolve(ref); err != nil && !unread {
					bad.add(l.line, err)
				}
			}
			for _, id := range ids {
				news[i].Spec.RunsAfter(id, policy)
			}
		}
	}
	return news, bad.err()
}

// whole reports whether ref is an id that the scheduler looks up later.
func (t *Builder) whole(ref string) bool { return t.Late && kernel.ValidJobID(ref) }

// parseBatch parses the lines and skips empty ones.
func parseBatch(in io.Reader) (out []*batchLine, bad *lineErrors) {
	bad = &lineErrors{}
	first := map[string]int{}
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxLine)
	n := 0
	for s.Scan() {
		n++
		text := bytes.TrimSpace(s.Bytes())
		if len(text) == 0 {
			continue
		}
		l := &batchLine{line: n}
		if err := decodeStrict(text, l); err != nil {
			bad.add(n, err)
			continue
		}
		if at, taken := first[l.Ref]; taken && l.Ref != "" {
			bad.add(n, fmt.Errorf("ref %q is that of line %d already", l.Ref, at))
		}
		if _, policy := afterPolicy(l.Ref); policy != kernel.AfterSuccess {
			bad.add(n, fmt.Errorf("ref %q ends in :any, which after reads as a policy", l.Ref))
		}
		first[l.Ref] = n
		out = append(out, l)
	}
	switch err := s.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		bad.add(n+1, fmt.Errorf("longer than %d MiB, the most that a line may have: hand the job what is so long in a file", maxLine>>20))
	case err != nil:
		bad.add(n+1, err)
	}
	return out, bad
}

// decodeStrict decodes exactly one JSON object. Keys may be spelt like the
// flags, with dashes.
func decodeStrict(text []byte, into *batchLine) error {
	if err := checkText(text); err != nil {
		return err
	}
	if err := checkKeys(text); err != nil {
		return err
	}
	if bytes.ContainsRune(text, '-') {
		text = normalizeKeys(text)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(into); err != nil {
		return explainJSON(err)
	}
	if d.More() {
		return errors.New("expected one JSON object a line, found more after it")
	}
	return nil
}

// checkText refuses what a JSON decoder silently replaces, because another command would then
// run: bytes that are not UTF-8, and an escape that is half of a surrogate pair.
func checkText(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("not UTF-8 text: hand the job what is not text in a file")
	}
	escaped := func(b []byte) rune { // by an escape that begins b
		if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
			return 0
		}
		n, _ := strconv.ParseUint(string(b[2:6]), 16, 16) // if it is no number, the decoder says so
		return rune(n)
	}
	for at := bytes.IndexByte(text, '\\'); at >= 0; at = bytes.IndexByte(text, '\\') {
		text = text[at:]
		skip := 2
		if r := escaped(text); utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, escaped(text[6:])) == utf8.RuneError {
				return fmt.Errorf("%s is half of a surrogate pair, which is no character: hand the job what is not text in a file", text[:6])
			}
			skip = 12
		}
		text = text[min(skip, len(text)):]
	}
	return nil
}

// checkKeys returns an error about a key of the object that a line does not have, or that stands twice, in any
// spelling. A decoder would take keys in any case, and the last of two. What is no object is left to it.
func checkKeys(object []byte) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		t, _ := d.Token()
		key, ok := t.(string) // not so after an error
		name := strings.ReplaceAll(key, "-", "_")
		var skipped json.RawMessage
		switch {
		case !ok:
			return nil
		case seen[name]:
			return fmt.Errorf("the key %s stands twice: remove one of them", key)
		case !slices.Contains(batchKeys(), name):
			return unknownKey(key)
		case d.Decode(&skipped) != nil:
			return nil
		}
		seen[name] = true
	}
	return nil
}

// normalizeKeys returns the object with its keys also spelt with underscores
// where they have dashes. Anything but an object is returned unchanged.
func normalizeKeys(text []byte) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		return text
	}
	changed := false
	for key, v := range object {
		name := strings.ReplaceAll(key, "-", "_")
		if _, taken := object[name]; !taken {
			object[name], changed = v, true
		}
	}
	if out, err := json.Marshal(object); changed && err == nil {
		return out
	}
	return text
}

// explainJSON rewords an error of encoding/json in terms of a batch line's
// keys.
func explainJSON(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		want := wrong.Type.String()
		if wrong.Type.Kind() == reflect.Slice {
			want = "an array of strings"
		}
		if wrong.Field == "" {
			return fmt.Errorf("expected a JSON object, found %s", wrong.Value)
		}
		key := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:] // without the names of embedded structs
		return fmt.Errorf("%s: expected %s, found %s", key, want, wrong.Value)
	}
	return fmt.Errorf(`expected a JSON object such as {"command":["make"]}: %w`, err)
}

func unknownKey(key string) error {
	if near := workflow.Suggest(strings.ToLower(key), batchKeys()); near != "" {
		return fmt.Errorf("unknown key %s (did you mean %s?)", key, near)
	}
	return fmt.Errorf("unknown key %s (the keys are %s)", key, strings.Join(batchKeys(), ", "))
}

// batchKeys returns the keys that a line of a batch may have.
var batchKeys = sync.OnceValue(func() []string {
	keys := []string{"ref"}
	t := reflect.TypeFor[Request]()
	for i := range t.NumField() {
		keys = append(keys, t.Field(i).Tag.Get("json"))
	}
	return keys
})

// lineErrors collects the errors of a batch.
type lineErrors struct {
	lines []LineError
	class error // of the first error
}

// add records what is wrong with a line. It records joined errors one by one; a
// single error whose text contains a line end stays one error.
func (c *lineErrors) add(line int, err error) {
	if c.class == nil {
		c.class = kernel.ErrInvalid
		if errors.Is(err, kernel.ErrNotFound) {
			c.class = kernel.ErrNotFound
		}
	}
	if all, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok && err.Error() == errors.Join(all.Unwrap()...).Error() {
		for _, one := range all.Unwrap() {
			c.add(line, one)
		}
		return
	}
	c.lines = append(c.lines, LineError{line, kernel.Said(err)})
}

func (c *lineErrors) err() error {
	if c.class == nil {
		return nil
	}
	slices.SortStableFunc(c.lines, func(a, b LineError) int { return a.Line - b.Line })
	shown := min(len(c.lines), maxBatchErrors)
	return &BatchError{c.lines[:shown], len(c.lines) - shown, c.class}
}

// BatchError lists what is wrong with a batch, in the order of its lines.
type BatchError struct {
	Lines []LineError
	More  int   // number of errors that are left out
	class error // kernel.ErrInvalid, kernel.ErrNotFound, kernel.ErrConflict or a kernel.PoolError
}

// LineError is one error in a line of a batch.
type LineError struct {
	Line int // from 1
	Text string
}

func (e *BatchError) Error() string {
	var all []string
	for _, l := range e.Lines {
		all = append(all, fmt.Sprintf("line %d: %s", l.Line, l.Text))
	}
	if e.More > 0 {
		all = append(all, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(all, "\n")
}

// Unwrap returns the class.
func (e *BatchError) Unwrap() error { return e.class }
