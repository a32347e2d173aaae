package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// Bounds of reports, in bytes. Only the end of a report file is read.
const (
	maxReport       = 64 << 10
	maxProgressText = 200
)

// Progress returns what an attempt's command last reported of how far it is. The
// command may write anything to the file at any time: lines that are invalid are
// ignored, and Wrong describes one of them.
func (s *Store) Progress(a kernel.AttemptID) view.Progress {
	if !kernel.ValidJobID(string(a.Job)) || a.N < 1 || s.open(false) != nil {
		return view.Progress{}
	}
	tail, whole, err := s.tail(a.Job, reportName(a), maxReport)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return view.Progress{}
	case err != nil:
		return view.Progress{Wrong: "its report: " + err.Error()}
	}
	var p view.Progress
	lines := bytes.SplitAfter(tail, []byte("\n"))
	for i, text := range lines {
		said, err := progress(text)
		switch done := bytes.HasSuffix(text, []byte("\n")); {
		case i == 0 && !whole, len(bytes.TrimSpace(text)) == 0: // the line's beginning was not read
		case err == nil:
			said.Wrong = p.Wrong
			p = said
		case done && p.Wrong == "" && whole:
			p.Wrong = fmt.Sprintf("line %d of its report: %v", i+1, err)
		case done && p.Wrong == "":
			p.Wrong = "a line of its report: " + err.Error()
		}
	}
	return p
}

// progress reads one line.
func progress(text []byte) (view.Progress, error) {
	var said struct {
		Done  *int64 `json:"done"`
		Total *int64 `json:"total"`
		Text  string `json:"text"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return view.Progress{}, errors.New(`expected a line of JSON such as {"done":3,"total":10,"text":"third of ten"}`)
	}
	for _, n := range []*int64{said.Done, said.Total} {
		if n != nil && *n < 0 {
			return view.Progress{}, errors.New("done and total are not negative")
		}
	}
	if said.Done == nil && said.Total == nil && said.Text == "" {
		return view.Progress{}, errors.New("it has none of done, total and text")
	}
	line := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(said.Text, "\ufffd"), func(r rune) bool { return r == ' ' || unicode.IsControl(r) }), " ")
	if len(line) > maxProgressText {
		line = strings.ToValidUTF8(line[:maxProgressText], "") + "…"
	}
	return view.Progress{Done: said.Done, Total: said.Total, Text: line}, nil
}

// tail returns the end of a regular file of a job, and whether that is all of it. It
// follows no link and does not block.
func (s *Store) tail(job kernel.JobID, name string, most int64) (tail []byte, whole bool, err error) {
	f, err := s.base.file(jobPath(job, name), unix.O_RDONLY)
	if errors.Is(err, iofs.ErrNotExist) { // perhaps it is packed
		b, err := s.readJobFile(job, name, maxUnpacked)
		from := max(0, len(b)-int(most))
		return b[from:], from == 0, err
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	from := max(0, st.Size()-most)
	tail, err = io.ReadAll(io.NewSectionReader(f, from, most))
	return tail, from == 0, err
}

// OpenLog opens the current log of a stream, "stdout" or "stderr". It opens the job's
// own file only: a link, a pipe or a device in its place or on the way there is an
// error, and OpenLog does not block. For a packed job it returns a copy.
func (s *Store) OpenLog(id kernel.JobID, stream string) (*os.File, error) {
	if err := s.open(false); err != nil {
		return nil, err
	}
	name := jobPath(id, stream+".log")
	f, err := s.base.file(name, unix.O_RDONLY)
	if errors.Is(err, iofs.ErrNotExist) {
		f, err = s.copies.open(s, id, stream+".log")
	}
	if errors.Is(err, sys.ErrNotRegular) {
		err = fmt.Errorf("%s/%s: a link, a pipe or a device stands in the log's place: move it away: %w", vizierDir, name, sys.ErrNotRegular)
	}
	return f, err
}

// LogTail returns the end of a current log of job, "stdout" or "stderr": at most most
// bytes, and none if there is no log.
func (s *Store) LogTail(job kernel.JobID, stream string, most int64) ([]byte, error) {
	if err := s.open(false); err != nil {
		return nil, err
	}
	if !kernel.ValidJobID(string(job)) {
		return nil, fmt.Errorf("log of job %q: %w", job, kernel.ErrInvalid)
	}
	tail, _, err := s.tail(job, stream+".log", most)
	return tail, ignoreMissing(err)
}
