package joblog

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// The streams of a command, in the order in which its logs are passed to Watch.
const (
	Stdout = iota
	Stderr
	streams
)

// Growth is a line of the record of order: at the time At, the output of
// Stream, including bytes that were dropped since, had been written up to End,
// and nothing that later lines of the record report had been written.
type Growth struct {
	Stream int // Stdout or Stderr
	End    int64
	At     time.Time // to the microsecond
}

func (g Growth) append(b []byte) []byte {
	b = strconv.AppendInt(b, int64(g.Stream)+1, 10)
	b = strconv.AppendInt(append(b, ' '), g.End, 10)
	b = strconv.AppendInt(append(b, ' '), g.At.UnixMicro(), 10)
	return append(b, '\n')
}

// parseGrowth parses a line without its end. It returns false if the line is
// malformed, as at the beginning of a record that was cut.
func parseGrowth(line []byte) (Growth, bool) {
	stream, rest, _ := bytes.Cut(line, []byte(" "))
	end, at, _ := bytes.Cut(rest, []byte(" "))
	e, err1 := strconv.ParseInt(string(end), 10, 64)
	t, err2 := strconv.ParseInt(string(at), 10, 64)
	if len(stream) != 1 || stream[0] < '1' || stream[0] > '0'+streams || err1 != nil || err2 != nil || e < 0 {
		return Growth{}, false
	}
	return Growth{int(stream[0] - '1'), e, time.UnixMicro(t)}, true
}

// order writes the record of the order in which two logs grow.
type order struct {
	path string
	out  *boundedLog // nil: nothing was written yet
	off  bool        // it cannot be written
	logs [streams]*boundedLog

	noted   [streams]int64 // offsets up to which growth is recorded
	now     [streams]int64 // lengths at the last look
	writes  []uint8        // the streams written to since, in order, as far as that is known
	unknown bool           // there were more writes than were reported
}

// linesAtMost is how many bytes of a log are searched for the ends of lines.
const linesAtMost = 64 << 10

// look updates the lengths of the logs, and reports whether they have grown.
func (o *order) look() (grown bool) {
	for s, b := range o.logs {
		if info, err := b.log.Stat(); err == nil {
			now := info.Size() + b.gone
			grown = grown || now != o.now[s]
			o.now[s] = now
		}
	}
	return grown
}

// note records what was written since the last call, as far as it was reported.
// whole says that there were no other writes. The order of the reported writes
// is known. Where each of them ends is only known from the ends of lines,
// unless it was the only one of its stream. Cutting a log is reported like a
// write, so what the streams write at that moment may be recorded in the wrong
// order.
func (o *order) note(at time.Time, whole bool) {
	var grown []Growth
	add := func(s int, end int64) {
		switch last := len(grown) - 1; {
		case end <= o.noted[s]:
			return
		case last >= 0 && grown[last].Stream == s:
			grown[last].End = end
		default:
			grown = append(grown, Growth{s, end, at})
		}
		o.noted[s] = end
	}
	both := o.now[Stdout] > o.noted[Stdout] && o.now[Stderr] > o.noted[Stderr] && !o.unknown
	if both {
		ends := o.writeEnds(whole)
		var nth [streams]int
		for _, s := range o.writes {
			add(int(s), ends[s][nth[s]])
			nth[s]++
		}
	}
	if whole || !both {
		for s := range o.logs {
			add(s, o.now[s])
		}
	}
	o.writes, o.unknown = o.writes[:0], false
	o.write(grown)
}

// writeEnds returns the offset at which each of the writes ended. If all writes
// are known, their lines are divided evenly among them; otherwise the first
// lines are taken to be one of each known write.
func (o *order) writeEnds(whole bool) (ends [streams][]int64) {
	var writes [streams]int64
	for _, s := range o.writes {
		writes[s]++
	}
	for s := range ends {
		if writes[s] == 1 && whole {
			ends[s] = append(ends[s], o.now[s])
			continue
		}
		lines := append([]int64{o.noted[s]}, o.lineEnds(s)...)
		most := int64(len(lines) - 1)
		if !whole {
			most = min(most, writes[s])
		}
		for n := int64(1); n <= writes[s]; n++ {
			ends[s] = append(ends[s], lines[n*most/writes[s]])
		}
	}
	return ends
}

// lineEnds returns the offsets of the line ends in the new part of the log of
// s.
func (o *order) lineEnds(s int) (ends []int64) {
	b := o.logs[s]
	if o.now[s]-o.noted[s] > linesAtMost || b.reopen() != nil {
		return nil
	}
	text := make([]byte, o.now[s]-o.noted[s])
	n, _ := b.file.ReadAt(text, o.noted[s]-b.gone)
	for at := range n {
		if text[at] == '\n' {
			ends = append(ends, o.noted[s]+int64(at)+1)
		}
	}
	return ends
}

func (o *order) write(grown []Growth) {
	if len(grown) == 0 || o.off {
		return
	}
	if o.out == nil {
		f, err := Append(o.path)
		if err != nil {
			o.off = true
			return
		}
		o.out = &boundedLog{log: f}
	}
	var b []byte
	for _, g := range grown {
		b = g.append(b)
	}
	_, err := o.out.log.Write(b)
	o.off = err != nil
}

// Append opens a log for appending. It must be a regular file, and is created
// if it does not exist.
func Append(path string) (*os.File, error) {
	return sys.OpenRegular(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
}
