package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/adapters/fs/config"
	"github.com/vizier-scheduler/vizier/adapters/git"
	"github.com/vizier-scheduler/vizier/adapters/proc/sandbox"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/op"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type doctorCmd struct {
	Fix      bool   `help:"Repair what can be repaired."`
	Adopt    bool   `help:"Accept the repository's store in its present place as yours. Look at it first."`
	Executor string `placeholder:"NAME" help:"Only try an executor of the configuration: run small jobs that check everything its engine must do."`
	Format   string `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

func (*doctorCmd) Help() string {
	return "Looks for leftovers of crashes and manual edits: torn records, strays, stale temporary files, worktrees without an owner, prompts with stale " +
		"names, releases that were killed; for jobs without a scheduler; for problems of configured clusters; and for problems of the agents that templates ask, whose programs it starts for version and help. It changes nothing without --fix. Exits 0 if all is well or was repaired, and 1 with findings."
}

// inspection validates a store's files.
type inspection interface {
	Validate(context.Context) ([]fs.Problem, int, error)
	Inspect(runs map[kernel.RunID]bool) ([]fs.Oddity, error)
	Misplaced(context.Context) []fs.Oddity
	Sentinel(slug string) ([]byte, error)
}

// worktreeGit is what the doctor needs of git.
type worktreeGit interface {
	StrayWorktrees(owned func(kernel.Context) bool) ([]kernel.Context, error)
	MovedWorktrees() ([]kernel.Context, error)
	WorktreesAway() (map[string]string, error)
	WorktreeNamed(name string) (dir string, err error)
	LinkedHome() string
	RepairWorktree(context.Context, kernel.Context) error
	SeparateWorktrees() error
	RemoveWorktree(context.Context, kernel.Context) kernel.Cleanup
	LeftFiles() ([]string, error)
	RemoveLeft(dir string) error
	Unheld(ctx context.Context) ([]string, error)
	DropHeld(ctx context.Context) error
	HalfWay() ([]string, error)
	EndHalfWay(ctx context.Context, dir string) error
	StaleLocks(before time.Time) (paths []string, drop func(path string) error, err error)
	Damage(kernel.Context) (why string, stays bool, err error)
	ProgramVersion(context.Context) (version string, ok bool, err error)
}

// diagnosis is `doctor --format json`.
type diagnosis struct {
	Outcome  string          `json:"outcome"` // healthy or findings
	Git      string          `json:"git_version"`
	Resident int             `json:"resident_pid"` // 0: none
	Sandbox  string          `json:"sandbox"`      // what this host can enforce
	Findings []doctorFinding `json:"findings"`

	// Contract is the result of each clause of an executor's contract, if one
	// was tried.
	Contract []doctorClause `json:"contract,omitempty"`
}

type doctorClause struct {
	Clause string `json:"clause"`
	Kept   bool   `json:"kept"`

	NotAsked string `json:"not_asked_since,omitempty"` // the failed clause that it depends on
}

type doctorFinding struct {
	Check   string `json:"check"`
	Path    string `json:"path"`
	Problem string `json:"problem"`
	Next    string `json:"next"`
	Fixable bool   `json:"fixable"`
	Fixed   bool   `json:"fixed"`
}

// checks returns the doctor's checks, in the order in which it reports.
func (c *call) checks(r *repo) []app.Check {
	return []app.Check{
		{Name: "git", Look: r.checkGit},
		{Name: "locks", Look: r.checkLocks, Before: true},
		{Name: "disk", Look: r.checkDisk},
		{Name: "records", Look: r.checkRecords, Before: true},
		{Name: "approvals", Look: checkApprovals},
		{Name: "runners", Look: r.checkRunners},
		{Name: "scheduler", Look: r.checkScheduler},
		{Name: "containers", Look: r.checkContainers},
		{Name: "traces", Look: r.checkTraces},
		{Name: "worktrees", Look: r.checkWorktrees},
		{Name: "releases", Look: r.checkReleases},
		{Name: "inbox", Look: c.checkInbox(r)},
	}
}

// checkClusters checks the executors of other hosts by running a job of its own
// on each. That takes time, so it is done without the scheduler lock.
func (c *call) checkClusters(r *repo) []app.Finding {
	var out []app.Finding
	for _, name := range slices.Sorted(maps.Keys(r.Doctor.clusters)) {
		for _, f := range r.Doctor.clusters[name].Check(c.ctx) {
			out = append(out, app.Finding{Check: "clusters", Path: "executors." + name, Problem: f.Problem, Next: f.Next})
		}
	}
	return out
}

// Run examines the repository.
func (x *doctorCmd) Run(c *call) error {
	r, err := c.repo()
	if shut, ok := errors.AsType[*config.UnreadableError](err); ok {
		f := app.Finding{Check: "configuration", Path: shut.Path, Problem: "it cannot be read, so no command works and nothing else can be looked at: " + shut.Err.Error(), Next: shut.Next()}
		return x.report(c, diagnosis{Git: "not looked at", Sandbox: enforceable()}, []app.Finding{f})
	}
	if err != nil {
		return err
	}
	if x.Adopt {
		if err := r.Adopt(c.ctx); err != nil {
			return err
		}
		if err := r.Doctor.git.SeparateWorktrees(); err != nil {
			return err
		}
	}
	doc := diagnosis{Resident: r.Resident(), Sandbox: enforceable()}
	var found []app.Finding
	if x.Executor != "" {
		found, doc.Contract, err = x.tryExecutor(c, r)
	} else {
		found, err = x.examine(c, r)
	}
	if err != nil {
		return err
	}
	if doc.Git, _, err = r.Doctor.git.ProgramVersion(c.ctx); err != nil {
		doc.Git = "none"
	}
	if err := c.ctx.Err(); err != nil { // what was interrupted was not looked at
		return err
	}
	return x.report(c, doc, found)
}

// report prints what was found.
func (x *doctorCmd) report(c *call, doc diagnosis, found []app.Finding) (err error) {
	open := 0
	doc.Outcome, doc.Findings = "healthy", []doctorFinding{}
	for _, f := range found {
		if !f.Fixed {
			open++
		}
		switch {
		case f.Failed:
			f.Next = "see to what kept the repair from it, then run vizier doctor --fix again"
		case f.Fix != nil:
			f.Next = "vizier doctor --fix"
		}
		f.Next = cmp.Or(f.Next, seeTo)
		doc.Findings = append(doc.Findings, doctorFinding{f.Check, f.Path, f.Problem, f.Next, f.Fix != nil, f.Fixed})
	}
	if len(found) > 0 {
		doc.Outcome = "findings"
	}
	if x.Format == "json" {
		err = c.ui.json(doc)
	} else {
		x.show(c, doc, open)
	}
	if err == nil && open > 0 {
		err = exits(1)
	}
	return err
}

// enforceable is what this host can enforce.
func enforceable() string { return sandbox.Words(kernel.Sandbox{Network: kernel.NoNetwork}) }

// examine makes all checks.
func (x *doctorCmd) examine(c *call, r *repo) ([]app.Finding, error) {
	misplaced, blocked, err := x.clear(c.ctx, r)
	if blocked || err != nil {
		return misplaced, err
	}
	found, err := r.Scheduler.Examine(c.ctx, c.checks(r), x.Fix)
	found = append(misplaced, found...)
	foreign := errors.Is(err, fs.ErrForeign) && !x.Fix
	if foreign { // nothing in a foreign store is run or changed
		found, err = []app.Finding{{Check: "store", Path: ".vizier/jobs", Problem: err.Error(), Next: "look at it, then do what this says"}}, nil
	}
	if errors.Is(err, fs.ErrNewer) { // this version must not change or judge the store of a newer one
		found, err = []app.Finding{{Check: "journal", Path: ".vizier/jobs/journal/plans", Problem: err.Error(), Next: newerHint}}, nil
	}
	if err != nil && readOnly(err) {
		found, err = []app.Finding{{Check: "store", Path: ".vizier/jobs", Problem: "it can be read and not written, so nothing is started or repaired here and these checks cannot be made: " + err.Error(),
			Next: "make it writable for you"}}, nil
	}
	if errors.Is(err, app.ErrBusy) && !errors.Is(err, app.ErrOtherHost) && !x.Fix {
		if found, err = r.Scheduler.Survey(c.ctx, c.checks(r)); err == nil && r.Passed() != nil {
			found = append([]app.Finding{{Check: "scheduler", Path: ".vizier/jobs/scheduler.lock", Problem: unreleased(r.Passed()),
				Next: "if it is stopped, `kill -CONT` lets it continue"}}, found...)
		}
		found = append(misplaced, found...)
	}
	if fs.NoRoom(err) {
		late := app.Finding{Check: "disk", Path: ".vizier/jobs/journal", Problem: "what is on record cannot be written out, and nothing can be repaired: " + err.Error(), Next: makeRoom(err) + "; the next command does it"}
		found, err = r.Scheduler.Survey(c.ctx, c.checks(r))
		found = append([]app.Finding{late}, found...)
	}
	if errors.Is(err, app.ErrBusy) || errors.Is(err, fs.ErrForeign) || c.ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		next := seeTo
		if index, ok := errors.AsType[*git.IndexError](err); ok {
			next = index.Next()
		}
		if strings.Contains(err.Error(), "safe.directory") { // git says so, in every language, of a repository of another user
			next = "make the repository yours or, if you trust its owner, run the `git config` command that git names here; then run `vizier doctor` again"
		}
		return []app.Finding{{Check: "store", Path: ".vizier/jobs", Problem: "it cannot be looked at: " + err.Error(), Next: next}}, nil
	}
	unsound, err := r.unsound(c.ctx, found)
	if err != nil {
		return nil, err
	}
	found = append(found, unsound...)
	untrusted := r.untrusted(c.ctx)
	found = append(found, untrustedFinding(untrusted)...)
	if !foreign && len(untrusted) == 0 {
		found = append(found, c.checkClusters(r)...)
	}
	if r.AgentPrograms != nil && !foreign { // none that a configuration names is started
		found = append(found, app.CheckAgents(c.ctx, r.AgentPrograms, c.agentChoices(r))...)
	}
	return found, nil
}

// seeTo is the next step where something could not be looked at.
const seeTo = "see what this names: a directory or a link in place of a file, or what you may not read; put it right, and run `vizier doctor` again"

// clear reports what is in the place of files that every command needs and, if it may, moves it aside.
// blocked says that something is left: then nothing else can be looked at.
func (x *doctorCmd) clear(ctx context.Context, r *repo) (found []app.Finding, blocked bool, err error) {
	for _, o := range r.Doctor.files.Misplaced(ctx) {
		f := app.Finding{Check: "store", Path: o.Path, Problem: o.Text, Next: o.Next}
		if o.Fix != nil {
			f.Fix = func(context.Context) error { return o.Fix() }
		}
		if x.Fix && f.Fix != nil {
			err := f.Fix(ctx)
			if errors.Is(err, fs.ErrForeign) {
				return nil, true, err
			}
			if f.Fixed, f.Failed = err == nil, err != nil; f.Failed {
				f.Problem += "; it cannot be moved aside: " + err.Error()
			} else {
				f.Problem += "; it is in .vizier/jobs/aside now"
			}
		}
		blocked = blocked || !f.Fixed
		found = append(found, f)
	}
	return found, blocked, nil
}

// makeRoom returns what lets a file grow that err says could not: see fs.NoRoom.
func makeRoom(err error) string {
	if fs.TooLarge(err) {
		return "use a shell that does not limit the size of files (`ulimit -f`)"
	}
	return "make room on the file system of the repository"
}

func (x *doctorCmd) show(c *call, doc diagnosis, open int) {
	switch {
	case len(doc.Findings) == 0:
		c.ui.print("Outcome: healthy")
	case x.Fix:
		c.ui.print(fmt.Sprintf("Outcome: %s, %d repaired", view.Counted(len(doc.Findings), "finding"), len(doc.Findings)-open))
	default:
		c.ui.print("Outcome: " + view.Counted(len(doc.Findings), "finding"))
	}
	resident := "none"
	if doc.Resident != 0 {
		resident = fmt.Sprintf("resident (pid %d)", doc.Resident)
	}
	c.ui.print("Git: " + doc.Git)
	c.ui.print("Scheduler: " + resident)
	c.ui.print("Sandbox: " + doc.Sandbox)
	for _, f := range doc.Findings {
		mark := ""
		if f.Fixed {
			mark = " (repaired)"
		}
		c.ui.print("")
		c.ui.print(strings.TrimSuffix(f.Check+": "+readable(f.Path), ": ") + mark)
		c.ui.print("  " + oneLine(f.Problem))
		if !f.Fixed {
			c.ui.print("  next: " + f.Next)
		}
	}
}

func (r *repo) checkGit(ctx context.Context, _ *kernel.Snapshot) ([]app.Finding, error) {
	version, ok, err := r.Doctor.git.ProgramVersion(ctx)
	if err != nil {
		next := "install git " + git.MinimumVersion + " or newer"
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			next = moreFiles
		}
		return []app.Finding{{Path: "git", Problem: err.Error(), Next: next}}, nil
	}
	if !ok {
		return []app.Finding{{Path: "git", Problem: "git " + version + " is older than " + git.MinimumVersion, Next: "install git " + git.MinimumVersion + " or newer"}}, nil
	}
	return nil, nil
}

// checkLocks looks for the locks of a git that was killed, which keep every other git out.
func (r *repo) checkLocks(context.Context, *kernel.Snapshot) (out []app.Finding, err error) {
	paths, drop, err := r.Doctor.git.StaleLocks(time.Now().Add(-leftAlone))
	for _, path := range paths {
		out = append(out, app.Finding{Path: r.rel(path), Problem: "a git that was killed left this lock, so that git refuses what needs it",
			Fix: func(context.Context) error { return drop(path) }})
	}
	return out, err
}

// leftAlone is how old a lock is that no git at work holds, before the doctor reports it: a program that is not called git may
// hold it for a moment.
const leftAlone = 10 * time.Second

// checkReleases looks for a release that was killed before its end.
func (r *repo) checkReleases(ctx context.Context, _ *kernel.Snapshot) ([]app.Finding, error) {
	left, err := r.Releases.LeftRelease()
	if err != nil || left.Commit == "" {
		return nil, err
	}
	right, err := r.Releases.BeginReleasing()
	if errors.Is(err, git.ErrReleasing) { // it is at work
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer right.End()                    //nolint:errcheck // nothing was noted
	left, err = r.Releases.LeftRelease() // it may have ended meanwhile
	if err != nil || left.Commit == "" {
		return nil, err
	}
	there, err := r.Releases.Undoes(ctx, left)
	if err != nil && !errors.Is(err, git.ErrMoved) || err == nil && !there {
		return nil, err
	}
	return []app.Finding{{Path: "release " + left.Tag, Problem: "it was killed before its end, so nobody knows whether its script would have let it pass",
		Next: "vizier release, which first undoes it, or says why it cannot"}}, nil
}

func (r *repo) checkRecords(_ context.Context, s *kernel.Snapshot) ([]app.Finding, error) {
	runs := map[kernel.RunID]bool{}
	for _, j := range s.Jobs() {
		runs[j.Spec.Origin.Run] = true
	}
	out := r.checkManifests(s)
	for _, j := range s.Jobs() {
		if of := j.BlockedUnread(); of != "" && s.Job(of) != nil {
			out = append(out, app.Finding{Path: "job " + string(j.ID), Problem: "it is blocked, since the record of job " + string(of) + " could not be read; now that can be read",
				Next: "vizier retry " + string(j.ID)})
		}
	}
	for _, f := range r.cycles(s) {
		out = append(out, f.Finding)
	}
	odd, err := r.Doctor.files.Inspect(runs)
	for _, o := range odd {
		f := app.Finding{Path: o.Path, Problem: o.Text, Next: cmp.Or(o.Next, "look at it; fix it or move it away")}
		if o.Fix != nil {
			f.Fix = func(context.Context) error { return o.Fix() }
		}
		if unread := s.UnreadableIDs(); len(unread) > 0 && f.Fix != nil && filepath.Dir(o.Path) == ".vizier/jobs/runs" {
			f.Fix, f.Next = nil, "fix the records that cannot be read: one of them may belong to this run"
		}
		out = append(out, f)
	}
	return out, err
}

// checkManifests reports manifests that jobs which have not succeeded need, and cannot use.
func (r *repo) checkManifests(s *kernel.Snapshot) (out []app.Finding) {
	looked := map[kernel.RunID]bool{}
	for _, open := range []bool{true, false} { // of an open job it matters now
		for _, j := range s.Jobs() {
			run := j.Spec.Origin.Run
			if run == "" || looked[run] || j.State.Status == kernel.Succeeded || j.State.Status.Active() != open {
				continue
			}
			looked[run] = true
			data, err := r.Templates.Manifest(run)
			if pinned := j.Spec.Origin.Manifest; err == nil && (!json.Valid(data) || pinned != "" && kernel.DigestOf(string(data)) != pinned) {
				err = errors.New("it was cut short, or is not what its jobs were made with")
			}
			path := ".vizier/jobs/runs/" + string(run) + ".json"
			switch {
			case err != nil && open:
				out = append(out, app.Finding{Path: path, Problem: "the manifest of an open run cannot be read: " + err.Error(),
					Next: "put it back as it was, or vizier cancel " + string(j.ID) + " and start the run anew"})
			case err != nil:
				out = append(out, app.Finding{Path: path, Problem: "the manifest of a run cannot be read, so no retry of its jobs works: " + err.Error(),
					Next: "put it back as it was, or start the run anew"})
			}
		}
	}
	return out
}

func (r *repo) checkRunners(_ context.Context, s *kernel.Snapshot) ([]app.Finding, error) {
	var out []app.Finding
	for _, j := range s.Jobs() {
		if j.State.Status != kernel.Running {
			continue
		}
		dir := r.rel(r.Logs.JobDir(j.ID))
		switch f := s.Facts().Runners[j.Attempt()]; {
		case f.Err != "":
			out = append(out, app.Finding{Path: dir, Problem: "cannot tell whether its runner lives: " + f.Err, Next: "vizier show " + string(j.ID)})
		case f.Known && (f.Value.Liveness == kernel.Dead || f.Value.Liveness == kernel.NeverStarted):
			out = append(out, app.Finding{Path: dir, Problem: "the job is running, and its runner is gone", Next: "vizier wait " + string(j.ID)})
		case f.Value.Stuck && !f.Value.Pending:
			out = append(out, app.Finding{Path: dir, Problem: f.Value.Remark, Next: "do what this says, or vizier cancel " + string(j.ID)})
		case f.Value.Stuck:
			out = append(out, app.Finding{Path: dir, Problem: f.Value.Remark, Next: "vizier cancel " + string(j.ID) + ", or end it on the cluster"})
		}
	}
	return out, nil
}

func (r *repo) checkWorktrees(ctx context.Context, s *kernel.Snapshot) ([]app.Finding, error) {
	var trees []kernel.Context         // worktrees that jobs run in
	unended := map[kernel.RunID]bool{} // runs with a job that may still use its worktrees
	var atWork []string                // suffixes of the names of worktrees in use: of a merge with a resolved conflict, and of a gate
	for _, j := range s.Jobs() {
		if st := j.State.Status; st != kernel.Succeeded && st != kernel.Unscheduled {
			unended[j.Spec.Origin.Run] = true
			atWork = append(atWork, "-"+string(j.ID))
		}
	}
	moved, err := r.Doctor.git.MovedWorktrees()
	if err != nil {
		return nil, err
	}
	var out []app.Finding
	if to := r.Doctor.git.LinkedHome(); to != "" {
		out = append(out, app.Finding{Path: ".vizier/tmp-worktrees", Problem: "it is a link to " + to + ", but the worktrees of jobs need a directory there",
			Next: "remove the link"})
	}
	for _, c := range moved {
		out = append(out, app.Finding{Path: c.Worktree, Problem: treeDisplaced,
			Fix: func(ctx context.Context) error { return r.Doctor.git.RepairWorktree(ctx, c) }})
	}
	half, err := r.Doctor.git.HalfWay()
	if err != nil {
		return nil, err
	}
	for _, dir := range half {
		out = append(out, app.Finding{Path: dir, Problem: "it was to follow its branch and got half way, so its files are partly new, and git is locked out of it",
			Fix: func(ctx context.Context) error { return r.Doctor.git.EndHalfWay(ctx, dir) }})
	}
	left, err := r.Doctor.git.LeftFiles()
	if err != nil {
		return nil, err
	}
	for _, dir := range left {
		out = append(out, app.Finding{Path: dir, Problem: "files of a removed worktree that could not be removed",
			Fix: func(context.Context) error { return r.Doctor.git.RemoveLeft(dir) }})
	}
	unheld, err := r.Doctor.git.Unheld(ctx)
	if err != nil {
		return nil, err
	}
	if len(unheld) > 0 {
		out = append(out, app.Finding{Path: "refs/vizier/held", Problem: fmt.Sprintf("%s for worktrees that are gone: %s", view.Counted(len(unheld), "ref"), strings.Join(unheld, ", ")), Fix: r.Doctor.git.DropHeld})
	}
	away, err := r.Doctor.git.WorktreesAway()
	if err != nil {
		return nil, err
	}
	movedAway := func(whose kernel.JobID, name, place string) {
		out = append(out, app.Finding{Path: place, Problem: "the worktree of job " + string(whose) + " was moved to " + away[name], Next: kernel.MoveWorktree(away[name], place)})
		delete(away, name)
	}
	for _, j := range s.Jobs() {
		if dir := op.TreeToResolve(j.State.Reason); dir != "" && j.Needs() == kernel.NeedsResolution {
			switch at := r.conflictOf(j, dir); {
			case at == "":
				out = append(out, app.Finding{Path: "job " + string(j.ID), Problem: "the worktree of its merge, which is in conflict, is gone", Next: "vizier retry " + string(j.ID)})
			case filepath.IsAbs(at):
				out = append(out, app.Finding{Path: "job " + string(j.ID), Problem: "the worktree of its merge, which is in conflict, was moved to " + at, Next: kernel.MoveWorktree(at, dir)})
				maps.DeleteFunc(away, func(_, there string) bool { return there == at })
			}
		}
		c := j.State.Context
		if c.Worktree == "" {
			continue
		}
		trees = append(trees, c)
		if !r.stands(c) && c.Owned && unended[j.Spec.Origin.Run] {
			if away[c.Name] != "" {
				movedAway(j.ID, c.Name, c.Worktree)
				continue
			}
			out = append(out, app.Finding{Path: c.Worktree, Problem: "the worktree of job " + string(j.ID) + " is gone", Next: "vizier retry " + string(j.ID)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(away)) { // a retry has failed since, and the record of the job names none
		if j := s.Job(madeBy(name)); j != nil && unended[j.Spec.Origin.Run] {
			movedAway(j.ID, name, filepath.Join(".vizier/tmp-worktrees", name))
		}
	}
	owned := func(c kernel.Context) bool {
		name := cmp.Or(c.Name, filepath.Base(c.Worktree))
		return slices.ContainsFunc(atWork, func(end string) bool { return strings.HasSuffix(name, end) }) ||
			slices.ContainsFunc(trees, func(t kernel.Context) bool {
				return c.Name != "" && t.Name == c.Name || t.Worktree == c.Worktree && (t.Name == "" || c.Name == "")
			})
	}
	if len(s.UnreadableIDs()) > 0 { // a worktree that seems to have no owner may belong to such a record
		return out, nil
	}
	all, err := r.Doctor.git.StrayWorktrees(func(kernel.Context) bool { return false })
	for _, c := range all {
		known := c
		known.Name = cmp.Or(c.Name, git.NameAt(filepath.Join(r.Root, c.Worktree)))
		maker := s.Job(madeBy(known.Name))
		if maker != nil && unended[maker.Spec.Origin.Run] {
			why, stays, err := r.Doctor.git.Damage(known)
			if err != nil {
				return out, err
			}
			if why == "" && !owned(c) && !r.stands(known) {
				why = "it is gone"
			}
			if why != "" {
				next := "vizier retry " + string(maker.ID)
				if stays {
					next = "do what this says"
				}
				out = append(out, app.Finding{Path: c.Worktree, Problem: "the worktree of job " + string(maker.ID) + " cannot be used: " + why, Next: next})
				continue
			}
		}
		if owned(c) {
			continue
		}
		f := app.Finding{Path: c.Worktree, Problem: "a worktree that no job owns"}
		if c.Name == "" {
			f.Problem, f.Next = "a directory that no job owns and git does not know", "look at it and remove it"
		} else {
			f.Fix = func(ctx context.Context) error {
				if done := r.Doctor.git.RemoveWorktree(ctx, c); done.Status != kernel.CleanupDone {
					return errors.New(done.Error)
				}
				return nil
			}
		}
		out = append(out, f)
	}
	return out, err
}

// madeBy returns the job that made the worktree called name, if a job did.
func madeBy(name string) kernel.JobID { return kernel.JobID(name[strings.LastIndexByte(name, '-')+1:]) }

// stands reports whether c's worktree exists at its path and belongs to c.
func (r *repo) stands(c kernel.Context) bool {
	dir := filepath.Join(r.Root, c.Worktree)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return false
	}
	other := git.NameAt(dir)
	return other == "" || other == c.Name
}
