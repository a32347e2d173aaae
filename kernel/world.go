package kernel

import "fmt"

// WorldAction is an effect on what is not a record: processes, worktrees, files
// that people read. A plan's are done in order once its records are durable,
// and may be done again after a crash.
//
//sumtype:decl
type WorldAction interface {
	Action
	world()
}

// The world actions.
type (
	// Launch starts the executor for an attempt already recorded as running.
	Launch struct{ Attempt AttemptID }

	// Stop ends an attempt's processes: TERM to the group, grace, KILL.
	Stop struct{ Attempt AttemptID }

	// Sweep ends what a lost attempt's runner may have left running.
	Sweep struct{ Attempt AttemptID }

	// ClearSentinel drops an open merge conflict's mark.
	ClearSentinel struct {
		Job  JobID
		Slug string
	}

	// RemoveWorktree takes a job's own worktree away, never the only copy of
	// work. What came of it goes to CleanedUp.
	RemoveWorktree struct {
		Job     JobID
		Context Context
		Cancel  bool // asked for by a cancel, not by a rewind
	}

	// TendPrompt makes the files of a prompt say where its run stands: its
	// copy, its name, the reason beside it. What came of it goes to Tended.
	TendPrompt struct {
		Job  JobID
		Name PromptName
	}
)

// Performer does world actions. It returns what the kernel makes of the answer,
// an empty plan where there is none.
type Performer interface {
	Launch(Launch) Plan
	Stop(Stop) Plan
	Sweep(Sweep) Plan
	ClearSentinel(ClearSentinel) Plan
	RemoveWorktree(RemoveWorktree) Plan
	TendPrompt(TendPrompt) Plan
}

// worldActions is all there is to know of each world action: its name in
// journals, which never changes, whether another boot leaves it to be done
// (nothing that ran before it runs now), and who does it.
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

// rowOf is the row of a. That each has one is a test's business.
func rowOf(a WorldAction) *worldAction {
	for i := range worldActions {
		if worldActions[i].is(a) {
			return &worldActions[i]
		}
	}
	panic(fmt.Sprintf("kernel: %T has no row in worldActions", a))
}

// WorldActions are one action of each kind, with no field set.
func WorldActions() []WorldAction {
	var out []WorldAction
	for _, row := range worldActions {
		a, _ := row.read(func(any) error { return nil })
		out = append(out, a)
	}
	return out
}

// Perform has p do a.
func Perform(p Performer, a WorldAction) Plan { return rowOf(a).perform(p, a) }

// WorldActionName is what journals call a.
func WorldActionName(a WorldAction) string { return rowOf(a).name }

// OutlastsBoot reports that a is still to be done when the machine has booted
// since.
func OutlastsBoot(a WorldAction) bool { return rowOf(a).outlastsBoot }

// ReadWorldAction is the action of that name with the fields that fill sets, or
// an error where this version does not know the name.
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
