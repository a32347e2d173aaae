package main

// webName is the name of the page's program, which is installed beside this
// one.
const webName = "vizier-web"

type webCmd struct {
	Listen  string `default:"127.0.0.1:0" placeholder:"ADDRESS" help:"Address and port on this machine; port 0 means any free one."`
	Open    bool   `help:"Open it in the browser."`
	Actions bool   `help:"Approve, reject, retry and cancel from the page. Needs a terminal; refused in a job."`
	Metrics bool   `help:"Serve /metrics for Prometheus, without the secret."`
}

func (*webCmd) Help() string {
	return "Shows what needs you, with the command to copy; changes nothing without --actions. The address contains a secret, a new one at each start; anyone who has it can read the page. " +
		"`vizier jobs schedule --format html` writes the page as one file."
}

// Run becomes the program that serves the page.
func (w *webCmd) Run(c *call) error {
	if _, err := c.repo(); err != nil { // this command has its own exit code for the error
		return err
	}
	args := []string{"--listen", w.Listen}
	if w.Open {
		args = append(args, "--open")
	}
	if w.Actions {
		args = append(args, "--actions")
	}
	if w.Metrics {
		args = append(args, "--metrics")
	}
	return c.becomeWeb(args)
}

// becomeWeb becomes the program that serves the page.
func (c *call) becomeWeb(args []string) error {
	if c.globals.ConfigFile != "" {
		args = append(args, "--config-file", c.globals.ConfigFile)
	}
	return c.become(webName, args)
}
