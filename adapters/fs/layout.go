// Package fs keeps Vizier's records as plain files below .vizier. Every path
// of the store is defined in this file and nowhere else.
//
// Source files are named by their subject: record_* are the records of a job and
// its attempts, journal_* how a plan becomes one commit, history_* the kept entries
// of the journal, cache_* the cache of the records, pack_* the packed files of jobs,
// events_* the event log and the queue of hooks, log_* the ends of logs and reports.
// The inbox, templates, configuration and the watching of files are packages of
// their own.
package fs

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Names below .vizier. All of them are relative to it; the paths of Layout are absolute.
const (
	vizierDir     = ".vizier"
	jobsDir       = "jobs"
	runsDir       = "jobs/runs"
	artifactsDir  = "jobs/artifacts"
	markersDir    = "jobs/artifacts/custom"
	payloadsDir   = "jobs/artifacts/data"
	journalDir    = "jobs/journal"
	keptConfig    = "jobs/journal/config"
	homeFile      = "jobs/journal/home"
	lockFile      = "jobs/scheduler.lock"
	residentFile  = "jobs/resident.lock"
	lostFile      = "jobs/lost-runners"
	hostFile      = "jobs/scheduler.host"
	turnFile      = "jobs/journal/turn"
	hostsDir      = "jobs/hosts"
	clusterDir    = "jobs/cluster"
	eventsFile    = "jobs/events.jsonl"
	numberFile    = "jobs/number"
	collectedFile = "jobs/journal/collected"
	pendingDir    = "jobs/hooks/pending"
	hookLogsDir   = "jobs/hooks/logs" // of calls about no job
	drainFile     = "jobs/hooks/lock"
	tracesFile    = "jobs/hooks/traces.failed"
	planStatesDir = "state/plans"
	sentinelsDir  = "tmp/merge-conflicts"

	recordName  = "job.json"
	stateName   = "state"
	lockName    = "job.lock"
	waitName    = "wait.lock"
	outcomeName = "outcome.json"
	patchName   = "command.patch"
	noInputName = "NO_INPUT.md"
	attemptsDir = "attempts"
	effectsDir  = "effects"
	hooksDir    = "hooks"

	checkpointDir = "checkpoint"

	packSuffix = ".tar.gz"

	ignoreName = ".gitignore"
)

// IgnoreFile is the file that keeps what belongs to this checkout alone from git, relative to the main working tree.
const IgnoreFile = vizierDir + "/" + ignoreName

// Ignored is the content with which a store makes IgnoreFile: what git must not track below
// .vizier, that file included.
const Ignored = "# What Vizier keeps here for this checkout alone.\n/.gitignore\n/jobs/\n/sessions/\n/state/\n/tmp/\n/tmp-worktrees/\n"

// Layout has the absolute paths of the files of one repository's store, for
// people and for processes.
type Layout struct{ root string }

// NewLayout is the layout of the repository whose main working tree is root.
func NewLayout(root string) Layout { return Layout{root} }

func (l Layout) abs(rel string) string { return filepath.Join(l.root, vizierDir, rel) }

// JobDir is the directory of a job's files.
func (l Layout) JobDir(id kernel.JobID) string { return l.abs(jobPath(id, "")) }

// RecordFile is a job's record, job.json.
func (l Layout) RecordFile(id kernel.JobID) string { return l.abs(jobPath(id, recordName)) }

// LockFile is the file whose flock the runner of a job holds while it lives.
func (l Layout) LockFile(id kernel.JobID) string { return l.abs(jobPath(id, lockName)) }

// PackFile is the file that a job's files are packed into.
func (l Layout) PackFile(id kernel.JobID) string { return l.abs(packFile(id)) }

// OutcomeFile is where the result of a job's latest attempt is recorded.
func (l Layout) OutcomeFile(id kernel.JobID) string { return l.abs(jobPath(id, outcomeName)) }

// PatchFile is where a job leaves its patch.
func (l Layout) PatchFile(id kernel.JobID) string { return l.abs(jobPath(id, patchName)) }

