package kernel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Grown holds, for the latest attempt, the step of each option that grows; 0 is
// the first. The steps of an option are its values, separated by commas.
type Grown struct {
	Memory int // step of memory=A,B,…: one more after each attempt that ran out of memory
	Time   int // step of time=A,B,…: one more after each attempt that ran out of time
}

// of returns the step of the option key, or nil if that option does not grow.
func (g *Grown) of(key string) *int {
	switch key {
	case "memory":
		return &g.Memory
	case "time":
		return &g.Time
	default:
		return nil
	}
}

// wanted returns the option that was too small for an attempt that ended as v,
// or "".
func (v FailureClass) wanted() string {
	switch v {
	case OutOfMemory:
		return "memory"
	case Timeout:
		return "time"
	default:
		return ""
	}
}

// stepsOf returns the key of an option and its steps, which are nil if the
// option does not grow.
func stepsOf(option string) (key string, steps []string) {
	key, value, _ := strings.Cut(option, "=")
	if new(Grown).of(key) == nil || !strings.Contains(value, ",") {
		return key, nil
	}
	return key, strings.Split(value, ",")
}

// grow returns the steps of the attempt after one that took the steps g and
// ended as c.
func (t *Task) grow(g Grown, c FailureClass) Grown {
	for _, o := range t.Options {
		key, steps := stepsOf(o)
		if step := g.of(key); key == c.wanted() && steps != nil && *step+1 < len(steps) {
			*step++
			break
		}
	}
	return g
}

// At returns the options with each one that grows replaced by its current step.
func (g Grown) At(options []string) []string {
	out := slices.Clone(options)
	for i, o := range out {
		if key, steps := stepsOf(o); steps != nil {
			out[i] = key + "=" + steps[min(*g.of(key), len(steps)-1)]
		}
	}
	return out
}

// Asks returns the options of the job's latest attempt, or of its first if
// there was none.
func (j *Job) Asks() []string { return j.State.Grown.At(j.Spec.Task.Options) }

// Step is the current step of an option that grows.
type Step struct {
	Key, Value string
	N, Of      int    // it is the N-th step, from 1, of Of
	Next       string // the value of the next attempt, after a failure, if it is a larger one; else ""
}

// Steps returns the current step of each of the job's options that grow.
func (j *Job) Steps() []Step {
	next := j.State.Grown
	if j.State.Status == FailedRetryable {
		next = j.Spec.Task.grow(next, j.State.Failure)
	}
	var out []Step
	for _, o := range j.Spec.Task.Options {
		key, steps := stepsOf(o)
		if steps == nil {
			continue
		}
		n := min(*j.State.Grown.of(key), len(steps)-1)
		s := Step{Key: key, Value: steps[n], N: n + 1, Of: len(steps)}
		if after := *next.of(key); after > n {
			s.Next = steps[after]
		}
		out = append(out, s)
	}
	return out
}

// CheckGrowth returns ErrInvalid unless each step of an option that grows asks
// for more than the one before. It returns the options at each step.
func CheckGrowth(options []string) (at [][]string, err error) {
	longest := 1
	for i, o := range options {
		key, steps := stepsOf(o)
		var before int64
		for _, s := range steps {
			n, ok := amount(key, s)
			if !ok {
				return nil, fmt.Errorf("option %s: %q cannot be read as %s: expected steps such as %s: %w", o, s, key, growthExamples[key], ErrInvalid)
			}
			if n <= before {
				return nil, fmt.Errorf("option %s: %s is not more than the step before it: expected steps such as %s: %w", o, s, growthExamples[key], ErrInvalid)
			}
			before = n
		}
		for _, p := range options[:i] {
			if other, more := stepsOf(p); other == key && (steps != nil || more != nil) {
				return nil, fmt.Errorf("options %s and %s: %s is given twice: leave out one: %w", p, o, key, ErrInvalid)
			}
		}
		longest = max(longest, len(steps))
	}
	for n := range longest {
		at = append(at, Grown{n, n}.At(options))
	}
	return at, nil
}

var growthExamples = map[string]string{"memory": "memory=4G,16G", "time": "time=30m,2h"}

// amount parses a step into a number that is comparable with other steps of its
// key.
func amount(key, text string) (n int64, ok bool) {
	if key == "time" {
		d, ok := batchTime(text)
		return int64(d), ok && d > 0
	}
	digits, unit := text, "M"
	if i := strings.IndexAny(text, "KMGTkmgt"); i > 0 {
		digits, unit = text[:i], strings.ToUpper(text[i:])
	}
	shift, known := map[string]int{"K": 0, "M": 10, "G": 20, "T": 30}[unit]
	n, err := strconv.ParseInt(digits, 10, 32)
	return n << shift, known && err == nil && n > 0
}

// batchTime parses a Go duration, or a time in the format of batch systems:
// minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S.
func batchTime(text string) (time.Duration, bool) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, true
	}
	days, clock, dashed := strings.Cut(text, "-")
	if !dashed {
		days, clock = "0", text
	}
	parts := strings.Split(clock, ":")
	units := []time.Duration{time.Hour, time.Minute, time.Second}
	switch {
	case len(parts) > 3:
		return 0, false
	case !dashed && len(parts) < 3:
		units = units[1:]
	}
	d, err := strconv.ParseUint(days, 10, 15) // the sum fits into a duration
	sum := time.Duration(d) * 24 * time.Hour
	for i, part := range parts {
		n, e := strconv.ParseUint(part, 10, 20)
		if err == nil {
			err = e
		}
		sum += time.Duration(n) * units[i]
	}
	return sum, err == nil
}
