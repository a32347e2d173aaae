package fs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // git names commits by it
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	iofs "io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// Evidence describes some jobs, in a file that has their history, too. The file is
// evidenceVersion, this as a line of JSON, the sealed files of the history in order, and
// the SHA-256 of all before it (docs/formats/history.md).
type Evidence struct {
	About   string           `json:"about"`   // what was asked for
	Program string           `json:"program"` // the version that wrote it
	Made    time.Time        `json:"made"`
	Jobs    []EvidenceJob    `json:"jobs"`
	Commits []EvidenceCommit `json:"commits"`
	Parts   []int64          `json:"parts"` // the sizes of the sealed files
}

// EvidenceJob is a job as it was when the file was made.
type EvidenceJob struct {
	Job    kernel.JobID   `json:"job"`
	Record []byte         `json:"record"` // job.json
	Files  []EvidenceFile `json:"files"`  // its logs, and what else it left
}

// EvidenceFile is the digest of a file.
type EvidenceFile struct {
	Path   string `json:"path"` // below the repository's root
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// EvidenceCommit is a commit that the jobs made.
type EvidenceCommit struct {
	ID     kernel.CommitID `json:"id"`
	Object []byte          `json:"object"` // as git stores it; ID is its hash
}

const (
	evidenceVersion = "vizier evidence 1\n"
	evidenceKind    = "vizier evidence "
	maxEvidence     = 1 << 31
)

// Export returns the evidence of jobs that exist: their history from their first entry to
// their last, with the records that its decisions read. find returns the commits whose
// messages have one of some lines.
func (s *Store) Export(ctx context.Context, about string, ids []kernel.JobID, find func(context.Context, []string) ([]EvidenceCommit, error)) ([]byte, error) {
	p, err := s.history(ctx, false)
	if err != nil {
		return nil, err
	}
	wanted := map[kernel.JobID]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	first, last, err := p.spanOf(ctx, wanted)
	if err != nil {
		return nil, err
	}
	if first == 0 {
		return nil, beyondError("no history of " + about + " is on record")
	}
	e := Evidence{About: about, Program: s.opts.Program, Made: s.opts.Now(), Commits: []EvidenceCommit{}}
	var marks []string
	for _, id := range ids {
		j, err := s.evidenceOf(id)
		if err != nil {
			return nil, err
		}
		for _, f := range j.Files {
			if dir, name := path.Split(f.Path); path.Base(dir) == effectsDir && path.Ext(name) == ".json" {
				marks = append(marks, effect.Trailer+strings.TrimSuffix(name, ".json"))
			}
		}
		e.Jobs = append(e.Jobs, j)
	}
	if len(marks) > 0 {
		if e.Commits, err = find(ctx, marks); err != nil {
			return nil, err
		}
	}
	read := map[kernel.JobID]bool{}
	whole, err := p.between(ctx, first, last, nil, read)
	if err != nil {
		return nil, err
	}
	few, err := p.between(ctx, first, last, read, nil)
	if err != nil {
		return nil, err
	}
	all, err := e.encode(whole)
	if err != nil {
		return nil, err
	}
	small, err := e.encode(few)
	if err != nil {
		return nil, err
	}
	_, want, err := VerifyEvidence(ctx, s.opts.Program, all)
	if err != nil {
		return nil, err
	}
	if _, got, err := VerifyEvidence(ctx, s.opts.Program, small); err == nil && got.Decisions == want.Decisions && len(got.Findings) == len(want.Findings) {
		return small, nil
	}
	return all, nil // the decisions depend on more records than those that they read
}

// spanOf returns the first and the last entry about some jobs; 0 if there is none.
func (p chronicle) spanOf(ctx context.Context, ids map[kernel.JobID]bool) (first, last uint64, err error) {
	err = p.each(func(e *pastEntry) error {
		var about []kernel.JobID
		if e.number > 0 { // an opening has none
			about = slices.Collect(maps.Keys(e.found()))
			for _, g := range e.groups {
				about = append(about, g.job)
			}
		}
		if slices.ContainsFunc(about, func(id kernel.JobID) bool { return ids[id] }) {
			first, last = cmp.Or(first, e.number), e.number
		}
		return ctx.Err()
	})
	return first, last, err
}

// between returns the sealed files of the entries first to last, after an opening with the
// records before them: those of the jobs in only, or all if it is nil. If read is not nil,
// between adds the jobs to it that the entries change or their decisions read.
func (p chronicle) between(ctx context.Context, first, last uint64, only, read map[kernel.JobID]bool) (parts [][]byte, err error) {
	var before fold
	var content []byte
	var head segmentHead
	v := newVerifier(p.s.opts.Program)
	v.read = read
	seal := func() error {
		if head.First == 0 {
			return nil
		}
		head.Size = int64(len(content))
		b, err := sealed(head, just(content))
		parts, head, content = append(parts, b), segmentHead{}, nil
		return err
	}
	open := func(f *fold, head segmentHead) error {
		maps.DeleteFunc(f.records, func(id kernel.JobID, _ []byte) bool { return only != nil && !only[id] })
		b, err := f.entry().encode()
		if err != nil {
			return err
		}
		head.Opening, head.Last, head.Size = true, head.First-1, int64(len(b))
		sealedOpening, err := sealed(head, just(b))
		if err != nil {
			return err
		}
		parts = append(parts, sealedOpening)
		return eachEntry(b, "", &head, func(e *pastEntry) error { return v.pass(e) })
	}
	begun := false
	err = p.each(func(e *pastEntry) error {
		opening := e.head != nil && e.head.Opening
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case e.number > last, opening && e.head.First > last, !opening && (e.number == 0 || begun && e.number < v.next):
			return nil
		case begun && opening:
			var f fold
			f.take(e)
			return errors.Join(seal(), open(&f, segmentHead{First: e.head.First, Tip: e.head.Tip, Began: e.head.Began, Ended: e.head.Ended, Lost: e.head.Lost}))
		case opening || e.number < first:
			before.take(e)
			return nil
		}
		when := stamp(e.written())
		if !begun {
			begun = true
			if err := open(&before, segmentHead{First: e.number, Tip: e.before, Began: when, Ended: when}); err != nil {
				return err
			}
		}
		if head.First == 0 {
			head = segmentHead{First: e.number, Before: e.before, Began: when}
		}
		head.Last, head.Tip, head.Ended = e.number, e.digest(), when
		content = append(content, framedEntry(e.body)...)
		for _, g := range e.groups {
			if read != nil {
				read[g.job] = true
			}
		}
		return v.pass(e)
	})
	return parts, errors.Join(err, seal())
}

