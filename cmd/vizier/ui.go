package main

// The rules of output:
//   - Results go to standard output, everything else to standard error.
//   - What goes to standard error begins with "vizier: ", a small letter, and
//     has no period at its end.
//   - Each message ends with one newline. JSON is never coloured.
//   - Text has references in the place of the ids of jobs and runs, see
//     references, and times in the form that clocks returns. Text from others is written verbatim.
//   - Characters that a terminal would act on are made visible, whoever wrote
//     them; see plain. Documents have them as JSON's escapes. Only logs and
//     payloads that go to a file or a pipe are written as they are.
//   - Colour and progress are for terminals only; NO_COLOR,
//     TERM=dumb and --no-ansi switch colour and progress off there too.

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// ui is the output of a command.
type ui struct {
	out, err       io.Writer
	outTTY, errTTY bool
	plain          bool // the user wants no escape sequences
	strip          bool // and none in the output of jobs either
	level          int
	refs           references
	root           string         // of the repository; "": the command is typed there
	filter         *logFilter     // see logs
	width          int            // of the terminal that output goes to; 0: not a terminal
	zone           *time.Location // of times for people
	now            func() time.Time
	wrapped        []string // words of the command line that contain line ends; see stderr
}

// wrappedIn returns the words of a command line that contain line ends, without
// the flags and keys before them.
func wrappedIn(args []string) (words []string) {
	for _, arg := range args {
		for word := range strings.SplitSeq(arg, "=") {
			if strings.Contains(word, "\n") && strings.TrimSpace(word) != "" {
				words = append(words, word)
			}
		}
	}
	return words
}

// The levels of messages on standard error.
const (
	levelErrors = iota
	levelWarnings
	levelInfo
	levelDebug
)

func newUI(out *checkedWriter, err io.Writer, env environment) *ui {
	u := &ui{out: out, err: err, outTTY: isTerminal(out.Writer), errTTY: isTerminal(err), level: levelWarnings, zone: time.Local, now: time.Now,
		plain: env.Get("NO_COLOR") != "" || env.Get("TERM") == "dumb"}
	if u.outTTY {
		u.width = terminalWidth(out.Writer.(*os.File), env)
	}
	return u
}

