package op

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// jobFile returns the path of a job's file, relative to the repository's root.
// Only the job's own user may read it (semantics 2, decision 15).
func jobFile(id kernel.JobID, name string) string { return ".vizier/jobs/" + string(id) + "/" + name }

// Files of a patch pipeline's jobs (original 3.3 and 3.9).
const (
	patchName     = "command.patch"
	pipelineName  = "patch-pipeline.json"
	progressName  = "patch-pipeline.progress.json"
	finalizedName = "patch-pipeline.finalize.json"
)

// pipeline is the record of a prepared patch pipeline.
type pipeline struct {
	Job      string    `json:"job_id"`
	Node     string    `json:"node_id"`
	Files    []string  `json:"files"`
	Prepared time.Time `json:"prepared_at"`
}

// progress is how many patches of a pipeline an effect has applied.
type progress struct {
	Effect  string `json:"effect"`
	Applied int    `json:"applied"`
}

// gitSavePatch stores the difference between the tracked files and the last
// commit as the job's patch.
func gitSavePatch(ctx context.Context, env *Env, n *Node) (Result, error) {
	data, err := env.Git.Patch(ctx, n.Dir)
	if err != nil {
		return gitFailed(env, n, err)
	}
	if err := env.Files.WritePatch(n.Job.ID, data); err != nil {
		return Result{}, err
	}
	r := ok(fmt.Sprintf("patch of %d bytes", len(data)))
	r.Produced, err = n.besides(kernel.Artifact{Kind: kernel.CommandPatch, Name: string(n.Job.ID)})
	return r, err
}

// patchPrepare checks that every patch exists and records the list. It applies
// none.
func patchPrepare(ctx context.Context, env *Env, n *Node) (Result, error) {
	files, err := n.files()
	if err != nil {
		return Result{}, err
	}
	for _, f := range files {
		if _, err := n.patchAt(f); err != nil {
			return Result{}, err
		}
	}
	p := pipeline{string(n.Job.ID), n.Node, files, env.Now().UTC()}
	if err := writeJSON(ctx, n.Root, jobFile(n.Job.ID, pipelineName), p, 0o600); err != nil {
		return Result{}, err
	}
	return ok(fmt.Sprintf("%d patches are there", len(files))), nil
}

// patchAt returns a patch's text. file is the id of a node whose patch n needs,
// or a path that is relative to the execution root or else to the repository.
func (n *Node) patchAt(file string) ([]byte, error) {
	id, err := n.patchOf(file)
	if err != nil {
		return nil, err
	}
	if id != "" {
		data, err := readIn(n.Root, jobFile(id, patchName))
		if errors.Is(err, iofs.ErrNotExist) {
			return nil, missingInput("the patch of node %s is not there", file)
		}
		return data, err
	}
	for _, dir := range []string{n.Dir, n.Root} {
		data, err := readIn(dir, filepath.ToSlash(file))
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		return data, err
	}
	return nil, missingInput("patch %s is not there", file)
}

// patchOf returns the job of the node called node, in this template or in n's
// stage, if n needs its patch; otherwise "".
func (n *Node) patchOf(node string) (kernel.JobID, error) {
	stage := n.Node[:strings.LastIndex("__"+n.Node, "__")]
	for _, r := range n.Needs {
		a, err := r.Artifact()
		if err != nil {
			return "", err
		}
		id := kernel.JobID(a.Name)
		if a.Kind == kernel.CommandPatch && (n.Manifest.Nodes[stage+node].Job == id || n.Manifest.Nodes[node].Job == id) {
			return id, nil
		}
	}
	return "", nil
}

