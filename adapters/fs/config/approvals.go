package config

import (
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
)

// NotSubmitter is the value of approvals.required_from that demands an approval
// by somebody other than the submitter.
const NotSubmitter = "not-submitter"

// fromJobs returns the setting approvals.from_jobs. It counts only in the
// user's own file: a job must not get the right to decide by writing another
// file or by setting variables for the commands that it starts.
func fromJobs() setting {
	s := toggle("approvals.from_jobs", "Whether a command that runs inside a job may approve, reject or retry jobs. Only your own file may set it to true, "+
		"config.toml of .config/vizier in your home directory; inside a job, the environment cannot name another place.",
		func(c *Config) *bool { return &c.Approvals.FromJobs })
	put := s.put
	s.put = func(c *Config, name string, v any) error {
		if err := put(c, name, v); err != nil {
			return err
		}
		if c.Approvals.FromJobs && !c.own {
			return errors.New("only your own configuration file may set it: .config/vizier/config.toml in your home directory")
		}
		return nil
	}
	return s
}

// requiredFrom returns the setting approvals.required_from. The values of all
// sources are combined, so that none weakens what another demands.
func requiredFrom() setting {
	asked := func(c *Config) *[]string { return &c.Approvals.RequiredFrom }
	s := list("approvals.required_from", `Who must approve: ["not-submitter"] is another person than the submitter. The requirements of all files apply.`, asked)
	put := s.put
	s.put = func(c *Config, name string, v any) error {
		before := slices.Clone(c.Approvals.RequiredFrom)
		if err := put(c, name, v); err != nil {
			return err
		}
		for _, who := range c.Approvals.RequiredFrom {
			if who != NotSubmitter {
				return fmt.Errorf("expected %q, found %q", NotSubmitter, who)
			}
		}
		c.Approvals.RequiredFrom = slices.Compact(slices.Sorted(slices.Values(append(before, c.Approvals.RequiredFrom...))))
		return nil
	}
	return s
}

// OwnAllows reports whether the configuration file of the user with id uid, in
// the home directory that the system has for that user, lets jobs decide. It
// does not use the environment, which a job controls for the commands that it
// starts.
func OwnAllows(uid int) bool {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil || u.HomeDir == "" {
		return false
	}
	return AllowedIn(filepath.Join(u.HomeDir, ".config"))
}

// AllowedIn is OwnAllows for the configuration directory dir.
func AllowedIn(dir string) bool {
	l, err := Open(Sources{Env: func(name string) string {
		if name == "XDG_CONFIG_HOME" {
			return dir
		}
		return ""
	}}, "")
	return err == nil && l.c.Approvals.FromJobs
}