// pass reads and verifies an entry.
func (v *verifier) pass(e *pastEntry) error {
	r := readEntry{pastEntry: *e}
	r.read()
	return v.entry(&r)
}

// framedEntry returns an entry as it is in the journal.
func framedEntry(body []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	return append(binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(body)), body...)
}

// evidenceOf returns the record of a job and the digests of the files that it left.
func (s *Store) evidenceOf(id kernel.JobID) (j EvidenceJob, err error) {
	j = EvidenceJob{Job: id, Files: []EvidenceFile{}}
	if j.Record, err = s.readRecordFile(id); err != nil {
		return j, err
	}
	add := func(name string, r io.Reader) error {
		sum := sha256.New()
		n, err := io.Copy(sum, r)
		j.Files = append(j.Files, EvidenceFile{path.Join(vizierDir, name), n, hex.EncodeToString(sum.Sum(nil))})
		return err
	}
	files, err := s.readPack(id)
	if errors.Is(err, iofs.ErrNotExist) {
		err = s.eachFile(jobPath(id, "."), add)
	}
	for _, f := range files {
		if !isOwn(f.name) {
			err = errors.Join(err, add(jobPath(id, f.name), bytes.NewReader(f.data)))
		}
	}
	job, _, wrong := decodeRecord(id, j.Record)
	if err = errors.Join(err, wrong); err != nil {
		return j, err
	}
	for _, a := range job.Spec.Produces {
		if a.Kind != kernel.Custom {
			continue
		}
		name := artifactFile(payloadsDir, a, id)
		if err := s.readsFile(name, add); ignoreMissing(err) != nil {
			return j, err
		}
	}
	slices.SortFunc(j.Files, func(a, b EvidenceFile) int { return strings.Compare(a.Path, b.Path) })
	return j, nil
}

// isOwn reports that a file of a job is the store's own: the history has its content.
func isOwn(name string) bool { return name == recordName || name == stateName || name == lockName }

