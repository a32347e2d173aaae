package config

import (
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
)

// NotSubmitter in approvals.required_from has somebody else approve a job than
// who submitted it.
const NotSubmitter = "not-submitter"

// fromJobs is a key that counts in the user's own file only: what a job can
// write, or set for the commands it starts, must not let it decide.
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
			c.Approvals.FromJobs = false
			return errors.New("only your own configuration file may set it: .config/vizier/config.toml in your home directory")
		}
		return nil
	}
	return s
}

// requiredFrom is a key of which every source that is read counts, so that none
// asks for less than another.
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

// OwnAllows reports that the configuration file of the user with id uid, in the
// home directory that the system has for that user, lets jobs decide. It asks no
// environment: a job sets that for what it starts.
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
