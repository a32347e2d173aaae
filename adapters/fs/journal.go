package fs

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// The journal makes a plan one commit. An entry holds what each record and
// file of a plan is to be, and the plan's actions on the world. It is appended
// and made durable first; then the files are written without a sync of their
// own; whoever takes the lock after a crash writes them again. So a plan costs
// one sync, whatever the number of its jobs.
//
// The mark says how far the files have caught up. It is not synced: within one
// boot the page cache keeps it, and after another boot the whole journal is
// gone through again. A group of writes belongs to one job and carries the
// revision it leads to, so going through it twice changes nothing.
type journal struct {
	base  dir
	file  *os.File // journal/plans
	mark  *os.File // journal/mark
	boot  string
	sync  bool
	limit int64 // see checkpointSize
	last  knownTip
}

// entry is one plan in the journal. Its world actions stay encoded: only those
// of the last entry are ever to be done again, by whoever knows them.
type entry struct {
	groups []group
	world  []named

	number  uint64 // of the entry in the history of the store; 0: it has no place in one
	before  digest // of the entry before it
	account []byte // an accountRecord; nil: it is not known what it was decided by
}

// group is what one job's part of a plan does to files, in this order. The
// record comes last: once it has the revision, the rest is done.
type group struct {
	job    kernel.JobID
	rev    kernel.Revision
	ops    []fileOp
	record []byte // job.json; nil where the job goes
	state  string
}

type fileOp struct {
	kind opKind
	path string
	to   string // of opRename; of opWrite a second name, below the file's directory, or ""
	data []byte // of opWrite
}

type opKind uint8

const (
	opWrite opKind = iota
	opRemove
	opRename // only where the target is missing
	opRemoveJob
	opCreateJob  // nothing to do: says that there was no such job before
	opStripJob   // all but the record, its state and the lock
	opRemoveTree // a directory of a job with all that is in it
	opPack       // a job's files are in its pack, and its directory goes; of no job: there are packs
	numOpKinds
)

// position is the mark's content: the entry that was applied last, and
// whether its actions on the world are done.
type position struct {
	boot       string
	epoch      uint64 // grows when the journal is emptied
	start, end int64
	done       bool
	rebooted   bool  // another boot came after that entry
	dir        int64 // modification time of the jobs directory after the last commit
	packs      bool  // there have been packs: earlier versions, which know none, are to change nothing
}

const (
	plansFile = journalDir + "/plans"
	markFile  = journalDir + "/mark"
	markSize  = 256
	// markLayout is the fields of a position, in order.
	markLayout = "%q %d %d %d %t %t %d"
	// packsMark is before the layout once there have been packs. Earlier versions take
	// such a mark for damaged and go through the whole journal, of which the
	// first entry then has an opPack.
	packsMark = "packs "
	// checkpointSize is how large the journal grows before everything is
	// synced and it starts over.
	checkpointSize = 8 << 20
)

