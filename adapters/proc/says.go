package proc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// says are the files in which a command reports about its attempt.
type says struct{ result, submissions, report string }

// saysIn returns the files for j's attempt: in the store or, if the job has
// secrets, beside those. In that case a relay brings their contents into the
// store.
func (l *Local) saysIn(j *kernel.Job) says {
	a := j.Attempt()
	dir := l.provided.of(a).dir
	switch {
	case len(j.Spec.Task.Secrets) == 0:
		return l.saysInStore(a)
	case dir == "": // this is a node, whose runner has the secrets
		dir = filepath.Dir(os.Getenv(envReport))
	}
	return saysBelow(dir)
}

func saysBelow(dir string) says {
	return says{filepath.Join(dir, "result.json"), filepath.Join(dir, "submissions.jsonl"), filepath.Join(dir, "report.jsonl")}
}

// unreadable returns why an attempt cannot end by these files, or nil. Reports decide
// nothing.
func (s says) unreadable() error {
	for _, path := range []string{s.result, s.submissions} {
		f, err := sys.OpenRegular(path, os.O_RDONLY)
		if err == nil {
			_, err = f.Read(make([]byte, 1))
			err = errors.Join(err, f.Close())
		}
		if unreadable(err) {
			return err
		}
	}
	return nil
}

func (l *Local) saysInStore(a kernel.AttemptID) says {
	return says{l.Files.ResultFile(a), l.Files.SubmissionsFile(a), l.Files.ReportFile(a)}
}

// How often a relay checks for progress, and how many bytes of a report it
// copies: as many as are read of one.
const (
	relayEvery  = 200 * time.Millisecond
	relayReport = 64 << 10
)

// relay copies what a command with secrets reports into the store, without the
// secrets.
type relay struct {
	from, to says
	texts    []hiddenText
	seen     os.FileInfo // the report when it was last copied

	once    sync.Once
	stop    chan struct{}
	stopped chan struct{}
}

// relay starts a relay for cmd. It returns nil for a command without secrets.
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

// end copies the final progress. It takes effect once.
func (r *relay) end() {
	if r == nil {
		return
	}
	r.once.Do(func() {
		close(r.stop)
		<-r.stopped
		r.report(true)
	})
}

// report copies the end of a report that has changed. An incomplete last line
// is left out unless last is set. No decision depends on reports, so errors are
// ignored.
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
		_, b, _ = bytes.Cut(b, []byte("\n")) // the first line may begin in the middle of a secret
	}
	if !last {
		b = b[:bytes.LastIndexByte(b, '\n')+1]
	}
	b, _ = redactLines(b, r.texts)
	if sys.ReplaceFile(r.to.report, b) == nil {
		r.seen = st
	}
}

// result copies the result file. From then on, the result is only read from the
// copy. An error says why the result cannot count.
func (r *relay) result() error {
	if r == nil {
		return nil
	}
	b, err := readResult(r.from.result)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ignoreMissing(os.Remove(r.to.result)) // an old copy would be taken for the result
	case err != nil:
		return err
	}
	b, _ = redactJSON(b, r.texts)
	return sys.ReplaceFile(r.to.result, b)
}

// submissions copies the jobs to be enqueued. It fails if they contain a
// secret: that would go on record, and a job without it would be another job.
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

// submissionsLimit is a size, in bytes, larger than submissions may be.
const submissionsLimit = 2 << 20

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// redactLines returns lines of JSON without the texts, and whether they
// contained any.
func redactLines(lines []byte, texts []hiddenText) (out []byte, found bool) {
	for line := range bytes.Lines(lines) {
		b, some := redactJSON(bytes.TrimSuffix(line, []byte("\n")), texts)
		out, found = append(append(out, b...), '\n'), found || some
	}
	return out, found
}

// redactJSON returns a JSON value without the texts in its strings, whatever
// escapes they are written with, and whether it contained any. Anything but
// JSON is treated as plain text.
func redactJSON(text []byte, texts []hiddenText) (out []byte, found bool) {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil || d.Decode(new(any)) != io.EOF {
		s := redact(string(text), texts)
		return []byte(s), s != string(text)
	}
	if v = redactValue(v, texts, &found); !found { // of a key that occurs twice, only one was decoded
		s := redact(string(text), texts)
		return []byte(s), s != string(text)
	}
	out, _ = json.Marshal(v) // cannot fail: it was decoded from JSON
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

// Submitted returns what a's command left in the file of its submissions, of at most most
// bytes; nil: there is no such file. It waits while the file is unreadable. What is larger,
// or no file, is an error, and removed.
func (l *Local) Submitted(ctx context.Context, a kernel.AttemptID, most int64) (lines []byte, err error) {
	path := l.Files.SubmissionsFile(a)
	err = untilReadable(ctx, func() (err error) {
		lines, err = readSubmissions(path, most)
		return err
	})
	if err != nil {
		dropUnless(path, most)
	}
	return lines, err
}

// dropUnless removes what is at path unless it is a regular file of at most most bytes. What a
// command leaves in the place of a file is refused then, and would stay for nothing. It is removed before the
// result is on record: if this process dies between the two, the attempt is lost, and nobody reads its files.
func dropUnless(path string, most int64) {
	if st, err := os.Lstat(path); err == nil && (!st.Mode().IsRegular() || st.Size() > most) {
		_ = sys.RemoveTree(path) // what cannot be removed goes with the job's directory
	}
}

func readSubmissions(path string, most int64) ([]byte, error) {
	f, err := sys.OpenRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() > most {
		return nil, fmt.Errorf("%d bytes, of at most %d: submit the jobs with `vizier submit --batch`", st.Size(), most)
	}
	return io.ReadAll(io.LimitReader(f, most))
}
