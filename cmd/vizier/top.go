package main

import (
	"errors"
	"os"

	"golang.org/x/term"

	"github.com/vizier-scheduler/vizier/adapters/proc"
)

type topCmd struct {
	Job string `arg:"" optional:"" help:"Start at this job or run: its number, such as 12 or 14/NODE, its name, its id or the beginning of it, or @last."`
}

func (*topCmd) Help() string {
	return "Keys: arrows or j and k select, enter shows the jobs of a run, f filters, / searches, J and K scroll the logs, ? helps. " +
		"a approves, x rejects, r retries and c cancels the selected job, each after a question. q quits; jobs continue."
}

// errNoScreen says that there is no terminal to draw on.
var errNoScreen = errors.New("top needs a terminal: `vizier status` prints the same")

// Run becomes the program of the screen.
func (t *topCmd) Run(c *call) error {
	in, isFile := c.stdin.(*os.File)
	if !c.ui.outTTY || !isFile || !term.IsTerminal(int(in.Fd())) || c.env.Get("TERM") == "dumb" {
		return usageError(errNoScreen)
	}
	r, err := c.repo() // this command has its own exit codes for the errors
	if err == nil && t.Job != "" {
		_, _, err = r.Scheduler.Targets(c.ctx, []string{t.Job})
	}
	if err != nil {
		return err
	}
	var args []string
	if c.globals.ConfigFile != "" {
		args = append(args, "--config-file", c.globals.ConfigFile)
	}
	if c.globals.NoResident {
		args = append(args, "--no-resident")
	}
	if c.globals.NoANSI {
		args = append(args, "--no-ansi")
	}
	if args = append(args, "--"); t.Job != "" {
		args = append(args, t.Job)
	}
	return c.become(proc.TopName, args)
}
