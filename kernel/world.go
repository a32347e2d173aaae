package kernel

import "fmt"

// WorldAction is a change to something other than the records: processes, worktrees,
// files that people read. A plan's world actions are performed in order once its
// records are durable. After a crash they may be performed again.
//
//sumtype:decl
type WorldAction interface {
	Action
	world()
}

// The world actions.
type (
	// Launch starts an attempt that is already recorded as running.
	Launch struct{ Attempt AttemptID }

	// Stop ends an attempt's processes: TERM to the group, grace, KILL.
	Stop struct{ Attempt AttemptID }

	// Sweep ends the processes that a lost attempt's runner may have left
	// running.
	Sweep struct{ Attempt AttemptID }

	// ClearSentinel deletes the sentinel of an open merge conflict.
	ClearSentinel struct {
		Job  JobID
		Slug string
	}

	// RemoveWorktree removes a job's own worktree, but never the only copy of
	// work. CleanedUp records the result.
	RemoveWorktree struct {
		Job     JobID
		Context Context
		Cancel  bool // a cancel asked for it, not a rewind
	}

	// TendPrompt brings the files of a prompt up to date with its run: the
	// copy, the name, and the reason beside it. Tended records the result.
	TendPrompt struct {
		Job  JobID
		Name PromptName
	}
)

// Performer performs world actions. Each method returns the plan that records
// the result, or an empty plan if nothing is to be recorded.
type Performer interface {
	Launch(Launch) Plan
	Stop(Stop) Plan
	Sweep(Sweep) Plan
	ClearSentinel(ClearSentinel) Plan
	RemoveWorktree(RemoveWorktree) Plan
	TendPrompt(TendPrompt) Plan
}

// worldActions has a row for each world action: its name in journals, which
// never changes, whether it is still to be done after a reboot (which ends all
// processes), and the method that performs it.
var worldActions = [...]worldAction{
	worldRow("kernel.Launch", endedByBoot, Performer.Launch),
	worldRow("kernel.Stop", endedByBoot, Performer.Stop),
	worldRow("kernel.Sweep", endedByBoot, Performer.Sweep),
	worldRow("kernel.ClearSentinel", outlastsBoot, Performer.ClearSentinel),
	worldRow("kernel.RemoveWorktree", outlastsBoot, Performer.RemoveWorktree),
	worldRow("kernel.TendPrompt", outlastsBoot, Performer.TendPrompt),
}

const (
	endedByBoot  = false
	outlastsBoot = true
)

// worldAction is a row of worldActions.
type worldAction struct {
	name         string
	outlastsBoot bool
	is           func(WorldAction) bool
	perform      func(Performer, WorldAction) Plan
	read         func(fill func(any) error) (WorldAction, error)
}

func worldRow[A WorldAction](name string, outlastsBoot bool, perform func(Performer, A) Plan) worldAction {
	return worldAction{name, outlastsBoot,
		func(a WorldAction) bool { _, ok := a.(A); return ok },
		func(p Performer, a WorldAction) Plan { return perform(p, a.(A)) },
		func(fill func(any) error) (WorldAction, error) {
			var a A
			err := fill(&a)
			return a, err
		},
	}
}

// rowOf returns the row of a. A test checks that each type has one.
func rowOf(a WorldAction) *worldAction {
	for i := range worldActions {
		if worldActions[i].is(a) {
			return &worldActions[i]
		}
	}
	panic(fmt.Sprintf("kernel: %T has no row in worldActions", a))
}

// WorldActions returns one action of each type, with no field set.
func WorldActions() []WorldAction {
	var out []WorldAction
	for _, row := range worldActions {
		a, _ := row.read(func(any) error { return nil })
		out = append(out, a)
	}
	return out
}

// Perform makes p perform a.
func Perform(p Performer, a WorldAction) Plan { return rowOf(a).perform(p, a) }

// WorldActionName returns the name of a in journals.
func WorldActionName(a WorldAction) string { return rowOf(a).name }

// OutlastsBoot reports whether a is still to be done after the machine has
// booted again.
func OutlastsBoot(a WorldAction) bool { return rowOf(a).outlastsBoot }

// ReadWorldAction returns the action with that name and the fields that fill
// sets. It returns an error if this version does not know the name.
func ReadWorldAction(name string, fill func(any) error) (WorldAction, error) {
	for i := range worldActions {
		if worldActions[i].name == name {
			a, err := worldActions[i].read(fill)
			if err != nil {
				return nil, fmt.Errorf("action %s: %w", name, err)
			}
			return a, nil
		}
	}
	return nil, fmt.Errorf("action %s is not known", name)
}

func (a Launch) Subject() JobID         { return a.Attempt.Job }
func (a Stop) Subject() JobID           { return a.Attempt.Job }
func (a Sweep) Subject() JobID          { return a.Attempt.Job }
func (a ClearSentinel) Subject() JobID  { return a.Job }
func (a RemoveWorktree) Subject() JobID { return a.Job }
func (a TendPrompt) Subject() JobID     { return a.Job }

func (a Launch) addTo(p *Plan)         { p.World = append(p.World, a) }
func (a Stop) addTo(p *Plan)           { p.World = append(p.World, a) }
func (a Sweep) addTo(p *Plan)          { p.World = append(p.World, a) }
func (a ClearSentinel) addTo(p *Plan)  { p.World = append(p.World, a) }
func (a RemoveWorktree) addTo(p *Plan) { p.World = append(p.World, a) }
func (a TendPrompt) addTo(p *Plan)     { p.World = append(p.World, a) }

func (Launch) world()         {}
func (Stop) world()           {}
func (Sweep) world()          {}
func (ClearSentinel) world()  {}
func (RemoveWorktree) world() {}
func (TendPrompt) world()     {}
