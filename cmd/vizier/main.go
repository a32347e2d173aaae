// Command vizier schedules work inside a git repository: jobs, what each of
// them waits for, and why.
package main

import (
	"io"
	"os"

	"github.com/vizier-scheduler/vizier"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())) }

// run runs the program and returns its exit code. The entry points of runners
// come first: they start often and must not pay for the parser.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	if code, ok := vizier.Serve(args, stdout, stderr, environ); ok {
		return code
	}
	p := program{args: args, stdin: stdin, stdout: stdout, stderr: stderr, env: environment(environ), open: open,
		become: func(program string, args []string) error {
			return &failure{class: class{"failed", 1, "`make install` puts it there, and `make` beside bin/vizier"}, err: vizier.Become(program, args, environ)}
		},
		becomeResidentProgram: func() { vizier.BecomeResidentProgram(args, environ) }}
	return p.run()
}
