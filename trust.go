package vizier

import (
	"context"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/app"
)

// Untrusted are the settings of the repository's configuration that would run
// something and that nobody has said may: git tracks the file, so it may be
// somebody else's, and the user has not trusted these values of it. None of them
// runs by itself, and nobody who only looks runs one.
func (r *Repository) Untrusted(ctx context.Context) []config.Setting { return r.world.untrusted(ctx) }

// Commands are the settings of the repository's configuration that would run
// something, trusted or not.
func (r *Repository) Commands() []config.Setting { return r.Config.Foreign() }

// Trust says that what Commands names may run. A caller inside a job may not: the
// error is an *app.InsideError.
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
		return nil // no clone and no pull brought it
	}
	return settings
}

// about reports that one of settings is about the table key.
func about(settings []config.Setting, key string) bool {
	return slices.ContainsFunc(settings, func(s config.Setting) bool { return strings.HasPrefix(s.Key, key+".") })
}
