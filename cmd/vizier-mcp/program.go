package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// mostBytes bounds an answer; a longer one does not help an assistant.
const mostBytes = 1 << 20

// mostCommands is how many commands run at a time; further ones wait for their turn.
const mostCommands = 8

// program runs the command line in one repository.
type program struct {
	file   string
	dir    string
	config string        // configuration file that is read instead of the usual ones; "": the usual ones
	busy   chan struct{} // holds one value for each command that runs; its capacity is how many may
}

// refusal is the error of a command: what it printed.
type refusal struct {
	exit int
	text []byte
}

func (r *refusal) Error() string { return fmt.Sprintf("exit code %d: %s", r.exit, r.text) }

// ask runs a command on behalf of the client via, and returns its output. The
// error is a *refusal if the command ended with one. The command is ended when
// ctx ends.
func (p program) ask(ctx context.Context, via string, a asked) ([]byte, error) {
	given := []string{"--no-pager", "--via=" + via}
	if !a.text {
		given = append(given, "--json")
	}
	if p.config != "" {
		given = append(given, "--config-file", p.config)
	}
	out, code, err := p.run(ctx, a, append(given, a.args...))
	if err != nil || code == 0 || code == 1 && a.args[0] == "what-if" { // exit code 1: something would change
		return out, err
	}
	return nil, &refusal{code, out}
}

// run returns standard output and the exit code, or standard error if the
// command failed without an answer. Of output that is too long the end is
// returned. A JSON document that is too long is an error, unless the command
// changes something: a client that gets an error would call it again.
func (p program) run(ctx context.Context, a asked, args []string) (out []byte, code int, err error) {
	if i := slices.IndexFunc(args, func(word string) bool { return strings.Contains(word, "\x00") }); i >= 0 {
		return nil, 0, fmt.Errorf("%.60q has a NUL character, which no argument of a program can have", args[i])
	}
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	cmd := exec.CommandContext(ctx, p.file, args...)
	cmd.Dir, cmd.Stdin = p.dir, strings.NewReader(a.stdin)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	stdout, stderr := &bounded{end: a.text, lines: a.lines}, &bounded{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = cmd.Run()
	if stdout.total > mostBytes && a.changes {
		stdout.text = fmt.Appendf(nil, "`vizier %s` has ended, do not repeat it: its answer is longer than %d bytes. The tools list and status show the jobs.", a.args[0], mostBytes)
	} else if stdout.total > mostBytes && !a.text {
		return nil, 0, fmt.Errorf("the answer is longer than %d bytes: ask for less, such as one job or a lower limit", mostBytes)
	}
	if exit, ended := errors.AsType[*exec.ExitError](err); ended && exit.Exited() {
		if stdout.total == 0 {
			stdout = stderr
		}
		return stdout.kept(), exit.ExitCode(), nil
	}
	if errors.Is(err, syscall.E2BIG) {
		longest := slices.MaxFunc(args, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
		return nil, 0, fmt.Errorf("%.60q is too long with its %d bytes: put the text into a file and name that, such as by the parameter spec_file", longest, len(longest))
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", p.file, err)
	}
	return stdout.kept(), 0, nil
}

// bounded keeps the first or the last mostBytes bytes. It embeds no buffer, whose
// other methods would write past the bound.
type bounded struct {
	end   bool // keep the last, not the first
	lines int  // keep no more than this many lines, with end; 0: as many as there are
	text  []byte
	total int // bytes written
}

func (b *bounded) Write(data []byte) (int, error) {
	b.total += len(data)
	b.text = append(b.text, data...)
	if over := len(b.text) - mostBytes; !b.end && over > 0 {
		b.text = b.text[:mostBytes]
	} else if over > mostBytes {
		b.text = append(b.text[:0], b.text[over:]...)
	}
	return len(data), nil
}

// kept returns what is kept. If it is the end of more, its first line says so.
func (b *bounded) kept() []byte {
	text, note := b.text, ""
	if more := bytes.Count(text, []byte("\n")) - b.lines; b.end && b.lines > 0 && more > 0 {
		for range more {
			_, text, _ = bytes.Cut(text, []byte("\n"))
		}
		note = fmt.Sprintf("[the last of more than %d lines: lines and grep of the tool logs select others; show names the file with everything]\n", b.lines)
	}
	if b.end && len(text) > mostBytes {
		note = fmt.Sprintf("[the end of %d bytes: lines and grep of the tool logs select less; show names the file with everything]\n", b.total)
		text = text[len(text)-mostBytes:]
	}
	return append([]byte(note), text[max(0, len(text)+len(note)-mostBytes):]...)
}

// document returns an answer as a JSON object, or nil if it is none.
func document(answer []byte) any {
	var doc map[string]any
	if json.Unmarshal(answer, &doc) != nil {
		return nil
	}
	return doc
}
