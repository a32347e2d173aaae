package main

// metricsName is the name of the program that writes metrics, which is
// installed beside this one.
const metricsName = "vizier-metrics"

type metricsCmd struct {
	Output string `placeholder:"FILE" help:"Write the metrics to this file, atomically, instead of standard output."`
}

func (*metricsCmd) Help() string {
	return "For the textfile collector of Prometheus's node exporter. It reads the records, checks whether the runners of this machine live, and changes nothing."
}

// Run becomes the program that writes metrics.
func (m *metricsCmd) Run(c *call) error {
	if _, err := c.repo(); err != nil { // this command has its own exit code for the error
		return err
	}
	args := []string{"--output", m.Output}
	if c.globals.ConfigFile != "" {
		args = append(args, "--config-file", c.globals.ConfigFile)
	}
	return c.become(metricsName, args)
}
