package fs

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// milestoneMeta describes a milestone: a table of the cache with every record as it was
// before an entry. With it, a later state needs none of the entries before the milestone.
// A milestone is derived from the sealed files, and may be deleted at any time
// (docs/formats/history.md).
type milestoneMeta struct {
	Format string        `json:"format"`
	Job    uint64        `json:"job"` // the shape of the records in it
	Entry  uint64        `json:"entry"`
	Tip    digest        `json:"tip"` // of the entry before
	At     stamp         `json:"at"`
	Whole  bool          `json:"whole,omitempty"`
	Limits *limitsRecord `json:"limits,omitempty"`
	Facts  *factsRecord  `json:"facts,omitempty"`
}

const (
	milestoneSuffix = ".milestone"
	milestoneFormat = "vizier milestone 1, " + cacheVersion
	keyMeta         = "!" // before every other key
)

func milestoneFile(entry uint64) string {
	return fmt.Sprintf("%s/%012d%s", historyDir, entry, milestoneSuffix)
}

// openMilestone returns the state before an entry; tip is the digest of the entry before
// it. nil: there is no such milestone that this version can use.
func (s *Store) openMilestone(entry uint64, tip *digest) *pastState {
	if tip == nil {
		return nil
	}
	f, err := s.base.file(milestoneFile(entry), os.O_RDONLY)
	if err != nil {
		return nil
	}
	t, meta, err := readMilestone(s.disk, f)
	if err != nil || meta.Entry != entry || meta.Tip != *tip {
		_ = f.Close()
		return nil
	}
	w := newPastState(t)
	w.number, w.written, w.whole, w.bounds = entry-1, time.Time(meta.At), meta.Whole, meta.Limits
	if begun, err := meta.Facts.facts(); err == nil && meta.Facts != nil {
		w.begun = begun
	}
	return w
}

func readMilestone(d disk, f *os.File) (*table, milestoneMeta, error) {
	var meta milestoneMeta
	info, err := f.Stat()
	if err != nil {
		return nil, meta, err
	}
	var sum [4]byte
	if _, err := d.readAt(f, sum[:], info.Size()-4); err != nil { // it may be shorter
		return nil, meta, err
	}
	t := &table{disk: d, file: f, size: info.Size() - 4, sum: binary.LittleEndian.Uint32(sum[:]), packed: true}
	if err := errors.Join(t.readBlocks(), t.whole()); err != nil {
		return nil, meta, err
	}
	b, _, err := t.get(keyMeta)
	if err == nil {
		err = fromJSON(b, &meta)
	}
	if err != nil || meta.Format != milestoneFormat || meta.Job != jobFingerprint() {
		return nil, meta, errCache
	}
	return t, meta, nil
}

// milestoneWorth returns how many bytes of sealed files a milestone before entry must save
// to be worth its room: as many as the newest milestone up to there takes.
func (s *Store) milestoneWorth(entry uint64) (least int64) {
	for _, n := range s.milestones() {
		if n <= entry {
			least = s.base.stamp(milestoneFile(n)).size
		}
	}
	return least
}

