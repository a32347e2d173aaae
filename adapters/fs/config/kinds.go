package config

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

func number[T int | int64](key, doc string, at func(*Config) *T) setting {
	return setting{key: key, doc: doc,
		get: func(c *Config) any { return int64(*at(c)) },
		put: func(c *Config, _ string, v any) error {
			n, err := wholeNumber(v)
			*at(c) = T(n)
			return err
		}}
}

// wholeNumber parses a number that is not negative. Environment variables give
// numbers as strings.
func wholeNumber(v any) (int64, error) {
	if s, ok := v.(fromEnv); ok {
		n, err := strconv.ParseInt(string(s), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("expected a whole number, found %q", string(s))
		}
		v = n
	}
	n, ok := v.(int64)
	switch {
	case !ok:
		return 0, mismatch("a whole number", v)
	case n < 0:
		return 0, fmt.Errorf("expected 0 or more, found %d", n)
	}
	return n, nil
}

func toggle(key, doc string, at func(*Config) *bool) setting {
	return setting{key: key, doc: doc,
		get: func(c *Config) any { return *at(c) },
		put: func(c *Config, _ string, v any) (err error) {
			*at(c), err = boolean(v)
			return err
		}}
}

func boolean(v any) (bool, error) {
	switch b := v.(type) {
	case bool:
		return b, nil
	case fromEnv:
		if b != "true" && b != "false" {
			return false, fmt.Errorf("expected true or false, found %q", string(b))
		}
		return b == "true", nil
	default:
		return false, mismatch("true or false", v)
	}
}

func text(key, doc string, at func(*Config) *string) setting {
	return setting{key: key, doc: doc,
		get: func(c *Config) any { return *at(c) },
		put: func(c *Config, _ string, v any) (err error) {
			*at(c), err = str(v)
			return err
		}}
}

// absolute restricts s to absolute paths, or none.
func absolute(s setting) setting {
	put := s.put
	s.put = func(c *Config, name string, v any) error {
		if err := put(c, name, v); err != nil {
			return err
		}
		if dir := s.get(c).(string); dir != "" && !path.IsAbs(dir) {
			return mismatch("an absolute path", dir)
		}
		return nil
	}
	return s
}

// collector restricts s to base addresses that OTLP can be sent to.
func collector(s setting) setting {
	put := s.put
	s.put = func(c *Config, name string, v any) error {
		if err := put(c, name, v); err != nil || c.OTel.Endpoint == "" {
			return err
		}
		u, err := url.Parse(c.OTel.Endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("expected an address such as \"http://localhost:4318\", found %q", c.OTel.Endpoint)
		}
		return nil
	}
	return s
}

func choice(key, doc string, of []string, at func(*Config) *string) setting {
	s := text(key, doc, at)
	put := s.put
	s.put = func(c *Config, name string, v any) error {
		if err := put(c, name, v); err != nil {
			return err
		}
		if !slices.Contains(of, *at(c)) {
			return fmt.Errorf("expected one of %s, found %q", strings.Join(of, ", "), *at(c))
		}
		return nil
	}
	return s
}

func duration(key, doc string, none bool, at func(*Config) *time.Duration) setting {
	return setting{key: key, doc: doc,
		get: func(c *Config) any {
			if *at(c) == 0 && none {
				return ""
			}
			return at(c).String()
		},
		put: func(c *Config, _ string, v any) error {
			s, err := str(v)
			switch {
			case err != nil:
				return mismatch("a duration such as \"30s\"", v)
			case s == "" && none:
				*at(c) = 0
				return nil
			}
			d, err := time.ParseDuration(s)
			if err != nil || d <= 0 {
				return fmt.Errorf("expected a duration such as \"30s\" or \"1h30m\", found %q", s)
			}
			*at(c) = d
			return nil
		}}
}