func (u *ui) configure(g globals) {
	u.plain = u.plain || g.NoANSI
	u.strip = g.NoANSI || u.plain && u.outTTY
	if g.UTC {
		u.zone = time.UTC
	}
	u.level = levelWarnings + g.Verbose
	if g.Debug {
		u.level = levelDebug
	}
	if g.Quiet {
		u.level = levelErrors
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// checkedWriter remembers the first error, so that a full disk is not taken for
// success.
type checkedWriter struct {
	io.Writer
	err    error
	writes atomic.Uint64 // number of writes begun plus ended: odd while one is under way
}

func (w *checkedWriter) Write(p []byte) (int, error) {
	w.writes.Add(1)
	defer w.writes.Add(1)
	n, err := w.Writer.Write(p)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("write output: %w", err)
	}
	return n, err
}

// broken reports that output was lost.
func (u *ui) broken() bool {
	w, ok := u.out.(*checkedWriter)
	return ok && w.err != nil
}

// stuckAfter is how long a write may take after the command was told to end.
// After that, probably nobody reads the output any more.
const stuckAfter = time.Second

// leaveWhenStuck calls leave once a single write has taken too long.
func (w *checkedWriter) leaveWhenStuck(leave func()) {
	for before := w.writes.Load(); ; {
		time.Sleep(stuckAfter)
		now := w.writes.Load()
		if now == before && now%2 == 1 {
			leave()
			return
		}
		before = now
	}
}

// print prints a result of one line.
func (u *ui) print(line string) { u.verbatim(plainLine(u.people(line)) + "\n") }

// text prints a result of several lines, which must end with a newline.
func (u *ui) text(s string) { u.verbatim(u.people(s)) }

// people returns s with references, times and places for people.
func (u *ui) people(s string) string { return u.places(u.clocks(u.refs.text(s))) }

// places makes the paths of worktrees in s absolute if the command was typed
// elsewhere than in the repository's root. On record, they are relative to it. As they may
// stand in a command, the root is quoted as there.
func (u *ui) places(s string) string {
	const home = ".vizier/tmp-worktrees/"
	if u.root == "" {
		return s
	}
	root := kernel.CommandLine(u.root) + "/"
	return strings.NewReplacer(" "+home, " "+root+home, "`"+home, "`"+root+home, " '"+home, " "+root+"'"+home).Replace(s)
}

// block prints labels and values.
func (u *ui) block(rows []row) { u.verbatim(hung(u.people(block(rows, "")), u.columns())) }

// verbatim prints text from others, or text that already contains references.
func (u *ui) verbatim(s string) { io.WriteString(u.out, u.shown(s)) }

// shown returns text in the form in which it leaves the program.
func (u *ui) shown(s string) string {
	if u.colours() {
		return coloured(plain(s))
	}
	return visible(s, "\n\t")
}

// document prints encoded JSON.
func (u *ui) document(text string) { io.WriteString(u.out, answer.Plain(text)) }

// json prints v as a document.
func (u *ui) json(v any) error { return u.encode(v, "  ") }

// jsonLine prints v as a document on a line of its own.
func (u *ui) jsonLine(v any) error { return u.encode(v, "") }

func (u *ui) encode(v any, indent string) error {
	text, err := answer.JSON(v, indent)
	if err == nil {
		io.WriteString(u.out, text)
	}
	return err
}

func (u *ui) warn(format string, args ...any)  { u.say(levelWarnings, format, args) }
func (u *ui) info(format string, args ...any)  { u.say(levelInfo, format, args) }
func (u *ui) debug(format string, args ...any) { u.say(levelDebug, format, args) }

func (u *ui) say(level int, format string, args []any) {
	if u.level >= level {
		u.stderr(fmt.Sprintf(format, args...))
	}
}

// stderr prints a message, with the program's name before each of its lines. A
// word of the command line that it quotes stays on one line.
func (u *ui) stderr(text string) {
	text = u.people(text)
	for _, word := range u.wrapped {
		text = strings.ReplaceAll(text, word, visible(word, "\t"))
	}
	io.WriteString(u.err, answer.Message(text))
}

// progress replaces the progress line on a terminal; "" removes it.
func (u *ui) progress(line string) {
	if u.errTTY && !u.plain && u.level >= levelWarnings {
		fmt.Fprint(u.err, "\r\x1b[K"+visible(line, ""))
	}
}

func (u *ui) colours() bool { return u.outTTY && !u.plain }

// bold formats a heading.
func (u *ui) bold(text string) string {
	if !u.colours() {
		return text
	}
	return colourOn + "1" + colourOff + text + colourOn + "0" + colourOff
}

// faint formats less important text.
func (u *ui) faint(text string) string {
	if !u.colours() {
		return text
	}
	return colourOn + "2" + colourOff + text + colourOn + "0" + colourOff
}

// paint colours text by what a status means to people.
func (u *ui) paint(status, text string) string {
	if !u.colours() {
		return text
	}
	text = u.refs.text(text) // first, since an id next to an escape sequence would not be recognised
	code := ""
	switch st, err := kernel.ParseStatus(status); {
	case err != nil && status == view.Submitted:
		code = "33"
	case err != nil:
	case st == kernel.Succeeded:
		code = "32"
	case st == kernel.Failed, st == kernel.BlockedByDependency, st == kernel.BlockedByApproval:
		code = "31"
	case st == kernel.Running:
		code = "36"
	case st.Waiting(), st == kernel.FailedRetryable:
		code = "33"
	default:
		code = "2"
	}
	if code == "" {
		return text
	}
	return colourOn + code + colourOff + text + colourOn + "0" + colourOff
}