// milestones returns the entries that have a milestone, in order.
func (s *Store) milestones() (out []uint64) {
	names, _ := s.base.names(historyDir) // without milestones only time is lost
	for _, name := range names {
		var n uint64
		if _, err := fmt.Sscanf(name, "%d"+milestoneSuffix, &n); err == nil && historyDir+"/"+name == milestoneFile(n) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// setMilestones writes the missing milestones that are worth their room, and removes
// those of entries that no part begins with.
func (s *Store) setMilestones(ctx context.Context) error {
	files, err := s.segments()
	if err != nil || len(files) == 0 {
		return err
	}
	c, err := chronicle{s: s, sealed: files}.course()
	if err != nil {
		return err
	}
	if newest := c.parts[len(c.parts)-1]; newest.err == nil { // the journal is as good as empty: only how it begins counts
		c.parts = append(c.parts, part{journal: true, file: segment{first: newest.head.Last + 1}})
	}
	entries := map[uint64]bool{}
	for _, one := range c.parts {
		entries[one.file.first] = true
	}
	for _, n := range s.milestones() {
		if !entries[n] {
			err = errors.Join(err, s.base.remove(milestoneFile(n)))
		}
	}
	last := len(c.parts) - 1
	w, from, begins := c.begin(last)
	if begins != nil { // it is damaged, which other commands report
		return err
	}
	defer w.close()
	passed := int64(0)
	for _, one := range c.parts[min(from, last):last] {
		passed += s.base.stamp(one.file.file()).size
	}
	if end := c.parts[last].file.first; passed >= s.milestoneWorth(end) {
		_ = c.goThrough(ctx, w, from, last, Moment{Entry: end})
	}
	return err
}

// writeMilestone writes w as the state before an entry.
func (s *Store) writeMilestone(w *pastState, entry uint64, tip digest) error {
	if w.number+1 != entry {
		return errCache // entries are missing
	}
	if err := w.flush(); err != nil {
		return err
	}
	meta := milestoneMeta{Format: milestoneFormat, Job: jobFingerprint(), Entry: entry, Tip: tip, At: stamp(w.written), Whole: w.whole}
	var err error
	if meta.Limits, err = w.bound(); err != nil {
		return err
	}
	if err := w.recall(); err != nil {
		return err
	}
	if meta.Facts, err = newFactsRecord(w.begun); err != nil {
		return err
	}
	line, err := toLine(meta)
	if err != nil {
		return err
	}
	kv := w.store.cache.kv
	kv.memtable.put(keyValue{keyMeta, line})
	var b bytes.Buffer
	t := &table{packed: true}
	if err := t.fill(&b, kv.iterate("", ""), true); err != nil {
		return err
	}
	return s.base.write(milestoneFile(entry), binary.LittleEndian.AppendUint32(b.Bytes(), t.sum), false)
}

// recall keeps only the facts that the gates of the state ask for. The others would
// accumulate.
func (w *pastState) recall() error {
	seen, err := w.facts()
	if err != nil {
		return err
	}
	rec, err := w.store.records(kernel.Scope{})
	if err != nil {
		return err
	}
	for i := range rec.Jobs { // no tick asks about blocked jobs, but people do
		if st := &rec.Jobs[i].State; st.Status == kernel.BlockedByDependency {
			st.Status = kernel.Queued
		}
	}
	snap := kernel.TakeSnapshot(kernel.Observation{Now: w.written, Jobs: rec.Jobs, Archived: rec.Succeeded, Unreadable: rec.Unreadable})
	for range 3 { // an answer may raise another question
		p := snap.Probes()
		if p.Empty() {
			break
		}
		f := kernel.NewFacts()
		w.answer(p, seen, nil, &f)
		snap = snap.WithFacts(f)
	}
	f := snap.Facts()
	kept := kernel.NewFacts()
	keep(kept.Present, f.Present, seen.Present)
	keep(kept.Markers, f.Markers, seen.Markers)
	keep(kept.Heads, f.Heads, seen.Heads)
	kept.Head, kept.Clean, kept.Merging, kept.Sandbox = seen.Head, seen.Clean, seen.Merging, seen.Sandbox
	w.begun, w.told = kept, nil
	return nil
}

// keep copies the entries of seen that were asked for to kept.
func keep[K comparable, V any](kept, asked, seen map[K]V) {
	for k := range asked {
		if f, have := seen[k]; have {
			kept[k] = f
		}
	}
}

// packedBlock is about how much of a packed table is read to find a key.
const packedBlock = 16 << 10

// packer makes packed blocks. The zero value is one.
type packer struct {
	z   *flate.Writer
	out bytes.Buffer
}

// pack compresses a block after its first four bytes, which are for the checksum. The
// result is valid until the next call.
func (p *packer) pack(block []byte) []byte {
	p.out.Reset()
	p.out.Write(block[:4])
	if p.z == nil {
		p.z, _ = flate.NewWriter(&p.out, flate.BestSpeed) // the level is valid
	}
	p.z.Reset(&p.out)
	_, _ = p.z.Write(block[4:]) // memory takes everything
	_ = p.z.Close()
	return p.out.Bytes()
}

func unpack(b []byte) ([]byte, error) {
	out, err := io.ReadAll(flate.NewReader(bytes.NewReader(b)))
	if err != nil {
		return nil, errors.Join(errCache, err)
	}
	return out, nil
}
