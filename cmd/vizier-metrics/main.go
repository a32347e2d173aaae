// Command vizier-metrics prints the state of a repository in the text format of
// Prometheus. It is a program of its own, so that other commands need not link
// the library for that.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/cmd/vizier-metrics/collector"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Environ(), os.Stdout); err != nil {
		os.Stderr.WriteString(answer.Message(err.Error()))
		os.Exit(1)
	}
}

// run prints the metrics of the repository that contains the working directory.
// `vizier metrics` has checked the arguments.
func run(ctx context.Context, args []string, environ []string, out io.Writer) error {
	flags := flag.NewFlagSet("vizier-metrics", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	file := flags.String("config-file", "", "")
	output := flags.String("output", "", "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(out, "vizier-metrics is what `vizier metrics` becomes: see `vizier metrics --help`.")
		return nil
	case err != nil:
		return err
	}
	r, err := vizier.Open(".", vizier.Options{Environ: environ, ConfigFile: *file, NoResident: true})
	if err != nil {
		return err
	}
	registry, err := collector.Of(ctx, r)
	if err != nil {
		return err
	}
	if *output != "" {
		if err := prometheus.WriteToTextfile(*output, registry); err != nil {
			var wrong *fs.PathError // about the temporary file, whose name means nothing to the user
			if errors.As(err, &wrong) {
				err = wrong.Err
			}
			return fmt.Errorf("write %s: %w: name a file in an existing directory that you can write to", *output, err)
		}
		return nil
	}
	families, err := registry.Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(out, f); err != nil {
			return err
		}
	}
	return nil
}
