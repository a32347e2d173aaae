package agent

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// builtin is an agent without a model, for trying things out and for tests. It
// runs the text between ```sh and ``` in its prompt, block by block in dir,
// until one fails, and answers with the rest of the prompt. The output of the
// commands is its progress. A line may also end with CR LF, as git writes it with
// core.autocrlf: no command and no answer has that CR. The commands get env in addition to their environment.
func (a Agents) builtin(ctx context.Context, dir string, env []string, prompt []byte, answer io.Writer) (int, error) {
	blocks, rest, err := fences(strings.ReplaceAll(string(prompt), "\r\n", "\n"))
	if err != nil {
		fmt.Fprintln(a.Stderr, err)
		return 2, nil
	}
	for _, script := range blocks {
		cmd := a.command(ctx, dir, []string{"sh", "-e", "-c", script}, env)
		cmd.Stdout = a.Stderr
		exit, err := a.finish(cmd, cmd.Run())
		if exit != 0 || err != nil {
			return exit, err
		}
	}
	if rest != "" && !strings.HasSuffix(rest, "\n") {
		rest += "\n"
	}
	_, err = io.WriteString(answer, rest)
	return 0, err
}

// fences separates the shell blocks of a prompt from its text.
func fences(prompt string) (blocks []string, rest string, err error) {
	var text, script strings.Builder
	inside, at := false, 0
	for i, line := range strings.SplitAfter(prompt, "\n") {
		switch mark := strings.TrimSpace(line); {
		case !inside && mark == "```sh":
			inside, at = true, i+1
			script.Reset()
		case inside && mark == "```":
			inside = false
			blocks = append(blocks, script.String())
		case inside:
			script.WriteString(line)
		default:
			text.WriteString(line)
		}
	}
	if inside {
		return nil, "", fmt.Errorf("line %d of the prompt opens a block of commands that nothing closes", at)
	}
	return blocks, text.String(), nil
}
