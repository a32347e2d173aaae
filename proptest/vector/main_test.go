package vector

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/vizier-scheduler/vizier/app/wire"
)

// answering is an environment variable that makes the test program answer instead of
// testing: for each line with a Given, it prints a line with its Follows.
const answering = "VIZIER_VECTOR_ANSWER"

func TestMain(m *testing.M) {
	if os.Getenv(answering) == "" {
		os.Exit(m.Run())
	}
	if err := answer(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func answer(in io.Reader, out io.Writer) error {
	w := bufio.NewWriter(out)
	for r := bufio.NewReader(in); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return w.Flush()
		}
		var g Given
		if err == nil {
			err = wire.Read(line, &g)
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(wire.Compact(follow(g))); err != nil {
			return err
		}
	}
}