// patchExecute applies patches to files and index, in order, and stops at the
// first that does not apply. Without a list of its own it uses the one of the
// preparing job that it runs after. It continues where an earlier attempt
// stopped: after a crash, at most one patch beyond the recorded ones may have
// been applied. After a retry, what the worktree has tells where it continues.
func patchExecute(ctx context.Context, env *Env, n *Node) (Result, error) {
	files, err := n.files()
	if err == nil && files == nil {
		files, err = n.prepared()
	}
	if err != nil {
		return Result{}, err
	}
	record := jobFile(n.Job.ID, progressName)
	done, old := progress{Effect: effectKey(n, "")}, progress{}
	if data, err := readIn(n.Root, record); err == nil {
		if json.Unmarshal(data, &old) != nil {
			old = progress{}
		}
	} else if !errors.Is(err, iofs.ErrNotExist) {
		return Result{}, err
	}
	old.Applied = max(0, min(old.Applied, len(files)))
	if old.Effect == done.Effect {
		done = old
	}
	if done.Applied, err = n.standing(ctx, env, files, done.Applied, old.Applied+1); err != nil {
		return Result{}, err
	}
	for done.Applied < len(files) {
		file := files[done.Applied]
		patch, err := n.patchAt(file)
		if err != nil {
			return Result{}, err
		}
		if len(bytes.TrimSpace(patch)) > 0 { // git rejects an empty patch
			if err := env.Git.Apply(ctx, n.Dir, patch); err != nil {
				r, err := gitFailed(env, n, fmt.Errorf("patch %s (%d of %d): %w", file, done.Applied+1, len(files), err))
				if tree := n.Job.State.Context.Name; tree != "" && err == nil {
					r.Reason += fmt.Sprintf("; if it is the worktree that is wrong, `vizier retry %s` makes it anew", tree[strings.LastIndexByte(tree, '-')+1:])
				}
				return r, err
			}
		}
		done.Applied++
		if err := writeJSON(ctx, n.Root, record, done, 0o600); err != nil {
			return Result{}, err
		}
	}
	return ok(fmt.Sprintf("%d patches are applied", len(files))), nil
}

// standing returns how many patches of files are applied: from, of which that is known, or more, up to most. Those beyond from
// have to be such that they could be reverted together: one alone may be hidden by a later one, or be there by chance.
func (n *Node) standing(ctx context.Context, env *Env, files []string, from, most int) (int, error) {
	var text []byte
	var ends []int // of the patches in text
	for _, file := range files[from:min(most, len(files))] {
		patch, err := n.patchAt(file)
		if err != nil {
			break // who applies it says so
		}
		text = append(append(text, patch...), '\n')
		ends = append(ends, len(text))
	}
	for k := len(ends); k > 0 && len(bytes.TrimSpace(text[:ends[k-1]])) > 0; k-- {
		if applied, err := env.Git.Applied(ctx, n.Dir, text[:ends[k-1]]); err != nil || applied {
			return from + k, err
		}
	}
	return from, nil
}

// prepared returns the patches that a predecessor of n has prepared.
func (n *Node) prepared() ([]string, error) {
	for _, id := range n.Job.Spec.After {
		data, err := readIn(n.Root, jobFile(id, pipelineName))
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		var p pipeline
		if err == nil {
			err = json.Unmarshal(data, &p)
		}
		if err != nil {
			return nil, fmt.Errorf("patches that job %s prepared: %w", id, err)
		}
		return p.Files, nil
	}
	return nil, nil
}

// patchFinalize stores the result of a pipeline as the job's patch.
func patchFinalize(ctx context.Context, env *Env, n *Node) (Result, error) {
	r, err := gitSavePatch(ctx, env, n)
	if err != nil || r.Outcome != kernel.OutcomeSucceeded {
		return r, err
	}
	return r, writeJSON(ctx, n.Root, jobFile(n.Job.ID, finalizedName), struct {
		Job       string    `json:"job_id"`
		Node      string    `json:"node_id"`
		Finalized time.Time `json:"finalized_at"`
		Patch     string    `json:"patch_path"`
	}{string(n.Job.ID), n.Node, env.Now().UTC(), jobFile(n.Job.ID, patchName)}, 0o600)
}
