// Command vizier-mcp is the Model Context Protocol server of `vizier mcp`, on
// its standard input and output. It is a program of its own, so that other
// commands need not link the protocol's library.
//
// It runs the command line for each answer. So an assistant gets the answers
// that a person gets, has the permissions of the process that started it, and
// is on record. There is no tool that approves or rejects.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vizier-scheduler/vizier/app/answer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		os.Stderr.WriteString(answer.Message(err.Error()))
		os.Exit(1)
	}
}

// run serves until the client disconnects. `vizier mcp` has checked the
// arguments.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("vizier-mcp", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	file := flags.String("config-file", "", "")
	dir := flags.String("dir", ".", "")
	allow := flags.String("allow", "", "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Println("vizier-mcp is what `vizier mcp` becomes: see `vizier mcp --help`.")
		return nil
	case err != nil:
		return err
	}
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's file: %w", err)
	}
	p := program{file: filepath.Join(filepath.Dir(own), "vizier"), dir: *dir, config: *file, busy: make(chan struct{}, mostCommands)}
	may := map[string]bool{}
	for _, tool := range strings.Split(*allow, ",") {
		may[tool] = true
	}
	err = newServer(p, may).Run(ctx, transport{os.Stdin, os.Stdout, func() { os.Exit(1) }})
	if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
		return nil // the normal ways to end
	}
	return err
}
