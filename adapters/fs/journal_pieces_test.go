package fs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// batchOf returns n jobs whose records and requests fill several pieces of an entry.
func batchOf(n int) (news []kernel.NewJob) {
	for i := range n {
		sp := plain(i + 1).Spec
		sp.Task.Args = []string{"echo", strings.Repeat(fmt.Sprint("<", i, ">"), 3*pieceSize/n)}
		news = append(news, kernel.NewJob{ID: id(i + 1), Spec: sp})
	}
	return news
}

// An entry that is written in pieces has the same bytes as one written at once, and it does
// not count before all of it is there.
func TestAnEntryInPieces(t *testing.T) {
	s := newStore(t, t.TempDir())
	commit(t, s, kernel.Create(plain(1000)))
	tx := begin(t, s)
	load(t, tx)
	var actions []kernel.Action
	news := batchOf(150)
	for _, n := range news {
		j := asJob(n)
		j.Created = t0
		actions = append(actions, kernel.Create(j))
	}
	b, err := s.entryOf(kernel.NewPlan(actions...))
	if err != nil {
		t.Fatal(err)
	}
	tx.Explain(history.Account{At: t0, Steps: []history.Step{{Verb: tx.Condense(history.Submit{Jobs: news, By: "ann"})}}})
	if b.e.tells, err = tx.accountOf(t0); err != nil {
		t.Fatal(err)
	}
	if err := tx.link(&b.e, false); err != nil {
		t.Fatal(err)
	}
	want, err := b.e.encode()
	if err != nil {
		t.Fatal(err)
	}
	at := tx.pos.end
	const room = 1000
	left := room
	s.log.base.disk = fullAfter{machine{}, &left}
	end, body, err := s.log.append(b.e, at)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, end-at)
	if _, err := s.log.file.ReadAt(got, at); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%v: %d bytes in pieces, and %d in one, or others", err, len(got), len(want))
	}
	if calls := room - left; calls < 6 {
		t.Fatalf("%d bytes were written by %d calls", len(got), calls)
	}
	if sum := digest(sha256.Sum256(want[headSize:])); s.log.last.digest != sum {
		t.Error("the digest is another")
	}
	one, err := decodeEntry(want[headSize:])
	if err != nil {
		t.Fatal(err)
	}
	if e, next, err := s.log.read(at); err != nil || next != end || !reflect.DeepEqual(e, one) {
		t.Errorf("read in pieces it is another entry (%v)", err)
	}
	if e, err := body.entry(func(group) error { return nil }); err != nil || e.number != one.number {
		t.Errorf("what was written cannot be read: %v", err)
	}
	var a accountRecord
	if err := fromJSON(one.account, &a); err != nil {
		t.Fatal(err)
	}
	if account, err := a.account(); err != nil || !reflect.DeepEqual(account.Steps[0].Verb, history.Verb(history.Submit{Jobs: news, By: "ann"})) {
		t.Errorf("the account tells of other jobs (%v)", err)
	}
	for _, torn := range []func([]byte) []byte{
		func(b []byte) []byte { return b[:len(b)-1] },
		func(b []byte) []byte { return b[:pieceSize+100] },
		func(b []byte) []byte { clear(b[:headSize]); return b }, // all but the head was written
		func(b []byte) []byte { b[2*pieceSize]++; return b },
	} {
		if err := s.log.cut(at); err != nil {
			t.Fatal(err)
		}
		if _, err := s.log.file.WriteAt(torn(bytes.Clone(want)), at); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.log.read(at); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a torn entry counts: %v", err)
		}
		if _, err := s.log.each(at, func(group) error { return errors.New("was read") }); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a torn entry is read: %v", err)
		}
	}
	closeTx(t, tx)
}

// fullAfter is a disk with room for left more writes at an offset.
type fullAfter struct {
	machine
	left *int
}

func (f fullAfter) writeAt(fd int, data []byte, offset int64) error {
	if *f.left--; *f.left < 0 {
		return syscall.ENOSPC
	}
	return f.machine.writeAt(fd, data, offset)
}

// If the disk is full in the middle of a batch, the batch did not happen. Once there is room it
// happens, and the history verifies.
func TestABatchOnAFullDisk(t *testing.T) {
	l := newLivedStore(t)
	was, err := os.ReadFile(l.s.abs(plansFile))
	if err != nil {
		t.Fatal(err)
	}
	news := batchOf(120)
	for i := range news {
		news[i].ID = id(1000 + i)
	}
	for room := range 4 {
		l.s.log.base.disk = fullAfter{machine{}, &room}
		if _, err := l.app.Submit(t.Context(), news, "ann"); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("with room for %d pieces: %v", room, err)
		}
		if is, err := os.ReadFile(l.s.abs(plansFile)); err != nil || !bytes.Equal(is, was) {
			t.Fatalf("with room for %d pieces the journal has %d bytes, before %d (%v)", room, len(is), len(was), err)
		}
	}
	l.s.log.base.disk = machine{}
	if _, err := l.app.Submit(t.Context(), news, "ann"); err != nil {
		t.Fatal(err)
	}
	again := newStoreWith(t, l.dir, options()) // it seals an entry of several pieces, and goes on from it
	l.app.Store = process{again}
	l.s = again
	if _, err := again.IDs(); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, again)
	again.log.limit = 1
	closeTx(t, tx)
	l.submit(4)
	l.finds()
}

// A condensed submission is recorded as the original would be; a small one is not condensed.
func TestCondensed(t *testing.T) {
	f := &filler{chance: drawtest.Of(t)}
	var news []kernel.NewJob
	for range 200 {
		j := f.job()
		news = append(news, asNew(&j))
	}
	j := fullJob()
	news = append(news, asNew(&j))
	v := history.Submit{Jobs: news, By: "ann"}
	c := (&Tx{}).Condense(v)
	if _, is := c.(condensed); !is {
		t.Fatalf("it is a %T", c)
	}
	_, want, err := encodeVerb(v)
	if err != nil {
		t.Fatal(err)
	}
	name, got, err := encodeVerb(c)
	if err != nil || name != "submit" {
		t.Fatal(name, err)
	}
	one, err1 := toLine(want)
	other, err2 := toLine(got)
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(one, other) {
		t.Errorf("%v: other jobs go on record", err)
	}
	if few := (&Tx{}).Condense(history.Submit{Jobs: news[:3]}); !reflect.DeepEqual(few, history.Verb(history.Submit{Jobs: news[:3]})) {
		t.Error("a few are condensed")
	}
}
