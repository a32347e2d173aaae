package config

import (
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel/view"
)

// Pick returns the fields called names, by key or label and in that order.
func Pick(all []view.Field, names []string) ([]view.Field, error) {
	var out []view.Field
	byKey, keys := make(map[string]view.Field, len(all)), make([]string, len(all))
	for _, f := range all {
		byKey[keyOf(f.Label)] = f
	}
	for i, f := range all { // a key comes before a label that is called the same
		byKey[f.Key], keys[i] = f, f.Key
	}
	for _, name := range names {
		key := keyOf(name)
		f, ok := byKey[key]
		if !ok {
			if near := hint(Nearest(key, keys)); near != "" {
				return nil, fmt.Errorf("unknown field %q%s", name, near)
			}
			return nil, fmt.Errorf("unknown field %q (the fields are %s)", name, strings.Join(keys, ", "))
		}
		out = append(out, f)
	}
	return out, nil
}

// keyOf returns the key for a field's name in any spelling.
func keyOf(name string) string {
	return strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(name)))
}

// fieldNames restricts the list s to the names of fields.
func fieldNames(s setting, all func() []view.Field) setting {
	put, get := s.put, s.get
	s.put = func(c *Config, name string, v any) error {
		if err := put(c, name, v); err != nil {
			return err
		}
		names, _ := get(c).([]string)
		_, err := Pick(all(), names)
		return err
	}
	return s
}
