package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// mostBytes bounds an answer; a longer one does not help an assistant.
const mostBytes = 1 << 20

// program runs the command line in one repository.
type program struct {
	file   string
	dir    string
	config string // configuration file that is read instead of the usual ones; "": the usual ones
}

// ask runs a command on behalf of the client via, and returns its output. The
// error is the command's error message. The command is ended when ctx ends.
func (p program) ask(ctx context.Context, via string, a asked) ([]byte, error) {
	given := []string{"--no-pager", "--via=" + via}
	if !a.text {
		given = append(given, "--json")
	}
	if p.config != "" {
		given = append(given, "--config-file", p.config)
	}
	out, code, err := p.run(ctx, a.stdin, append(given, a.args...))
	if err != nil || code == 0 || code == 1 && a.args[0] == "what-if" { // exit code 1: something would change
		return out, err
	}
	return nil, fmt.Errorf("exit code %d: %s", code, out)
}

// run returns standard output and the exit code, or standard error if the
// command failed without an answer.
func (p program) run(ctx context.Context, stdin string, args []string) (out []byte, code int, err error) {
	cmd := exec.CommandContext(ctx, p.file, args...)
	cmd.Dir, cmd.Stdin = p.dir, strings.NewReader(stdin)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	stdout, stderr := &bounded{}, &bounded{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = cmd.Run()
	if stdout.cut {
		return nil, 0, fmt.Errorf("the answer is longer than %d bytes: ask for less, such as one job or fewer lines", mostBytes)
	}
	if exit, ended := errors.AsType[*exec.ExitError](err); ended && exit.Exited() {
		if stdout.Len() == 0 {
			stdout = stderr
		}
		return stdout.Bytes(), exit.ExitCode(), nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", p.file, err)
	}
	return stdout.Bytes(), 0, nil
}

// bounded keeps the first mostBytes bytes.
type bounded struct {
	bytes.Buffer
	cut bool
}

func (b *bounded) Write(data []byte) (int, error) {
	if room := mostBytes - b.Len(); len(data) > room {
		b.cut = true
		b.Buffer.Write(data[:room])
	} else {
		b.Buffer.Write(data)
	}
	return len(data), nil
}

// document returns an answer as a JSON object, or nil if it is none.
func document(answer []byte) any {
	var doc map[string]any
	if json.Unmarshal(answer, &doc) != nil {
		return nil
	}
	return doc
}
