package fs

import (
	"bytes"
	"cmp"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// digest is the SHA-256 of an entry's body, by which the next entry names it, or of a
// sealed file.
type digest [sha256.Size]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText is d in hex.
func (d digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *digest) UnmarshalText(b []byte) error {
	if n, err := hex.Decode(d[:], b[:min(len(b), 2*len(d))]); err != nil || n != len(d) || len(b) != 2*len(d) {
		return fmt.Errorf("%.80q is not a digest", b)
	}
	return nil
}

func (r *reader) digest() (d digest) {
	if r.fill(uint64(len(d))); len(r.b) < len(d) {
		r.fails(errShort)
		return d
	}
	r.b = r.b[copy(d[:], r.b):]
	return d
}

// segmentHead is the head of a sealed file of the history. The file is historyVersion, the
// head as a line of JSON, the content as raw DEFLATE, and the SHA-256 of all before it. The
// content is entries as they were in the journal; in an opening it is one entry, which has
// every record as it was before entry First (docs/formats/history.md).
type segmentHead struct {
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"` // in an opening First-1
	Before  digest `json:"before"`
	Tip     digest `json:"tip"` // the digest of the last entry, which the entry after it has as Before
	Began   stamp  `json:"began"`
	Ended   stamp  `json:"ended"`
	Size    int64  `json:"size"` // of the content
	Opening bool   `json:"opening,omitempty"`
	Cut     bool   `json:"cut,omitempty"`  // in an opening: earlier entries were dropped
	Lost    bool   `json:"lost,omitempty"` // in an opening: the journal with the earlier entries was gone or damaged
}

const (
	historyDir     = jobsDir + "/history"
	historyVersion = "vizier history 1\n"
	historyKind    = "vizier history "
	segmentSuffix  = ".segment"
	openingSuffix  = ".opening"
	// maxHead bounds a segmentHead.
	maxHead = 4096
	// mostInflated is more than the bytes of content that one byte of a sealed file can hold.
	mostInflated = 1100
	// mostEntries is more than the entries of any segment.
	mostEntries = 1 << 20
)

// segment is a sealed file.
type segment struct {
	first   uint64
	opening bool
}

func (g segment) file() string {
	suffix := segmentSuffix
	if g.opening {
		suffix = openingSuffix
	}
	return fmt.Sprintf("%s/%012d%s", historyDir, g.first, suffix)
}

// segments returns the sealed files, in order. An opening comes before the segment that
// begins with the same entry.
func (s *Store) segments() ([]segment, error) {
	names, err := s.base.names(historyDir)
	var out []segment
	for _, name := range names {
		stem, suffix := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
		first, err := strconv.ParseUint(stem, 10, 64)
		if g := (segment{first, suffix == openingSuffix}); err == nil && path.Base(g.file()) == name {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b segment) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(boolOrder(!a.opening), boolOrder(!b.opening)))
	})
	return out, err
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

// writeSegment seals content. It is durable, or will be with the next sync of the store.
func (s *Store) writeSegment(head segmentHead, durable bool, content func(io.Writer) error) error {
	g := segment{head.First, head.Opening}
	d, err := s.base.make(historyDir)
	if err != nil {
		return err
	}
	d.close()
	b, err := sealed(head, content)
	if err != nil {
		return fmt.Errorf("seal %s: %w", g.file(), err)
	}
	return s.base.write(g.file(), b, durable)
}

// sealed returns the bytes of a sealed file.
func sealed(head segmentHead, content func(io.Writer) error) ([]byte, error) {
	var body bytes.Buffer
	z, _ := flate.NewWriter(&body, flate.BestSpeed) // the level is valid
	if err := errors.Join(content(z), z.Close()); err != nil {
		return nil, err
	}
	line, err := toLine(head)
	if err != nil {
		return nil, err
	}
	file := slices.Concat([]byte(historyVersion), line, []byte("\n"), body.Bytes())
	sum := sha256.Sum256(file)
	return append(file, sum[:]...), nil
}

// just is the content b of a sealed file.
func just(b []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(b); return err }
}

// SegmentError says that a file of the history cannot be read, and why.
type SegmentError struct {
	File string // below the repository's root
	Err  error
}

func (e *SegmentError) Error() string { return e.File + ": " + e.Err.Error() }
func (e *SegmentError) Unwrap() error { return e.Err }

var errSegment = errors.New("it was changed, or is damaged: its digest is another")

// segmentHead reads the head of a sealed file.
func (s *Store) segmentHead(g segment) (head segmentHead, err error) {
	f, err := s.base.file(g.file(), os.O_RDONLY)
	if err != nil {
		return head, err
	}
	defer f.Close()
	b := make([]byte, maxHead)
	n, err := s.disk.readAt(f, b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return head, err
	}
	head, _, err = parseHead(b[:n])
	if err == nil && (head.First != g.first || head.Opening != g.opening || head.Last+1 < head.First || head.Last-head.First+1 > mostEntries) {
		err = errSegment
	}
	if err != nil {
		return head, &SegmentError{vizierDir + "/" + g.file(), err}
	}
	return head, nil
}

// parseHead takes the head off a sealed file.
func parseHead(b []byte) (head segmentHead, rest []byte, err error) {
	rest, ok := bytes.CutPrefix(b, []byte(historyVersion))
	if !ok {
		if line, _, _ := bytes.Cut(b, []byte("\n")); bytes.HasPrefix(line, []byte(historyKind)) {
			if v, err := strconv.Atoi(string(line[len(historyKind):])); err == nil && v > 1 {
				return head, nil, fmt.Errorf("history format %d: %w", v, ErrNewer)
			}
		}
		return head, nil, errSegment
	}
	line, rest, ok := bytes.Cut(rest, []byte("\n"))
	if !ok || json.Unmarshal(line, &head) != nil {
		return head, nil, errSegment
	}
	return head, rest, nil
}

// readSegment reads a sealed file.
func (s *Store) readSegment(g segment) (head segmentHead, content []byte, err error) {
	defer func() {
		if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			err = &SegmentError{vizierDir + "/" + g.file(), err}
		}
	}()
	b, err := s.base.read(g.file(), 1<<32)
	if err != nil {
		return head, nil, err
	}
	head, content, err = openSegment(b)
	if err == nil && (head.First != g.first || head.Opening != g.opening) {
		err = errSegment
	}
	return head, content, err
}

// openSegment returns the head and the content of a sealed file with the bytes b.
func openSegment(b []byte) (head segmentHead, content []byte, err error) {
	head, rest, err := wholeSegment(b)
	if err != nil {
		return head, nil, err
	}
	content = make([]byte, head.Size)
	z := flate.NewReader(bytes.NewReader(rest))
	if _, err := io.ReadFull(z, content); err != nil {
		return head, nil, errSegment
	}
	if n, _ := z.Read(make([]byte, 1)); n > 0 {
		return head, nil, errSegment
	}
	return head, content, nil
}

// wholeSegment returns the head and the compressed content of a sealed file, which has its digest.
func wholeSegment(b []byte) (head segmentHead, rest []byte, err error) {
	head, rest, err = parseHead(b)
	if err != nil {
		return head, nil, err
	}
	at := len(b) - sha256.Size
	if len(rest) < sha256.Size || sha256.Sum256(b[:at]) != digest(b[at:]) || head.Size < 0 || head.Size > mostInflated*int64(len(rest)) {
		return head, nil, errSegment
	}
	return head, rest[:len(rest)-sha256.Size], nil
}
