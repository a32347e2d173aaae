// Command vizier-mcp is the Model Context Protocol server of `vizier mcp`, on its
// standard input and output. It is a program of its own, so that no other command
// pays for the protocol's library.
//
// It asks the command line for each answer, so an assistant is told what a person
// would be told, may do what the process that started it may do, and is on record.
// It has no tool that approves or rejects.
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

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vizier:", err)
		os.Exit(1)
	}
}

// run serves until the client hangs up. `vizier mcp` has looked at the arguments.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("vizier-mcp", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	file := flags.String("config-file", "", "")
	dir := flags.String("dir", ".", "")
	allow := flags.String("allow", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's file: %w", err)
	}
	p := program{file: filepath.Join(filepath.Dir(own), "vizier"), dir: *dir, config: *file}
	may := map[string]bool{}
	for _, tool := range strings.Split(*allow, ",") {
		may[tool] = true
	}
	err = newServer(p, may).Run(ctx, &mcp.StdioTransport{})
	if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
		return nil // the ways to leave it
	}
	return err
}
