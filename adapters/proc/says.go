package proc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// says are the files in which a command says something of its attempt.
type says struct{ result, submissions, report string }

// saysIn is where j's attempt says it: in the store, or with its secrets, if it has
// any: whatever comes from there into the store goes through a relay.
func (l *Local) saysIn(j *kernel.Job) says {
	a := j.Attempt()
	dir := l.provided.of(a).dir
	switch {
	case len(j.Spec.Task.Secrets) == 0:
		return l.saysInStore(a)
	case dir == "": // this is a node, whose runner has them
		dir = filepath.Dir(os.Getenv(envReport))
	}
	return says{filepath.Join(dir, "result.json"), filepath.Join(dir, "submissions.jsonl"), filepath.Join(dir, "report.jsonl")}
}

func (l *Local) saysInStore(a kernel.AttemptID) says {
	return says{l.Files.ResultFile(a), l.Files.SubmissionsFile(a), l.Files.ReportFile(a)}
}

// How often a relay looks for progress, and how much of a report it brings: what is
// read of one.
const (
	relayEvery  = 200 * time.Millisecond
	relayReport = 64 << 10
)

// relay brings what a command with secrets says into the store, without them.
type relay struct {
	from, to says
	texts    []hiddenText
	seen     os.FileInfo // the report, when it was last brought

	once    sync.Once
	stop    chan struct{}
	stopped chan struct{}
	err     error // of the end
}

// relay starts one for cmd; of a command without secrets it is nil.
func (l *Local) relay(cmd command, a kernel.AttemptID) *relay {
	if len(cmd.hidden) == 0 {
		return nil
	}
	r := &relay{from: cmd.says, to: l.saysInStore(a), texts: cmd.hidden, stop: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer close(r.stopped)
		tick := time.NewTicker(relayEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.report(false)
			case <-r.stop:
				return
			}
		}
	}()
	return r
}

// end brings progress and result as they are at the end, once. The error is why the
// result cannot count.
func (r *relay) end() error {
	if r == nil {
		return nil
	}
	r.once.Do(func() {
		close(r.stop)
		<-r.stopped
		r.report(true)
		r.err = r.result()
	})
	return r.err
}

// report brings the end of a report that has changed, without a line that is being
// written unless that is the last. Nothing is decided by it, so that what cannot be
// brought is left out.
func (r *relay) report(last bool) {
	st, err := os.Lstat(r.from.report)
	if err != nil || !last && r.seen != nil && os.SameFile(st, r.seen) && st.Size() == r.seen.Size() && st.ModTime().Equal(r.seen.ModTime()) {
		return
	}
	f, err := sys.OpenRegular(r.from.report, os.O_RDONLY)
	if err != nil {
		return
	}
	defer f.Close()
	from := max(0, st.Size()-relayReport)
	b, err := io.ReadAll(io.NewSectionReader(f, from, relayReport))
	if err != nil {
		return
	}
	if from > 0 {
		_, b, _ = bytes.Cut(b, []byte("\n")) // the first line may have the end of a secret
	}
	if !last {
		b = b[:bytes.LastIndexByte(b, '\n')+1]
	}
	b, _ = redactLines(b, r.texts)
	if sys.ReplaceFile(r.to.report, b) == nil {
		r.seen = st
	}
}

// result brings the result, from which all that is read of it is read then.
func (r *relay) result() error {
	b, err := readResult(r.from.result)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ignoreMissing(os.Remove(r.to.result)) // what may be there would pass for it
	case err != nil:
		return err
	}
	b, _ = redactJSON(b, r.texts)
	return sys.ReplaceFile(r.to.result, b)
}

// submissions brings the jobs that are to be enqueued. A secret in one would be on
// record, and without it the job would be another.
func (r *relay) submissions() error {
	if r == nil {
		return nil
	}
	f, err := sys.OpenRegular(r.from.submissions, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return ignoreMissing(os.Remove(r.to.submissions))
	}
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, submissionsLimit))
	if err != nil {
		return err
	}
	b, found := redactLines(b, r.texts)
	if found {
		return errors.New("a job has the value of a secret, which would be on record: name the secret with its own key `secret`")
	}
	return sys.ReplaceFile(r.to.submissions, b)
}

// submissionsLimit is more than what may be submitted, in bytes.
const submissionsLimit = 2 << 20

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// redactLines is lines of JSON without the texts, and whether there were any.
func redactLines(lines []byte, texts []hiddenText) (out []byte, found bool) {
	for line := range bytes.Lines(lines) {
		b, some := redactJSON(bytes.TrimSuffix(line, []byte("\n")), texts)
		out, found = append(append(out, b...), '\n'), found || some
	}
	return out, found
}

// redactJSON is a value in JSON without the texts in its strings, however they are
// written there, and whether there were any. What is no JSON is taken as it is
// written.
func redactJSON(text []byte, texts []hiddenText) (out []byte, found bool) {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil || d.Decode(new(any)) != io.EOF {
		s := redact(string(text), texts)
		return []byte(s), s != string(text)
	}
	if v = redactValue(v, texts, &found); !found { // a key that stands twice was read once
		s := redact(string(text), texts)
		return []byte(s), s != string(text)
	}
	out, _ = json.Marshal(v) // it was read from JSON
	return out, true
}

func redactValue(v any, texts []hiddenText, found *bool) any {
	switch v := v.(type) {
	case string:
		s := redact(v, texts)
		*found = *found || s != v
		return s
	case []any:
		for i := range v {
			v[i] = redactValue(v[i], texts, found)
		}
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[redactValue(k, texts, found).(string)] = redactValue(e, texts, found)
		}
		return out
	case json.Number:
		s := redact(v.String(), texts)
		if s != v.String() {
			*found = true
			return s
		}
		return v
	default:
		return v
	}
}
