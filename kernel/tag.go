package kernel

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Tag is a label by which people and programs select jobs. No decision depends
// on it.
type Tag struct{ Key, Value string }

// Bounds of tags, in bytes.
const (
	maxTags     = 32
	maxTagKey   = 64
	maxTagValue = 256
)

// ParseTag parses KEY=VALUE.
func ParseTag(text string) (Tag, error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return Tag{}, fmt.Errorf("tag %q: expected KEY=VALUE: %w", text, ErrInvalid)
	}
	t := Tag{key, value}
	return t, t.Validate()
}

func (t Tag) String() string { return t.Key + "=" + t.Value }

// Validate returns ErrInvalid for tags that could not be printed on one line
// and typed again.
func (t Tag) Validate() error {
	odd := func(r rune) bool {
		return !strings.ContainsRune("._-/", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	switch {
	case t.Key == "" || len(t.Key) > maxTagKey || strings.ContainsFunc(t.Key, odd):
		return fmt.Errorf("tag %q: a key has 1 to %d letters, digits and any of . _ - /: %w", t, maxTagKey, ErrInvalid)
	case len(t.Value) > maxTagValue || strings.ContainsFunc(t.Value, unicode.IsControl) || strings.ToValidUTF8(t.Value, "") != t.Value:
		return fmt.Errorf("tag %q: a value has at most %d bytes and no control character: %w", t, maxTagValue, ErrInvalid)
	}
	return nil
}

// Tagged reports whether the job has all of tags.
func (s *Spec) Tagged(tags []Tag) bool {
	return !slices.ContainsFunc(tags, func(t Tag) bool { return !slices.Contains(s.Tags, t) })
}

// tags returns in as records hold it: sorted by key, each key once.
func tags(in []Tag) ([]Tag, error) {
	out := unique(in)
	slices.SortFunc(out, func(a, b Tag) int { return strings.Compare(a.Key, b.Key) })
	if len(out) > maxTags {
		return nil, fmt.Errorf("%d tags: a job has at most %d: %w", len(out), maxTags, ErrInvalid)
	}
	for i, t := range out {
		if err := t.Validate(); err != nil {
			return nil, err
		}
		if i > 0 && out[i-1].Key == t.Key {
			return nil, fmt.Errorf("tags %q and %q: a key has one value: %w", out[i-1], t, ErrInvalid)
		}
	}
	return out, nil
}
