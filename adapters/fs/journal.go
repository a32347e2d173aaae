package fs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The journal makes a plan one commit. An entry holds the new content of each
// record and file of a plan, and the plan's actions on the world. It is appended
// and made durable first; then the files are written without a sync of their
// own. After a crash, the next process that takes the lock writes them again. So
// a plan costs one sync, whatever the number of its jobs.
//
// The mark says how far the files have caught up. It is not synced: within one
// boot the page cache keeps it, and after a reboot the whole journal is
// replayed. A group of writes belongs to one job and carries the revision it
// leads to, so a second replay changes nothing.
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
// of the last entry are ever done again, by a version that knows them.
type entry struct {
	groups []group
	world  []named

	number  uint64 // of the entry in the store's history; 0: it is not part of one
	before  digest // of the entry before it
	account []byte // an accountRecord; nil: the inputs of its decision are not known

	// Only for an entry that is to be written: its account, and the time.
	tells *accountRecord
	now   time.Time
}

// group is what one job's part of a plan does to files, in this order. The
// record comes last: once it has the revision, the rest is done.
type group struct {
	job    kernel.JobID
	rev    kernel.Revision
	ops    []fileOp
	record []byte // job.json; nil: the group writes none
	state  string

	is *cachedJob // the job to encode as the record when the entry is written; nil: record is encoded already
}

type fileOp struct {
	kind opKind
	path string
	to   string // the target of opRename; for opWrite a second name below the file's directory, or ""
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
	opPack       // a job's files are in its pack, and its directory is removed; in a group of no job: there are packs
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
	dir        int64 // modification time of the jobs directory with which the cache agrees
	packs      bool  // there have been packs; earlier versions, which do not know packs, must change nothing
}

const (
	plansFile = journalDir + "/plans"
	markFile  = journalDir + "/mark"
	markSize  = 256
	// markLayout is the fields of a position, in order.
	markLayout = "%q %d %d %d %t %t %d"
	// packsMark precedes the layout once there have been packs. Earlier versions
	// take such a mark for damaged and replay the whole journal. They stop at its
	// first entry: that has an opPack, which they do not know.
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

// lookJournal opens the journal of the open store for a look: it makes no file. The caller closes it.
func (s *Store) lookJournal() (*journal, error) {
	file, err := s.base.file(plansFile, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	mark, err := s.base.file(markFile, os.O_RDONLY)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &journal{base: *s.base, file: file, mark: mark, boot: s.opts.Boot}, nil
}

func (j *journal) close() error { return errors.Join(j.file.Close(), j.mark.Close()) }

// position reads the mark. If the mark is damaged or of another boot, nothing
// counts as applied: fresh is true.
func (j *journal) position() (p position, fresh bool, err error) {
	p, marked, err := j.marked()
	switch {
	case err != nil:
		return p, false, err
	case !marked: // The epoch is lost, too: take a new one that no cache can have seen.
		return position{boot: j.boot, epoch: uint64(time.Now().UnixNano()), done: true, packs: p.packs}, true, nil
	case p.boot != j.boot:
		return position{boot: j.boot, epoch: p.epoch + 1, done: true, packs: p.packs}, true, nil
	}
	return p, false, nil
}

// marked reads the mark, whichever boot wrote it. marked is false if the mark is damaged.
func (j *journal) marked() (p position, marked bool, err error) {
	if _, err := j.base.disk.look(int(j.mark.Fd()), ""); err != nil { // so that the read sees what another host wrote
		return p, false, failed("stat", markFile, err)
	}
	buf := make([]byte, markSize)
	n, err := j.base.disk.readAt(j.mark, buf, 0)
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
	st, err := j.base.disk.look(int(j.file.Fd()), "")
	return st.Size, failed("stat", plansFile, err)
}

// cut truncates the journal at an offset.
func (j *journal) cut(at int64) error {
	return failed("truncate", plansFile, j.base.disk.truncate(int(j.file.Fd()), at))
}

// full reports that it is time for a checkpoint. There is none while actions on
// the world are still to be done: only the journal has them.
func (j *journal) full(p position) bool { return p.end > j.limit && p.done }

// checkpoint makes every file durable and empties the journal.
func (j *journal) checkpoint(p position) (position, error) {
	if j.sync {
		if err := j.base.syncAll(); err != nil {
			return p, err
		}
	}
	if err := j.cut(0); err != nil {
		return p, err
	}
	p.epoch, p.start, p.end = p.epoch+1, 0, 0
	return p, j.setPosition(p)
}

func (e entry) does(kind opKind) bool {
	return slices.ContainsFunc(e.groups, func(g group) bool { return g.does(kind) })
}

func (g group) does(kind opKind) bool {
	return slices.ContainsFunc(g.ops, func(op fileOp) bool { return op.kind == kind })
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

// actions returns the world actions of e. An action that this version does not
// know is ErrNewer: the checksum is right, so a newer version wrote it. Fields
// that it does not know are ignored: an action whose meaning changes gets
// another name.
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

// known returns ErrNewer if e has a file operation that this version does not know.
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