// eachFile calls f with every regular file below a directory.
func (s *Store) eachFile(dir string, f func(name string, r io.Reader) error) error {
	names, err := s.base.names(dir)
	if err != nil {
		return err
	}
	for _, base := range names {
		name := path.Join(dir, base)
		st, err := s.disk.stat(s.base.fd, name)
		switch {
		case err != nil:
			err = failed("stat", name, err)
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			err = s.eachFile(name, f)
		case st.Mode&unix.S_IFMT == unix.S_IFREG && !isOwn(base):
			err = s.readsFile(name, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readsFile calls f with a file.
func (s *Store) readsFile(name string, f func(name string, r io.Reader) error) error {
	file, err := s.base.file(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer file.Close()
	return f(name, file)
}

func (e Evidence) encode(parts [][]byte) ([]byte, error) {
	e.Parts = nil
	for _, p := range parts {
		e.Parts = append(e.Parts, int64(len(p)))
	}
	line, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	b := slices.Concat([]byte(evidenceVersion), line, []byte("\n"), slices.Concat(parts...))
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

var errEvidence = errors.New("it was changed, or is damaged: its digest is another")

// openEvidence takes a file apart.
func openEvidence(b []byte) (e Evidence, parts [][]byte, err error) {
	rest, ok := bytes.CutPrefix(b, []byte(evidenceVersion))
	if line, _, _ := bytes.Cut(b, []byte("\n")); !ok && bytes.HasPrefix(line, []byte(evidenceKind)) {
		var v int
		if _, err := fmt.Sscan(string(line[len(evidenceKind):]), &v); err == nil && v > 1 {
			return e, nil, fmt.Errorf("evidence format %d: %w", v, ErrNewer)
		}
	}
	at := len(b) - sha256.Size
	if !ok || len(rest) < sha256.Size || sha256.Sum256(b[:at]) != digest(b[at:]) {
		return e, nil, errEvidence
	}
	line, rest, _ := bytes.Cut(rest[:len(rest)-sha256.Size], []byte("\n"))
	if err := fromJSON(line, &e); err != nil {
		return e, nil, jsonError(err)
	}
	for _, n := range e.Parts {
		if uint64(n) > uint64(len(rest)) {
			return e, nil, errEvidence
		}
		parts, rest = append(parts, rest[:n]), rest[n:]
	}
	if len(rest) > 0 {
		return e, nil, errEvidence
	}
	return e, parts, nil
}

// WriteEvidence writes what Export made to a file. If that fails, as on a full disk, a regular file keeps what it had.
func WriteEvidence(name string, b []byte) error {
	info, err := os.Lstat(name)
	if errors.Is(err, iofs.ErrNotExist) || err == nil && info.Mode().IsRegular() {
		return sys.ReplaceFile(name, b)
	}
	return os.WriteFile(name, b, 0o600)
}

// ReadEvidence reads a file that Export made.
func ReadEvidence(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	begin := make([]byte, len(evidenceKind))
	_, err = io.ReadFull(f, begin)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err == nil && string(begin) != evidenceKind:
		err = fmt.Errorf("%s is no evidence, which `vizier history export` writes: %w", name, kernel.ErrInvalid)
	case err == nil:
		begin, err = io.ReadAll(io.MultiReader(bytes.NewReader(begin), io.LimitReader(f, maxEvidence)))
	}
	return begin, err
}

// VerifyEvidence checks the bytes of a file that Export made, with this version's kernel. It
// uses nothing but the file.
func VerifyEvidence(ctx context.Context, program string, b []byte) (Evidence, Verification, error) {
	v := newVerifier(program)
	e, parts, err := openEvidence(b)
	if err != nil {
		v.out.Findings = append(v.out.Findings, Finding{Kind: FoundDamage, Text: err.Error()})
		return e, v.out, nil
	}
	for i, part := range parts {
		name := fmt.Sprintf("part %d", i+1)
		head, content, err := openSegment(part)
		if err == nil && (i == 0 && !head.Opening) {
			err = errSegment
		}
		if err == nil {
			err = eachEntry(content, name, &head, func(e *pastEntry) error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return v.pass(e)
			})
		}
		if ctx.Err() != nil {
			return e, v.out, ctx.Err()
		}
		if errors.Is(err, errEnough) {
			return e, v.out, nil
		}
		if err != nil {
			v.out.Findings = append(v.out.Findings, Finding{Kind: FoundDamage, Entry: v.next, File: name, Text: err.Error()})
			return e, v.out, nil
		}
	}
	v.compareEvidence(e)
	return e, v.out, nil
}

// compareEvidence compares the records and the commits of e with what the history leads to.
func (v *verifier) compareEvidence(e Evidence) {
	end := &readEntry{}
	effects := map[string]bool{}
	for _, j := range e.Jobs {
		if !bytes.Equal(v.records[j.Job], j.Record) {
			v.find(end, v.unknown(j.Job, v.records[j.Job], j.Record))
		}
		for _, f := range j.Files {
			effects[strings.TrimSuffix(path.Base(f.Path), ".json")] = path.Base(path.Dir(f.Path)) == effectsDir
		}
	}
	for _, c := range e.Commits {
		switch {
		case objectName(c.Object, len(c.ID)) != string(c.ID):
			v.find(end, Finding{Kind: FoundDamage, Text: fmt.Sprintf("commit %s was changed: its content is another", c.ID)})
		case !slices.ContainsFunc(effectsOf(c.Object), func(key string) bool { return effects[key] }):
			v.find(end, Finding{Kind: FoundEdit, Text: fmt.Sprintf("commit %s bears no trailer of an effect of these jobs", c.ID)})
		}
	}
}

// effectsOf returns the keys of the effects that a commit's message names.
func effectsOf(object []byte) (keys []string) {
	for line := range strings.Lines(string(object)) {
		if key, is := strings.CutPrefix(strings.TrimSpace(line), effect.Trailer); is {
			keys = append(keys, key)
		}
	}
	return keys
}

// objectName returns git's name of a commit: its SHA-256 if that has so many digits, else its SHA-1.
func objectName(object []byte, digits int) string {
	var sum hash.Hash = sha1.New() //nolint:gosec // git names commits by it
	if digits == 2*sha256.Size {
		sum = sha256.New()
	}
	fmt.Fprintf(sum, "commit %d\x00", len(object))
	sum.Write(object)
	return hex.EncodeToString(sum.Sum(nil))
}
