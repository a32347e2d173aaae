// Package joblog keeps the output of a running command within bounds. The
// command appends to the log itself and is not aware of it: the oldest part is
// cut out of the file, and a line in its place says how much is missing. A
// record beside the logs tells in which order and when they grew.
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

	// markSize is the maximum length of a mark.
	markSize = len(markBegin) + len(markEnd) + 20

	// minKept is how much of a log is kept however small its bound is: more than
	// a mark.
	minKept = 1 << 10
)

// head is the beginning of a log. The byte at offset Start+n of the file is
// byte Dropped+n of the output, even if the log is cut while it is being read.
// The first Mark of these bytes are overwritten by a mark.
type head struct {
	Start   int64 // 0, unless the file system can only leave a hole at the beginning
	Dropped int64 // bytes of output that stood before Start
	Mark    int64 // length of the line that says how much is missing
}

// begin returns the head of f.
func begin(f source) (head, error) {
	start, err := firstData(f)
	if err != nil {
		return head{}, err
	}
	buf := make([]byte, markSize)
	n, err := f.ReadAt(buf, start)
	if err != nil && !errors.Is(err, io.EOF) {
		return head{}, err
	}
	if dropped, ok := parseMark(buf[:n]); ok {
		return head{start, dropped, int64(len(mark(dropped)))}, nil
	}
	return head{}, nil
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

// Cap cuts the oldest part of f, a log that is being appended to, if f holds
// more than most bytes, and leaves about half of that. It works in blocks of
// the file system, and writes nothing near the end, so it does not disturb
// appenders. It returns how many bytes are left.
//
// The mark is written before the rest is dropped, so that readers find it at
// the beginning as soon as something is missing. If the process dies in
// between, the log has a mark in the middle and everything before it.
func Cap(f *os.File, most int64) (left int64, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() <= most {
		return sizeOf(info), err
	}
	h, err := begin(f)
	left = info.Size() - h.Start
	if err != nil || left <= most {
		return left, err
	}
	block, err := blockSize(f)
	if err != nil {
		return left, err
	}
	cut := (info.Size() - max(most/2, minKept)) / block * block
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
