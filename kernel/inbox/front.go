package inbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Front holds the keys of a prompt's front matter that Vizier reads. It ignores
// all other keys.
type Front struct {
	Flow       string            // the template; "": the configured one
	Set        map[string]string // its parameters
	Job        kernel.JobID      // the id that the job is to get; "": any
	Owner      string            // the owner of the repository that the prompt is for; "": not stated
	Repository string
	Branch     string
}

// The tables at the top of a front matter: the one that programs write for Vizier, and that of another program.
const (
	ownKey     = "vizier"
	foreignKey = "pv"
)

// Reads reports whether FrontOf reads a key at the top of a front matter, and whether that is another program's: it may
// have any value, and counts only as far as it can be read.
func Reads(key string) (reads, foreign bool) {
	return key == "flow" || key == "set" || key == ownKey || key == foreignKey, key == foreignKey
}

// SplitFront splits a prompt into its front matter, without the lines of dashes
// around it, and the rest. A prompt that does not begin with a line of dashes
// has no front matter.
func SplitFront(text string) (front, body string, err error) {
	text = strings.TrimPrefix(text, "\ufeff")
	line, rest, more := strings.Cut(text, "\n")
	if strings.TrimRight(line, " \t\r") != "---" || !more {
		return "", text, nil
	}
	for at := 0; at < len(rest); {
		line, _, _ := strings.Cut(rest[at:], "\n")
		next := min(at+len(line)+1, len(rest))
		if end := strings.TrimRight(line, " \t\r"); end == "---" || end == "..." {
			return rest[:at], rest[next:], nil
		}
		at = next
	}
	return "", "", fmt.Errorf("line 1: the front matter that begins here has no end, a line of three dashes: %w", kernel.ErrInvalid)
}

// ValidText returns an error if text cannot be a prompt.
func ValidText(text string) error {
	switch {
	case !utf8.ValidString(text):
		return fmt.Errorf("the prompt is not UTF-8 text: %w", kernel.ErrInvalid)
	case strings.ContainsRune(text, 0):
		return fmt.Errorf("the prompt holds a NUL byte: it is no text: %w", kernel.ErrInvalid)
	}
	return nil
}

// FrontOf reads the keys of a front matter: flow and set at the top level and
// below vizier, and job_id, owner, repository and branch below vizier. The keys
// below vizier, where programs write, take precedence. The job id may also
// stand below pv (seed 004). Values are strings, maps of strings, or anything
// else, which is an error.
func FrontOf(fields map[string]any) (Front, error) {
	f := Front{Set: map[string]string{}}
	r := frontReader{}
	r.text(fields, "flow", &f.Flow)
	r.set(fields, "set", f.Set)
	if pv, ok := fields[foreignKey].(map[string]any); ok { // only the id is read from it
		var id string
		r.text(pv, "job_id", &id)
		f.Job = kernel.JobID(id)
	}
	if v, there := fields[ownKey]; there {
		own, ok := v.(map[string]any)
		if !ok {
			return f, fmt.Errorf("front matter: vizier: expected a mapping: %w", kernel.ErrInvalid)
		}
		known := []string{"flow", "set", "job_id", "owner", "repository", "branch", "created_at", "source"}
		for _, key := range slices.Sorted(maps.Keys(own)) {
			if !slices.Contains(known, key) {
				return f, fmt.Errorf("front matter: vizier.%s: unknown key; expected one of %s: %w", key, strings.Join(known, ", "), kernel.ErrInvalid)
			}
		}
		id := string(f.Job)
		r.text(own, "flow", &f.Flow)
		r.set(own, "set", f.Set)
		r.text(own, "job_id", &id)
		r.text(own, "owner", &f.Owner)
		r.text(own, "repository", &f.Repository)
		r.text(own, "branch", &f.Branch)
		f.Job = kernel.JobID(id)
	}
	if f.Job != "" && !kernel.ValidJobID(string(f.Job)) && r.err == nil {
		r.err = fmt.Errorf("front matter: job_id %q: expected 32 lowercase hex digits: %w", f.Job, kernel.ErrInvalid)
	}
	return f, r.err
}

// frontReader reads values and keeps the first error.
type frontReader struct{ err error }

func (r *frontReader) text(fields map[string]any, key string, to *string) {
	v, there := fields[key]
	s, ok := v.(string)
	switch {
	case !there:
	case ok && s != "":
		*to = s
	case r.err == nil:
		r.err = fmt.Errorf("front matter: %s: expected a text: %w", key, kernel.ErrInvalid)
	}
}

func (r *frontReader) set(fields map[string]any, key string, to map[string]string) {
	v, there := fields[key]
	if !there {
		return
	}
	all, ok := v.(map[string]any)
	if !ok {
		if r.err == nil {
			r.err = fmt.Errorf("front matter: %s: expected a mapping of parameters: %w", key, kernel.ErrInvalid)
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s, ok := all[name].(string)
		if !ok && r.err == nil {
			r.err = fmt.Errorf("front matter: %s.%s: expected a text, a number, true or false: %w", key, name, kernel.ErrInvalid)
		}
		to[name] = s
	}
}

// For returns an error if the prompt states an owner, repository or branch that
// differs from p's.
func (f Front) For(p Path) error {
	for _, c := range []struct{ key, says, is string }{{"owner", f.Owner, p.Owner}, {"repository", f.Repository, p.Repository}, {"branch", f.Branch, p.Branch}} {
		if c.says != "" && c.says != c.is {
			return fmt.Errorf("front matter: vizier.%s is %q, and the prompt lies in the place of %q: %w", c.key, c.says, c.is, kernel.ErrInvalid)
		}
	}
	return nil
}