// placeholders restricts s, a command line: it must contain the words in braces
// of must, and may contain those of may but no others.
func placeholders(s setting, must []string, may ...string) setting {
	put, get := s.put, s.get
	s.put = func(c *Config, name string, v any) error {
		if err := put(c, name, v); err != nil {
			return err
		}
		words, _ := get(c).([]string)
		all := strings.Join(words, "\x00")
		for _, m := range must {
			if len(words) > 0 && !strings.Contains(all, m) {
				return fmt.Errorf("expected %s in it: nothing else says it", m)
			}
		}
		for _, word := range braces().FindAllString(all, -1) {
			if known := slices.Concat(must, may); !slices.Contains(known, word) {
				return fmt.Errorf("%s is unknown: expected %s", word, strings.Join(known, ", "))
			}
		}
		return nil
	}
	return s
}

var braces = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{[a-z_]+\}`) })

func list(key, doc string, at func(*Config) *[]string) setting {
	return setting{key: key, doc: doc,
		get: func(c *Config) any { return *at(c) },
		put: func(c *Config, _ string, v any) error {
			var out []string
			switch v := v.(type) {
			case fromEnv:
				for s := range strings.SplitSeq(string(v), ",") {
					out = append(out, strings.TrimSpace(s))
				}
			case []any:
				for _, e := range v {
					s, ok := e.(string)
					if !ok {
						return mismatch("an array of strings", v)
					}
					out = append(out, s)
				}
			default:
				return mismatch("an array of strings", v)
			}
			*at(c) = out
			return nil
		}}
}

func pools() setting {
	return setting{key: "pools.NAME", doc: "How many units the pool NAME has; a pool that is not named here has 1.",
		get:   func(c *Config) any { return c.Pools },
		names: func(c *Config) []string { return slices.Sorted(maps.Keys(c.Pools)) },
		put: func(c *Config, name string, v any) error {
			n, err := wholeNumber(v)
			c.Pools[name] = int(n)
			return err
		}}
}

func commands() setting {
	return setting{key: "commands.NAME", doc: "The template that `vizier run NAME` runs: a path, or ID@VERSION.",
		get:   func(c *Config) any { return c.Commands },
		names: func(c *Config) []string { return slices.Sorted(maps.Keys(c.Commands)) },
		put: func(c *Config, name string, v any) error {
			s, ok := v.(string)
			if !ok || s == "" {
				return mismatch("a template: a path, or ID@VERSION", v)
			}
			c.Commands[name] = s
			return nil
		}}
}

// fromEnv is the value of an environment variable.
type fromEnv string

func str(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case fromEnv:
		return string(v), nil
	default:
		return "", mismatch("a string", v)
	}
}

func mismatch(want string, v any) error {
	found := fmt.Sprintf("%T", v)
	switch v := v.(type) {
	case map[string]any, []map[string]any:
		found = "a table"
	case []any:
		found = "an array"
	case int64, float64, bool:
		found = fmt.Sprint(v)
	case string:
		found = strconv.Quote(v)
	case time.Time:
		found = "a date"
	}
	return fmt.Errorf("expected %s, found %s", want, found)
}

func repositories() setting {
	shown := func(c *Config) map[string]string {
		out := map[string]string{}
		for name, path := range c.Inbox.Repositories {
			out[strconv.Quote(name)] = path
		}
		return out
	}
	return setting{key: "inbox.repositories.NAME", doc: "Where the clone of the repository \"OWNER/REPOSITORY\" is, for its prompts; relative to this repository's root.",
		get:   func(c *Config) any { return shown(c) },
		names: func(c *Config) []string { return slices.Sorted(maps.Keys(shown(c))) },
		put: func(c *Config, name string, v any) error {
			s, ok := v.(string)
			owner, repository, named := strings.Cut(name, "/")
			switch {
			case !named || owner == "" || repository == "" || strings.Contains(repository, "/"):
				return fmt.Errorf("expected a name such as \"acme/web\", found %q", name)
			case !ok || s == "":
				return mismatch("a path", v)
			}
			c.Inbox.Repositories[name] = s
			return nil
		}}
}