func openJournal(base dir, boot string, durable bool) (*journal, error) {
	file, err := base.file(plansFile, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	mark, err := base.file(markFile, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &journal{base: base, file: file, mark: mark, boot: boot, sync: durable, limit: checkpointSize}, nil
}

func (j *journal) close() error { return errors.Join(j.file.Close(), j.mark.Close()) }

// position reads the mark. A mark that makes no sense, or of another boot, says
// that nothing was applied: fresh is true.
func (j *journal) position() (p position, fresh bool, err error) {
	p, marked, err := j.marked()
	switch {
	case err != nil:
		return p, false, err
	case !marked: // Its epoch is gone, too: a new one that no cache can have seen.
		return position{boot: j.boot, epoch: uint64(time.Now().UnixNano()), done: true, packs: p.packs}, true, nil
	case p.boot != j.boot:
		return position{boot: j.boot, epoch: p.epoch + 1, done: true, packs: p.packs}, true, nil
	}
	return p, false, nil
}

// marked is what the mark says, of whatever boot it is; false: it makes no sense.
func (j *journal) marked() (p position, marked bool, err error) {
	if _, err := sys.Look(int(j.mark.Fd()), ""); err != nil { // so that the read sees what another host wrote
		return p, false, err
	}
	buf := make([]byte, markSize)
	n, err := j.mark.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return p, false, err
	}
	line, packs := strings.CutPrefix(string(buf[:n]), packsMark)
	p.packs = packs
	_, err = fmt.Sscanf(line, markLayout, &p.boot, &p.epoch, &p.start, &p.end, &p.done, &p.rebooted, &p.dir)
	return p, err == nil && p.start >= 0 && p.end >= p.start, nil
}

func (j *journal) setPosition(p position) error {
	line := fmt.Sprintf(markLayout, p.boot, p.epoch, p.start, p.end, p.done, p.rebooted, p.dir)
	if p.packs {
		line = packsMark + line
	}
	if len(line) >= markSize {
		return fmt.Errorf("journal mark %s: longer than %d bytes", line, markSize)
	}
	b := []byte(line + strings.Repeat(" ", markSize-1-len(line)) + "\n")
	return failed("write", markFile, j.base.disk.writeAt(int(j.mark.Fd()), b, 0))
}

func (j *journal) size() (int64, error) {
	st, err := sys.Look(int(j.file.Fd()), "")
	return st.Size, err
}

// append makes e durable at offset at and returns where it ends.
func (j *journal) append(e entry, at int64) (int64, error) {
	b, err := e.encode()
	if err != nil {
		return at, err
	}
	digest := digest(sha256.Sum256(b[8:]))
	err = failed("write", plansFile, j.base.disk.writeAt(int(j.file.Fd()), b, at))
	if err == nil && j.sync {
		err = failed("sync", plansFile, j.base.disk.syncData(int(j.file.Fd())))
	}
	if err != nil {
		return at, errors.Join(err, j.cut(at))
	}
	j.last = knownTip{journalOffset{end: at + int64(len(b))}, e.number, digest} // the caller knows the epoch
	return at + int64(len(b)), nil
}

// cut drops what stands from offset at on.
func (j *journal) cut(at int64) error {
	return failed("truncate", plansFile, j.base.disk.truncate(int(j.file.Fd()), at))
}

// read returns the entry at offset at and where it ends. A torn entry, which
// was never durable and so never happened, is io.ErrUnexpectedEOF.
func (j *journal) read(at int64) (entry, int64, error) {
	body, next, err := j.body(at)
	if err != nil {
		return entry{}, at, err
	}
	e, err := decodeEntry(body)
	if err != nil {
		return entry{}, at, fmt.Errorf("journal entry at %d: %w", at, err)
	}
	return e, next, nil
}

// body is that of the entry at offset at, and where it ends; errors are those of read.
func (j *journal) body(at int64) ([]byte, int64, error) {
	size, err := j.size() // first: it has the reads see what another host wrote
	var head [8]byte
	if n, err := j.file.ReadAt(head[:], at); err != nil {
		if n == 0 && errors.Is(err, io.EOF) {
			return nil, at, io.EOF
		}
		return nil, at, io.ErrUnexpectedEOF
	}
	length := int64(binary.LittleEndian.Uint32(head[:4]))
	// A length of zero is what a power failure leaves of a file that had grown.
	if err != nil || length == 0 || at+8+length > size {
		return nil, at, io.ErrUnexpectedEOF
	}
	body := make([]byte, length)
	if _, err := j.file.ReadAt(body, at+8); err != nil {
		return nil, at, io.ErrUnexpectedEOF
	}
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, at, io.ErrUnexpectedEOF
	}
	return body, at + 8 + length, nil
}

// full reports that it is time for a checkpoint. It is not while actions on the
// world are to be done: the journal has them.
func (j *journal) full(p position) bool { return p.end > j.limit && p.done }

// checkpoint makes every file durable and empties the journal.
func (j *journal) checkpoint(p position) (position, error) {
	if j.sync {
		if err := j.base.disk.syncAll(j.base.fd); err != nil {
			return p, err
		}
	}
	if err := j.cut(0); err != nil {
		return p, err
	}
	p.epoch, p.start, p.end = p.epoch+1, 0, 0
	return p, j.setPosition(p)
}

