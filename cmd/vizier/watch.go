package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// What the live screen says to a terminal.
const (
	clearScreen = "\x1b[2J\x1b[H"
	hideCursor  = "\x1b[?25l"
	showCursor  = "\x1b[?25h"
)

// watch draws the schedule until it is interrupted. It ticks only where a
// runner is gone.
func (s *scheduleCmd) watch(c *call, r *repo, interval time.Duration) error {
	c.ui.control(hideCursor)
	defer c.ui.control("\x1b[0m" + showCursor)
	for {
		v, err := s.read(c, r)
		if err != nil && c.ctx.Err() == nil {
			return err
		}
		if err == nil {
			c.ui.control(clearScreen)
			c.ui.text(s.frame(c, r, v, interval))
		}
		if pause(c.ctx, interval) != nil {
			return exits(130) // the way to leave it: nothing to explain
		}
	}
}

// frame is one picture.
func (s *scheduleCmd) frame(c *call, r *repo, v view.Schedule, interval time.Duration) string {
	f := v.Frame(s.Top)
	var b strings.Builder
	fmt.Fprintf(&b, "Schedule Watch | refreshed %s | interval=%dms | top=%d\n",
		r.Scheduler.Now().Local().Format(time.RFC3339), interval.Milliseconds(), s.Top)
	fmt.Fprintf(&b, "State: %s\n\n", f.Counts)
	if len(f.Rows) == 0 {
		b.WriteString("(no scheduled jobs)\n")
	} else {
		b.WriteString(c.summary(v, f.Rows))
	}
	b.WriteString("\nRunning Job Output\n")
	if f.Running == "" {
		b.WriteString("No running job\nLatest line: (none)\n")
		return b.String()
	}
	fmt.Fprintf(&b, "Running job: %s\nLatest line: %s\n", f.Running, latestLine(r, f.Running))
	return b.String()
}

// tailWindow is how much of the end of a log is looked at, in bytes.
const tailWindow = 16 << 10

// latestLine is the last line that is not empty of the log that was written to
// last; standard error when both were.
func latestLine(r *repo, id kernel.JobID) string {
	var newest time.Time
	out := "(no output yet)"
	for _, stream := range []string{"stdout", "stderr"} {
		text, at := lastLine(r.Logs.OpenLog(id, stream))
		if text != "" && !at.Before(newest) {
			newest, out = at, "["+stream+"] "+text
		}
	}
	return out
}

func lastLine(f *os.File, err error) (string, time.Time) {
	if err != nil {
		return "", time.Time{}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", time.Time{}
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-tailWindow), tailWindow))
	if err != nil {
		return "", time.Time{}
	}
	data = bytes.TrimRightFunc(data, unicode.IsSpace)
	data = data[bytes.LastIndexByte(data, '\n')+1:]
	return strings.Map(printable, string(data)), info.ModTime()
}

// printable keeps what a job prints from moving the cursor.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}
