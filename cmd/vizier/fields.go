package main

import (
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// pick returns the fields called names, by key or label and in that order.
// Without names it returns the default ones.
func pick(all []view.Field, names []string, where string) ([]view.Field, error) {
	var out []view.Field
	if len(names) == 0 {
		for _, f := range all {
			if f.Default {
				out = append(out, f)
			}
		}
		return out, nil
	}
	byKey, keys := make(map[string]view.Field, len(all)), make([]string, len(all))
	for i, f := range all {
		byKey[f.Key], byKey[keyOf(f.Label)], keys[i] = f, f, f.Key
	}
	for _, name := range names {
		key := keyOf(name)
		f, ok := byKey[key]
		if !ok {
			hint := "the fields are " + strings.Join(keys, ", ")
			if near := config.Nearest(key, keys); near != "" {
				hint = "did you mean " + near + "?"
			}
			return nil, fmt.Errorf("%s: unknown field %q (%s): %w", where, name, hint, kernel.ErrInvalid)
		}
		out = append(out, f)
	}
	return out, nil
}

// keyOf returns the key for a field's name in any spelling.
func keyOf(name string) string {
	return strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(name)))
}

func keysOf(fields []view.Field) []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	return keys
}

// fields returns the fields chosen by a flag or, without it, by the
// configuration.
func fields(all []view.Field, flag []string, key string, configured []string) ([]view.Field, error) {
	if len(flag) > 0 {
		return pick(all, flag, "--fields")
	}
	return pick(all, configured, key)
}

// warnUnreadable warns of records that cannot be read.
func (u *ui) warnUnreadable(records []view.Unreadable) {
	for _, r := range records {
		u.warn("the record of job %s cannot be read: %s", r.ID, r.Why)
	}
}
