// Package joblog keeps the output of a running command within bounds. The
// command appends to the log itself and knows nothing of it: what is oldest is
// taken out of the file below it, and a line in its place says how much is
// missing. A record beside the logs tells in which order and when they grew.
package joblog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

const (
	markBegin = "[vizier: "
	markEnd   = " bytes of earlier output were dropped here]\n"

	// markSize bounds the length of a mark.
	markSize = len(markBegin) + len(markEnd) + 20

	// least is what stays of a log however small its bound is: more than a mark.
	least = 1 << 10
)

// Head is how a log begins. The byte at offset Start+n is byte Dropped+n of the
// output, whatever is cut while it is being read; of those the first Mark ones
// are written over.
type Head struct {
	Start   int64 // 0, unless the file system can only leave a hole at the beginning
	Dropped int64 // bytes of output that stood before Start
	Mark    int64 // length of the line that says so
}

// Begin is the head of f.
func Begin(f *os.File) (Head, error) {
	start, err := firstData(f)
	if err != nil {
		return Head{}, err
	}
	buf := make([]byte, markSize)
	n, err := f.ReadAt(buf, start)
	if err != nil && !errors.Is(err, io.EOF) {
		return Head{}, err
	}
	if dropped, ok := parseMark(buf[:n]); ok {
		return Head{start, dropped, int64(len(mark(dropped)))}, nil
	}
	return Head{}, nil
}

func mark(dropped int64) []byte { return fmt.Appendf(nil, "%s%d%s", markBegin, dropped, markEnd) }

func parseMark(b []byte) (dropped int64, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte(markBegin))
	if !ok {
		return 0, false
	}
	number, _, ok := bytes.Cut(b, []byte(markEnd))
	if !ok {
		return 0, false
	}
	dropped, err := strconv.ParseInt(string(number), 10, 64)
	return dropped, err == nil && dropped > 0
}

// Cap cuts the oldest part of f, a log that is being appended to, if more than
// most bytes of it are there, and leaves about half of that. It works in
// blocks of the file system, and writes nothing near the end: what is appended
// meanwhile stands after what was there. It returns how many bytes are left.
//
// The mark is written before the rest goes, so that whoever reads finds it at
// the beginning as soon as there is something missing. A process that dies in
// between leaves a mark in the middle and everything before it.
func Cap(f *os.File, most int64) (left int64, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() <= most {
		return sizeOf(info), err
	}
	h, err := Begin(f)
	left = info.Size() - h.Start
	if err != nil || left <= most {
		return left, err
	}
	block, err := blockSize(f)
	if err != nil {
		return left, err
	}
	cut := (info.Size() - max(most/2, least)) / block * block
	if cut <= h.Start {
		return left, nil
	}
	if _, err := f.WriteAt(mark(h.Dropped+cut-h.Start), cut); err != nil {
		return left, err
	}
	return info.Size() - cut, drop(f, cut)
}

func sizeOf(info os.FileInfo) int64 {
	if info == nil {
		return 0
	}
	return info.Size()
}