// LogFile is the current log of a stream, "stdout" or "stderr". With "order" it is the
// record of order of the two.
func (l Layout) LogFile(id kernel.JobID, stream string) string {
	return l.abs(jobPath(id, stream+".log"))
}

// ClaimFile is the record of who runs, or ran, an attempt.
func (l Layout) ClaimFile(a kernel.AttemptID) string {
	return l.abs(jobPath(a.Job, fmt.Sprintf("%s/%d.json", attemptsDir, a.N)))
}

// HeartbeatFile is what the runner of an attempt touches while it lives.
func (l Layout) HeartbeatFile(a kernel.AttemptID) string {
	return l.abs(jobPath(a.Job, fmt.Sprintf("%s/%d.heartbeat", attemptsDir, a.N)))
}

// ResultFile is where an attempt's command may say explicitly how it ended.
func (l Layout) ResultFile(a kernel.AttemptID) string {
	return l.abs(jobPath(a.Job, fmt.Sprintf("%s/%d.result.json", attemptsDir, a.N)))
}

// OrderFile is what a cluster was asked to run as an attempt.
func (l Layout) OrderFile(a kernel.AttemptID) string {
	return l.abs(jobPath(a.Job, fmt.Sprintf("%s/%d.order.json", attemptsDir, a.N)))
}

// BeatFile is what the runner of an attempt on a cluster holds, and touches,
// while it lives.
func (l Layout) BeatFile(a kernel.AttemptID) string {
	return l.abs(jobPath(a.Job, fmt.Sprintf("%s/%d.beat", attemptsDir, a.N)))
}

// RunnerLog is the log of a cluster and of the runner there about an attempt.
func (l Layout) RunnerLog(a kernel.AttemptID) string {
	return l.abs(jobPath(a.Job, fmt.Sprintf("%s/%d.runner.log", attemptsDir, a.N)))
}

// EndFile is where the end of an attempt on a cluster is recorded.
func (l Layout) EndFile(a kernel.AttemptID) string { return l.abs(jobPath(a.Job, attemptOutcome(a.N))) }

// ClusterDir is the directory in which runners on clusters and the scheduling host
// notify each other.
func (l Layout) ClusterDir() string { return l.abs(clusterDir) }

// CheckpointDir is where a resumable job's attempts leave what the next one
// goes on with.
func (l Layout) CheckpointDir(id kernel.JobID) string { return l.abs(jobPath(id, checkpointDir)) }

// SubmissionsFile is where an attempt's command may append jobs to be enqueued.
func (l Layout) SubmissionsFile(a kernel.AttemptID) string {
	return l.abs(jobPath(a.Job, fmt.Sprintf("%s/%d.submissions.jsonl", attemptsDir, a.N)))
}

// ReportFile is where an attempt's command may say how far it is.
func (l Layout) ReportFile(a kernel.AttemptID) string {
	return l.abs(jobPath(a.Job, reportName(a)))
}

func reportName(a kernel.AttemptID) string {
	return fmt.Sprintf("%s/%d.report.jsonl", attemptsDir, a.N)
}

// ResidentFile is the file whose flock the repository's resident scheduler
// holds while it lives.
func (l Layout) ResidentFile() string { return l.abs(residentFile) }

// LostFile is the file that notes lost runners: see proc.Local.NoteLost.
func (l Layout) LostFile() string { return l.abs(lostFile) }

// HostFile names the scheduling host, TurnFile the host that is just writing. HostsDir is the directory in which hosts
// note whose locks they saw held.
func (l Layout) HostFile() string { return l.abs(hostFile) }
func (l Layout) TurnFile() string { return l.abs(turnFile) }
func (l Layout) HostsDir() string { return l.abs(hostsDir) }

// KeptConfigFile keeps the last valid configuration while the current one is invalid.
func (l Layout) KeptConfigFile() string { return l.abs(keptConfig) }

// HooksFile is the file whose flock the process that runs hooks holds.
func (l Layout) HooksFile() string { return l.abs(drainFile) }

