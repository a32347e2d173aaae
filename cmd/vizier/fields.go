package main

import (
	"fmt"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// pick returns the fields called names, by key or label and in that order.
// Without names it returns the default ones.
func pick(all []view.Field, names []string, where string) ([]view.Field, error) {
	if len(names) == 0 {
		var out []view.Field
		for _, f := range all {
			if f.Default {
				out = append(out, f)
			}
		}
		return out, nil
	}
	out, err := config.Pick(all, names)
	if err != nil {
		err = fmt.Errorf("%s: %w: %w", where, err, kernel.ErrInvalid)
	}
	return out, err
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