func (e entry) encode() ([]byte, error) {
	var world []byte
	if len(e.world) > 0 {
		var err error
		if world, err = json.Marshal(e.world); err != nil {
			return nil, err
		}
	}
	size := 1024 + len(world) + len(e.account)
	for _, g := range e.groups { // a batch is large, and would be copied over and over as it grows
		size += 64 + len(g.record)
		for _, op := range g.ops {
			size += 128 + len(op.path) + len(op.to) + len(op.data)
		}
	}
	b := make([]byte, 8, size)
	b = putBytes(b, world)
	b = binary.AppendUvarint(b, uint64(len(e.groups)))
	for _, g := range e.groups {
		b = g.append(b)
	}
	if e.number > 0 {
		b = binary.AppendUvarint(b, e.number)
		b = putBytes(append(b, e.before[:]...), e.account)
	}
	binary.LittleEndian.PutUint32(b[:4], uint32(len(b)-8))
	binary.LittleEndian.PutUint32(b[4:8], crc32.ChecksumIEEE(b[8:]))
	return b, nil
}

func (e entry) does(kind opKind) bool {
	return slices.ContainsFunc(e.groups, func(g group) bool { return g.does(kind) })
}

func (g group) does(kind opKind) bool {
	return slices.ContainsFunc(g.ops, func(op fileOp) bool { return op.kind == kind })
}

func (g group) append(b []byte) []byte {
	b = putBytes(b, []byte(g.job))
	b = binary.AppendUvarint(b, uint64(g.rev))
	b = putBytes(b, g.record)
	b = putBytes(b, []byte(g.state))
	b = binary.AppendUvarint(b, uint64(len(g.ops)))
	for _, op := range g.ops {
		b = append(b, byte(op.kind))
		b = putBytes(b, []byte(op.path))
		b = putBytes(b, []byte(op.to))
		b = putBytes(b, op.data)
	}
	return b
}

func putBytes(b, v []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(v))), v...) }

func decodeEntry(b []byte) (entry, error) {
	r := reader{b: b}
	var e entry
	world := r.bytes()
	for n := r.count(); n > 0 && r.err == nil; n-- {
		e.groups = append(e.groups, r.group())
	}
	if r.err == nil && len(r.b) > 0 {
		e.number, e.before, e.account = r.uint(), r.digest(), r.bytes()
	}
	if r.err != nil {
		return e, r.err
	}
	if len(world) == 0 {
		return e, nil
	}
	err := json.Unmarshal(world, &e.world)
	return e, err
}

func (r *reader) group() group {
	g := group{job: kernel.JobID(r.bytes()), rev: kernel.Revision(r.uint()), record: r.bytes(), state: string(r.bytes())}
	if len(g.record) == 0 {
		g.record = nil
	}
	for m := r.count(); m > 0 && r.err == nil; m-- {
		g.ops = append(g.ops, fileOp{opKind(r.byte()), string(r.bytes()), string(r.bytes()), r.bytes()})
	}
	return g
}

// reader takes values off a buffer. After the first error it yields zeros.
type reader struct {
	b   []byte
	err error
}

var errShort = errors.New("too short")

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.err = nil, errShort
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count is a length that the buffer can hold.
func (r *reader) count() uint64 {
	v := r.uint()
	if v > uint64(len(r.b)) {
		r.b, r.err = nil, errShort
		return 0
	}
	return v
}

func (r *reader) bytes() []byte {
	n := r.count()
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.err = errShort
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// named is a world action in the journal with the name of its kind.
type named struct {
	Type   string
	Action json.RawMessage
}

func encodeActions(actions []kernel.WorldAction) ([]named, error) {
	var out []named
	for _, a := range actions {
		b, err := json.Marshal(a)
		if err != nil {
			return nil, fmt.Errorf("journal %T: %w", a, err)
		}
		out = append(out, named{kernel.WorldActionName(a), b})
	}
	return out, nil
}

// actions are the world actions of e. One that this version does not know is
// ErrNewer: the sum was right, so it means something to somebody. Fields that it
// does not know are another version's, earlier or later, and mean nothing new:
// an action of another meaning has another name.
func (e entry) actions() ([]kernel.WorldAction, error) {
	var out []kernel.WorldAction
	for _, n := range e.world {
		a, err := kernel.ReadWorldAction(n.Type, func(into any) error { return json.Unmarshal(n.Action, into) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", path.Join(vizierDir, plansFile), err, ErrNewer)
		}
		out = append(out, a)
	}
	return out, nil
}

// known reports, by ErrNewer, that e does to files what this version cannot.
func (e entry) known() error {
	for _, g := range e.groups {
		for _, op := range g.ops {
			if op.kind >= numOpKinds {
				return fmt.Errorf("%s: file operation %d of job %s: %w", path.Join(vizierDir, plansFile), op.kind, g.job, ErrNewer)
			}
		}
	}
	return nil
}