// HookLog is the log of a hook's calls at the end of an attempt, or of those about
// no job. Names of hooks are one path element.
func (l Layout) HookLog(a kernel.AttemptID, generation int, hook string) string {
	if a.Job == "" {
		return l.abs(hookLogsDir + "/" + hook + ".log")
	}
	return l.abs(jobPath(a.Job, fmt.Sprintf("%s/%d.%d.%s.log", hooksDir, generation, a.N, hook)))
}

// EventsFile is the end of the event log.
func (l Layout) EventsFile() string { return l.abs(eventsFile) }

// MarkerDir is the directory of a custom artifact's markers.
func (l Layout) MarkerDir(a kernel.Artifact) string { return l.abs(artifactDir(markersDir, a)) }

// TypeDir is the directory of the markers of a type of custom artifacts.
func (l Layout) TypeDir(name string) string { return l.abs(typeDir(markersDir, name)) }

// SentinelFile is the mark of an open merge conflict of a plan.
func (l Layout) SentinelFile(slug string) string {
	return filepath.Join(l.abs(sentinelsDir), slug+".json")
}

func jobPath(id kernel.JobID, name string) string {
	return strings.TrimSuffix(jobsDir+"/"+string(id)+"/"+name, "/")
}

// effectFile is the record of a job's effect. Keys are SHA-256 in hex.
func effectFile(id kernel.JobID, key string) (string, error) {
	if len(key) != 64 || strings.Trim(key, "0123456789abcdef") != "" || !kernel.ValidJobID(string(id)) {
		return "", fmt.Errorf("effect %q of job %q: expected 64 hex digits: %w", key, id, kernel.ErrInvalid)
	}
	return jobPath(id, effectsDir+"/"+key+".json"), nil
}

// packFile is the file that a job's files are packed into.
func packFile(id kernel.JobID) string { return jobsDir + "/" + string(id) + packSuffix }

func rotatedLog(id kernel.JobID, stream string, attempt int) string {
	return jobPath(id, fmt.Sprintf("%s.%d.log", stream, attempt))
}

// attemptOutcome is the outcome of an attempt below its job's directory.
func attemptOutcome(n int) string { return fmt.Sprintf("%s/%d.outcome.json", attemptsDir, n) }

// artifactDir is the directory of a custom artifact's markers or payloads.
// Names are hex, so no name of an artifact can lead anywhere.
func artifactDir(base string, a kernel.Artifact) string {
	return typeDir(base, a.Name) + "/" + hexName(a.Ref)
}

func typeDir(base, name string) string { return base + "/" + hexName(name) }

func artifactFile(base string, a kernel.Artifact, id kernel.JobID) string {
	return artifactDir(base, a) + "/" + string(id) + ".json"
}

// hexName is s in hex. If that is too long for a file name, it becomes several directories.
func hexName(s string) string {
	const most = 240
	h := hex.EncodeToString([]byte(s))
	var parts []string
	for len(h) > most {
		parts, h = append(parts, h[:most]+"_"), h[most:]
	}
	return strings.Join(append(parts, h), "/")
}

// runFile is a run's manifest. Run ids come from records, so they are checked.
func runFile(id kernel.RunID) (string, error) {
	hex, ok := strings.CutPrefix(string(id), "run_")
	if !ok || !kernel.ValidJobID(hex) {
		return "", fmt.Errorf("run id %q: expected run_ and 32 hex digits: %w", id, kernel.ErrInvalid)
	}
	return runsDir + "/" + string(id) + ".json", nil
}

// followedFile is the file whose flock says that somebody follows the run whose
// manifest is name.
func followedFile(name string) string { return strings.TrimSuffix(name, ".json") + ".follow" }

func sentinelFile(slug string) (string, error) {
	if slug == "" || slug == "." || slug == ".." || strings.ContainsAny(slug, "/\x00") {
		return "", fmt.Errorf("merge sentinel %q: a slug is one path element: %w", slug, kernel.ErrInvalid)
	}
	return sentinelsDir + "/" + slug + ".json", nil
}
