package vizier

import (
	"context"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/app"
)

// Untrusted returns the settings of the repository's configuration that would
// run commands and that the user has not trusted. Since git tracks the file,
// somebody else may have written it. None of them runs by itself, or when a
// command only reads.
func (r *Repository) Untrusted(ctx context.Context) []config.Setting { return r.world.untrusted(ctx) }

// Commands returns the settings of the repository's configuration that would
// run commands, trusted or not.
func (r *Repository) Commands() []config.Setting { return r.Config.Foreign() }

// Trusted reports whether the user has trusted the settings returned by Commands. Untrusted is empty, too, if
// git does not track the file.
func (r *Repository) Trusted() bool { return config.Trusted(r.world.env.Get, r.Root, r.Commands()) }

// Trust records that the settings returned by Commands may run. It fails with
// an *app.InsideError if the caller is inside a job.
func (r *Repository) Trust(ctx context.Context) error {
	if r.Scheduler.Inside != nil {
		if where, inside := r.Scheduler.Inside(ctx); inside {
			return &app.InsideError{Verb: "trust the repository's commands", Descent: where}
		}
	}
	return config.Trust(r.world.env.Get, r.Root, r.Commands())
}

func (w *world) untrusted(ctx context.Context) []config.Setting {
	cfg := w.config()
	settings := cfg.Foreign()
	if len(settings) == 0 || config.Trusted(w.env.Get, w.local.Root, settings) {
		return nil
	}
	if file, err := w.git.Tracked(ctx, config.RepositoryFile); err == nil && file == "" {
		return nil // it did not come with a clone or a pull
	}
	return settings
}

// about reports whether one of settings is in the table key.
func about(settings []config.Setting, key string) bool {
	return slices.ContainsFunc(settings, func(s config.Setting) bool { return strings.HasPrefix(s.Key, key+".") })
}
